"""All that a plan is made from."""

from __future__ import annotations

from modak_ansible.model.application import Application, Checkpoint, Optimisation, Resources
from modak_ansible.model.base import Model
from modak_ansible.model.campaign import Predecessor
from modak_ansible.model.dataset import Dataset
from modak_ansible.model.job_options import JobOptions
from modak_ansible.model.target import Target


class GivenImage(Model):
    """An image that is there already."""

    source: str
    checksum: str | None = None
    python: str = "python3"


class Request(Model):
    """One training, as a blueprint asks for it, or one point of its sweep.

    Attributes:
        training: its name; of a point its node's with the values that it has.
        after: what has to complete before it begins.
        node: the blueprint's node that it comes from; empty where that is the training's name.
        parallel: how many points of its sweep may run at once; None for as many as the target takes.
    """

    blueprint: str
    training: str
    application: Application
    resources: Resources
    optimisation: Optimisation
    target: Target
    dataset: Dataset | None = None
    image: GivenImage | None = None
    job_options: JobOptions = JobOptions()
    after: tuple[Predecessor, ...] = ()
    node: str = ""
    parallel: int | None = None
    checkpoint: Checkpoint | None = None

    @property
    def runs_natively(self) -> bool:
        """Whether a program runs with what is installed on the nodes, and nothing has to be made for it."""
        is_program = self.application.hpc is not None and bool(self.application.command)
        return is_program and self.image is None and self.target.container_runtime == "none"
