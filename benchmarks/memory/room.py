"""What it costs ranks with parts of a model to give back what they free, and what it saves.

python benchmarks/memory/room.py PYTHON RECORDS.jsonl [MODEL:STRATEGY ...]

PYTHON is an interpreter with PyTorch. Each training of train.py is made by two ranks over loopback, with room and, as
MODAK_MEMORY_LIMIT says, without, in turns; the first three steps, before which a rank does not know what it needs, do not
count. The records get a line each; the table of docs/memory.md is what it prints. Without PYTHON, as `-`, the records
alone are looked at.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

from modak_ansible.runtime import FILES

SCRIPT = Path(__file__).with_name("train.py")
TURNS, STEPS, FIRST = 5, 12, 3
ARMS = {"kept": "", "returned": "1"}  # and the bytes that the job has asked for a rank
CASES = (
    "llama:fsdp", "gpt:fsdp", "resnet:fsdp", "vit:fsdp", "gru:fsdp", "llama:tensor", "gpt:tensor", "vit:tensor",
    "translator:tensor", "llama:pipeline", "gpt:pipeline", "vit:pipeline", "resnet:pipeline",
)  # fmt: skip
MIB = 1 << 20


def train(python: str, model: str, strategy: str, asked: str) -> dict[str, Any]:
    """Seconds of each step that counts, the larger rank's peak, and the last loss.

    Raises:
        RuntimeError: it failed.
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    ours = {name: value for name, value in os.environ.items() if not name.startswith(("MODAK", "PYTHON"))} | {
        "PYTHONPATH": str(FILES), "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", "MODAK_STRATEGY": strategy,
        "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "MODAK_MEMORY_LIMIT": asked,
    }  # fmt: skip
    words = [python, str(SCRIPT), model, "--steps", str(STEPS)]
    other = subprocess.Popen(words, env=ours | {"RANK": "1"}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    first = subprocess.Popen(words, env=ours | {"RANK": "0"}, stdout=subprocess.PIPE, text=True)
    times, line = [], ""
    for line in first.stdout or ():
        times.append(time.monotonic())
    peaks = []
    for process in (first, other):
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        peaks.append(usage.ru_maxrss * 1024)
    if first.returncode or other.returncode:
        raise RuntimeError(f"{model} {strategy} failed")
    seconds = [round(after - before, 4) for before, after in zip(times[FIRST - 1 :], times[FIRST:], strict=False)]
    return {"seconds": seconds, "peak": max(peaks), "loss": line.strip()}


def table(records: Path) -> str:
    """Steps in ms and peaks in MiB with what is freed kept and returned, and how many times faster it is kept."""
    lines = ["| model | strategy | returned | kept | times faster | returned | kept |", "|---" * 7 + "|"]
    ratios, growths = [], []
    for record in map(json.loads, records.read_text().splitlines()):
        runs: dict[str, list[dict[str, Any]]] = {arm: [turn[arm] for turn in record["turns"]] for arm in ARMS}
        assert len({run["loss"] for arm in ARMS for run in runs[arm]}) == 1, record["model"]
        steps = {arm: [median(run["seconds"]) for run in runs[arm]] for arm in ARMS}
        peaks = {arm: median(run["peak"] for run in runs[arm]) for arm in ARMS}
        faster = sorted(one / other for one, other in zip(steps["returned"], steps["kept"], strict=True))
        ratios.append(median(faster))
        growths.append(max(run["peak"] for run in runs["kept"]) / min(run["peak"] for run in runs["returned"]))
        cells = [record["model"], f"`{record['strategy']}`", *(f"{1e3 * median(steps[arm]):.0f}" for arm in ("returned", "kept"))]
        cells += [f"{median(faster):.2f} ({faster[0]:.2f} to {faster[-1]:.2f})"]
        cells += [f"{peaks[arm] / MIB:.0f}" for arm in ("returned", "kept")]
        lines.append(f"| {' | '.join(cells)} |")
    lines += ["", f"- {min(ratios):.2f} to {max(ratios):.2f} times faster, {median(ratios):.2f} in the middle"]
    lines += [f"- at most {max(growths):.2f} times the memory, {median(growths):.2f} in the middle"]
    return "\n".join(lines)


def main() -> None:
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    python, records, *cases = sys.argv[1], Path(sys.argv[2]), *(sys.argv[3:] or CASES)
    for case in cases if python != "-" else ():
        model, _, strategy = case.partition(":")
        turns = []
        for number in range(TURNS):
            order = list(ARMS) if number % 2 else list(ARMS)[::-1]
            turns.append({arm: train(python, model, strategy, ARMS[arm]) for arm in order})
        with records.open("a") as lines:
            lines.write(json.dumps({"model": model, "strategy": strategy, "turns": turns}, sort_keys=True) + "\n")
        sys.stderr.write(f"{case}\n")
    sys.stdout.write(table(records) + "\n")


if __name__ == "__main__":
    main()
