"""Slurm: its jobs, their arrays, what a cluster has, and a job's directives."""
