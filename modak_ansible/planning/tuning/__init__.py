"""The configurations that a tuning run tries on the target."""
