"""Traces the models of train.py, trains them, and holds their peaks against what the traces say.

python benchmarks/memory/measure.py PYTHON RECORDS.jsonl [MODEL ...]

PYTHON is an interpreter with PyTorch. Each model is traced once, then trained for four steps by one process and by two
in each way that `prepare` has, with SGD and with AdamW; the records get a line each. Without PYTHON, as `-`, the
records alone are looked at. The table of docs/memory.md is what it prints.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from itertools import product
from pathlib import Path
from statistics import median
from typing import IO, Any

from modak_ansible.model.measured.need import Need, peak_of
from modak_ansible.runtime import FILES

SCRIPT = Path(__file__).with_name("train.py")
# What was looked at while the trace was made to say what is resident, and what was not.
FITTED = ("cnn", "resnet", "gpt", "vit", "lstm")
HELD_OUT = ("mlp", "encoder", "lora", "tables", "unet", "mobile", "dense", "audio", "wide")
# Of strategies whose laws were made later, the models that were looked at meanwhile.
SEEN: dict[str, tuple[str, ...]] = {"fsdp": ("mlp", "gpt"), "tensor": (), "pipeline": ()}
OPTIMIZERS = ("sgd", "adamw")
STRATEGIES = ((1, "none"), (2, "ddp"), (2, "fsdp"), (2, "tensor"), (2, "pipeline"))
# What traces say of layers; the first ones said nothing of it.
OF_LAYERS = ("units", "rest", "widths", "stages")
MIB = 1 << 20
Started = tuple[subprocess.Popen[bytes], IO[bytes]]


def started(python: str, words: list[str], **more: str) -> Started:
    """A training that has begun, and what it writes."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("MODAK", "PYTHON"))}
    log = tempfile.TemporaryFile()  # noqa: SIM115 - read when the process has ended
    ours = {"PYTHONPATH": str(FILES), "OMP_NUM_THREADS": "1", **more}
    return subprocess.Popen([python, str(SCRIPT), *words], env=kept | ours, stdout=log, stderr=log), log


def peak(training: Started) -> int:
    """Bytes that were resident at most.

    Raises:
        RuntimeError: it failed.
    """
    process, log = training
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        log.seek(0)
        raise RuntimeError(log.read().decode(errors="replace")[-1000:])
    return usage.ru_maxrss * 1024


def traced(python: str, words: list[str]) -> dict[str, Any]:
    """What a trace says, and how long it took."""
    with tempfile.TemporaryDirectory() as folder:
        report, began = Path(folder, "applied.json"), time.monotonic()
        peak(started(python, words, MODAK_TRACE="memory", MODAK_APPLIED=str(report)))
        return {**json.loads(report.read_text())["memory"], "seconds": round(time.monotonic() - began, 1)}


def run(python: str, words: list[str], ranks: int, strategy: str) -> list[int]:
    """The peaks of all ranks of a training."""
    if ranks == 1:
        return [peak(started(python, words))]
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    ours = {"WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "GLOO_SOCKET_IFNAME": "lo"}
    found = [started(python, words, **ours, RANK=str(rank), MODAK_STRATEGY=strategy) for rank in range(ranks)]
    return [peak(each) for each in found]


def measure(python: str, records: Path, models: list[str]) -> None:
    """Adds what the records do not have yet of each model and optimizer."""
    found = [json.loads(line) for line in records.read_text().splitlines()] if records.exists() else []
    for model, optimizer in product(models, OPTIMIZERS):
        words = [model, "--optimizer", optimizer]
        line = next((each for each in found if (each["model"], each["optimizer"]) == (model, optimizer)), None)
        if line is None:
            line = {"model": model, "optimizer": optimizer, "trace": traced(python, words), "runs": []}
            found.append(line)
        elif "stages" not in line["trace"]:
            said = traced(python, words)
            line["trace"].update({name: said[name] for name in OF_LAYERS if name in said})
        for ranks, strategy in STRATEGIES:
            if not any(each["strategy"] == strategy for each in line["runs"]):
                line["runs"].append(
                    {"ranks": ranks, "strategy": strategy, "peaks": run(python, words, ranks, strategy)}
                )
        records.write_text("".join(json.dumps(each, sort_keys=True) + "\n" for each in found))
        sys.stderr.write(f"{model} {optimizer}\n")


def need_of(trace: dict[str, Any]) -> Need:
    """A trace as plans have it."""
    return Need.model_validate(
        {"key": "", "training": "", **{name: value for name, value in trace.items() if name in Need.model_fields}}
    )


def table(records: Path) -> str:
    """Predicted and measured peaks in MiB, and how far they are apart."""
    columns = "one process | | " + "".join(f"two, `{strategy}` | | " for _, strategy in STRATEGIES[1:])
    lines = [f"| model | optimiser | {columns.rstrip()}", "|---" * (2 + 2 * len(STRATEGIES)) + "|"]
    off: dict[tuple[str, str], list[float]] = {}
    found = [json.loads(line) for line in records.read_text().splitlines()]
    for record in sorted(found, key=lambda each: each["model"] in FITTED):
        need, cells = need_of(record["trace"]), []
        for ranks, strategy in STRATEGIES:
            run = next((each for each in record["runs"] if each["strategy"] == strategy), None)
            if run is None:
                cells += ["", ""]
                continue
            fitted = record["model"] in SEEN.get(strategy, FITTED)
            predicted, measured = peak_of(need, ranks, strategy), max(run["peaks"])
            error = predicted.middle / measured - 1
            off.setdefault(("fitted" if fitted else "held out", strategy), []).append(error)
            cells += [f"{predicted.middle / MIB:.0f}; {measured / MIB:.0f}", f"{error:+.1%}{' *' if fitted else ''}"]
        lines.append(f"| {record['model']} | {record['optimizer']} | {' | '.join(cells)} |")
    lines.append("")
    for (group, strategy), errors in sorted(off.items()):
        sizes = [abs(each) for each in errors]
        worst = max(errors, key=abs)
        within = sum(each <= 0.1 for each in sizes)
        text = f"median {median(sizes):.1%}, worst {worst:+.1%}, {within} of {len(sizes)} within 10 %"
        lines.append(f"- {group}, {strategy}: {text}")
    return "\n".join(lines)


def main() -> None:
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    python, records = sys.argv[1], Path(sys.argv[2])
    if python != "-":
        measure(python, records, sys.argv[3:] or [*FITTED, *HELD_OUT])
    sys.stdout.write(table(records) + "\n")


if __name__ == "__main__":
    main()
