"""Kubernetes: one Job per deployment, requested and watched with kubectl."""
