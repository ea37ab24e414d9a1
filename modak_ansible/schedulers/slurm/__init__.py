"""Slurm: its jobs, their arrays, what a cluster has, and the directives of a job."""
