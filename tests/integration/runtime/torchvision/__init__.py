"""Stands in for torchvision, which the environments of these tests have not got: as much of it as MNIST needs."""

from . import datasets, transforms

__all__ = ["datasets", "transforms"]
