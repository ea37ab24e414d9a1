"""When a job may begin, as Maui's and Moab's showstart tells it beside Torque, where a site has them.

Source: the manual of Moab, and outputs that sites show in theirs.
"""

from __future__ import annotations

import re
import time

from ..base import CommandRunner

# "Estimated Rsv based start in   1:15:31:22 on Sun Aug 17 00:40:10" of Moab, and "Earliest start in  1:40:00 on ..."
# of Maui: the date has no year, and so the time until then counts.
_STARTS = re.compile(r"(?m)^(?:Estimated \w+ based|Earliest) start in\s+((?:\d+:){2,3}\d+) on ")


def start_by_showstart(run: CommandRunner, job: str) -> str:
    """When a job begins, in local time as ``2026-11-23T16:10:00``; empty where nobody says.

    Args:
        job: its id, or of one that was not submitted the cores and seconds as ``8@3600``.
    """
    result = run(["showstart", job])
    start = _STARTS.search(result.out) if result.code == 0 else None
    until = seconds_of(start.group(1)) if start else None
    return "" if until is None else time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(time.time() + until))


def size_of(directives: str) -> str:
    """What showstart takes for a job that was not submitted, by its directives; empty where they do not say it."""
    requested = dict(re.findall(r"(?m)^#PBS -l (nodes|procs|walltime)=(\S+)$", directives))
    if "walltime" not in requested or not requested.keys() & {"nodes", "procs"}:
        return ""
    cores = requested["procs"] if "procs" in requested else str(sum(map(_cores, requested["nodes"].split("+"))))
    return f"{cores}@{seconds_of(requested['walltime'])}"


def _cores(part: str) -> int:
    """Of ``2:ppn=4:ib``, or of a node by its name."""
    count, *rest = part.split(":")
    slots = [int(word[4:]) for word in rest if re.fullmatch(r"ppn=\d+", word)]
    return (int(count) if count.isdigit() else 1) * (slots[0] if slots else 1)


def seconds_of(clock: str) -> int | None:
    """Seconds of ``3600``, ``10:00``, ``36:00:00`` or ``7:00:00:00``; None for anything else."""
    parts = clock.strip().split(":")
    if len(parts) > 4 or not all(re.fullmatch(r"\d{1,9}", part, re.ASCII) for part in parts):
        return None
    days, hours, minutes, seconds = map(int, ["0"] * (4 - len(parts)) + parts)
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds
