"""Where a training runs."""

from enum import StrEnum
from typing import Any

from pydantic import Field

from modak_ansible.model.base import Model
from modak_ansible.model.rule import Rule


class Scheduler(StrEnum):
    """Who starts jobs on the target; NONE runs them directly."""

    SLURM = "slurm"
    TORQUE = "torque"
    NONE = "none"


class Partition(Model):
    """A Slurm partition or a Torque queue; what is None is not known, and not checked."""

    name: str
    nodes: int | None = None
    cores: int | None = Field(default=None, description="cores of one node")
    memory: int | None = Field(default=None, description="bytes of one node")
    accelerators: int | None = Field(default=None, description="accelerators of one node")
    walltime: int | None = Field(default=None, description="seconds, the longest job")
    default: bool = False


class Processor(Model):
    """A node's processor and what was measured on it."""

    architecture: str = "x86_64"
    model: str = Field(default="", description="model name, as the kernel gives it; empty where nobody says")
    cores: int | None = None
    memory: int | None = Field(default=None, description="bytes of one node")
    peak_gflops: float | None = Field(default=None, description="GFLOP/s in single precision, one node")
    memory_bandwidth: float | None = Field(default=None, description="GB/s, one node")
    features: tuple[str, ...] = Field(
        default=(), description="what it has besides its architecture's, as archspec names it"
    )


class Accelerator(Model):
    """A node's accelerators; none when count is 0."""

    vendor: str | None = None
    model: str | None = None
    count: int = 0
    memory: int | None = Field(default=None, description="bytes of one accelerator")


def _measured(description: str) -> Any:
    """A number that few targets have: plans for others keep the digest that they had before there was any."""
    return Field(default=None, description=description, exclude_if=lambda value: value is None)


class Storage(Model):
    """A place for files on the target."""

    path: str
    sharing: str = "shared"
    storage_class: str = "default-common"
    read_bandwidth: float | None = _measured("MB/s of one node that reads a large file")
    write_bandwidth: float | None = _measured("MB/s of one node that writes a large file")
    file_rate: float | None = _measured("small files a second that one process opens and reads, from no cache")
    warm_file_rate: float | None = _measured("the same out of the node's memory, as a second epoch finds them")
    room: int | None = _measured("bytes that a job may put there")


# What is measured of a storage.
RATES = ("read_bandwidth", "write_bandwidth", "file_rate", "warm_file_rate")


class Network(Model):
    """What a message between two nodes costs, through the library that trainings themselves use."""

    latency: float = Field(gt=0, description="microseconds of an empty message")
    bandwidth: float = Field(gt=0, description="GB/s of a large one")


class Site(Model):
    """A site's own ways; what is None or empty comes from the target's own configuration."""

    account: str | None = None
    partition: str | None = None
    modules: tuple[str, ...] = ()
    binds: tuple[str, ...] = ()
    launcher: str | None = None
    gpu_request: str | None = None
    apt_mirror: str | None = None
    certificate_bundle: str | None = None
    pip_index_url: str | None = None
    pip_extra_index_urls: tuple[str, ...] = ()
    pip_find_links: tuple[str, ...] = ()
    signing_key: str | None = Field(default=None, description="on the target; images are signed with it and verified")
    rules: tuple[Rule, ...] = ()


class Target(Model):
    """A machine or a cluster, as a blueprint describes it."""

    name: str
    scheduler: Scheduler
    local: bool = False
    address: str = "localhost"
    username: str | None = None
    port: int | None = None
    identity_file: str | None = None
    workspace: str = "modak"
    container_runtime: str = "any"
    image_base: str = "debootstrap"
    partitions: tuple[Partition, ...] = ()
    processor: Processor = Processor()
    accelerator: Accelerator = Accelerator()
    home: Storage | None = None
    scratch: Storage | None = None
    network: Network | None = _measured("between two nodes; None where nobody measured it")
    site: Site = Site()
    unverified: str = Field(
        default="",
        description="where a description comes from that nobody has tried on its machine; empty for a user's own",
        exclude_if=lambda value: not value,
    )

    def partition(self, name: str | None) -> Partition | None:
        """The partition of that name; without one the site's, the default, or the first; None when none is known."""
        wanted = name or self.site.partition
        if wanted:
            return next((partition for partition in self.partitions if partition.name == wanted), None)
        return next(
            (partition for partition in self.partitions if partition.default),
            self.partitions[0] if self.partitions else None,
        )
