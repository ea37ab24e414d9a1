"""Whether the catalogue has a build of just what a request asks for."""

from __future__ import annotations

from modak_ansible.catalogue import Catalogue, Entry
from modak_ansible.catalogue.entry import satisfies
from modak_ansible.model.target import Target
from modak_ansible.reading.requests.form.form import JobForm
from modak_ansible.reading.requests.form.optimisation import HpcForm, TrainingForm
from modak_ansible.reading.requests.wishes import version_of

MPI, NATIVE = "mpi", "native"


def fitting_build(
    job: JobForm, training: TrainingForm | None, program: HpcForm | None, target: Target, catalogue: Catalogue
) -> str:
    """The name of a build that was tried, and is of the framework or library and version that is asked for; or empty.

    Args:
        target: a hub's image serves where it reaches one.
        catalogue: what there is.
    """
    if training:
        entries = catalogue.of_framework(training.config.ai_framework)
        accelerated = bool(job.options.request_gpus)
        version = version_of(training)
        fitting = [entry for entry in entries if satisfies(entry.version, version)]
        fitting = [entry for entry in fitting if bool(entry.accelerator) == accelerated]
        fitting = [
            entry for entry in fitting if not entry.source or (entry.origin == "hub" and target.image_base == "docker")
        ]
    else:
        fitting = _of_program(job, program, catalogue)
    return next((entry.name for entry in fitting if not entry.untried), "")


def _of_program(job: JobForm, program: HpcForm | None, catalogue: Catalogue) -> list[Entry]:
    kind = program.config.parallelisation if program else MPI
    if kind != MPI:
        return catalogue.of_framework(NATIVE) if kind == "openmp" else []
    mpi = program.mpi if program else None
    found = []
    for entry in catalogue.of_framework(MPI):
        has = catalogue.bases[entry.base].provides if entry.base in catalogue.bases else {}
        names = [mpi.library] if mpi and mpi.library else list(has)
        fits = any(name in has and satisfies(has[name], (mpi.version if mpi else None) or "") for name in names)
        if fits and (entry.tools or not job.runs.build):
            found.append(entry)
    return found
