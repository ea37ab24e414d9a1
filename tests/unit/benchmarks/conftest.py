"""The scripts in benchmarks/mnist_cnn find one another beside themselves; so do these tests."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks/mnist_cnn"))
