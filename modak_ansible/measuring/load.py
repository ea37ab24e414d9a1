"""How busy others keep the machine, before and during a run."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

from modak_ansible.model.measured.finished_run import THRESHOLD
from modak_ansible.model.target import Target
from modak_ansible.store.testbeds import TESTBED
from modak_ansible.transport.rsync import Say

_LOOK_SECONDS = 2.0
_PAUSE_SECONDS = 5.0


def is_this_machine(target: Target) -> bool:
    """Whether the target's processor is also this machine's, so that its load is known before a job runs there."""
    return target.local or target.address in (TESTBED, "localhost")


def busy_cores(seconds: float = _LOOK_SECONDS) -> float | None:
    """How many cores of this machine are kept busy for some seconds; None where the kernel does not say."""
    before = _busy_jiffies()
    time.sleep(seconds)
    after = _busy_jiffies()
    if before is None or after is None:
        return None
    return (after - before) / (os.sysconf("SC_CLK_TCK") * seconds)


def wait_until_quiet(patience: float, say: Say, look: Callable[[], float | None] = busy_cores) -> None:
    """Waits, for some seconds at most, until this machine has nothing else to do; says so when it waits."""
    deadline = time.monotonic() + patience
    announced = False
    while patience > 0 and (busy := look()) is not None and busy > THRESHOLD:
        if time.monotonic() >= deadline:
            say(f"the machine is still busy ({busy:.1f} cores); continuing; disturbed runs will be marked")
            return
        if not announced:
            say(f"the machine is busy ({busy:.1f} cores): waiting until it is quiet, {patience:.0f} s at most")
            announced = True
        time.sleep(min(_PAUSE_SECONDS, max(0.0, deadline - time.monotonic())))


def _busy_jiffies() -> int | None:
    try:
        fields = Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0].split()[1:]
    except OSError:
        return None
    user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, fields[:8])
    return user + nice + system + irq + softirq + steal
