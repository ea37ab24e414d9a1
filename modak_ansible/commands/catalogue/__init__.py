"""modak catalogue and modak image."""
