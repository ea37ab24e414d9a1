"""Deployments from the user's point of view: run, queried, and their results fetched."""
