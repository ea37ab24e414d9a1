"""modak compare and modak export."""
