"""What this machine keeps: the project, its deployments, refused builds, and caches."""
