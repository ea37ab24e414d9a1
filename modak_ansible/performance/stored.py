"""The fitted model as a file: coefficients, their covariance, and what they rest on."""

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Literal, Self

from pydantic import Field, ValidationError, model_validator

from modak_ansible.errors import ModakError
from modak_ansible.model.base import Model, first_mistake
from modak_ansible.model.measured.work import Work
from modak_ansible.performance.features import FEATURES

SCHEMA: Literal["modak.model/4"] = "modak.model/4"
# Parts of one, of which a file has none below two: of the configurations that ship standard deviations are off by 1.2 %
# for it, and by 5.8 % at most.
UNIT = 1000
AGAIN = "modak model fit makes a new one"


class OfAnotherVersion(ModakError):
    """A model that another version of the project fitted."""


class Part(Model):
    """One regression: of a step, the start, the first step, or the evaluation.

    Deviations and correlations are the posterior's, the latter row by row below the diagonal: of what was fitted just
    now as numbers, and in a file as text, of which a plan reads a few rows. ``spread`` has the prior standard deviation
    of each group of features: that of a feature nobody has seen.
    """

    names: tuple[str, ...]
    groups: tuple[str, ...]
    mean: tuple[float, ...]
    deviations: tuple[float, ...] = Field(description="standard deviations of the coefficients")
    correlations: tuple[str | tuple[float, ...], ...] = Field(
        description="in a file as whole numbers of so many parts of one as UNIT says, with a blank between two"
    )
    counts: tuple[int, ...] = Field(description="measured runs that have the feature")
    spread: dict[str, float]
    noise: dict[str, float] = Field(
        description="standard deviation of a run within its round, by framework; that of any other under the empty name"
    )
    calibration: dict[str, float] = Field(
        default={},
        description="factor on the standard deviation of a run whose configuration, workload or machine has no record",
    )
    passing: dict[str, float] = Field(
        description="standard deviations of what a new run has to itself: of its round, and of its configuration's day"
    )
    runs: int

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        size = len(self.names)
        lists = (self.groups, self.mean, self.deviations, self.correlations, self.counts)
        if not all(len(values) == size for values in lists):
            raise ValueError("its lists have different lengths")
        lengths = (row.count(" ") + bool(row) if isinstance(row, str) else len(row) for row in self.correlations)
        if any(length != place for place, length in enumerate(lengths)):
            raise ValueError("its correlations are no triangle")
        return self


class Machine(Model):
    """What a machine of the records gives, as measured there."""

    name: str = Field(description="accelerator's name, or processor's with its architecture: one name has many kinds")
    processor: str = Field(description="processor's or accelerator's name")
    architecture: str
    peaks: dict[int, float] = Field(description="GFLOP/s in single precision by threads")
    rates: dict[str, dict[int, float]] = Field(
        default={}, description="GFLOP/s of convolutions, and of products in other formats, by threads"
    )
    bandwidths: dict[int, float] = Field(default={}, description="GB/s by threads")
    storage: dict[str, dict[str, float]] = Field(
        default={}, description="by storage class: read and write in MB/s, small_files_read in files/s"
    )
    launch: dict[str, float] = Field(default={}, description="seconds to the process's start: container, native")
    cores: int | None = None
    day: str = Field(default="", description="of the newest training there, as 2026-11-26; empty where there is none")

    @property
    def is_accelerator(self) -> bool:
        """Whether it is called by what computes beside its processor: a processor's name has its architecture."""
        return bool(self.architecture) and self.name == self.processor


class Series(Model):
    """Runs of one program in one configuration on one machine."""

    name: str = Field(description="of the workload, the program or the training")
    program: str = Field(default="", description="digest of what the program is told; empty of trainings")
    machine: str
    entry: str = ""
    settings: dict[str, str] = {}
    runs: tuple[tuple[int, float], ...] = Field(
        description="processes (threads of a program that has these alone) and seconds of the same work"
    )


class Stored(Model):
    """The file."""

    schema_version: Literal["modak.model/4"] = SCHEMA
    features: int = Field(default=FEATURES, description="version of the list of features")
    records: int
    records_digest: str = Field(description="SHA-256 of the records that it was fitted to")
    workloads: dict[str, Work] = Field(description="what the workloads of the records compute")
    machines: tuple[Machine, ...]
    parts: dict[str, Part]
    together: dict[str, tuple[tuple[str, ...], ...]] = Field(
        default={},
        description="builds and switches that ran together, by framework with version; no part of another such set",
    )
    scaling: tuple[Series, ...] = Field(
        default=(), description="of programs that ran with several numbers of processes"
    )


def read_stored(path: Path) -> Stored:
    """The model in a file.

    Raises:
        OfAnotherVersion: another version of the project wrote it.
        ModakError: it cannot be read, or is damaged.
    """
    try:
        text = path.read_bytes()
    except OSError as error:
        raise ModakError(f"{path} cannot be read: {error.strerror}", hint=AGAIN) from error
    with suppress(ValidationError):  # in half of the time of what follows, which says what is wrong
        stored = Stored.model_validate_json(text)
        if stored.features == FEATURES:
            return stored
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ModakError(f"{path} is damaged: {error}", hint=AGAIN) from error
    version = (data.get("schema_version"), data.get("features")) if isinstance(data, dict) else (None, None)
    if version != (SCHEMA, FEATURES):
        raise OfAnotherVersion(
            f"{path} was fitted by another version: it is {version[0]} with features {version[1]}, "
            f"and this is {SCHEMA} with features {FEATURES}",
            hint=AGAIN,
        )
    try:
        return Stored.model_validate(data)
    except ValidationError as error:
        raise ModakError(f"{path} is damaged: {first_mistake(error)}", hint=AGAIN) from error


def write_stored(stored: Stored, path: Path) -> None:
    """Writes the model, whole or not at all.

    Raises:
        ModakError: it cannot be written.
    """
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial.write_text(stored_text(stored), encoding="utf-8")
        partial.replace(path)
    except OSError as error:
        raise ModakError(f"{path} cannot be written: {error.strerror}") from error
    finally:
        with suppress(OSError):
            partial.unlink()


def stored_text(stored: Stored) -> str:
    """The file's text: a line for every part's list, so that a change of the records shows where it changed."""
    values = stored.model_dump(mode="json")
    parts = values.pop("parts")
    head = json.dumps(values, indent=1, sort_keys=True)
    lines = [
        f"  {json.dumps(name)}: {{\n"
        + ",\n".join(f"   {json.dumps(key)}: {json.dumps(part[key], separators=(',', ':'))}" for key in sorted(part))
        + "\n  }"
        for name, part in sorted(parts.items())
    ]
    return head.removesuffix("\n}") + ',\n "parts": {\n' + ",\n".join(lines) + "\n }\n}\n"
