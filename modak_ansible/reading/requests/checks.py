"""What several fields of a request say against each other, before anything is looked up."""

from __future__ import annotations

from typing import Literal

from modak_ansible.reading.blueprint.forms.forms import Form, Path
from modak_ansible.reading.requests.form.form import JobForm
from modak_ansible.reading.requests.form.notes import Notes
from modak_ansible.reading.requests.form.optimisation import HpcForm, TrainingForm

Kind = Literal["ai_training", "hpc"]

OPTIONS: Path = ("job", "job_options")
APPLICATION: Path = ("job", "application")
OPTIMISATION: Path = ("job", "optimisation")
TRAINING: Path = (*OPTIMISATION, "app_type-ai_training")
HPC: Path = (*OPTIMISATION, "app_type-hpc")
FRAMEWORKS = ("tensorflow", "pytorch", "keras", "jax", "mxnet", "cntk", "python")
PARALLELISATIONS = ("mpi", "openmp", "openacc", "opencl")

_KIND_OF: dict[str, Kind] = {"mpi": "hpc", "hpc": "hpc", "python": "ai_training", "ai_training": "ai_training"}


def kind_of(job: JobForm) -> Kind:
    """Whether a training or a program is asked for: as app_type says, else by the section that is there."""
    optimisation, application = job.optimisation, job.application
    if optimisation and optimisation.app_type in ("ai_training", "hpc"):
        return "hpc" if optimisation.app_type == "hpc" else "ai_training"
    if optimisation and (optimisation.ai_training is None) != (optimisation.hpc is None):
        return "hpc" if optimisation.hpc else "ai_training"
    return _KIND_OF[application.app_type] if application and application.app_type else "ai_training"


def check(job: JobForm, notes: Notes) -> None:
    """Notes every contradiction within a request."""
    kind = kind_of(job)
    _check_sections(job, kind, notes)
    _check_options(job, notes)
    _check_accelerators(job, notes)
    training = job.optimisation.ai_training if job.optimisation else None
    program = job.optimisation.hpc if job.optimisation else None
    if training and kind == "ai_training":
        _check_training(training, notes)
    if program and kind == "hpc":
        _check_program(job, program, notes)


def _check_sections(job: JobForm, kind: Kind, notes: Notes) -> None:
    optimisation, application = job.optimisation, job.application
    app_type = application.app_type if application else None
    if app_type in ("mpi", "hpc") and kind == "ai_training":
        notes.contradicts((*APPLICATION, "app_type"), f"{app_type} is a program, and optimisation asks for a training")
    if app_type == "ai_training" and kind == "hpc":
        notes.contradicts((*APPLICATION, "app_type"), "it is a training, and optimisation asks for a program")
    if optimisation is None:
        return
    section, other_section = (
        ("app_type-ai_training", "app_type-hpc") if kind == "ai_training" else ("app_type-hpc", "app_type-ai_training")
    )
    present = {"app_type-ai_training": optimisation.ai_training, "app_type-hpc": optimisation.hpc}
    if present[other_section] is not None:
        hint = "leave it out" if present[section] else f"app_type: {other_section.removeprefix('app_type-')}"
        notes.contradicts((*OPTIMISATION, other_section), f"the application is of type {kind}", hint)
    elif present[section] is None and optimisation.app_type and kind == "ai_training":
        notes.contradicts(
            (*OPTIMISATION, "app_type"), f"the section {section} is not there", f"add {section}: {{ config: ... }}"
        )


def _check_options(job: JobForm, notes: Notes) -> None:
    options = job.job_options
    if options is None:
        return
    if options.request_event_notification and not options.email_address:
        notes.cannot_keep(
            (*OPTIONS, "request_event_notification"), "no recipient of the mail is named", "add email_address"
        )
    if options.email_address and not options.request_event_notification:
        hint = "request_event_notification: e, or leave it out"
        notes.cannot_keep((*OPTIONS, "email_address"), "no event for the mail is named", hint)
    if options.combine_stdout_stderr and options.standard_error_file:
        words = f"{options.standard_error_file} is not written, because errors go where the output goes"
        notes.cannot_keep((*OPTIONS, "standard_error_file"), words, "leave it out, or combine_stdout_stderr: false")


def _check_accelerators(job: JobForm, notes: Notes) -> None:
    options, optimisation = job.job_options, job.optimisation
    build = optimisation.opt_build if optimisation else None
    gpus = options.request_gpus if options else None
    if build is None or job.job_options is None:
        return
    if gpus and build.acc_type == "none":
        notes.contradicts(
            (*OPTIONS, "request_gpus"), "opt_build.acc_type is none", "acc_type: nvidia, or request_gpus: 0"
        )
    if build.acc_type in ("nvidia", "amd") and not gpus:
        path = (*OPTIMISATION, "opt_build", "acc_type")
        notes.cannot_keep(path, "the job asks for no accelerator", "add request_gpus to job_options, or acc_type: none")


def _check_training(training: TrainingForm, notes: Notes) -> None:
    framework = training.config.ai_framework
    for other in FRAMEWORKS:
        if getattr(training, other) is not None and other != framework:
            section = f"ai_framework-{other}"
            notes.contradicts((*TRAINING, section), f"config.ai_framework is {framework}", "leave it out")
    compilers = [name for name, is_wanted in wanted_compilers(training).items() if is_wanted]
    if len(compilers) > 1:
        path = (*TRAINING, f"ai_framework-{framework}", compilers[1])
        notes.contradicts(path, f"{compilers[0]} is asked for, too, and one compiler compiles", "take one of them")


def wanted_compilers(training: TrainingForm) -> dict[str, bool]:
    """The graph compilers that a request speaks of: whether it wants them."""
    section: Form | None = getattr(training, training.config.ai_framework)
    return {name: is_wanted for name, is_wanted in section or () if isinstance(is_wanted, bool)}


def _check_program(job: JobForm, program: HpcForm, notes: Notes) -> None:
    kind = program.config.parallelisation
    for parallelisation in PARALLELISATIONS:
        # a program may have threads within its ranks
        if (
            getattr(program, parallelisation) is not None
            and parallelisation != kind
            and (kind, parallelisation) != ("mpi", "openmp")
        ):
            notes.contradicts(
                (*HPC, f"parallelisation-{parallelisation}"), f"config.parallelisation is {kind}", "leave it out"
            )
    options, application = job.job_options, job.application
    gpus = options.request_gpus if options else None
    if kind in ("openacc", "opencl"):
        section = program.openacc if kind == "openacc" else program.opencl
        count = section.number_of_acc if section else None
        if not (gpus or count) and options is not None:
            path = (*HPC, "config", "parallelisation")
            notes.contradicts(path, f"{kind} needs an accelerator, and the job asks for none", "request_gpus: 1")
        if count and gpus is not None and gpus != count:
            path = (*HPC, f"parallelisation-{kind}", "number_of_acc")
            notes.contradicts(path, f"{count} is not request_gpus, {gpus}")
    threads = program.openmp.number_of_threads if program.openmp else None
    if application and application.threads and threads and application.threads != threads:
        path = (*HPC, "parallelisation-openmp", "number_of_threads")
        notes.contradicts(path, f"{threads} is not application.threads, {application.threads}")
    if kind == "openmp" and application and (application.mpi_ranks or 1) > 1:
        notes.contradicts(
            (*APPLICATION, "mpi_ranks"), "a program with OpenMP alone is one process", "parallelisation: mpi"
        )
