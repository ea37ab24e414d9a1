"""The energy of a job that has ended: what its own processes counted, else what its scheduler did."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from modak_ansible.model.quantities import counted
from modak_ansible.stages.jobs.applied import report_of
from modak_ansible.store.record import EnergyNote, JobNote
from modak_ansible.target.core.plan import Plan
from modak_ansible.target.core.staging import RANKS
from modak_ansible.target.jobs.numbers import number

_SHARED = "; others may have used these nodes, too, and their energy would be included"


def energy_of(results: Path, plan: Plan, job: JobNote, accounted: float | None) -> EnergyNote | None:
    """What is known of a job's energy; None where nobody counted.

    Args:
        results: the folder of what it left.
        accounted: joules by its scheduler.
    """
    planned = cast(Mapping[str, Any], plan["job"])
    is_alone = planned.get("exclusive") and planned["scheduler"] != "none"
    nodes, seconds = _counted(results)
    if nodes:
        joules = sum(value for counters in nodes.values() for value in counters.values())
        source, is_shared = _counters([name for counters in nodes.values() for name in counters])
        source += f" while its processes ran, on {_hosts(len(nodes), planned.get('nodes', 1))}"
        source += f", of its run {job['run']} alone" if job.get("run", 1) > 1 else ""
        return {
            "joules": round(joules, 3),
            "seconds": seconds,
            "source": source + _SHARED * (is_shared and not is_alone),
        }
    if accounted is None:
        return None
    began, ended = job.get("started"), job.get("ended")
    source = "Slurm's accounting of whole nodes while the job ran" + _SHARED * (not is_alone)
    return {"joules": accounted, "seconds": ended - began if began and ended else None, "source": source}


def _counters(names: list[str]) -> tuple[str, bool]:
    """What counted, in words, and whether others that work on the nodes are in it: a job's GPUs are its own."""
    zones = [name.split()[-1] for name in names if name.startswith("intel-rapl")]
    gpus = len(names) - len(zones)
    kinds = sorted({zone.partition("-")[0] for zone in zones}, reverse=True)
    words = [f"RAPL ({', '.join(kinds)})"] * bool(kinds) + [f"NVML of {counted(gpus, 'GPU')}"] * bool(gpus)
    return " and ".join(words), bool(zones)


def _counted(results: Path) -> tuple[dict[str, dict[str, float]], float | None]:
    """Joules by node and counter, and the seconds of the longest count: ranks of one node read the same counters."""
    nodes: dict[str, dict[str, float]] = {}
    longest = None
    for folder in (results, *sorted((results / RANKS).glob("*/"))):
        report: Any = report_of(folder) or {}
        energy = report.get("energy")
        joules = energy.get("joules") if isinstance(energy, dict) else None
        if not isinstance(joules, dict):
            continue
        counters = nodes.setdefault(str(report.get("hostname")), {})
        for name, value in joules.items():
            counters[name] = max(counters.get(name, 0.0), number(value) or 0.0)
        seconds = number(energy.get("seconds"))
        longest = seconds if longest is None else max(longest, seconds or 0.0)
    return {node: counters for node, counters in nodes.items() if sum(counters.values()) > 0}, longest


def _hosts(number: int, planned: int) -> str:
    return counted(number, "node") if number >= planned else f"{number} of its {counted(planned, 'node')}"
