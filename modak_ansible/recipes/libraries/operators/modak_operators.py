"""In an image: loads the operators that were compiled for its processor. PyTorch calls load while it is imported."""

import ctypes
import os
import sys

LIBRARY = "/opt/modak/lib/libmodak_operators.so"


def load() -> None:
    """Puts the operators in place, unless MODAK_OPERATORS is none; see operators.md of modak-ansible."""
    if os.environ.get("MODAK_OPERATORS") == "none":
        return
    try:
        ctypes.CDLL(LIBRARY)
    except OSError as error:  # a training without them is slower, and right
        sys.stderr.write(f"modak: PyTorch keeps its own operators: {error}\n")
