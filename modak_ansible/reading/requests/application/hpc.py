"""Programs that are no trainings: how they are parallel, what they run in, how they are built."""

from __future__ import annotations

import re
from typing import Any, Literal

from modak_ansible.catalogue import Catalogue
from modak_ansible.catalogue.entry import satisfies
from modak_ansible.model.application import STOCK_MPI, Build, HpcApplication
from modak_ansible.model.request import GivenImage
from modak_ansible.reading.blueprint.forms.forms import FieldProblem
from modak_ansible.reading.requests.checks import HPC, OPTIMISATION
from modak_ansible.reading.requests.form.form import BuildForm, JobForm
from modak_ansible.reading.requests.form.notes import Notes
from modak_ansible.reading.requests.form.optimisation import HpcForm
from modak_ansible.reading.requests.preferences import MPI, NATIVE

Library = Literal["", "mpich", "openmpi", "mvapich"]
# Libraries whose programs another one's can stand in for.
_COMPATIBLE: dict[str, Library] = {"mvapich": "mpich"}
_ARCHIVE = re.compile(r"\.(tar(\.\w+)?|t[gbx]z2?|tzst|zip)$")
# Repositories, which may be called as a file is: llama.cpp.
_OF_FORGE = re.compile(r"https?://(www\.)?(github\.com|gitlab\.com|bitbucket\.org|codeberg\.org)/[^/?]+/[^/?]+/?")
_PARALLELISM = "{{BUILD_PARALLELISM}}"


def program_of_form(job: JobForm, form: HpcForm | None) -> HpcApplication:
    """How the program is parallel; one of which only app_type is known uses MPI."""
    fields: dict[str, Any] = {"ranks": job.runs.mpi_ranks, "threads": job.runs.threads}
    if form is None:
        return HpcApplication(parallelisation="mpi", **fields)
    kind = form.config.parallelisation
    for section in (form.openacc, form.opencl, form.openmp, form.mpi):
        fields |= {_NAMES.get(name, name): value for name, value in section or () if value is not None}
    return HpcApplication(parallelisation=kind, **fields)


_NAMES = {"number_of_threads": "threads", "number_of_acc": "accelerators"}


def program_framework(job: JobForm, form: HpcForm | None, image: GivenImage | None, notes: Notes) -> str:
    """The catalogue's name of what the program runs in; empty where the request names an image."""
    kind = form.config.parallelisation if form else MPI
    natively = job.runs.container_runtime == "none"
    if form and form.mpi and form.mpi.version and (image or natively):
        whose = "the image's" if image else "the nodes'"
        notes.warn((*HPC, "parallelisation-mpi", "version"), f"the library is {whose}, and its version is not checked")
    if image:
        return ""
    if kind in ("openacc", "opencl") and not natively:
        hint = "container_runtime: an image that has it, or none to take what is installed on the nodes"
        problem = FieldProblem("cannot-be-done", f"no build in the catalogue has {kind}", hint)
        notes.refuse((*HPC, "config", "parallelisation"), problem)
    return NATIVE if kind != MPI or natively else MPI


def with_library(program: HpcApplication, job: JobForm, catalogue: Catalogue, notes: Notes) -> HpcApplication:
    """The program with an MPI library that the catalogue has, where its own is another."""
    if program.parallelisation != MPI or not (program.library or program.version):
        return program
    app_name = job.optimisation.app_name if job.optimisation else None
    path = (*OPTIMISATION, "app_name") if app_name else (*HPC, "parallelisation-mpi", "library")
    entries = catalogue.of_framework(MPI)
    provided = [catalogue.bases[entry.base].provides for entry in entries if entry.base in catalogue.bases]
    versions = {name: version for libraries in provided for name, version in libraries.items()}
    available = ", ".join(f"{name} {version}" for name, version in sorted(versions.items()))
    hint = "container_runtime: an image that has it, or none to take what is installed on the nodes"
    library = program.library
    if library and library not in versions:
        library = _COMPATIBLE[library]
        reason = f"the catalogue has {available}: {library} is used, and the program has to be built for it"
        notes.cannot_keep(path, reason, hint)
    elif program.version and not satisfies(versions[library or STOCK_MPI], program.version):
        path = (*OPTIMISATION, "app_build", "version") if app_name else (*path[:-1], "version")
        reason = f"the catalogue has {available}: {library or STOCK_MPI} {versions[library or STOCK_MPI]} is used"
        notes.cannot_keep(path, reason, hint)
    else:
        return program
    return program.model_copy(update={"library": library, "version": ""})


def build_of(form: BuildForm | None) -> Build | None:
    if form is None:
        return None
    parallelism = form.build_parallelism or 1
    command = "\n".join(form.build_command).replace(_PARALLELISM, str(parallelism))
    source = form.src or ""
    return Build(source=source, kind=_kind(source), command=command, parallelism=parallelism)


def _kind(source: str) -> Literal["", "git", "archive", "file"]:
    """What an address is of: archives and single files are fetched over the web, and their names have an ending."""
    if not source:
        return ""
    last_part = source.partition("?")[0].rstrip("/").rsplit("/", 1)[-1]
    is_web = source.startswith(("http://", "https://", "file://"))
    if not is_web or "." not in last_part or last_part.endswith(".git") or _OF_FORGE.fullmatch(source):
        return "git"
    return "archive" if _ARCHIVE.search(last_part) else "file"
