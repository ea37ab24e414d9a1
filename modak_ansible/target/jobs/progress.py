"""How far a training is, by the files that it writes while it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Mapping, TypedDict, cast

from ..core.files import read_json
from .numbers import number, numbers_of

# In a deployment's folder: of the runtime in the training's process, and of a script that measures itself.
PROGRESS = "progress.json"
METRICS = "metrics.json"
# Whatever is larger, in bytes, is no metrics of ours, and not read on a front end.
_LARGEST = 4 << 20


class Progress(TypedDict, total=False):
    """What a training says of itself; what it does not say is left out.

    Attributes:
        epoch: the one that it is in, or was in last, from 1.
        epochs: that were asked of it.
        accuracy: 0 to 1.
        numbers: by name, of a script that writes metrics in a form of its own.
    """

    step: int
    epoch: int
    epochs: int
    loss: float
    accuracy: float
    numbers: dict[str, float]


def progress_of(folder: Path) -> Progress:
    """What the training of a deployment's folder says of itself."""
    own, metrics = _read(folder / PROGRESS), _read(folder / METRICS)
    found: dict[str, Any] = {name: number(own.get(name)) for name in ("step", "epoch", "epochs", "loss")}
    ours = _of_metrics(metrics)
    found.update({name: value for name, value in ours.items() if value is not None})
    found["numbers"] = (None if ours else numbers_of(metrics)) or None
    return cast(Progress, {name: value for name, value in found.items() if value is not None})


def _of_metrics(metrics: Mapping[str, Any]) -> dict[str, float | None]:
    """The same of metrics.json, whose epochs are those that ended; ``now`` is the one that goes on."""
    listed = metrics.get("epochs")
    if not isinstance(listed, list):
        return {}
    last = listed[-1] if listed and isinstance(listed[-1], dict) else {}
    now = metrics.get("now")
    now = now if isinstance(now, dict) else {}
    requested = number(metrics.get("epochs_requested"))
    goes_on = requested is not None and len(listed) < requested
    return {
        "epoch": number(now.get("epoch")) or len(listed) + bool(goes_on) or None,
        "epochs": requested,
        "loss": number(now.get("loss", last.get("training_loss"))),
        "accuracy": number(last.get("test_accuracy")),
    }


def _read(path: Path) -> Mapping[str, Any]:
    try:
        if path.stat().st_size > _LARGEST:
            return {}
    except OSError:
        return {}
    return read_json(path) or {}
