"""Fits the performance model to records, and validates it; planning needs none of this."""
