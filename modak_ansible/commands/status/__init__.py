"""modak status."""
