"""The optimisation section of a request as the optimiser's preferences, checked against what the catalogue has."""

from __future__ import annotations

from typing import Any

from modak_ansible.catalogue import Catalogue, Entry
from modak_ansible.catalogue.entry import satisfies
from modak_ansible.model.application import Optimisation
from modak_ansible.model.target import Target
from modak_ansible.reading.blueprint.forms.forms import FieldProblem, Path
from modak_ansible.reading.requests.checks import APPLICATION, OPTIMISATION, TRAINING, wanted_compilers
from modak_ansible.reading.requests.form.form import JobForm
from modak_ansible.reading.requests.form.notes import Notes
from modak_ansible.reading.requests.form.optimisation import EtlForm, HpcForm, TrainingForm

# Keras calls PyTorch by the name of its package.
_BACKENDS = {"pytorch": "torch"}
MPI, NATIVE = "mpi", "native"  # the catalogue's names of what programs run in
_CLASSES = ("default-common", "default-high", "default-ssd", "default-ultra_high")


class Preferences:
    """Reads the preferences of one job; what cannot be had is noted."""

    def __init__(self, job: JobForm, target: Target, catalogue: Catalogue, notes: Notes) -> None:
        self._job = job
        self._target = target
        self._catalogue = catalogue
        self._notes = notes

    def read(self, training: TrainingForm | None, *, has_data: bool, framework: str, has_image: bool) -> Optimisation:
        application = self._job.runs
        values = {name: getattr(application, name) for name in application.preferences}
        fields: dict[str, Any] = {name: value for name, value in values.items() if value is not None}
        if application.storage_class_pref:
            fields["staging"] = self._staging(application.storage_class_pref, has_data=has_data)
        optimisation = self._job.optimisation
        if optimisation and optimisation.enable_autotuning:
            fields["autotuning"] = True
        if training:
            fields |= self._training_wishes(training, has_image=has_image)
        if has_image:
            pass  # it is taken as it is
        elif training is None and optimisation and optimisation.enable_opt_build and not application.build:
            path = (*OPTIMISATION, "enable_opt_build")
            self._notes.cannot_keep(path, "nothing is compiled for the target", "application.build says how")
        elif training and optimisation and optimisation.enable_opt_build is not None:
            fields["build"] = self._build(framework, version_of(training), is_wanted=optimisation.enable_opt_build)
        return Optimisation(**fields)

    # --- the build

    def _build(self, framework: str, version: str, *, is_wanted: bool) -> str:
        path = (*OPTIMISATION, "enable_opt_build")
        if not is_wanted:
            return "pip"
        builds = [
            entry for entry in self._entries(framework, version) if entry.origin == "opt-build" and not entry.untried
        ]
        if builds:
            return "opt-build"
        reason = f"the catalogue has no build of {framework} for targets: its stock build is used"
        self._notes.cannot_keep(path, reason)
        return "any"

    def _entries(self, framework: str, version: str) -> list[Entry]:
        return [entry for entry in self._catalogue.of_framework(framework) if satisfies(entry.version, version)]

    # --- a training

    def _training_wishes(self, training: TrainingForm, *, has_image: bool) -> dict[str, str | int]:
        framework, version = training.config.ai_framework, version_of(training)
        section: Path = (*TRAINING, f"ai_framework-{framework}")
        fields: dict[str, str | int] = {}
        if has_image:
            for name, is_wanted in wanted_compilers(training).items():
                if is_wanted:
                    self._notes.cannot_keep((*section, name), "whether the named image has it is not known")
            return fields | (self._pipeline(training.data.etl) if training.data and training.data.etl else {})
        if not self._entries(framework, version):
            versions = sorted({entry.version for entry in self._catalogue.of_framework(framework)})
            reason = f"the catalogue has no {framework} {version}"
            self._notes.refuse((*section, "version"), FieldProblem("version", reason, f"it has {', '.join(versions)}"))
            return fields
        compiler = self._compiler(training, section)
        if compiler:
            fields["compiler"] = compiler
        if training.keras and training.keras.backend:
            fields["entry"] = self._keras_entry(training.keras.backend, version, section)
        elif self._accelerator():
            fields |= self._untried(framework, version)
        if training.data and training.data.etl:
            fields |= self._pipeline(training.data.etl)
        return fields

    def _accelerator(self) -> str:
        """Whose accelerator is asked for by its kind; empty where none is."""
        build = self._job.optimisation.opt_build if self._job.optimisation else None
        return build.acc_type if build and build.acc_type in ("nvidia", "amd") else ""

    def _untried(self, framework: str, version: str) -> dict[str, str | int]:
        """The build for the accelerator, where there is none that anybody has tried: it has to be asked for by name."""
        builds = self._catalogue.accelerated(framework, version, self._accelerator())
        if not builds or not all(entry.untried for entry in builds):
            return {}
        words = f"{builds[0].name} is used, which is untested"
        self._notes.warn((*OPTIMISATION, "opt_build", "acc_type"), words, builds[0].untried)
        return {"entry": builds[0].name}

    def _compiler(self, training: TrainingForm, section: Path) -> str:
        preferences = wanted_compilers(training)
        compiler = next((name for name, is_wanted in preferences.items() if is_wanted), None)
        if compiler is None:
            return "none" if preferences else ""
        entries = self._entries(training.config.ai_framework, version_of(training))
        offering = [entry for entry in entries if compiler in entry.compilers]
        if not offering:
            versions = ", ".join(sorted({entry.version for entry in entries}))
            compilers = sorted({name for entry in entries for name in entry.compilers})
            reason = f"no build of {training.config.ai_framework} {versions} has it"
            hint = f"compilers there: {', '.join(compilers)}" if compilers else "it has no graph compiler"
            self._notes.cannot_keep((*section, compiler), reason, hint)
            return ""
        return compiler

    def _keras_entry(self, backend: str, version: str, section: Path) -> str:
        entries = self._entries("keras", version)
        package = _BACKENDS.get(backend, backend)
        offering = [entry for entry in entries if entry.environment.get("KERAS_BACKEND") == package]
        if offering:
            return offering[0].name
        names = {value: name for name, value in _BACKENDS.items()}
        backends = {entry.environment.get("KERAS_BACKEND", "") for entry in entries}
        backend_names = ", ".join(sorted(names.get(backend, backend) for backend in backends))
        reason, hint = f"no build of Keras in the catalogue computes with {backend}", f"valid: {backend_names}"
        self._notes.cannot_keep((*section, "backend"), reason, hint)
        return ""

    def _pipeline(self, etl: EtlForm) -> dict[str, str | int]:
        """Whether samples are kept in memory, and whether somebody reads ahead."""
        fields: dict[str, str | int] = {}
        path = (*TRAINING, "data", "etl")
        if etl.cache is not None:
            fields["input"] = "memory" if etl.cache else "stock"
            if etl.cache is not True and etl.cache > 1:
                self._notes.cannot_keep((*path, "cache"), "all samples are kept, not a number of them", "write true")
        if etl.prefetch is not None:
            fields["workers"] = 1 if etl.prefetch else 0
            if etl.prefetch is not True and etl.prefetch > 1:
                self._notes.cannot_keep(
                    (*path, "prefetch"), "one process reads ahead, as far as the framework does", "write true"
                )
        return fields

    # --- storage

    def _staging(self, class_name: str, *, has_data: bool) -> str:
        path = (*APPLICATION, "storage_class_pref")
        if not has_data:
            self._notes.cannot_keep(path, "there is no data to place", "leave it out")
            return "any"
        storages = {"node-local": self._target.scratch, "shared": self._target.home}
        classes = {name: storage.storage_class for name, storage in storages.items() if storage}
        matching = [name for name, storage_class in classes.items() if storage_class == class_name]
        if class_name == _CLASSES[0] and not classes:
            return "any"
        if not matching:
            available = ", ".join(f"{name} {storage_class}" for name, storage_class in classes.items()) or "none"
            hint = f"it has: {available}; the class property of its home and scratch says so"
            self._notes.cannot_keep(path, f"{self._target.name} names no storage of class {class_name}", hint)
        return matching[0] if len(matching) == 1 else "any"


def version_of(training: TrainingForm | None) -> str:
    """The version of the framework that a training wants; empty for any."""
    section = getattr(training, training.config.ai_framework) if training else None
    return (section.version or "") if section else ""


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
        builds = [entry for entry in entries if satisfies(entry.version, version)]
        builds = [entry for entry in builds if bool(entry.accelerator) == accelerated]
        builds = [
            entry for entry in builds if not entry.source or (entry.origin == "hub" and target.image_base == "docker")
        ]
    else:
        builds = _program_builds(job, program, catalogue)
    return next((entry.name for entry in builds if not entry.untried), "")


def _program_builds(job: JobForm, program: HpcForm | None, catalogue: Catalogue) -> list[Entry]:
    kind = program.config.parallelisation if program else MPI
    if kind != MPI:
        return catalogue.of_framework(NATIVE) if kind == "openmp" else []
    mpi = program.mpi if program else None
    entries = []
    for entry in catalogue.of_framework(MPI):
        offers = catalogue.bases[entry.base].provides if entry.base in catalogue.bases else {}
        names = [mpi.library] if mpi and mpi.library else list(offers)
        fits = any(name in offers and satisfies(offers[name], (mpi.version if mpi else None) or "") for name in names)
        if fits and (entry.tools or not job.runs.build):
            entries.append(entry)
    return entries
