"""Tries candidates inside a job: a few steps of the user's own script each, successive halving, the best one trains."""
