"""A container as the first MODAK's catalogue took it, read as a request for that image alone."""

from __future__ import annotations

from dataclasses import dataclass

from modak_ansible.reading.blueprint.forms.mistakes import Mistakes
from modak_ansible.reading.blueprint.forms.reader import FormReader
from modak_ansible.reading.blueprint.forms.yaml_tree import Item
from modak_ansible.reading.requests.form.form import ContainerForm, JobForm
from modak_ansible.reading.requests.form.notes import Notes, notes_of

_HUB = "docker"


def read_container(tree: Item, mistakes: Mistakes, warnings: Mistakes, *, strict: bool) -> Read | None:
    """The request for a container's image; None where it is none."""
    reader = FormReader(mistakes, warnings)
    notes = notes_of(tree, reader, mistakes, warnings, strict=strict)
    form, notes.tree = reader.read(tree, ContainerForm)
    if form is None:
        return None
    if form.build and form.build.enable_opt_build:
        notes.cannot_keep(("build", "enable_opt_build"), "the image is taken as it is: nothing says how it is built")
    if form.version:
        notes.cannot_keep(("version",), "the image is taken as it is, and what it holds is not looked at")
    if form.optimisation:
        notes.cannot_keep(("optimisation",), "the image is taken as it is, and what it holds is not looked at")
    hub = form.image_hub or form.image_type or _HUB
    source = form.container_file if "://" in form.container_file else f"{hub}://{form.container_file}"
    options = {"job_options": {"job_name": form.name}} if form.name else {}
    return Read(JobForm.model_validate(options), notes, source)


@dataclass(frozen=True)
class Read:
    """A request that was read: its form, where its mistakes go, and the image where it asks for nothing else."""

    job: JobForm
    notes: Notes
    image: str = ""
