"""Torque, PBS Professional and OpenPBS: their jobs, what a cluster has, and the directives of a job."""
