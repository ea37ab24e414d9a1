"""The plan: the one document that passes from the planner to the roles."""

import hashlib
import json
from collections.abc import Iterable
from typing import Any, Literal

from pydantic import Field

from modak_ansible.model.application import Application, Checkpoint, Predecessor, SourceFile
from modak_ansible.model.base import Model, Numerics, left_out
from modak_ansible.model.dataset import DataSource
from modak_ansible.model.job_options import JobOptions
from modak_ansible.model.measured.prediction import Interval, Prediction
from modak_ansible.model.process_layout import ProcessLayout
from modak_ansible.model.scaled import PlannedScale
from modak_ansible.model.target import Scheduler, Target, Terms
from modak_ansible.model.tuning import PlannedTuning

SCHEMA = "modak.plan/1"


class Rejected(Model):
    """An alternative that was not taken."""

    value: str
    reason: str
    speed: Interval | None = Field(default=None, description="against the value that was taken, where it is predicted")
    records: int = 0


def by_reason(rejected: Iterable[Rejected]) -> dict[str, list[str]]:
    """The values of alternatives by the reason that they share, in the order of the first of each."""
    values: dict[str, list[str]] = {}
    for alternative in rejected:
        values.setdefault(alternative.reason, []).append(alternative.value)
    return values


class Choice(Model):
    """What was decided in one matter, and why."""

    name: str
    value: str
    reason: str
    numerics: Numerics = Field(default="same", description="how far results may move")
    stock: str = Field(default="", description="what a run without this project would have")
    reaches: Literal["", "image", "environment", "job", "code"] = Field(
        default="", description="by what it acts; code: through the script's own switches, prepare or Keras"
    )
    speed: Interval | None = Field(default=None, description="ratio of whole times, stock over chosen, where predicted")
    records: int = Field(default=0, description="measured runs behind it")
    evidence: str = Field(default="", description="where the reason was measured or documented")
    rejected: tuple[Rejected, ...] = ()


class Candidate(Model):
    """A whole configuration that was weighed."""

    entry: str
    settings: dict[str, str] = Field(default={}, description="what differs from the stock run")
    numerics: Numerics = "same"
    prediction: Prediction | None = Field(default=None, description="none where nothing similar was measured")
    chosen: bool = False
    note: str = Field(default="", description="such as stock, or why it was not taken")


LayerKind = Literal["build", "pull", "file", "venv"]
Staging = Literal["shared", "node-local", "by-node"]


class Layer(Model):
    """One definition and the image that it makes; named by the definition's digest."""

    name: str
    kind: LayerKind
    digest: str = Field(description="SHA-256 of the definition and of the layer below it")
    definition: str = Field(description="a definition file, or the script that makes an environment")
    path: str = Field(description="below the target's workspace, or absolute")
    source: str = Field(default="", description="where an image that is not built comes from")
    checksum: str = Field(default="", description="SHA-256 of a .sif file that is not built")
    probe: tuple[str, ...] = Field(
        default=(), description="command in an image that was pulled which tries it; others have a test of their own"
    )


class PlannedImage(Model):
    """The image that the job runs in, and how it comes to be there."""

    entry: str = Field(description="the catalogue entry, or the source of a given image")
    container_runtime: str = Field(description="as the target has it; none for a virtual environment")
    digest: str = Field(description="of the topmost layer")
    definition: str = Field(description="of the topmost layer")
    path: str = Field(description="of the topmost layer, below the target's workspace or absolute")
    layers: tuple[Layer, ...] = Field(description="from the base upwards; the last one is the image")
    python: str = Field(description="the interpreter inside")
    seen: str = left_out("", "SHA-256 of a given image as it was looked into; the plan is for that one alone")


class PlannedDataset(Model):
    """The data, and where it will lie."""

    name: str
    format: str
    digest: str = Field(description="SHA-256 of what identifies the data: name, format, sources, checksums")
    path: str = Field(description="below the target's workspace")
    sources: tuple[DataSource, ...]
    size: int | None = Field(default=None, description="bytes, when known")
    staging: Staging = "shared"
    mount_as: str = left_out("", "a link to it, below the script's folder")
    mounted_file: str = left_out("", "the file that the link leads to in its place")
    variable: str = left_out("", "of the environment, besides MODAK_DATASET")
    damaged: str = left_out("", "a file that is not what its format says, so that samples are not known")
    pack: Literal["", "squashfs", "shards"] = left_out(
        "",
        "squashfs: the job mounts an image of the folder, which lies beside its path and ends in .sqsh; "
        "shards: the folder has shards of the files",
    )


class PlannedJob(Model):
    """The job as the scheduler will get it."""

    scheduler: Scheduler
    name: str
    nodes: int
    processes_per_node: int
    cores_per_process: int | None
    threads: int | None = Field(description="threads of a process; None leaves it to the framework")
    memory: int | None = Field(default=None, description="bytes on each node")
    accelerators: int = 0
    partition: str | None = None
    account: str | None = None
    exclusive: bool = False
    walltime: int = Field(description="seconds")
    environment: dict[str, str] = Field(description="what the training sees besides the user's own environment")
    options: JobOptions = Field(default=JobOptions(), description="what else is asked of the scheduler")
    checkpoint: Checkpoint | None = Field(default=None, description="None: a job that is stopped is not queued again")
    script: str

    @property
    def layout(self) -> ProcessLayout:
        return ProcessLayout(self.nodes, self.processes_per_node, self.cores_per_process, self.threads)


class PlannedMemory(Model):
    """What a process of the job takes at most, in bytes, by a trace of its script."""

    peak: Interval
    limit: int | None = Field(default=None, description="what it has; None where nobody knows")
    of: str = Field(default="", description="who says so")


class PlannedCost(Model):
    """What the machine that is made for a job costs; the currency is that of the terms, if they say one."""

    terms: Terms
    predicted: Interval | None = Field(
        default=None, description="of the time that the training is predicted to take; None where either is not known"
    )
    most: float | None = Field(default=None, description="of the job's whole wall time; None without a price")


class Staged(Model):
    """One thing that is brought to the target."""

    what: str
    source: str
    destination: str = Field(description="below the target's workspace")
    size: int | None = Field(default=None, description="bytes, when known")


class Note(Model):
    """A preference that the plan does not keep."""

    path: str = Field(description="of the field, as the request or the blueprint has it")
    reason: str
    hint: str = ""


class Plan(Model):
    """What will happen, why, and what was rejected; the digest is over all that happens, and why.

    Notes are no part of the digest: with and without a preference that is not kept, the same happens. Nor are the files
    beside a script that it does not depend on, and what it costs: whatever that is, the same comes of it.
    """

    schema_version: str = SCHEMA
    digest: str
    name: str
    blueprint: str
    training: str
    application: Application
    target: Target
    image: PlannedImage
    dataset: PlannedDataset | None
    more_datasets: tuple[PlannedDataset, ...] = left_out((), "of a training that reads several")
    job: PlannedJob
    runtime: tuple[SourceFile, ...] = Field(
        default=(), description="what acts in the training's process, below the deployment's folder runtime"
    )
    staging: tuple[Staged, ...]
    choices: tuple[Choice, ...]
    candidates: tuple[Candidate, ...] = Field(
        default=(), description="the chosen configuration, stock, and the nearest"
    )
    tuning: PlannedTuning | None = Field(default=None, description="what the job tries before it trains")
    memory: PlannedMemory | None = left_out(None, "where the script was traced")
    scale: PlannedScale | None = left_out(None, "the numbers of nodes that were weighed")
    after: tuple[Predecessor, ...] = left_out((), "what has to complete before the job begins")
    beside: tuple[SourceFile, ...] = left_out(
        (), "files that travel with the application's, and on which its script does not depend"
    )
    cost: PlannedCost | None = left_out(None, "of a cloud's machine")
    notes: tuple[Note, ...] = left_out((), "preferences that are not kept, and why")

    @property
    def datasets(self) -> tuple[PlannedDataset, ...]:
        """All that the training reads, in the order of its requirements."""
        return (self.dataset, *self.more_datasets) if self.dataset else ()

    @property
    def chosen(self) -> Candidate | None:
        """The configuration that was chosen; None where nothing was compared."""
        return next((candidate for candidate in self.candidates if candidate.chosen), None)

    @property
    def prediction(self) -> Prediction | None:
        """Of the configuration that was chosen, where anything is predicted of it."""
        return self.chosen.prediction if self.chosen else None

    @property
    def deployment(self) -> str:
        """The name of this plan's deployment, unique to its digest."""
        return f"{self.name}-{self.digest[:12]}"


# What of a plan its digest does not cover.
UNSIGNED = frozenset({"digest", "notes", "beside", "cost"})


def digest_of(value: Any) -> str:
    """SHA-256 of a value's canonical JSON (sorted keys, no spaces, ASCII), as 64 hexadecimal digits."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()
