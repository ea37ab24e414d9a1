"""The scripts of a folder in benchmarks/ find one another beside themselves; so do these tests, and their own helpers."""

import sys
from pathlib import Path

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"
sys.path[:0] = [str(BENCHMARKS / "mnist_cnn"), str(BENCHMARKS / "resnet50"), str(Path(__file__).parent)]
