"""What the papers found, read from benchmarks/paper.yaml, which says how a finding is judged."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Literal

import yaml
from pydantic import ValidationError

from modak_ansible.catalogue.reader import from_yaml
from modak_ansible.errors import ModakError
from modak_ansible.model.base import Model
from modak_ansible.store.project import shipped


class Build(Model):
    """Which variants are meant; what is empty may be anything."""

    framework: str = ""
    version: str = ""  # "today": any but the paper's
    origins: tuple[str, ...] = ()
    compilers: tuple[str, ...] = ("none",)
    container: bool | None = None


class Claim(Model):
    """Between which bounds a ratio of speeds lies when a finding holds."""

    above: float | None = None
    below: float | None = None
    reading: str = ""  # of words that give no number


class Pair(Model):
    """What is held against what."""

    baseline: Build
    other: Build


class Finding(Model):
    """A sentence of a paper that can be measured again."""

    name: str
    title: str
    source: str
    said: str
    holds: Claim
    pairs: tuple[Pair, ...]
    workload: str  # empty: any
    accelerated: bool | None = False  # None: with or without
    ratio: float | None = None  # as stated: speed of the other by speed of the baseline
    note: str = ""
    quantity: Literal["speed", "import"] = "speed"


class PaperFigure(Model):
    """A figure of the paper that suites measure again: its number, and what the page says of it."""

    source: str
    title: str
    lead: str


class PaperTraining(Model):
    """How much the paper trained, and what the page says of it where it is shown apart from the figures."""

    images: int | None = None
    epochs: int
    dropout: bool = True
    title: str = ""
    lead: str = ""  # empty: it belongs to the figures


class Paper(Model):
    """All of it."""

    versions: dict[str, tuple[str, ...]]
    command: str  # measures the figures again
    trainings: dict[str, PaperTraining]
    figures: dict[str, PaperFigure]  # by the first words of a suite's group
    headline: tuple[str, ...]
    findings: tuple[Finding, ...]


@cache
def paper() -> Paper:
    """What the shipped file says."""
    return read_paper(shipped("benchmarks") / "paper.yaml")


def read_paper(path: Path) -> Paper:
    """
    Raises:
        ModakError: the file is not what it must be.
    """
    try:
        return Paper.model_validate(from_yaml(path.read_text(encoding="utf-8")))
    except (OSError, yaml.YAMLError, ValidationError) as error:
        raise ModakError(f"{path} is not a description of a paper: {error}") from error


def figure_of(group: str) -> str:
    """The key of the figure that a suite's group measures again, as ``compilers-1.14`` does ``compilers``; or none."""
    return next((figure for figure in paper().figures if group == figure or group.startswith(f"{figure}-")), "")
