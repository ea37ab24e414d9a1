"""Requests that name their application's library or framework by app_name, and have no section for it."""

from __future__ import annotations

from modak_ansible.reading.requests.checks import FRAMEWORKS, OPTIMISATION
from modak_ansible.reading.requests.form.form import JobForm
from modak_ansible.reading.requests.form.notes import Notes
from modak_ansible.reading.requests.form.optimisation import HpcForm, TrainingForm

_LIBRARIES = ("openmpi", "mpich", "mvapich")


def with_app_name(job: JobForm, notes: Notes) -> JobForm:
    """The job with the section that app_name and app_build stand for; one that is there already says more."""
    optimisation = job.optimisation
    if optimisation is None or not (optimisation.app_name or optimisation.app_build):
        return job
    name = (optimisation.app_name or "").lower()
    version = optimisation.app_build.version if optimisation.app_build else None
    path = (*OPTIMISATION, "app_name" if optimisation.app_name else "app_build")
    if optimisation.hpc or optimisation.ai_training:
        notes.cannot_keep(path, "the section of its app_type says what the application needs", "leave it out")
        return job
    told = {"version": version} if version else {}
    section: dict[str, HpcForm | TrainingForm]
    if name in _LIBRARIES:
        content = {"config": {"parallelisation": "mpi"}, "parallelisation-mpi": {"library": name, **told}}
        section = {"hpc": HpcForm.model_validate(content)}
    elif name in FRAMEWORKS:
        content = {"config": {"ai_framework": name}, f"ai_framework-{name}": told}
        section = {"ai_training": TrainingForm.model_validate(content)}
    else:
        known = ", ".join((*_LIBRARIES, *FRAMEWORKS))
        notes.cannot_keep(path, "nothing is known of this application", f"known: {known}")
        return job
    return job.model_copy(update={"optimisation": optimisation.model_copy(update=section)})
