"""Datasets: verified, whole or absent."""
