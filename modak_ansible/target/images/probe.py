"""Tries an image right after it was made: the processor that is here decides whether the build serves."""

from __future__ import annotations

import re
import signal
from pathlib import Path
from typing import TypedDict, cast

from ...errors import ModakError
from ...schedulers.base import CommandResult
from ..core.commands import TimedRun
from ..core.files import lack_in, read_json, write_json
from ..core.plan import Layer
from ..core.processor import processor_name
from .runtimes import runtime_of

# The code that the script of an environment ends with when nothing but its probe failed.
PROBE_FAILED = 86
# What keeps the user's own modules of Python out of what is tried, as a job does.
NO_OWN_PYTHON = {"PYTHONPATH": "", "PYTHONHOME": "", "PYTHONNOUSERSITE": "1"}
_PROBE_SECONDS = 1800
_LONGEST = 300
_IDLE_TALK = re.compile(r"\s*(\x1b\[\d+m)*(INFO|WARNING|DEBUG|VERBOSE)\b")
_RUNTIME_ITSELF = re.compile(r"\s*(\x1b\[\d+m)*FATAL\b", re.MULTILINE)
# Strongest first: what an exception says, and then what is said of a process that crashed.
_TELLING = (
    re.compile(r"\b\w*(Error|Exception)\b|what\(\):|\berror:"),
    re.compile(r"illegal instruction|segmentation fault|bus error|floating point exception|aborted", re.IGNORECASE),
)


class ProbeFailed(Exception):
    """An image was made and does not serve here; ``reason`` is the last telling line of its probe."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def probe_image(runtime: str, image: Path, command: list[str]) -> None:
    """Tries an image, and leaves what it printed in the log.

    Args:
        command: what to run in it; without one its own test.

    Raises:
        ProbeFailed: it does not serve on this processor.
        ModakError: it could not be tried, which says nothing about it.
    """
    result = start(runtime, image, command, _devices(), _PROBE_SECONDS)
    print(result.out + result.err, flush=True)  # noqa: T201 - the log
    if result.timed_out:
        raise ModakError(f"the probe did not end within {_PROBE_SECONDS // 60} minutes", hint="try again: modak deploy")
    if result.code != 0:
        raise_verdict(result.code, (result.out + result.err).splitlines())


def start(runtime: str, image: Path, command: list[str], devices: list[str], seconds: float) -> CommandResult:
    """Runs a program in an image, for no longer than some seconds, with no modules but the image's own."""
    # unset, and not empty: an image may have a PYTHONPATH of its own
    outside = ["env", "-u", "PYTHONPATH", "-u", "PYTHONHOME", "PYTHONNOUSERSITE=1"]
    words = runtime_of(runtime).start(image, command, devices)
    return TimedRun(timeout=seconds, keep_locks=True)([*outside, *words])


def raise_verdict(code: int, lines: list[str]) -> None:
    """What a probe that ended with a code other than 0 amounts to, always an error.

    Raises:
        ProbeFailed: the image is to blame.
        ModakError: the machine is.
    """
    text = "\n".join(lines)
    if lack := lack_in(text):
        raise ModakError(lack, hint="make room in the workspace and in /tmp")
    if code == 255 and _RUNTIME_ITSELF.search(text):
        said = next(line.strip() for line in reversed(lines) if _RUNTIME_ITSELF.match(line))
        raise ModakError(f"the image cannot be started: {said}", hint="try the runtime by hand on the target")
    if code == 128 + signal.SIGKILL:
        raise ModakError("the probe was killed, probably for lack of memory", hint="make room in memory and try again")
    raise ProbeFailed(telling_line(lines) or _described(code))


def telling_line(lines: list[str]) -> str:
    """The last line of a probe that says why it failed; empty when nothing does."""
    said = [line.strip() for line in lines if line.strip() and not _IDLE_TALK.match(line)]
    for pattern in _TELLING:
        for line in reversed(said):
            if pattern.search(line):
                return line[:_LONGEST]
    return said[-1][:_LONGEST] if said else ""


def _described(code: int) -> str:
    try:
        name = f" ({signal.Signals(code - 128).name})" if code > 128 else ""
    except ValueError:
        name = ""
    return f"it ended with code {code}{name} and said nothing"


def _devices() -> list[str]:
    """The maker of the accelerators of a front end that has some, which lets the probe use them."""
    if Path("/proc/driver/nvidia/version").exists():
        return ["nvidia"]
    return ["amd"] if Path("/dev/kfd").exists() else []


# --- what is kept of it


class Refusal(TypedDict):
    """What a probe said of a layer that it refused."""

    name: str  # the layer's
    refused: str  # the reason
    processor: str  # its model
    probed: str  # the date


def write_refusal(image: Path, layer: Layer, reason: str, date: str) -> Refusal:
    """Keeps a refusal in the place of the image that is not kept."""
    refusal = Refusal(name=layer["name"], refused=reason, processor=processor_name(), probed=date)
    write_json(image.with_suffix(".json"), refusal)
    return refusal


def read_refusal(image: Path) -> Refusal | None:
    """What the probe of an image said that it refused on the processor that is here; None where it did not."""
    known = read_json(image.with_suffix(".json")) or {}
    is_refused = known.get("refused") and known.get("processor") == processor_name()
    return cast(Refusal, known) if is_refused else None


def refusal_error(refusal: Refusal, log: Path | None = None) -> ModakError:
    text = f"{refusal['name']} was refused by its probe on {refusal['processor']}: {refusal['refused']}"
    hint = f"what it printed is at the end of {log} on the target" if log else ""
    return ModakError(text, hint=hint)
