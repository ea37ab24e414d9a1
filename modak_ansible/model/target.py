"""Where a training runs."""

from collections.abc import Sequence
from enum import StrEnum
from typing import Any, Literal

from pydantic import Field

from modak_ansible.model.base import Model, left_out
from modak_ansible.model.rule import Rule


class Scheduler(StrEnum):
    """Who starts jobs on the target; NONE runs them directly."""

    SLURM = "slurm"
    TORQUE = "torque"
    PBSPRO = "pbspro"
    LSF = "lsf"
    KUBERNETES = "kubernetes"
    NONE = "none"

    @property
    def lists_hosts(self) -> bool:
        """Whether its jobs find their hosts in a file, of which the launchers of MPI libraries are told."""
        return self in (Scheduler.TORQUE, Scheduler.PBSPRO, Scheduler.LSF)

    @property
    def keeps_order(self) -> bool:
        """Whether it starts a job behind another one; elsewhere whoever deploys both waits for the first."""
        return self not in (Scheduler.KUBERNETES, Scheduler.NONE)


class Partition(Model):
    """A Slurm partition or a queue of another scheduler; what is None is not known, and not checked."""

    name: str
    nodes: int | None = None
    cores: int | None = Field(default=None, description="cores of one node")
    memory: int | None = Field(default=None, description="bytes of one node")
    usual_memory: int | None = left_out(None, "bytes of a node that a job has which asks for no memory")
    memory_per_core: int | None = left_out(None, "bytes that such a job has for each of its cores")
    accelerators: int | None = Field(default=None, description="accelerators of one node")
    own_cores: bool = left_out(False, "whether the scheduler confines every job to the cores that it gave to no other")
    walltime: int | None = Field(default=None, description="seconds, the longest job")
    default: bool = False


def _measured(description: str) -> Any:
    """A number that few targets have: plans for others keep the digest that they had before there was any."""
    return Field(default=None, description=description, exclude_if=lambda value: value is None)


class Processor(Model):
    """A node's processor and what was measured on it."""

    architecture: str = "x86_64"
    model: str = Field(default="", description="model name, as the kernel gives it; empty where nobody says")
    cores: int | None = None
    memory: int | None = Field(default=None, description="bytes of one node")
    peak_gflops: float | None = Field(default=None, description="GFLOP/s in single precision, one node")
    peak_gflops_bf16: float | None = _measured("the same in bf16")
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

    @property
    def is_told(self) -> bool:
        """Whether somebody says how many there are, be it none."""
        return "count" in self.model_fields_set


class Storage(Model):
    """A place for files on the target."""

    path: str
    sharing: str = "shared"
    storage_class: str = "default-common"
    read_bandwidth: float | None = _measured("MB/s of one node that reads a large file")
    write_bandwidth: float | None = _measured("MB/s at which one node writes a large file")
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
    image_sources: tuple[str, ...] = left_out((), "where images are looked for before they are built")
    image_signer: str | None = left_out(None, "a public key by which those must be signed")
    rules: tuple[Rule, ...] = ()


class Shape(Model):
    """What a machine has at least, by which its flavor is chosen; None for whatever there is."""

    cpus: int | None = None
    memory: int | None = Field(default=None, description="bytes")
    disk: int | None = Field(default=None, description="bytes")


class System(Model):
    """What runs on a machine, by which its image is chosen."""

    distribution: str = ""
    version: str = ""
    architecture: str = "x86_64"


# In place of a network's name.
NO_FLOATING_IP = "none"
# What one provider alone takes; the other properties of a machine are everybody's.
OF_ONE_PROVIDER = {
    "subnet": "aws", "spot": "aws",
    "cloud": "openstack", "network": "openstack", "floating_ip": "openstack", "zone": "openstack",
}  # fmt: skip
# Whose machines are still there, and mostly cost on, when they have shut themselves down.
_COST_WHEN_OFF = ("openstack",)


def costs_until(provider: str) -> str:
    """How long a machine costs, as the end of a line; empty where it ends for good when it shuts itself down."""
    return ", which costs, on or off, until modak undeploy or gc" if provider in _COST_WHEN_OFF else ""


class Cloud(Model):
    """A machine of a cloud: made when something is deployed to it, and gone with that.

    Its TOSCA type follows from the fields that are plain, here and in Terms, by ``make generate``.
    """

    provider: Literal["aws", "openstack"] = Field(description="The cloud provider.")
    cloud: str = left_out("", "The cloud's name in clouds.yaml; empty for OS_CLOUD, or all the OS_* variables.")
    region: str = Field(default="", description="The provider's region; empty for the one in its own configuration.")
    flavor: str = Field(
        default="",
        description="The provider's name for the size of the machine, such as c7i.2xlarge; by default"
        " the smallest one that meets the capability host.",
    )
    image: str = Field(
        default="",
        description="The image to start from: an id, or a name, of which the newest is used; at aws, "
        "put the owner before the name, such as 136693071363/debian-12-amd64-*. By "
        "default that of the capability os.",
    )
    key: str = Field(
        default="",
        description="The name of a key pair at the provider; by default the public half of identity_file is used.",
    )
    subnet: str = Field(default="", description="Its subnet; empty for the provider's default.")
    network: str = left_out("", "Its network, by name or id; empty for the project's only one.")
    floating_ip: str = left_out(
        "",
        "The network that its floating address is of; empty for the only one there is, where the machine has no public "
        f"address of its own; {NO_FLOATING_IP} where it is entered by its own.",
    )
    zone: str = left_out("", "Its availability zone; empty for any.")
    spot: bool = Field(
        default=False,
        description="Whether to use a spot machine, which is cheaper, costs at most price_per_hour, "
        "and may be taken away at any time.",
    )
    packages: tuple[str, ...] = Field(
        default=(),
        description="Packages of the image's distribution to install at the first start, such as "
        "apptainer; rsync always is.",
    )
    shape: Shape = Shape()
    system: System = System()
    machines: int = left_out(0, "How many of them a cluster is made of; 0 for a machine that stands by itself.", ge=0)


class Terms(Model):
    """On what terms a machine is had: they change nothing of what runs there, nor a plan's digest."""

    ssh_from: tuple[str, ...] = Field(
        default=(),
        description="The addresses that may connect to it, as CIDR, such as 203.0.113.7/32; nobody else may.",
    )
    price_per_hour: float | None = Field(
        default=None,
        gt=0,
        description="What an hour costs, for a cluster per host; without it no cost is shown.",
    )
    currency: str = Field(default="", description="The currency of the price, such as EUR.")
    budget: float | None = Field(
        default=None,
        gt=0,
        description="The most that a machine, or all hosts of a cluster together, may cost: a run "
        "that is predicted to cost more is refused, and a machine that has cost that much"
        " shuts itself down, which at aws ends it.",
    )
    idle_minutes: int = Field(
        default=30,
        ge=5,
        description="After this many minutes without a login or a job it shuts itself down, which at aws ends it.",
    )
    machines: int = Field(default=1, description="how many are had at once", exclude_if=lambda value: value == 1)

    @property
    def hourly(self) -> float | None:
        """What an hour of all of them costs; None without a price."""
        return None if self.price_per_hour is None else self.price_per_hour * self.machines


# What only a cluster of them has.
MACHINES = "machines"
# What a user says of such a machine by itself: the rest TOSCA's own capabilities say.
OF_CLOUDS = {
    name: field
    for name, field in (Cloud.model_fields | Terms.model_fields).items()
    if name != MACHINES and not isinstance(field.default, Model)
}


class Pods(Model):
    """Where the Pods of a Kubernetes cluster run, and which files of the target they see.

    Its TOSCA type follows from the fields, by ``make generate``.
    """

    namespace: str = Field(default="", description="The namespace; empty for that of kubectl's context on the target.")
    mount_path: str = Field(
        description="Where the volume of the workspace is mounted: the same path on the target and in the Pods."
    )
    persistent_volume_claim: str = Field(
        default="", description="The claim of that volume, in the namespace; either this or host_path."
    )
    host_path: str = Field(
        default="", description="The folder of that volume on every node, such as that of a shared file system."
    )
    image_pull_secrets: tuple[str, ...] = Field(
        default=(), description="Secrets in the namespace with which its nodes pull the image."
    )


class Target(Model):
    """A machine or a cluster, as a blueprint describes it."""

    name: str
    scheduler: Scheduler
    local: bool = False
    address: str = "localhost"
    username: str | None = None
    port: int | None = None
    identity_file: str | None = None
    hosts: tuple[str, ...] = left_out((), "further ones beside a host without a scheduler, as its ssh knows them")
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
    unverified: str = left_out(
        "", "where a description comes from that nobody has tried on its machine; empty for a user's own"
    )

    pods: Pods | None = left_out(None, "of Kubernetes alone")
    cloud: Cloud | None = left_out(None, "None for a machine that is there")
    terms: Terms | None = left_out(None, "a cloud's; a plan has them beside its costs")

    @property
    def is_this_machine(self) -> bool:
        """Whether jobs run on this very machine; Kubernetes may be asked from it, and runs them elsewhere."""
        return self.local and self.pods is None

    @property
    def machines(self) -> int:
        """How many are made for it; 0 for what is there."""
        return 0 if self.cloud is None else self.cloud.machines or 1

    @property
    def has_accelerators(self) -> bool | None:
        """Whether some node has any; None where nobody says."""
        if any(map(self.accelerators_in, self.partitions or (None,))):
            return True
        partitions = [partition.accelerators for partition in self.partitions]
        is_told = self.accelerator.is_told or (partitions and None not in partitions)
        return False if is_told else None

    def accelerators_in(self, partition: Partition | None) -> int:
        """Those of a node of a partition, or of any node where it is not known which."""
        count = partition.accelerators if partition else None
        return self.accelerator.count if count is None else count

    def cores_in(self, partition: Partition | None) -> int | None:
        """Those of a node, as its partition says it, or else the target."""
        return (partition.cores if partition else None) or self.processor.cores

    def memory_in(self, partition: Partition | None) -> int | None:
        """Bytes of a node, likewise."""
        return (partition.memory if partition else None) or self.processor.memory

    def partition(self, name: str | None) -> Partition | None:
        """The partition of that name; without one the site's, the default, or the first; None when none is known.

        Of several (``gpu,preempt``), of which nobody knows where the job will run, it is what each of them has.
        """
        requested_name = name or self.site.partition
        if not requested_name:
            return next(
                (partition for partition in self.partitions if partition.default),
                self.partitions[0] if self.partitions else None,
            )
        partitions = {partition.name: partition for partition in self.partitions}
        if requested_name in partitions:
            return partitions[requested_name]
        names = destinations(requested_name)
        if not partitions.keys() >= set(names):
            return None
        return self.least_of([partitions[destination] for destination in names]).model_copy(
            update={"name": requested_name}
        )

    def least_of(self, partitions: Sequence[Partition]) -> Partition:
        """What a job has in every one of some partitions; what none of them says stays open."""
        limits = {}
        # the target says these of a partition that does not
        defaults = {"cores": self.cores_in, "memory": self.memory_in, "accelerators": self.accelerators_in}
        for name in ("nodes", "cores", "memory", "usual_memory", "memory_per_core", "accelerators", "walltime"):
            values = [getattr(partition, name) for partition in partitions]
            if name in defaults and any(value is not None for value in values):
                values = [defaults[name](partition) for partition in partitions]
            limits[name] = min((value for value in values if value is not None), default=None)
        own_cores = all(partition.own_cores for partition in partitions)
        return partitions[0].model_copy(update={**limits, "own_cores": own_cores})


def destinations(text: str) -> list[str]:
    """The partitions that a job is sent to by ``gpu,preempt``, or the queue by ``workq@server``."""
    return [name.partition("@")[0] for name in text.split(",")]
