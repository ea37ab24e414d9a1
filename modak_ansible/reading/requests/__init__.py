"""Optimisation requests, in JSON or YAML: read, checked with their places, and turned into the model's request."""
