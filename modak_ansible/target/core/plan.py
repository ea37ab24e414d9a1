"""The plan's JSON where there is no pydantic: on targets, and where many deployments are listed at once.

Each class has those fields of the model of its name that are read there. A plan that an earlier version wrote, or that
is damaged, may lack any.
"""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple, TypedDict


class SourceFile(TypedDict, total=False):
    path: str
    sha256: str
    size: int
    executable: bool


class Work(TypedDict, total=False):
    epochs: Optional[int]


class Application(TypedDict, total=False):
    folder: str
    files: List[SourceFile]
    environment: List[Tuple[str, str]]
    arguments: List[Tuple[str, Any]]
    requirements: List[str]
    outputs: List[str]
    work: Optional[Work]


class Processor(TypedDict, total=False):
    architecture: str


class Target(TypedDict, total=False):
    name: str
    address: str
    username: Optional[str]
    port: Optional[int]
    identity_file: Optional[str]
    local: bool
    cloud: Optional[Dict[str, Any]]
    workspace: str
    hosts: List[str]
    site: Dict[str, Any]
    processor: Processor


class Layer(TypedDict, total=False):
    name: str
    kind: str
    digest: str
    definition: str
    path: str
    source: str
    checksum: str
    probe: List[str]


class PlannedImage(TypedDict, total=False):
    entry: str
    container_runtime: str
    digest: str
    path: str
    layers: List[Layer]
    python: str
    seen: str


class DataFile(TypedDict, total=False):
    name: str
    sha256: Optional[str]
    size: Optional[int]
    address: str
    version: str


class Contents(TypedDict, total=False):
    size: Optional[int]


class DataSource(TypedDict, total=False):
    kind: str
    location: str
    label: str
    files: List[DataFile]
    unpack: str
    unpacked: Optional[Contents]


class PlannedDataset(TypedDict, total=False):
    name: str
    digest: str
    path: str
    format: str
    size: Optional[int]
    pack: str
    sources: List[DataSource]
    staging: str


class JobOptions(TypedDict, total=False):
    job_name: Optional[str]
    qos: Optional[str]


class PlannedJob(TypedDict, total=False):
    scheduler: str
    partition: Optional[str]
    account: Optional[str]
    script: str
    threads: Optional[int]
    environment: Dict[str, str]
    options: JobOptions


class Interval(TypedDict):
    middle: float


class Prediction(TypedDict, total=False):
    seconds: Interval
    known: bool


class Candidate(TypedDict, total=False):
    chosen: bool
    prediction: Optional[Prediction]
    settings: Dict[str, str]


class Choice(TypedDict, total=False):
    name: str
    value: str
    reason: str
    stock: str
    reaches: str


class TuningCandidate(TypedDict, total=False):
    name: str
    title: str
    is_stock: bool
    parts: List[str]
    work_per_step: float
    values: Dict[str, str]
    settings: Dict[str, str]
    threads: Optional[int]
    environment: List[Tuple[str, str]]


class PlannedCost(TypedDict, total=False):
    terms: Dict[str, Any]
    predicted: Optional[Dict[str, float]]


class PlannedTuning(TypedDict, total=False):
    trains: bool
    reduction: int
    candidates: List[TuningCandidate]


class Predecessor(TypedDict):
    training: str
    deployments: List[str]


class Plan(TypedDict, total=False):
    digest: str
    name: str
    training: str
    application: Application
    target: Target
    image: PlannedImage
    dataset: Optional[PlannedDataset]
    more_datasets: List[PlannedDataset]
    job: PlannedJob
    cost: Optional[PlannedCost]
    beside: List[SourceFile]
    runtime: List[SourceFile]
    choices: List[Choice]
    candidates: List[Candidate]
    tuning: Optional[PlannedTuning]
    after: List[Predecessor]
