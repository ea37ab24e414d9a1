"""The image that a request names itself, or a container as the first MODAK had it, which asks for its image alone."""

from __future__ import annotations

from dataclasses import dataclass

from modak_ansible.model.request import GivenImage
from modak_ansible.reading.blueprint.forms import text_rules as rules
from modak_ansible.reading.blueprint.forms.forms import FieldProblem
from modak_ansible.reading.blueprint.forms.mistakes import Mistakes
from modak_ansible.reading.blueprint.forms.reader import FormReader
from modak_ansible.reading.blueprint.forms.yaml_tree import Item
from modak_ansible.reading.requests.checks import APPLICATION
from modak_ansible.reading.requests.form.form import ContainerForm, JobForm
from modak_ansible.reading.requests.form.notes import Notes, notes_of
from modak_ansible.target.core.container import IMAGE_ENDINGS, RUNTIMES

_HUB = "docker"


def read_container(tree: Item, mistakes: Mistakes, warnings: Mistakes, *, strict: bool) -> ReadRequest | None:
    """The request for a container's image; None where it is none."""
    reader = FormReader(mistakes, warnings)
    notes = notes_of(tree, reader, mistakes, warnings, strict=strict)
    form, notes.tree = reader.read(tree, ContainerForm)
    if form is None:
        return None
    if form.build and form.build.enable_opt_build:
        notes.cannot_keep(("build", "enable_opt_build"), "the image is used as it is: nothing says how it is built")
    if form.version:
        notes.cannot_keep(("version",), "the image is used as it is, and its contents are not checked")
    if form.optimisation:
        notes.cannot_keep(("optimisation",), "the image is used as it is, and its contents are not checked")
    hub = form.image_hub or form.image_type or _HUB
    source = form.container_file if "://" in form.container_file else f"{hub}://{form.container_file}"
    options = {"job_options": {"job_name": form.name}} if form.name else {}
    return ReadRequest(JobForm.model_validate(options), notes, source)


@dataclass(frozen=True)
class ReadRequest:
    """A request that was read: its form, where its mistakes go, and the image where it asks for nothing else."""

    job: JobForm
    notes: Notes
    image: str = ""


def given_image(runtime: str | None, notes: Notes) -> GivenImage | None:
    """The image that container_runtime names; None where it names none.

    In the first MODAK the field held the image that was found for the request.
    """
    path = (*APPLICATION, "container_runtime")
    if runtime is None or runtime in RUNTIMES:
        return None
    source = runtime if "://" in runtime or runtime.endswith(IMAGE_ENDINGS) else f"docker://{runtime}"
    if rules.image_problem(source):
        hint = f"{', '.join(RUNTIMES)}, or an image such as tensorflow/tensorflow:2.21.0 or /images/mine.sif"
        notes.refuse(
            path, FieldProblem("image-source", f"{rules.quote(runtime)} is neither a runtime nor an image", hint)
        )
        return None
    return GivenImage(source=source)
