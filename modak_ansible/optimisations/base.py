"""The interface of an optimisation."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import ClassVar, Literal, NamedTuple, TypedDict

from modak_ansible.allocation.memory import memory_of_job
from modak_ansible.allocation.ranks import Ranks, ranks_of
from modak_ansible.catalogue import Base, Catalogue, Entry
from modak_ansible.errors import CannotPlan as CannotPlan  # noqa: PLC0414 - a part of this interface
from modak_ansible.model.base import NUMERICS as NUMERICS  # noqa: PLC0414 - likewise
from modak_ansible.model.base import Numerics as Numerics  # noqa: PLC0414
from modak_ansible.model.measured.need import split_of
from modak_ansible.model.measured.prediction import Question, Split
from modak_ansible.model.measured.refusal import Refusal
from modak_ansible.model.measured.timed_steps import TimedSteps
from modak_ansible.model.measured.workload import WorkloadScript
from modak_ansible.model.plan import Staging
from modak_ansible.model.process_layout import ProcessLayout
from modak_ansible.model.request import Request
from modak_ansible.model.scaled import Scaled
from modak_ansible.model.target import Partition
from modak_ansible.optimisations.properties import Property

ActsOn = Literal["image", "environment", "job", "code"]


class Option(NamedTuple):
    """One way to settle a matter."""

    value: str  # its name, as in a plan's choices and in suites' settings
    reason: str = ""  # what it does, for people
    numerics: Numerics = "same"  # how far results may move from those of stock
    why_not: str = ""  # why it cannot be taken here; empty when it can


class Default(NamedTuple):
    """What good practice is for the sake of safety; records of speed do not overrule it."""

    value: str
    reason: str


@dataclass
class Draft:
    """A plan in the making: what is asked, and what has been decided so far."""

    request: Request
    catalogue: Catalogue
    refusals: tuple[Refusal, ...]  # which builds are known to fail their probe, and where
    partition: Partition | None  # where the job will run, when the target describes it
    layout: ProcessLayout  # the job's processes, and the cores that each has
    entry: Entry | None = None  # the framework's build; None while it is not chosen and when the user gives an image
    threads: int | None = None  # threads of a process; None leaves it to the framework
    environment: dict[str, str] = field(default_factory=dict)  # what the job sets for the training
    staging: Staging = "shared"  # where the training reads its data
    packed: tuple[str, ...] = ()  # the names of the datasets that are read from one image each
    uses_scratch: bool = False  # whether the training itself keeps files on the node's own disk while it runs
    # what workload.yaml says of the script that runs; None where it says nothing of it
    script: WorkloadScript | None = None
    # what the script has by itself, by its switches and by the user's arguments
    own: dict[str, str] = field(default_factory=dict)
    # what differs from stock, by the names that suites and records use
    settings: dict[str, str] = field(default_factory=dict)
    options: dict[str, str] = field(default_factory=dict)  # options of the script that the plan adds
    # what the runtime is to do in the script's process, by name; see MODAK_CHOICES
    choices: dict[str, str] = field(default_factory=dict)
    container_flags: tuple[str, ...] = ()  # options of the container beside its binds
    binds: tuple[str, ...] = ()  # what of the target the container sees besides the workspace
    scaled: Scaled | None = None  # nodes and processes for the efficiency that is asked for; None where none is

    def copy(self) -> Draft:
        """One that can be changed without changing this one."""
        return replace(
            self,
            environment=dict(self.environment),
            settings=dict(self.settings),
            options=dict(self.options),
            choices=dict(self.choices),
        )

    @property
    def in_container(self) -> bool:
        return self.request.target.container_runtime != "none"

    @property
    def base(self) -> Base | None:
        """The base image of the build; None of a hub's image or the user's own, and where nothing is chosen."""
        return self.catalogue.bases.get(self.entry.base) if self.entry else None

    @property
    def arguments(self) -> tuple[tuple[str, str | bool], ...]:
        """The user's options of the script, and behind them those of the plan, which replace their namesakes."""
        arguments = [argument for argument in self.request.application.arguments if argument[1] is not False]
        return (*(argument for argument in arguments if argument[0] not in self.options), *sorted(self.options.items()))

    @property
    def node_cores(self) -> int | None:
        """Cores of a node, by the partition or else by the target."""
        return self.request.target.cores_in(self.partition)

    @property
    def node_memory(self) -> int | None:
        """Bytes that the job has on a node."""
        memory = memory_of_job(self.request, self.partition, self.layout)
        return memory.bytes if memory else None

    def is_alike(self, other: Draft) -> bool:
        """Whether the performance model sees no difference between this draft and another of the same request."""
        cores = self.layout.cores
        return (
            self.entry == other.entry
            and (self.threads or cores) == (other.threads or cores)
            and {**self.own, **self.settings} == {**other.own, **other.settings}
        )

    def question(self) -> Question:
        """What the performance model is asked about this draft."""
        request, entry = self.request, self.entry
        target, resources = request.target, request.resources
        accelerator = target.accelerator
        work = request.application.work
        if "batch_size" in self.settings:
            work = work.model_copy(update={"batch_size": int(self.settings["batch_size"])})
        return Question.model_construct(  # all of it comes from models that were checked
            work=work,
            is_traced=request.need is not None,
            timed=self._timed(),
            framework=entry.framework if entry else request.application.framework,
            version=entry.version if entry else request.application.version,
            entry=entry.name if entry else "",
            origin=entry.origin if entry else "",
            container=self.in_container,
            settings={**self.own, **self.settings},
            architecture=target.processor.architecture,
            processor=target.processor.model,
            peak_gflops=target.processor.peak_gflops,
            peak_gflops_bf16=target.processor.peak_gflops_bf16,
            memory_bandwidth=target.processor.memory_bandwidth,
            node_cores=self.node_cores,
            cores=self.layout.cores,
            threads=self.threads,
            nodes=self.layout.nodes,
            processes_per_node=self.layout.processes_per_node,
            **between(request, self.layout, self.settings),
            accelerator=(accelerator.model or accelerator.vendor or "accelerator") if resources.accelerators else "",
            dataset_bytes=request.data_bytes,
        )

    @property
    def partition_name(self) -> str | None:
        """The partition that the job is sent to; None for the scheduler's own choice."""
        request = self.request
        return self.partition.name if self.partition else request.resources.partition or request.target.site.partition

    def _timed(self) -> TimedSteps | None:
        """Steps that were made in the job's partition, with what the script has by itself among their settings."""
        timed = self.request.timed
        if timed is None or timed.partition != self.partition_name:
            return None
        return timed.model_copy(update={"settings": {**self.own, **timed.settings}}) if self.own else timed


class Between(TypedDict):
    """What a question says of how the processes of a training meet."""

    latency: float | None
    bandwidth: float | None
    shares_batch: bool
    gathers: bool
    copies: int
    split: Split | None


def between(
    request: Request, layout: ProcessLayout, settings: Mapping[str, str], ranks: Ranks | None = None
) -> Between:
    """What the performance model is told of the processes of a layout.

    Args:
        settings: of the training; with a large batch each process has all of the script's own.
        ranks: how they are one training, where that is not to be as the request has it.

    Raises:
        CannotPlan: nothing makes one training of them.
    """
    ranks = ranks or ranks_of(request, layout)
    network = request.target.network if ranks and ranks.strategy != "none" else None
    is_large = settings.get("large_batch", "none") != "none"
    return {
        "latency": network.latency if network else None,
        "bandwidth": network.bandwidth if network else None,
        "shares_batch": not is_large and ranks is not None and ranks.is_prepared and not ranks.is_alike,
        "gathers": ranks is not None and ranks.shares_out and not ranks.is_alike,
        "copies": ranks.mesh.copies if ranks and ranks.mesh and ranks.shares_out else 1,
        "split": split_of(request.need, layout.processes, ranks.strategy) if ranks and ranks.is_alike else None,
    }


def why_unseen(draft: Draft) -> str:
    """Why nothing is known of what a given image holds."""
    image = draft.request.image
    if image and image.seen:
        return f"the image could not be inspected: {image.seen.problem or 'it does not contain its framework'}"
    return "the given image has not been inspected yet; modak deploy does that before it plans"


class Optimisation(ABC):
    """One matter that is decided for every job."""

    name: ClassVar[str]  # as in the plan's choices and as the name of its files
    # what users may say of it; a property without a name has the optimisation's
    properties: ClassVar[tuple[Property, ...]] = ()
    # what a suite that does not name it is measured with; None where it is no switch of suites
    suite_default: ClassVar[str | None] = None
    # the values of settings in which it changes nothing; "stock" and an empty one always are
    stock: ClassVar[tuple[str, ...]]
    # those of a framework that does something else by itself, by its name
    stock_of: ClassVar[Mapping[str, tuple[str, ...]]] = MappingProxyType({})
    # whether the performance model knows a value as a switch; of others it sees what they come to, such as the build,
    # the batch or the threads
    is_switch: ClassVar[bool] = True
    after: ClassVar[tuple[str, ...]] = ()  # the names of the optimisations whose outcome it reads
    about: ClassVar[str] = ""  # the field that users ask for it by; empty for the one of its name below optimisation
    acts_on: ClassVar[ActsOn]  # by what it acts on the training

    @classmethod
    def is_stock(cls, framework: str, value: str) -> bool:
        """Whether a value of settings is what a framework does anyway."""
        return value in {"stock", ""} or value in cls.stock_of.get(framework, cls.stock)

    @classmethod
    def property_values(cls) -> tuple[str, ...]:
        """The values that users and suites may ask for; none where it is a number, or nobody asks."""
        return next((prop.values for prop in cls.properties if not prop.name), ())

    @classmethod
    def page(cls) -> str:
        """Its page, by its path below the package."""
        return f"{cls.__module__.partition('.')[2].replace('.', '/')}.md"

    @abstractmethod
    def options(self, draft: Draft) -> tuple[Option, ...]:
        """The ways to settle it, the first being stock; none where there is nothing to decide.

        Raises:
            CannotPlan: what the request wants cannot be had.
        """

    def can_be(self, draft: Draft, value: str) -> bool:
        """Whether a draft can have an option."""
        return any(option.value == value and not option.why_not for option in self.options(draft))

    @abstractmethod
    def apply(self, draft: Draft, value: str) -> None:
        """Notes an option of this draft's in it."""

    def requested(self, draft: Draft) -> str:
        """The option that the user asks for; empty leaves the choice."""
        if all(prop.name for prop in self.properties):
            return ""
        value = getattr(draft.request.optimisation, self.name)
        return "" if value in (None, "any") else str(value)

    def default(self, draft: Draft) -> Default | None:  # noqa: ARG002 - most matters are of speed alone
        """What is taken whatever the records say, for safety's sake; None leaves it to the records."""
        return None

    def alternatives(self, draft: Draft) -> tuple[Option, ...]:  # noqa: ARG002
        """What may be taken in place of the default where records of the very work tell that it is faster, as those of
        a tuning, which tries it."""
        return ()

    def evidence(self, draft: Draft) -> str:  # noqa: ARG002 - of an image it depends on the build
        """Where it is told what it changes and where that was measured."""
        return self.page()

    def counterfactual(self, draft: Draft, value: str) -> Question | None:  # noqa: ARG002
        """What the performance model is asked of an option that cannot be taken; None: it would tell nothing of it."""
        return None

    def why_other(self, other: str, taken: str, draft: Draft) -> str:  # noqa: ARG002
        """Why another is taken than one that would serve, where nothing was measured; empty: no reason of its own."""
        return ""
