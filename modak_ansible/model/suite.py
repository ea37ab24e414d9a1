"""A suite: which workloads are measured with which builds and switches, how often, and what is compared."""

from __future__ import annotations

from pydantic import Field

from modak_ansible.model.base import Model


class Group(Model):
    """Runs that are interleaved and compared: entries x settings; the first variant is what others are held against."""

    name: str
    title: str
    workload: str
    entries: tuple[str, ...] = Field(min_length=1, description="catalogue entries")
    settings: tuple[dict[str, str], ...] = Field(
        default=({},),
        description="each a set of switches: the script's own, and container, allocator, wait_policy, threads, staging",
    )
    arguments: dict[str, str] = Field(default={}, description="options of the script, the same for all runs")
    rounds: int | None = Field(default=None, ge=1, description="instead of the suite's")
    nodes: int = Field(default=1, ge=1)
    targets: tuple[str, ...] = Field(default=(), description="names of the suite's targets; empty: all")


class Suite(Model):
    """A matrix of workload x entry x switches x target x repeats."""

    name: str
    title: str
    blueprints: dict[str, str] = Field(
        default={"default": "mnist-pytorch-slurm"},
        description="targets by name: each a blueprint whose target and dataset are used",
    )
    rounds: int = Field(default=5, ge=1)
    walltime: str = Field(default="00:20:00", description="of each job")
    arguments: dict[str, str] = Field(default={}, description="options of every training's script")
    groups: tuple[Group, ...] = Field(min_length=1)
