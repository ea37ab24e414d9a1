"""A site's rules: what its administrators want done to which jobs, as data."""

from typing import Literal

from pydantic import Field

from modak_ansible.model.base import Model

AppType = Literal["ai_training", "python", "hpc", "mpi", "openmp", "openacc", "opencl"]


class Conditions(Model):
    """When a rule applies: all that is stated must hold, and of a list one value."""

    framework: tuple[str, ...] = ()
    app_type: tuple[AppType, ...] = ()
    scheduler: tuple[str, ...] = ()
    partition: tuple[str, ...] = ()
    accelerator: tuple[str, ...] = Field(
        default=(), description="vendor of those that the job asks for; none for a job without"
    )
    nodes: str = Field(default="", description="of the job: a number, or one behind > >= < <= =")
    processes: str = Field(default="", description="of the whole job, in the same way")
    container: bool | None = None
    mpi: bool | None = None


class Effects(Model):
    """What a rule does."""

    modules: tuple[str, ...] = ()
    binds: tuple[str, ...] = ()
    container_flags: tuple[str, ...] = Field(default=(), description="options of apptainer exec")
    environment: tuple[tuple[str, str], ...] = ()
    pre: tuple[str, ...] = Field(default=(), description="shell lines before the application")
    post: tuple[str, ...] = Field(default=(), description="shell lines after it, however it ended")
    launcher: str | None = None
    account: str | None = Field(default=None, description="for jobs that name none")
    partition: str | None = Field(default=None, description="for jobs that name none")


class Rule(Model):
    """One rule."""

    name: str
    when: Conditions = Conditions()
    then: Effects = Effects()
