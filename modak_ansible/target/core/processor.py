"""What the kernel says of the processor; plans for this very machine ask it, too."""

from __future__ import annotations

import platform
from pathlib import Path
from typing import Mapping, Set

from .files import read_text

_FIELDS = ("model name", "cpu family", "model", "vendor_id", "flags", "CPU implementer", "CPU part", "Features", "cpu")


def processor_name() -> str:
    """What the processor is called, as :func:`model_of` says it, or at least its family."""
    return model_of(cpuinfo()) or platform.processor() or platform.machine()


def model_of(block: Mapping[str, str]) -> str:
    """The processor's model name, with its vendor's numbers where the name has none; empty where nobody says.

    Virtual machines call a Zen 3, a Zen 4 and a Zen 5 alike AMD EPYC, and hide so many of their units that archspec
    takes them for each other. Their family and model stay: AMD EPYC family 25 model 17.

    Args:
        block: one of /proc/cpuinfo.
    """
    name, family, model = (block.get(field, "") for field in ("model name", "cpu family", "model"))
    name = name or block.get("cpu", "").partition(",")[0]  # of a POWER: POWER9, altivec supported
    unnumbered = name and family and model and not any(map(str.isdigit, name))
    return f"{name} family {family} model {model}" if unnumbered else name


def cpu_flags() -> Set[str]:
    """What the processor has, by the kernel's names."""
    information = cpuinfo()
    return set((information.get("flags") or information.get("Features") or "").split())


def cpuinfo() -> dict[str, str]:
    """What the kernel says of the first core: its name, and what a microarchitecture is known by."""
    lines = read_text(Path("/proc/cpuinfo")).split("\n\n", 1)[0].splitlines()
    pairs = (line.partition(":") for line in lines)
    return {name.strip(): value.strip() for name, _, value in pairs if name.strip() in _FIELDS}
