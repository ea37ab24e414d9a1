"""Trainings side by side (modak compare, modak export), and a training beside its prediction."""
