"""How far a training is, by the files that it writes while it runs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, FrozenSet, Mapping, Tuple, cast

from ..core.files import read_json, read_text
from ..core.staging import LOGGED, STATE
from ..metrics.curves import Curves, read_curves
from ..metrics.files import found_in
from .numbers import number, numbers_of
from .situation import Progress

# In a deployment's folder: of the runtime in the training's process, and of a script that measures itself.
PROGRESS = "progress.json"
METRICS = "metrics.json"
# Whatever is larger, in bytes, is no metrics of ours, and not read on a front end; of files that grow the end is read.
_LARGEST = 4 << 20
_END = 128 << 10
# Cores as the kernel lists them, whatever a file of that name really holds.
_LIST = re.compile(r"\d{1,5}(-\d{1,5})?(,\d{1,5}(-\d{1,5})?){0,999}", re.ASCII)
# Remarks that one line about a training has room for.
_SAID = 3


def progress_of(folder: Path) -> Progress:
    """What the training of a deployment's folder says of itself."""
    own, metrics = _read(folder / PROGRESS), read_metrics(folder)
    progress: dict[str, Any] = {name: number(own.get(name)) for name in ("step", "epoch", "epochs", "loss")}
    of_metrics = _of_metrics(metrics)
    progress.update({name: value for name, value in of_metrics.items() if value is not None})
    progress["slow"] = str(own["slow"])[:300] if own.get("slow") else None
    progress["crowded"] = crowded(folder / STATE / "cores") or None
    if not of_metrics:
        logged = [LOGGED] if (folder / LOGGED).exists() else []
        curves = read_curves(folder, [*logged, *found_in(folder)], _END)
        for name, value in _of_curves(curves, metrics).items():
            if progress.get(name) is None:
                progress[name] = value
    return cast(Progress, {name: value for name, value in progress.items() if value is not None})


def crowded(folder: Path) -> str:
    """Which ranks have fewer cores between them than threads, by what each noted as it began; empty for none.

    A rank's file is named by its number, and holds its node, its threads, and its cores as the kernel lists them, such
    as ``node01 2 0-3,8``.
    """
    nodes: dict[str, dict[int, Tuple[int, FrozenSet[int]]]] = {}
    for path in folder.glob("*") if folder.is_dir() else ():
        words = read_text(path).split()
        cores = _cores(words[2]) if len(words) == 3 else frozenset()
        if path.name.isdigit() and cores and words[1].isdigit():
            nodes.setdefault(words[0], {})[int(path.name)] = int(words[1]), cores
    for node, ranks in sorted(nodes.items()):
        for _, cores in sorted(ranks.values(), key=lambda rank: len(rank[1])):
            inside = sorted(rank for rank, (_, own) in ranks.items() if own <= cores)
            threads = sum(ranks[rank][0] for rank in inside)
            if threads > len(cores):
                return _crowd(node, inside, threads, sorted(cores))
    return ""


def _crowd(node: str, ranks: list[int], threads: int, cores: list[int]) -> str:
    subject = f"ranks {', '.join(map(str, ranks))}" if len(ranks) > 1 else f"rank {ranks[0]}"
    have = "have" if len(ranks) > 1 else "has"
    core_list = f"core {cores[0]}" if len(cores) == 1 else f"cores {', '.join(map(str, cores))}"
    return f"{subject} on {node} {have} {core_list} for {threads} threads, which wait for each other"


def _cores(text: str) -> FrozenSet[int]:
    """Of a list of the kernel's, such as ``0-3,8``; none of what is no such list."""
    if not _LIST.fullmatch(text):
        return frozenset()
    ranges = [tuple(map(int, part.split("-"))) for part in text.split(",")]
    return frozenset(core for bounds in ranges for core in range(bounds[0], bounds[-1] + 1))


def read_metrics(folder: Path) -> Mapping[str, Any]:
    """The metrics.json of a deployment or of its results; empty where there is none, or none that is read."""
    return _read(folder / METRICS)


def with_curves(metrics: Mapping[str, Any], curves: Curves) -> dict[str, float]:
    """All numbers that a script tells as it likes: those of its metrics.json, and the last of its curves."""
    return numbers_of({**curves.last, **numbers_of(metrics)})


def _of_curves(curves: Curves, metrics: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "step": _whole(curves.step),
        "epoch": _whole(curves.epoch),
        "numbers": with_curves(metrics, curves) or None,
        "remarks": [*curves.lost, *curves.remarks][:_SAID] or None,
    }


def _whole(value: float | None) -> float | None:
    return int(value) if value is not None and value.is_integer() else value


def _of_metrics(metrics: Mapping[str, Any]) -> dict[str, float | None]:
    """The same of metrics.json, whose epochs are those that ended; ``now`` is the one that goes on."""
    epochs = metrics.get("epochs")
    if not isinstance(epochs, list):
        return {}
    last = epochs[-1] if epochs and isinstance(epochs[-1], dict) else {}
    now = metrics.get("now")
    now = now if isinstance(now, dict) else {}
    requested = number(metrics.get("epochs_requested"))
    goes_on = requested is not None and len(epochs) < requested
    return {
        "epoch": number(now.get("epoch")) or len(epochs) + bool(goes_on) or None,
        "epochs": requested,
        "loss": number(now.get("loss", last.get("training_loss"))),
        "accuracy": number(last.get("test_accuracy")),
    }


def _read(path: Path) -> Mapping[str, Any]:
    """A JSON object; empty where there is none, or one that is too large."""
    try:
        if path.stat().st_size > _LARGEST:
            return {}
    except OSError:
        return {}
    return read_json(path) or {}
