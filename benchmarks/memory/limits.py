"""Trains the models of train.py with the memory that is promised to be enough, and says what the kernel killed.

python benchmarks/memory/limits.py PYTHON RECORDS.jsonl LIMITS.jsonl [MODEL ...]

RECORDS.jsonl is of measure.py. Of each model it takes one process, and two ranks in the way that came closest to what
was promised: each is trained once, every rank in a memory cgroup of its own with that limit. Without PYTHON, as `-`,
what was recorded alone is looked at. It needs root, and the memory controller of cgroups.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from measure import MIB, line_of, lines_of, need_of, of_ranks, started, write

from modak_ansible.model.measured.need import peak_of

_TOP = Path("/sys/fs/cgroup")
_FILES = {"memory.max": "memory.peak", "memory.limit_in_bytes": "memory.max_usage_in_bytes"}  # of cgroups 2 and 1


@contextlib.contextmanager
def limited(number: int, size: int) -> Iterator[Path]:
    """A memory cgroup that may have so many bytes."""
    group = (_TOP / "memory" if (_TOP / "memory").is_dir() else _TOP) / f"modak-limits-{os.getpid()}-{number}"
    group.mkdir()
    try:
        (group / next(each for each in _FILES if (group / each).exists())).write_text(str(size))
        yield group
    finally:
        group.rmdir()


def train(python: str, model: str, ranks: int, strategy: str, limit: int) -> list[dict[str, int]]:
    """How each rank ended, and the most bytes that its cgroup had, with pages of files."""
    found = []
    with contextlib.ExitStack() as stack:
        groups = [stack.enter_context(limited(number, limit)) for number in range(ranks)]
        told = of_ranks(ranks, strategy)
        running = [
            started(python, [model], group=group, MODAK_MEMORY_LIMIT=str(limit), **more)[0]
            for group, more in zip(groups, told, strict=True)
        ]
        for process, group in zip(running, groups, strict=True):
            code = process.wait()
            peak = next(group / name for name in _FILES.values() if (group / name).exists())
            found.append({"code": code, "used": int(peak.read_text())})
    return found


def cases_of(record: dict[str, Any]) -> list[tuple[int, str, int]]:
    """One process, and the ranks that came closest: how many, their strategy, and what is promised in bytes."""
    need, cases = need_of(record["trace"]), []
    for run in record["runs"]:
        if run.get("peaks"):
            high = int(peak_of(need, run["ranks"], run["strategy"]).high)
            cases.append((max(map(max, run["peaks"])) / high, (run["ranks"], run["strategy"], high)))
    closest = max((case for case in cases if case[1][0] > 1), default=None)
    return [case for _, case in cases if case[0] == 1] + ([closest[1]] if closest else [])


def table(limits: Path) -> str:
    """What did not end well, how many were killed, and the most of its limit that one took."""
    rows = ["| model | strategy | promised, MiB | ended with |", "|---|---|---|---|"]
    killed = count = 0
    most = 0.0
    for record in lines_of(limits):
        for case in record["cases"]:
            codes = [rank["code"] for rank in case["ranks"]]
            most = max(most, *(rank["used"] / case["limit"] for rank in case["ranks"]))
            killed, count = killed + (-signal.SIGKILL in codes), count + 1
            if any(codes):
                rows.append(f"| {record['model']} | {case['strategy']} | {case['limit'] // MIB} | {codes} |")
    return "\n".join(
        [*(rows if len(rows) > 2 else []), f"- killed: {killed} of {count}; at most {most:.0%} of a limit"]
    )


def main() -> None:
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    python, records, limits, models = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), sys.argv[4:]
    lines = lines_of(limits)
    for record in lines_of(records) if python != "-" else []:
        if models and record["model"] not in models:
            continue
        line = line_of(lines, {"model": record["model"]})
        line["cases"] = [
            {"strategy": strategy, "limit": limit, "ranks": train(python, record["model"], ranks, strategy, limit)}
            for ranks, strategy, limit in cases_of(record)
        ]
        write(limits, lines)
        sys.stderr.write(f"{record['model']}\n")
    sys.stdout.write(table(limits) + "\n")


if __name__ == "__main__":
    main()
