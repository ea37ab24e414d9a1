"""Checks what a user wrote against a form; every mistake with its place."""
