"""Kubernetes: a Job for each deployment, asked for and watched by kubectl."""
