"""Trainings beside one another, modak compare and modak export, and a training beside what was predicted of it."""
