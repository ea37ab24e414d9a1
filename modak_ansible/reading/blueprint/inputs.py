"""Values for a blueprint's inputs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple


class Inputs(NamedTuple):
    """Values for a blueprint's inputs: a file, and single ones that go before it."""

    file: Path | None = None  # a YAML file with values
    values: tuple[tuple[str, str], ...] = ()  # single values by name
    targets: Path | None = None  # a target file, or for a request a service template with the target that it names
    strict: bool = False  # whether a preference that cannot be kept is an error, whatever the file itself says
    words: tuple[str, ...] = ()  # options of a script that is deployed without a blueprint
    # nodes, processes_per_node: of such a script; None for one
    nodes: int | None = None
    processes_per_node: int | None = None
    accelerators: int | None = None  # of each node, for such a script; None where nobody says it
    # of a training's search the trials that are meant: the training's name, and values of arguments
    points: tuple[tuple[str, Mapping[str, str | bool]], ...] = ()
