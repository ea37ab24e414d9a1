"""What is trained, with what resources, and how it may be optimised."""

from __future__ import annotations

from pydantic import Field

from modak_ansible.model.base import Model


class SourceFile(Model):
    """One of the user's own files that travel with the job."""

    path: str = Field(description="below the script's folder")
    size: int = Field(description="bytes")
    sha256: str
    executable: bool = False


class Application(Model):
    """A training script and what it needs."""

    name: str
    framework: str
    version: str = ""
    folder: str = Field(default="", description="the script's folder, below the blueprint's")
    script: str = Field(description="the script's name below its folder")
    files: tuple[SourceFile, ...] = ()
    requirements: tuple[str, ...] = ()
    arguments: tuple[tuple[str, str | bool], ...] = Field(
        default=(), description="option and value, in the order given"
    )
    environment: tuple[tuple[str, str], ...] = ()
    outputs: tuple[str, ...] = ()


class Resources(Model):
    """What the job asks for."""

    nodes: int = 1
    processes_per_node: int = 1
    cores_per_process: int | None = None
    memory: int | None = Field(default=None, description="bytes on each node")
    accelerators: int = Field(default=0, description="on each node")
    exclusive: bool = False
    partition: str | None = None
    walltime: int = Field(default=3600, description="seconds")


class Optimisation(Model):
    """What the optimiser may do."""

    objective: str = "time"
    numerics: str = "same"
    entry: str = Field(default="", description="the catalogue entry to take; empty leaves the choice")
    build: str = "any"
    compiler: str = "any"
    allocator: str = "any"
    wait_policy: str = "any"
    threads: int | None = None
    staging: str = "any"
