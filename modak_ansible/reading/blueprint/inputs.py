"""Values for a blueprint's inputs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Inputs:
    """Values for a blueprint's inputs: a file, and single ones that go before it.

    Attributes:
        file: a YAML file with values.
        values: single values by name.
        targets: a target file, or for a request a service template with the target that it names.
        words: options of a script that is deployed without a blueprint.
        nodes, processes_per_node: of such a script; None for one.
        strict: whether a wish that cannot be kept is an error, whatever the file itself says.
    """

    file: Path | None = None
    values: tuple[tuple[str, str], ...] = ()
    targets: Path | None = None
    strict: bool = False
    words: tuple[str, ...] = ()
    nodes: int | None = None
    processes_per_node: int | None = None
