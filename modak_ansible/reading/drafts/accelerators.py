"""Whether a draft asks for accelerators: as somebody says, else where its script uses one and its target has some."""

from __future__ import annotations

from pathlib import Path

from modak_ansible.catalogue import Entry
from modak_ansible.catalogue.serving import accelerated
from modak_ansible.model.distributed import Parallelism
from modak_ansible.model.target import Scheduler, Target
from modak_ansible.reading.drafts.draft import Draft

OPTION = "--accelerators N"
# What there is on a machine whose accelerators a driver serves.
_DRIVERS = ("/proc/driver/nvidia/version", "/dev/kfd")


def proposed(draft: Draft, target: Target) -> int:
    """How many of each node to ask for where nobody says it: one for each process; 0 where there is nothing to ask."""
    if draft.use is None or not _has_accelerators(target) or not _builds(draft, target):
        return 0
    most = max(map(target.accelerators_in, target.partitions or (None,)))
    return min(draft.processes_per_node, most)


def ask_for(draft: Draft, target: Target, count: int | None) -> None:
    """Has a draft ask for so many of each node; 0 asks for none.

    Args:
        count: None where nobody says it and nothing is proposed: then it is told what somebody should know.
    """
    if count is None:
        draft.notes += _unasked_notes(draft, target)
        return
    draft.accelerators = count
    if not count:
        return
    finding = f"{count} on each node" + (f": {draft.use}" if draft.use else "")
    partitions = [partition for partition in target.partitions if target.accelerators_in(partition) >= count]
    usual = target.partition(None)
    if partitions and (usual is None or target.accelerators_in(usual) < count):
        draft.partition, *other_names = (partition.name for partition in partitions)
        finding += f"; the partition {draft.partition} has them" + (
            f", as {', '.join(other_names)} has" if other_names else ""
        )
    draft.findings.append(("accelerators", finding))
    if not target.accelerator.vendor:
        words = f"{draft.target or target.name} does not say who makes its accelerators"
        draft.notes.append(f"{words}, by which a container reaches them: accelerator: {{ vendor: nvidia }}, or amd")
    if draft.parallel and _takes_one(draft.parallel, target) and draft.processes_per_node < count:
        words = f"{draft.parallel.place} has {draft.parallel.name}, by which each process takes one of the {count}"
        draft.notes.append(f"{words}: --processes-per-node {count} has it take all")
    builds = _builds(draft, target)
    if builds and all(build.untried for build in builds):  # which are taken where they are asked for by name
        draft.entry = builds[0].name
        draft.notes.append(f"{draft.entry} is chosen, although nobody has tried it yet: {builds[0].untried}")


def _takes_one(parallel: Parallelism, target: Target) -> bool:
    """Whether each process takes one accelerator: the Trainer of transformers takes all that it sees, and Lightning's
    starts more processes, where Slurm has not counted them."""
    counts = target.scheduler is Scheduler.SLURM and "lightning" in parallel.name
    return parallel.by == "ranks" and (counts or parallel.name.startswith(("torch.", "deepspeed.", "accelerate.")))


def _unasked_notes(draft: Draft, target: Target) -> list[str]:
    has = _has_accelerators(target)
    if draft.use is None or has is False:
        return []
    if has is None:
        words = f"{draft.use}, and {draft.target or target.name} does not say whether it has accelerators"
        is_open = draft.use.is_said and _builds(draft, target)
        return [f"{words}: {OPTION} asks for some of each node"] if is_open else []
    of_vendor = f" of {target.accelerator.vendor}" if target.accelerator.vendor else ""
    build = draft.entry or f"{draft.framework} {draft.version}".rstrip()
    return [f"{draft.use}, and no build of {build} is for accelerators{of_vendor} here: it trains on processors"]


def _has_accelerators(target: Target) -> bool | None:
    """Whether it has some, by its description, or as is seen here where it is this machine; None where nobody knows."""
    described = target.has_accelerators
    is_without = described is None and target.is_this_machine and not any(Path(driver).exists() for driver in _DRIVERS)
    return False if is_without else described


def _builds(draft: Draft, target: Target) -> list[Entry]:
    """Those for its accelerators, the newest first; none where the script needs another one."""
    return accelerated(draft.framework, draft.version, target, draft.entry)
