"""modak bench and modak model: what was measured, and what the model makes of it."""
