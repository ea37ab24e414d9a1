"""Deployments as a user has them: carried out, asked for, their results fetched."""
