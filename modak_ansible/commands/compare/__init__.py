"""modak compare."""
