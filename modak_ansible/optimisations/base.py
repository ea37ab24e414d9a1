"""The interface of an optimisation."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from modak_ansible.catalogue import Catalogue, Entry
from modak_ansible.errors import ModakError
from modak_ansible.model.plan import Choice
from modak_ansible.model.refusal import Refusal
from modak_ansible.model.request import Request
from modak_ansible.model.target import Partition


class CannotPlan(ModakError):
    """A request that no plan fits; ``about`` names the part of the request, such as ``resources.nodes``."""

    def __init__(self, about: str, message: str, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.about = about


@dataclass
class Draft:
    """A plan in the making: what is asked, and what has been decided so far.

    Attributes:
        refusals: which builds are known to fail their probe, and where.
        partition: where the job will run, when the target describes it.
        cores_per_process: cores that a process of the job has; None when nobody says.
        entry: the framework's build; None while it is not chosen and when the user gives an image.
        threads: threads of a process; None leaves it to the framework.
        environment: what the job sets for the training.
        staging: where the training reads its data.
    """

    request: Request
    catalogue: Catalogue
    refusals: tuple[Refusal, ...] = ()
    partition: Partition | None = None
    cores_per_process: int | None = None
    entry: Entry | None = None
    threads: int | None = None
    environment: dict[str, str] = field(default_factory=dict)
    staging: Literal["shared", "node-local"] = "shared"

    @property
    def in_container(self) -> bool:
        return self.request.target.container_runtime != "none"

    @property
    def node_cores(self) -> int | None:
        """Cores of a node, by the partition or else by the target."""
        if self.partition and self.partition.cores:
            return self.partition.cores
        return self.request.target.processor.cores


class Optimisation(ABC):
    """One matter that is decided for every job.

    Attributes:
        name: as in the plan's choices and as the name of its files.
        after: the names of the optimisations whose outcome it reads.
    """

    name: ClassVar[str]
    after: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def decide(self, draft: Draft) -> Choice | None:
        """Decides, notes the outcome in the draft, and gives the reasons; None where there is nothing to decide.

        Raises:
            CannotPlan: what the request wants cannot be had.
        """
