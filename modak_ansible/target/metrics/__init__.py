"""The numbers that a training writes while it runs, in whatever format."""
