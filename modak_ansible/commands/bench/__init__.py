"""modak bench and modak model: measurements, and the model fitted to them."""
