"""What this machine keeps: the project, its deployments, what builds were refused, and caches."""
