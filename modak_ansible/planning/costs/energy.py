"""What a plan's run may use, by what runs like it used before; nothing where none is on record."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from modak_ansible.model.plan import Plan
from modak_ansible.model.quantities import counted, format_joules

RECORDS = "records/jobs.jsonl"  # of a project, below its state folder


def predicted_energy(plan: Plan, state: Path) -> str:
    """The energy of as long as the run is predicted to take, in words; empty where that or the power is not known.

    Args:
        state: the state folder of its project, where every finished job leaves a record.
    """
    prediction = plan.prediction
    if prediction is None or not prediction.known:
        return ""
    like = [record for record in _records(state / RECORDS) if _is_like(record, plan)]
    watts = [record["joules"] / record["energy_seconds"] for record in like]
    if not watts:
        return ""
    seconds, mean = prediction.seconds.middle, sum(watts) / len(watts)
    power = f"{min(watts):.0f} to {max(watts):.0f} W" if len(watts) > 1 else f"{mean:.0f} W"
    runs = f"{counted(len(watts), 'run')} of its size on {plan.target.name}"
    return f"about {format_joules(mean * seconds)}: {runs} used {power}"


def _records(path: Path) -> Iterator[Mapping[str, Any]]:
    """Those with joules; all others are not even parsed."""
    try:
        lines = path.read_bytes().splitlines()
    except OSError:
        return
    for line in lines:
        if b'"joules":' not in line or b'"joules":null' in line:
            continue
        try:
            record = json.loads(line)
            if record["joules"] > 0 and record["energy_seconds"] > 0:
                yield record
        except (ValueError, KeyError, TypeError):  # it is damaged
            continue


def _is_like(record: Mapping[str, Any], plan: Plan) -> bool:
    """Whether it ran in the same framework on as many nodes, processes, cores and accelerators of the same target."""
    job, allocation = plan.job, record.get("allocation") or {}
    names = ("nodes", "processes_per_node", "cores_per_process", "accelerators")
    is_there = (record.get("target") or {}).get("name") == plan.target.name
    is_as_large = all(allocation.get(name) == getattr(job, name) for name in names)
    return is_there and is_as_large and record.get("framework") == plan.application.framework
