"""modak deploy."""
