"""What there is on a target, looked at and not changed."""
