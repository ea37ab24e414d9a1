"""A file with a request in, what it asks for out: the same as for a blueprint with one training."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from modak_ansible.catalogue import load_catalogue
from modak_ansible.model.dataset import field_of
from modak_ansible.reading.blueprint.forms import text_rules as rules
from modak_ansible.reading.blueprint.forms.forms import Path as FieldPath
from modak_ansible.reading.blueprint.forms.forms import place_of
from modak_ansible.reading.blueprint.forms.mistakes import Mistakes
from modak_ansible.reading.blueprint.forms.reader import FormReader
from modak_ansible.reading.blueprint.forms.secret_rules import note_secrets
from modak_ansible.reading.blueprint.forms.yaml_files import parse_yaml, read_text
from modak_ansible.reading.blueprint.forms.yaml_tree import Item, entries_of
from modak_ansible.reading.blueprint.reader import Blueprint, Inputs
from modak_ansible.reading.requests.checks import APPLICATION, FRAMEWORKS, HPC, OPTIMISATION, OPTIONS, TRAINING, check
from modak_ansible.reading.requests.containers import ReadRequest, read_container
from modak_ansible.reading.requests.form.form import ApplicationForm, JobForm, RequestForm
from modak_ansible.reading.requests.form.json_tree import parse_json
from modak_ansible.reading.requests.form.notes import Notes, notes_of
from modak_ansible.reading.requests.form.older import OLDER
from modak_ansible.reading.requests.form.optimisation import HpcForm, TrainingForm
from modak_ansible.reading.requests.mapping import Mapper
from modak_ansible.reading.requests.targets import TargetProblem, find_target

_LIBRARIES = ("openmpi", "mpich", "mvapich")  # of MPI, which app_name may name


def read_request(path: Path, inputs: Inputs, mistakes: Mistakes) -> Blueprint:
    """What a request asks for, in the form of a blueprint with one training; with none where anything is wrong.

    Args:
        path: the file, JSON or YAML.
        inputs: values for the inputs of the target's description, and where that is.
    """
    blueprint = Blueprint(path, inputs={})
    form = read_form(path, mistakes, blueprint.warnings, strict=inputs.strict)
    if form is None:
        return blueprint
    check(form.job, form.notes)
    named_target = None
    try:
        named_target = find_target(form.job, path.parent, inputs, mistakes, form.notes)
    except TargetProblem as refusal:
        form.notes.refuse(("job", "target", refusal.field), refusal.problem)
    name = _request_name(form.job, path)
    if named_target is None:
        return blueprint
    request = Mapper(form.job, name, path, load_catalogue(), form.notes, form.image).request(named_target)
    if request is None or mistakes:
        return blueprint
    blueprint.requests.append(request)
    blueprint.targets[request.target.name] = request.target
    blueprint.related[request.training] = [request.training]
    paths = _paths(form.notes.tree)
    blueprint.places[request.training] = {about: place_of(form.notes.tree, field) for about, field in paths.items()}
    blueprint.paths[request.training] = {about: form.notes.reader.shown(field) for about, field in paths.items()}
    blueprint.notes[request.training] = tuple(form.notes.unkept)
    return blueprint


def read_form(path: Path, mistakes: Mistakes, warnings: Mistakes, *, strict: bool = False) -> ReadRequest | None:
    """The form of a request, filled in; None, with mistakes, where it is not one.

    Args:
        mistakes: collects what is wrong, and with strictness the preferences that cannot be kept.
        warnings: collects what is read otherwise, and the preferences that are not kept.
        strict: whether the caller wants strictness; the request itself may, too.
    """
    tree = _tree(path, mistakes)
    if tree is None:
        return None
    if not tree.is_map:
        mistakes.add(tree.location, "wrong-type", "a request is a mapping", "with job, or with optimisation alone")
        return None
    note_secrets(tree, mistakes)
    if "container_file" in tree.entries and "job" not in tree.entries:
        return read_container(tree, mistakes, warnings, strict=strict)
    is_optimisation_only = "job" not in tree.entries and bool({"optimisation", "optimization"} & set(tree.entries))
    whole = Item(tree.location, {"job": tree}, keys={"job": tree.location}) if is_optimisation_only else tree
    reader = FormReader(mistakes, warnings, OLDER, hidden=1 if is_optimisation_only else 0)
    notes = notes_of(whole, reader, mistakes, warnings, strict=strict or _is_strict(whole))
    form, notes.tree = reader.read(whole, RequestForm)
    if is_optimisation_only:
        for name in tree.entries:
            if name not in ("optimisation", "optimization", "strict"):
                hint = f"put both below job: {{ {name}: ..., optimisation: ... }}"
                mistakes.add(tree.key_location(name), "unknown-field", f"{name} is next to optimisation", hint)
    if form is None:
        return None
    return ReadRequest(_with_app_name(form.job, notes), notes)


def _with_app_name(job: JobForm, notes: Notes) -> JobForm:
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
    version_field = {"version": version} if version else {}
    section: dict[str, HpcForm | TrainingForm]
    if name in _LIBRARIES:
        content = {"config": {"parallelisation": "mpi"}, "parallelisation-mpi": {"library": name, **version_field}}
        section = {"hpc": HpcForm.model_validate(content)}
    elif name in FRAMEWORKS:
        content = {"config": {"ai_framework": name}, f"ai_framework-{name}": version_field}
        section = {"ai_training": TrainingForm.model_validate(content)}
    else:
        names = ", ".join((*_LIBRARIES, *FRAMEWORKS))
        notes.cannot_keep(path, "nothing is known of this application", f"known: {names}")
        return job
    return job.model_copy(update={"optimisation": optimisation.model_copy(update=section)})


def _is_strict(tree: Item) -> bool:
    """Whether the request itself asks for strictness; it is known before the rest is read."""
    paths = (("strict",), ("job", "strict"), *(("job", name, "strict") for name in ("optimisation", "optimization")))
    items = [tree.get(*path) for path in paths]
    return any(item is not None and str(item.value).lower() == "true" for item in items)


def _tree(path: Path, mistakes: Mistakes) -> Item | None:
    text = read_text(path, mistakes)
    if text is None:
        return None
    if path.suffix == ".json":
        return parse_json(text, str(path), mistakes)
    if text.lstrip().startswith("{"):
        tree = parse_json(text, str(path), Mistakes())
        if tree is not None:
            return parse_json(text, str(path), mistakes)
    return parse_yaml(text, str(path), mistakes)


def _request_name(job: JobForm, path: Path) -> str:
    name = job.options.job_name or job.runs.app_tag
    if name:
        return name
    stem = re.sub(r"[^A-Za-z0-9_.+-]", "-", path.stem).strip("-._+")[:60]
    return stem if stem and not rules.name_problem(stem) else "request"


def _paths(tree: Item) -> dict[str, FieldPath]:
    """The fields that a planner's refusal may be about."""
    framework = tree.get(*TRAINING, "config", "ai_framework")
    section = (*TRAINING, f"ai_framework-{framework.value}") if framework else TRAINING
    return {
        "": ("job",),
        "host": ("job", "target"),
        "walltime": (*OPTIONS, "wall_time_limit"),
        "resources": (*OPTIONS, "node_count"),
        "resources.nodes": (*OPTIONS, "node_count"),
        "resources.processes_per_node": (*OPTIONS, "process_count_per_node"),
        "resources.cores_per_process": (*OPTIONS, _either(tree, "core_count_per_process", "process_count_per_node")),
        "resources.memory": (*OPTIONS, "memory_limit"),
        "resources.accelerators": (*OPTIONS, "request_gpus"),
        "framework": (*TRAINING, "config", "ai_framework"),
        "version": (*section, "version"),
        "scale": ("job", "scale"),
        "distributed": (*TRAINING, "config", "distributed"),
        "distributed.strategy": (*TRAINING, "config", "distributed", "strategy"),
        "distributed.degree": (*TRAINING, "config", "distributed", "degree"),
        "optimisation": OPTIMISATION,
        "optimisation.build": (*OPTIMISATION, "enable_opt_build"),
        "optimisation.autotuning": (*OPTIMISATION, "enable_autotuning"),
        "optimisation.entry": (*section, "backend"),
        "optimisation.compiler": section,
        "optimisation.input": (*TRAINING, "data", "etl", "cache"),
        "optimisation.workers": (*TRAINING, "data", "etl", "prefetch"),
        "optimisation.staging": (*APPLICATION, "storage_class_pref"),
        **{f"optimisation.{name}": (*APPLICATION, name) for name in ApplicationForm.preferences},
        **_dataset_paths(tree),
        "image": (*APPLICATION, "container_runtime"),
        "arguments": (*APPLICATION, "arguments"),
        "script": (*APPLICATION, "executable"),
        "checkpoint.signal_before_wall": ("job", "checkpoint", "signal_before_wall"),
        "resources.partition": (*OPTIONS, _either(tree, "partition", "queue")),
        "application.library": (*HPC, "parallelisation-mpi", "library"),
        "application.core_subscription": (*HPC, "parallelisation-mpi", "core_subscription"),
        "application.number_of_acc": HPC,
        "application.mpi_ranks": (*APPLICATION, "mpi_ranks"),
        "application.threads": (*APPLICATION, "threads"),
        **{f"job_options.{name}": (*OPTIONS, name) for name in _options(tree)},
        **{f"job_options.components.{name}": (*OPTIONS, "components", name) for name in _options(tree, "components")},
    }


def _dataset_paths(tree: Item) -> dict[str, FieldPath]:
    """The fields of each dataset of a training, by what a planner calls them."""
    owners: list[FieldPath] = [(*TRAINING, "data")] if tree.get(*TRAINING, "data") else []
    owners += [(*TRAINING, "more_data", name) for name in entries_of(tree.get(*TRAINING, "more_data"))]
    paths: dict[str, FieldPath] = {}
    for number, owner in enumerate(owners):
        entries = entries_of(tree.get(*owner))
        where = next((name for name in ("source", "location", "urls", "on_target") if name in entries), "basedata")
        paths[field_of(number)] = owner
        paths |= {f"{field_of(number)}.{name}": (*owner, name) for name in ("name", "mount_as", "pack")}
        paths[f"{field_of(number)}.source"] = (*owner, where)
    return paths


def _either(tree: Item, name: str, other: str) -> str:
    """An option that is given, else the one that says the same in another way."""
    return name if name in _options(tree) else other


def _options(tree: Item, *path: str) -> Mapping[str, Item]:
    return entries_of(tree.get(*OPTIONS, *path))
