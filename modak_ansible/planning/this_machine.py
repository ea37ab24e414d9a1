"""What a plan may know of this very machine, where the target is on it."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import archspec.cpu

from modak_ansible.model.target import Target
from modak_ansible.store.testbeds import TESTBED
from modak_ansible.target.core.processor import cpu_flags, processor_name

# Units that kernel and archspec call by the same names, and that decide which number formats are fast.
TELLING = ("avx512_bf16", "amx_bf16", "avx512_fp16", "bf16", "svebf16")


def as_known_here(target: Target, testbed: Path) -> Target:
    """The target, with this machine's processor where the target is this machine and the blueprint says nothing."""
    is_here = target.is_this_machine or (target.address == TESTBED and (testbed / "ssh_config").exists())
    if not is_here or target.processor.model:
        return target
    model, architecture, features = _processor()
    processor = target.processor
    update: dict[str, object] = {"model": model, "features": processor.features or features}
    if processor.architecture == architecture.family.name:  # the blueprint leaves open which of the family it is
        update["architecture"] = architecture.name
    return target.model_copy(update={"processor": processor.model_copy(update=update)})


@cache
def _processor() -> tuple[str, archspec.cpu.Microarchitecture, tuple[str, ...]]:
    return processor_name(), archspec.cpu.host(), tuple(sorted(set(TELLING) & cpu_flags()))
