"""All that a plan is made from."""

from pydantic import Field, field_validator

from modak_ansible.model.application import Application, Checkpoint, Optimisation, Predecessor, Resources, SourceFile
from modak_ansible.model.base import Model, left_out
from modak_ansible.model.dataset import Dataset
from modak_ansible.model.distributed import Parallelism
from modak_ansible.model.job_options import JobOptions
from modak_ansible.model.measured.need import Need
from modak_ansible.model.measured.seen_image import SeenImage
from modak_ansible.model.measured.timed_steps import TimedSteps
from modak_ansible.model.scaled import Scale
from modak_ansible.model.search import Search
from modak_ansible.model.target import Target


class GivenImage(Model):
    """An image that is there already."""

    source: str
    checksum: str | None = None
    python: str = "python3"
    seen: SeenImage | None = left_out(None, "what was found in it; None where nobody has looked")

    @field_validator("source")
    @classmethod
    def _by_digest_alone(cls, source: str) -> str:
        """A digest says which image it is; Apptainer refuses a tag beside it."""
        name, separator, digest = source.partition("@")
        repository, _, tag = name.rpartition(":")
        return f"{repository}@{digest}" if separator and source.startswith("docker://") and "/" not in tag else source


# Where a request has preferences: what cannot be kept of them is left out, and the plan says so.
_OPTIONAL = ("optimisation", "job_options")


class Request(Model):
    """One training, as a blueprint asks for it, or one point of its sweep."""

    blueprint: str
    training: str  # its name; of a point its node's with the values that it has
    application: Application
    resources: Resources
    optimisation: Optimisation
    target: Target
    dataset: Dataset | None = None  # what it reads first, or alone
    more_datasets: tuple[Dataset, ...] = ()  # what it reads besides
    image: GivenImage | None = None
    job_options: JobOptions = JobOptions()
    after: tuple[Predecessor, ...] = ()  # what has to complete before it begins
    node: str = ""  # the blueprint's node that it comes from; empty where that is the training's name
    parallel: int | None = None  # how many points of its sweep may run at once; None for as many as the target takes
    checkpoint: Checkpoint | None = None
    scale: Scale | None = Field(default=None, exclude_if=lambda value: not value)
    search: Search | None = None  # what chooses its arguments, trial by trial; of a trial None
    beside: tuple[SourceFile, ...] = ()  # files that travel with the script's, and on which it does not depend
    # what makes its script parallel by itself; None where its source shows nothing of that
    parallelism: Parallelism | None = None
    # of memory; None where nobody has traced it
    need: Need | None = Field(default=None, exclude_if=lambda value: not value)
    # that were made on its target; None where nobody has timed any there
    timed: TimedSteps | None = Field(default=None, exclude_if=lambda value: not value)

    @property
    def datasets(self) -> tuple[Dataset, ...]:
        """All that it reads."""
        return (self.dataset, *self.more_datasets) if self.dataset else ()

    @property
    def data_bytes(self) -> int | None:
        """Bytes of all that it reads; None where it reads nothing, or where that is not known."""
        sizes = [dataset.size for dataset in self.datasets]
        return sum(size or 0 for size in sizes) if sizes and all(size is not None for size in sizes) else None

    @property
    def runs_natively(self) -> bool:
        """Whether a program runs with what is installed on the nodes, and nothing has to be made for it."""
        is_program = self.application.hpc is not None and bool(self.application.command)
        return is_program and self.image is None and self.target.container_runtime == "none"


def without(request: Request, preference: str) -> Request | None:
    """The request without a preference, such as ``optimisation.allocator``; None where it has none there."""
    section, _, name = preference.partition(".")
    if section not in _OPTIONAL:
        return None
    preferences: Model = getattr(request, section)
    field = type(preferences).model_fields.get(name)
    if field is None or getattr(preferences, name) == field.default:
        return None
    return request.model_copy(update={section: preferences.model_copy(update={name: field.default})})
