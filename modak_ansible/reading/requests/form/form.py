"""The request as users write it: every field, with what is done about it. docs/requests.md lists the same."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field

from modak_ansible.model.job_options import JobOptions
from modak_ansible.reading.blueprint.forms import text_rules as rules
from modak_ansible.reading.blueprint.forms.forms import Form, text
from modak_ansible.reading.blueprint.job_options import Count, JobOptionsForm, Name
from modak_ansible.reading.requests.form.optimisation import OptBuildForm, OptimisationForm, lines

_Source = Annotated[str, text(rules.source_problem)]
_Lines = Annotated[tuple[str, ...], BeforeValidator(lines, json_schema_input_type=str | list[str])]


def _tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


class TargetForm(Form):
    """Where it runs; without it, this machine."""

    name: Name | None = Field(
        None,
        description="A target in --target or in targets.yaml beside the request, a shipped one, testbed or local.",
    )
    job_scheduler_type: Literal["slurm", "torque", "pbspro", "lsf", "kubernetes", "none"] | None = Field(
        None, description="Without a name: the shipped target of that scheduler, which -i FILE points at your own."
    )


class BuildForm(Form):
    """How the program is compiled, in the job, before it runs."""

    src: _Source | None = Field(None, description="A git repository or an archive; by default the request's own files.")
    build_command: _Lines = Field(description="Shell lines; {{BUILD_PARALLELISM}} becomes the number of parallel jobs.")
    build_parallelism: Annotated[int, Field(ge=1, le=1024)] | None = Field(
        None, description="Parallel jobs of the build."
    )


class ApplicationForm(Form):
    """What runs."""

    app_tag: Name | None = Field(None, description="The application's name; also the job's if that has none.")
    app_type: Literal["mpi", "hpc", "python", "ai_training"] | None = Field(
        None, description="mpi and hpc are programs, python and ai_training are trainings in Python."
    )
    executable: Annotated[str, text(rules.value_problem)] | None = Field(
        None, description="A script below the request's folder or on the target, or another program."
    )
    arguments: Annotated[str | tuple[str, ...], BeforeValidator(_tuple)] | None = Field(
        None, description="Its arguments, as in a shell; {dataset} stands for the folder of the data."
    )
    container_runtime: Annotated[str, text(rules.value_problem)] | None = Field(
        None,
        description="A target's runtime, such as podman; or an image, unless enable_opt_build finds a build.",
    )
    mpi_ranks: Count | None = Field(None, description="Processes of the whole job, at most.")
    # preferences: of the optimisations; make generate
    threads: Annotated[int, Field(ge=1, le=10**7)] | None = Field(
        None, description="Threads per process; by default its cores, or fewer if that was measured as faster."
    )
    preferences: ClassVar[tuple[str, ...]] = ("threads",)
    # /preferences
    minimal_efficiency: Annotated[float, Field(ge=0, le=1)] | None = Field(
        None, description="Parallel efficiency for which the planner may choose the numbers of nodes; scale says more."
    )
    storage_class_pref: Literal["default-common", "default-high", "default-ssd", "default-ultra_high"] | None = Field(
        None, description="Where the data is read from: the target's storage of that class."
    )
    pre_execution: _Lines | None = Field(None, alias="pre-execution", description="Shell lines before it.")
    post_execution: _Lines | None = Field(None, alias="post-execution", description="Shell lines after it.")
    build: BuildForm | None = Field(None, description="How to compile the program first.")


class CheckpointForm(Form):
    """When the training saves its state, and how often its job may be queued again: docs/checkpoints.md."""

    every: Annotated[int, Field(ge=1)] = Field(600, description="Seconds between two checkpoints.")
    signal_before_wall: Annotated[int, Field(ge=10, le=65535)] = Field(
        120, description="Seconds before the wall time at which it is told to save and end."
    )
    requeue: Annotated[int, Field(ge=0)] = Field(3, description="How many times the job may be requeued.")


class ScaleForm(Form):
    """What the planner may choose the numbers of nodes and processes for: docs/many-nodes.md."""

    objective: Literal["time", "cost", "efficiency"] = Field(
        "time", description="The soonest end, the fewest core-hours within the walltime, or the most nodes."
    )
    minimal_efficiency: Annotated[float, Field(ge=0, le=1)] = Field(
        0.0, description="The lowest acceptable parallel efficiency."
    )
    at_most: Annotated[int, Field(ge=1)] | None = Field(None, description="Nodes.")


class JobForm(Form):
    """One job."""

    job_options: JobOptionsForm | None = Field(None, description="What is requested from the scheduler.")
    target: TargetForm | None = Field(None, description="Where it runs.")
    application: ApplicationForm | None = Field(None, description="What runs.")
    optimisation: OptimisationForm | None = Field(None, description="How it may be made faster.")
    checkpoint: CheckpointForm | None = Field(None, description="How it continues after it was stopped.")
    scale: ScaleForm | None = Field(None, description="How many nodes and processes it may have.")
    strict: bool | None = Field(
        None, description="Whether a setting that cannot be honoured is an error instead of a note."
    )

    @property
    def options(self) -> JobOptions:
        """The job's options; those that ask for nothing where there are none."""
        return self.job_options.to_model() if self.job_options else JobOptions()

    @property
    def runs(self) -> ApplicationForm:
        """The application; one of which nothing is said where there is none."""
        return self.application or ApplicationForm.model_validate({})


class RequestForm(Form):
    """An optimisation request."""

    job: JobForm = Field(description="The job.")
    strict: bool | None = Field(None, description="The same as strict of the job.")


class OptimisationOnlyForm(Form):
    """A request for the choice of an image alone."""

    optimisation: OptimisationForm = Field(description="What the image is for.")
    strict: bool | None = Field(
        None, description="Whether a setting that cannot be honoured is an error instead of a note."
    )


class ContainerBuildForm(OptBuildForm):
    """What a container is for."""

    enable_opt_build: bool | None = Field(None, description="Not used: the image is taken as it is.")


class ContainerForm(Form):
    """A container as the first MODAK's catalogue took it: a request for that image alone."""

    name: Name | None = None
    container_file: Annotated[str, text(rules.value_problem)]
    image_type: str | None = None
    image_hub: str | None = None
    src: str | None = None
    app_name: str | None = None
    version: str | None = None
    build: ContainerBuildForm | None = None
    optimisation: dict[str, Any] | None = None
