"""A suite: which workloads are measured with which builds and switches, how often, and what is compared."""

from pydantic import Field

from modak_ansible.model.base import Model


class Matrix(Model):
    """Every entry with every set of switches."""

    entries: tuple[str, ...] = Field(min_length=1, description="catalogue entries")
    settings: tuple[dict[str, str], ...] = Field(
        default=({},),
        min_length=1,
        description="each a set of switches: the script's own, and those of optimisations, such as allocator",
    )


class Group(Model):
    """Runs that are interleaved and compared; the first variant is what others are held against."""

    name: str
    title: str
    workload: str
    matrix: tuple[Matrix, ...] = Field(min_length=1, description="the variants, in this order")
    arguments: dict[str, str] = Field(default={}, description="options of the script, the same for all runs")
    rounds: int | None = Field(default=None, ge=1, description="instead of the suite's")
    nodes: int = Field(default=1, ge=1)
    targets: tuple[str, ...] = Field(default=(), description="names of the suite's targets; empty: all")


class Suite(Model):
    """A matrix of workload x entry x switches x target x repeats."""

    name: str
    title: str
    description: str = Field(default="", description="what a reader of its records must know")
    targets: dict[str, str] = Field(
        min_length=1,
        description="by name: each a blueprint whose first training's target and dataset are used",
    )
    rounds: int = Field(ge=1)
    walltime: int = Field(ge=1, description="seconds, of each job")
    arguments: dict[str, str] = Field(default={}, description="options of every training's script")
    groups: tuple[Group, ...] = Field(min_length=1)
    digest: str = Field(description="SHA-256 of the suite's text")
