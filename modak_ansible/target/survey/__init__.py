"""Finds out what a target has, without changing it."""
