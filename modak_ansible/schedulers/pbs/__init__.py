"""Torque, PBS Professional and OpenPBS: their jobs, what a cluster has, and a job's directives."""
