"""How much faster small trainings are one way than another, measured in turns.

python benchmarks/memory/turns.py WHAT PYTHON RECORDS.jsonl [MODEL[:STRATEGY] ...]

PYTHON is an interpreter with PyTorch. The models of train.py are trained for twelve steps, of which the first
three do not count, five times each way, in turns. The records get a line each; a table of them is printed. Without
PYTHON, as `-`, the records alone are looked at. WHAT is one of

  room            two ranks with parts of a model over loopback, which give back what they free, or keep it
  small_objects   two ranks whose small objects lie beside tensors, or apart from them, as plans have it
  optimizer_step  one process, whose optimiser takes its steps by single operators, or by fused kernels
  huge_pages      one process, with pages of 4 KiB, or with such of 2 MB for large tensors
  reassociation   one process as it is, or with what may order sums anew: oneDNN's products, fused steps and tcmalloc,
                  which the dynamic loader has to find (LD_LIBRARY_PATH)
  any             one process as it is, or in bf16 with fused steps and tcmalloc
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from measure import MIB, SCRIPT, environment, of_ranks

TURNS, STEPS, FIRST = 5, 12, 3


class Comparison(NamedTuple):
    """Two ways to train, each with what its processes have in their environment."""

    stock: str
    other: str
    environments: tuple[dict[str, str], dict[str, str]]
    cases: tuple[str, ...]


_ALONE = (
    "llama", "gpt", "encoder", "translator", "lora", "vit", "mlp", "tables", "columns", "tagger", "gru", "cnn",
    "resnet", "convnext", "unet",
)  # fmt: skip
_TRANSFORMERS = ("gpt", "encoder", "llama")
_TCMALLOC = {"LD_PRELOAD": "libtcmalloc_minimal.so.4"}
COMPARISONS = {
    "room": Comparison(
        "returned", "kept", ({"MODAK_MEMORY_LIMIT": "1"}, {}),
        (
            "llama:fsdp", "gpt:fsdp", "resnet:fsdp", "vit:fsdp", "gru:fsdp", "llama:tensor", "gpt:tensor", "vit:tensor",
            "translator:tensor", "llama:pipeline", "gpt:pipeline", "vit:pipeline", "resnet:pipeline",
        ),
    ),
    "small_objects": Comparison(
        "beside", "apart", ({"GLIBC_TUNABLES": ""}, {}),
        ("cnn:ddp", "mlp:ddp", "wave:ddp", "graph:ddp", "llama:fsdp", "gru:ddp", "encoder:pipeline"),
    ),
    "optimizer_step": Comparison("default", "fused", ({}, {"MODAK_CHOICES": "optimizer_step=fused"}), _ALONE),
    "huge_pages": Comparison("none", "transparent", ({}, {"THP_MEM_ALLOC_ENABLE": "1"}), _ALONE),
    "reassociation": Comparison(
        "stock", "chosen", ({}, {"MODAK_CHOICES": "optimizer_step=fused matmul=onednn", **_TCMALLOC}), _TRANSFORMERS
    ),
    "any": Comparison(
        "stock", "chosen", ({}, {"MODAK_CHOICES": "optimizer_step=fused precision=bf16", **_TCMALLOC}), _TRANSFORMERS
    ),
}  # fmt: skip


def train(python: str, model: str, strategy: str, more: dict[str, str]) -> dict[str, Any]:
    """Seconds of each step that counts, the larger rank's peak in bytes, and the last loss.

    Raises:
        RuntimeError: it failed.
    """
    words = [python, str(SCRIPT), model, "--steps", str(STEPS)]
    mine, *others_told = of_ranks(2 if strategy else 1, strategy)
    others = [
        subprocess.Popen(words, env=environment(**{**told, **more}), stdout=subprocess.DEVNULL) for told in others_told
    ]
    first = subprocess.Popen(words, env=environment(**{**mine, **more}), stdout=subprocess.PIPE, text=True)
    times, lines, peaks = [], [""], []
    for line in first.stdout or ():
        times.append(time.monotonic())
        lines.append(line)
    for process in (first, *others):
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        peaks.append(usage.ru_maxrss * 1024)
        if process.returncode:
            raise RuntimeError(f"{model} {strategy} failed")
    seconds = [round(after - before, 4) for before, after in zip(times[FIRST - 1 :], times[FIRST:], strict=False)]
    return {"seconds": seconds, "peak": max(peaks), "loss": lines[-1].rpartition(" ")[2].strip()}


def measure(what: Comparison, python: str, records: Path, cases: list[str]) -> None:
    """Adds a line for each case to the records.

    Raises:
        subprocess.CalledProcessError: a library that one way preloads is not there; the loader would go on without it.
    """
    for library in {other["LD_PRELOAD"] for other in what.environments if "LD_PRELOAD" in other}:
        subprocess.run([python, "-c", f"import ctypes; ctypes.CDLL({library!r})"], check=True)
    ways = list(zip((what.stock, what.other), what.environments, strict=True))
    for case in cases:
        model, _, strategy = case.partition(":")
        turns = []
        for number in range(TURNS):
            order = ways if number % 2 else ways[::-1]
            turns.append({way: train(python, model, strategy, environment) for way, environment in order})
        with records.open("a") as lines:
            lines.write(json.dumps({"model": model, "strategy": strategy, "turns": turns}, sort_keys=True) + "\n")
        sys.stderr.write(f"{case}\n")


def table(what: Comparison, records: Path) -> str:
    """Steps in ms, how many times faster the other way is, peaks in MiB, and how far the last losses differ."""
    pair = what.stock, what.other
    lines = [f"| model | step, {pair[0]} | {pair[1]} | times faster | peak, {pair[0]} | {pair[1]} | last loss |"]
    lines += ["|---" * 7 + "|"]
    faster_of, more_of = [], []
    for record in map(json.loads, records.read_text().splitlines()):
        runs: dict[str, list[dict[str, Any]]] = {way: [turn[way] for turn in record["turns"]] for way in pair}
        steps = {way: [median(run["seconds"]) for run in runs[way]] for way in pair}
        peaks = {way: median(run["peak"] for run in runs[way]) / MIB for way in pair}
        faster = sorted(one / other for one, other in zip(*steps.values(), strict=True))
        losses = {way: {run["loss"] for run in runs[way]} for way in pair}
        faster_of.append(median(faster))
        more_of.append(peaks[pair[1]] / peaks[pair[0]])
        cells = [f"{record['model']}{', `' + record['strategy'] + '`' if record['strategy'] else ''}"]
        cells += [f"{1e3 * median(steps[way]):.0f}" for way in pair]
        cells += [f"{median(faster):.2f} ({faster[0]:.2f} to {faster[-1]:.2f})"]
        cells += [f"{peaks[way]:.0f}" for way in pair]
        found = set.union(*losses.values())
        cells += ["the same" if all(each == found for each in losses.values()) else ", ".join(sorted(found))]
        lines.append(f"| {' | '.join(cells)} |")
    lines += ["", f"- {min(faster_of):.2f} to {max(faster_of):.2f} times faster, {median(faster_of):.2f} in the middle"]
    lines += [f"- {min(more_of):.2f} to {max(more_of):.2f} times the memory, {median(more_of):.2f} in the middle"]
    return "\n".join(lines)


def main() -> None:
    if len(sys.argv) < 4 or sys.argv[1] not in COMPARISONS:
        sys.exit(__doc__)
    what, python, records = COMPARISONS[sys.argv[1]], sys.argv[2], Path(sys.argv[3])
    if python != "-":
        measure(what, python, records, sys.argv[4:] or [*what.cases])
    sys.stdout.write(table(what, records) + "\n")


if __name__ == "__main__":
    main()
