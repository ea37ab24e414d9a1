"""What a deployment has running here ends with the command that it works for."""

from __future__ import annotations

import ctypes
import os
import signal

# The environment variable with the process id of the modak command that a playbook works for.
OWNER = "MODAK_PID"
_PR_SET_PDEATHSIG = 1  # prctl(2), Linux


def end_with_parent() -> None:
    """Has the kernel kill this process when its parent ends, however that ends; elsewhere than on Linux nothing."""
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is not None:
        parent = os.getppid()
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os.kill(os.getpid(), signal.SIGKILL)
