"""A file with a request in, what it asks for out: the same as for a blueprint with one training."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from modak_ansible.blueprint import rules
from modak_ansible.blueprint.form_reader import FormReader
from modak_ansible.blueprint.forms import place_of
from modak_ansible.blueprint.mistakes import Mistakes
from modak_ansible.blueprint.reader import Blueprint, Inputs
from modak_ansible.blueprint.secret_rules import note_secrets
from modak_ansible.blueprint.yaml_tree import Item, parse_yaml, read_text
from modak_ansible.catalogue import load_catalogue
from modak_ansible.errors import Location
from modak_ansible.requests.checks import APPLICATION, HPC, OPTIMISATION, OPTIONS, TRAINING, check
from modak_ansible.requests.form import JobForm, RequestForm, TargetForm
from modak_ansible.requests.json_tree import parse_json
from modak_ansible.requests.mapping import Mapper
from modak_ansible.requests.notes import Notes
from modak_ansible.requests.older import OLDER
from modak_ansible.requests.targets import TargetProblem, find_target


@dataclass(frozen=True)
class Read:
    """A request that was read: its form, and where its mistakes go."""

    job: JobForm
    notes: Notes


def read_request(path: Path, inputs: Inputs, mistakes: Mistakes) -> Blueprint:
    """What a request asks for, in the form of a blueprint with one training; with none where anything is wrong.

    Args:
        path: the file, JSON or YAML.
        inputs: values for the inputs of the target's description, and where that is.
        mistakes: collects every mistake, with its place.
    """
    blueprint = Blueprint(path, inputs={})
    read = read_form(path, mistakes, blueprint.warnings)
    if read is None:
        return blueprint
    check(read.job, read.notes)
    named = None
    try:
        form = read.job.target or TargetForm.model_validate({})
        named = find_target(form, path.parent, inputs, mistakes)
    except TargetProblem as found:
        read.notes.refuse(("job", "target", found.field), found.problem)
    name = _name(read.job, path)
    if named is None:
        return blueprint
    request = Mapper(read.job, name, path, load_catalogue(), read.notes).request(named)
    if request is None or mistakes:
        return blueprint
    blueprint.requests.append(request)
    blueprint.targets[request.target.name] = request.target
    blueprint.related[request.training] = [request.training]
    blueprint.places[request.training] = _places(read.notes.tree)
    return blueprint


def read_form(path: Path, mistakes: Mistakes, warnings: Mistakes) -> Read | None:
    """The form of a request, filled in; None, with mistakes, where it is not one."""
    tree = _tree(path, mistakes)
    if tree is None:
        return None
    if not tree.is_map:
        mistakes.add(tree.location, "wrong-type", "a request is a mapping", "with job, or with optimisation alone")
        return None
    note_secrets(tree, mistakes)
    alone = "job" not in tree.entries and bool({"optimisation", "optimization"} & set(tree.entries))
    whole = Item(tree.location, {"job": tree}, keys={"job": tree.location}) if alone else tree
    reader = FormReader(mistakes, warnings, OLDER, hidden=1 if alone else 0)
    form, modern = reader.read(whole, RequestForm)
    if alone:
        for name in tree.entries:
            if name not in ("optimisation", "optimization"):
                hint = f"put both below job: {{ {name}: ..., optimisation: ... }}"
                mistakes.add(tree.key_location(name), "unknown-field", f"{name} stands beside optimisation", hint)
    if form is None:
        return None
    return Read(form.job, Notes(modern, reader, mistakes, warnings))


def _tree(path: Path, mistakes: Mistakes) -> Item | None:
    text = read_text(path, mistakes)
    if text is None:
        return None
    if path.suffix == ".json":
        return parse_json(text, str(path), mistakes)
    if text.lstrip().startswith("{"):
        found = parse_json(text, str(path), Mistakes())
        if found is not None:
            return parse_json(text, str(path), mistakes)
    return parse_yaml(text, str(path), mistakes)


def _name(job: JobForm, path: Path) -> str:
    """What the deployment is called."""
    given = job.options.job_name or job.runs.app_tag
    if given:
        return given
    stem = re.sub(r"[^A-Za-z0-9_.+-]", "-", path.stem).strip("-._+")[:60]
    return stem if stem and not rules.name_problem(stem) else "request"


def _places(tree: Item) -> dict[str, Location]:
    """Where the fields stand that a planner's refusal may be about."""
    framework = tree.get(*TRAINING, "config", "ai_framework")
    section = (*TRAINING, f"ai_framework-{framework.value}") if framework else TRAINING
    paths = {
        "": ("job",),
        "host": ("job", "target"),
        "walltime": (*OPTIONS, "wall_time_limit"),
        "resources": (*OPTIONS, "node_count"),
        "resources.nodes": (*OPTIONS, "node_count"),
        "resources.processes_per_node": (*OPTIONS, "process_count_per_node"),
        "resources.cores_per_process": (*OPTIONS, _given(tree, "core_count_per_process", "process_count_per_node")),
        "resources.memory": (*OPTIONS, "memory_limit"),
        "resources.accelerators": (*OPTIONS, "request_gpus"),
        "framework": (*TRAINING, "config", "ai_framework"),
        "version": (*section, "version"),
        "optimisation": OPTIMISATION,
        "optimisation.build": (*OPTIMISATION, "enable_opt_build"),
        "optimisation.autotuning": (*OPTIMISATION, "enable_autotuning"),
        "optimisation.entry": (*section, "backend"),
        "optimisation.compiler": section,
        "optimisation.input": (*TRAINING, "data", "etl", "cache"),
        "optimisation.workers": (*TRAINING, "data", "etl", "prefetch"),
        "optimisation.threads": (*APPLICATION, "threads"),
        "optimisation.staging": (*APPLICATION, "storage_class_pref"),
        "optimisation.minimal_efficiency": (*APPLICATION, "minimal_efficiency"),
        "dataset": (*TRAINING, "data"),
        "dataset.source": (*TRAINING, "data", "location"),
        "image": (*APPLICATION, "container_runtime"),
        "arguments": (*APPLICATION, "arguments"),
        "script": (*APPLICATION, "executable"),
        "checkpoint.signal_before_wall": ("job", "checkpoint", "signal_before_wall"),
    }
    return {
        **{about: place_of(tree, path) for about, path in paths.items()},
        "resources.partition": place_of(tree, (*OPTIONS, _given(tree, "partition", "queue"))),
        "application.library": place_of(tree, (*HPC, "parallelisation-mpi", "library")),
        "application.core_subscription": place_of(tree, (*HPC, "parallelisation-mpi", "core_subscription")),
        "application.number_of_acc": place_of(tree, HPC),
        "application.mpi_ranks": place_of(tree, (*APPLICATION, "mpi_ranks")),
        "application.threads": place_of(tree, (*APPLICATION, "threads")),
        **{f"job_options.{name}": item.location for name, item in _options(tree).items()},
    }


def _given(tree: Item, name: str, other: str) -> str:
    """An option that is given, else the one that says the same in another way."""
    return name if name in _options(tree) else other


def _options(tree: Item) -> dict[str, Item]:
    section = tree.get(*OPTIONS)
    return section.entries if section else {}
