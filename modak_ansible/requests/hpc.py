"""Programs that are no trainings: how they are parallel, what they run in, how they are built."""

from __future__ import annotations

from typing import Any, Literal

from modak_ansible.blueprint.forms import FieldProblem
from modak_ansible.catalogue import Catalogue
from modak_ansible.catalogue.reader import satisfies
from modak_ansible.model.hpc import Build, HpcApplication
from modak_ansible.model.request import GivenImage
from modak_ansible.requests.checks import APPLICATION, HPC
from modak_ansible.requests.form import BuildForm, JobForm
from modak_ansible.requests.notes import Notes
from modak_ansible.requests.optimisation_form import HpcForm, MpiForm

# What the catalogue calls the builds of programs that use no framework.
_MPI, _NATIVE = "mpi", "native"
_PARALLELISM = "{{BUILD_PARALLELISM}}"


def program_of_form(job: JobForm, form: HpcForm | None) -> HpcApplication:
    """How the program is parallel; one of which only app_type is known uses MPI."""
    found: dict[str, Any] = {"ranks": job.runs.mpi_ranks, "threads": job.runs.threads}
    if form is None:
        return HpcApplication(parallelisation="mpi", **found)
    kind = form.config.parallelisation
    for section in (form.openacc, form.opencl, form.openmp, form.mpi):
        found |= {_NAMES.get(name, name): value for name, value in section or () if value is not None}
    return HpcApplication(parallelisation=kind, **found)


_NAMES = {"number_of_threads": "threads", "number_of_acc": "accelerators"}


def program_framework(
    job: JobForm, form: HpcForm | None, image: GivenImage | None, catalogue: Catalogue, notes: Notes
) -> str:
    """The catalogue's name of what the program runs in; empty where the request names an image.

    A container has the MPI library and not its compiler, so a program that is built with MPI needs an image of the
    user's own, or none at all.
    """
    kind = form.config.parallelisation if form else "mpi"
    natively = job.runs.container_runtime == "none"
    if form and form.mpi and form.mpi.version and (image or natively):
        whose = "the image's" if image else "the nodes'"
        notes.warn(
            (*HPC, "parallelisation-mpi", "version"), f"the library is {whose}, and its version is not looked at"
        )
    if image:
        return ""
    if kind in ("openacc", "opencl") and not natively:
        hint = "container_runtime: an image that has it, or none to take what is installed on the nodes"
        problem = FieldProblem("cannot-be-done", f"no build in the catalogue has {kind}", hint)
        notes.refuse((*HPC, "config", "parallelisation"), problem)
    if kind != "mpi" or natively:
        return _NATIVE
    if form and form.mpi:
        _check_library(form.mpi, catalogue, notes)
    if job.runs.build:
        hint = "container_runtime: an image with the compiler, or none to build with the node's own"
        reason = "the catalogue's image for MPI has no compiler"
        notes.refuse((*APPLICATION, "build"), FieldProblem("cannot-be-done", reason, hint))
    return _MPI


def build_of(form: BuildForm | None) -> Build | None:
    """How the program is built."""
    if form is None:
        return None
    parallelism = form.build_parallelism or 1
    command = "\n".join(form.build_command).replace(_PARALLELISM, str(parallelism))
    source = form.src or ""
    return Build(source=source, kind=_kind(source), command=command, parallelism=parallelism)


def _kind(source: str) -> Literal["", "git", "archive"]:
    """What an address is of: archives and single files are fetched over the web, and their names have an ending."""
    if not source:
        return ""
    last = source.rstrip("/").rsplit("/", 1)[-1]
    is_web = source.startswith(("http://", "https://", "file://"))
    return "archive" if is_web and "." in last and not last.endswith(".git") else "git"


def _check_library(form: MpiForm, catalogue: Catalogue, notes: Notes) -> None:
    path = (*HPC, "parallelisation-mpi")
    entries = catalogue.of_framework(_MPI)
    provided = [catalogue.bases[each.base].provides for each in entries if each.base in catalogue.bases]
    known = {name: version for each in provided for name, version in each.items()}
    hint = "container_runtime: an image that has it, or none to take what is installed on the nodes"
    there = ", ".join(f"{name} {version}" for name, version in sorted(known.items()))
    if form.library and form.library not in known:
        reason = f"the catalogue has {there}, which is not {form.library}"
        notes.refuse((*path, "library"), FieldProblem("contradiction", reason, hint))
    elif form.version and not any(satisfies(version, form.version) for version in known.values()):
        reason = f"the catalogue has {there}, which is not {form.version}"
        notes.refuse((*path, "version"), FieldProblem("version", reason, hint))
