"""Targets and this machine: modak discover, check, gc and testbed."""
