"""From a variant to the plan of one run: the target and the data of a blueprint, the work of a workload."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import archspec.cpu

from modak_ansible.catalogue.processor import is_family
from modak_ansible.errors import CannotPlan
from modak_ansible.measuring.suites.switches import optimisation_of, script_switches, target_for
from modak_ansible.measuring.suites.variants import Variant
from modak_ansible.measuring.suites.workloads import workloads_folder
from modak_ansible.model.application import Application, SourceFile
from modak_ansible.model.dataset import Dataset
from modak_ansible.model.measured.suite import Suite
from modak_ansible.model.request import Request
from modak_ansible.model.target import Target
from modak_ansible.planning.plan import make_plan
from modak_ansible.planning.service import Planned, request_of
from modak_ansible.reading.blueprint.files import code_files
from modak_ansible.reading.blueprint.reader import Inputs
from modak_ansible.store.lists.refusals import known_refusals
from modak_ansible.store.project import blueprint_state, known_testbed
from modak_ansible.target.core.files import expanded

# What makes every run a deployment of its own, and is of no meaning to a script.
RUN_VARIABLE = "MODAK_BENCH_RUN"


@dataclass(frozen=True)
class SuiteTarget:
    """A target of a suite, and what is known of it."""

    blueprint: Path  # whose target and dataset are used
    request: Request  # what its first training asks for, with paths that hold from anywhere
    architecture: str = ""  # archspec name of its processor; empty before it was looked at

    @property
    def state(self) -> Path:
        return blueprint_state(self.blueprint)


def place_of(blueprint: Path, inputs: Inputs) -> SuiteTarget:
    """The place that a blueprint describes.

    Raises:
        InvalidBlueprint: with every mistake and its place.
    """
    request = request_of(blueprint, inputs)
    folder = blueprint.resolve().parent
    update = {"target": _absolute_target(request.target, folder), "dataset": _absolute_dataset(request.dataset, folder)}
    return SuiteTarget(blueprint, request.model_copy(update=update))


def plan_look(place: SuiteTarget, *, with_data: bool) -> Planned:
    """The plan by which a target is looked at, and the data brought there, before anything is planned to run on it.

    Raises:
        CannotPlan: the target or the catalogue cannot give what the blueprint's own training asks for.
    """
    request = place.request
    environment = (*request.application.environment, (RUN_VARIABLE, uuid.uuid4().hex))
    update = {
        "blueprint": "bench-look",  # never the deployment that the user may have of the blueprint itself
        "application": request.application.model_copy(update={"environment": environment, "arguments": ()}),
        "dataset": request.dataset if with_data else None,
    }
    plan = make_plan(request.model_copy(update=update))
    return Planned(plan, place.blueprint, place.state, known_testbed(place.state))


def plan_run(suite: Suite, variant: Variant, place: SuiteTarget, run: str = "") -> Planned:
    """The plan of one run.

    Args:
        run: its name; a new one unless it is given.

    Raises:
        CannotPlan: the target or the catalogue cannot give what the variant asks for.
    """
    if variant.settings.get("precision") == "bf16" and not variant.entry.accelerator and _has_no_bf16(place):
        message = f"{place.architecture} has neither bf16 nor AVX-512, and would emulate it fifty times more slowly"
        raise CannotPlan("optimisation.precision", message)
    request = _request(suite, variant, place, run or uuid.uuid4().hex)
    plan = make_plan(request, refusals=known_refusals(place.state))
    # stages look for the user's files beside the blueprint, and here these are the workload's
    beside = workloads_folder() / variant.workload.name / "workload.yaml"
    return Planned(plan, beside, place.state, known_testbed(place.state))


def _request(suite: Suite, variant: Variant, place: SuiteTarget, run: str) -> Request:
    base = place.request
    resources = base.resources.model_copy(
        update={
            "nodes": variant.nodes,
            "processes_per_node": 1,
            "accelerators": 1 if variant.entry.accelerator else 0,
            "exclusive": True,
            "walltime": suite.walltime,
        }
    )
    return Request(
        blueprint=f"bench-{suite.name}",
        training=variant.group,
        application=_application(variant, run),
        resources=resources,
        optimisation=optimisation_of(variant.settings, variant.entry.name),
        target=target_for(variant.settings, _target(variant, place)),
        dataset=base.dataset if variant.workload.dataset else None,
    )


def _application(variant: Variant, run: str) -> Application:
    options = {**variant.arguments, **script_switches(variant.settings)}
    words = {"true": True, "false": False}
    return Application(
        name=f"{variant.workload.name}-{variant.group}",
        framework=variant.entry.framework,
        version=variant.entry.version,
        script=variant.script,
        files=_files(variant.workload.name),
        arguments=tuple((name.replace("_", "-"), words.get(value, value)) for name, value in options.items()),
        environment=((RUN_VARIABLE, run),),
        distributed_training=variant.workload.nodes > 1,
    )


def _has_no_bf16(place: SuiteTarget) -> bool:
    """Whether a step would be computed by oneDNN's reference loops, as on an EPYC of Zen 3: 58.6 s instead of 1.2 s."""
    cpu = archspec.cpu.TARGETS.get(place.architecture)
    return cpu is not None and cpu.family.name == "x86_64" and cpu.vendor != "generic" and "avx512f" not in cpu


def waits_for_processor(variant: Variant, place: SuiteTarget) -> bool:
    """Whether a plan has to wait until the target's processor was looked at: it depends on it, and nobody says."""
    entry = variant.entry
    depends = entry.libraries or entry.features or entry.refusals or not all(map(is_family, entry.architectures))
    return bool(depends) and is_family(place.request.target.processor.architecture)


def _target(variant: Variant, place: SuiteTarget) -> Target:
    """The target; with the processor that was found there where a build depends on it and the blueprint says nothing.

    Other builds are planned as the blueprint has it: the name of the processor is part of an image's digest, and the
    image that users of the target have is the one to be measured.
    """
    target = place.request.target
    if not (place.architecture and waits_for_processor(variant, place)):
        return target
    processor = target.processor.model_copy(update={"architecture": place.architecture})
    return target.model_copy(update={"processor": processor})


@cache
def _files(workload: str) -> tuple[SourceFile, ...]:
    return tuple(code_files(workloads_folder() / workload, None, top=workloads_folder(), is_blueprint=False))


def _absolute_target(target: Target, folder: Path) -> Target:
    if not target.identity_file:
        return target
    return target.model_copy(update={"identity_file": str(folder / expanded(target.identity_file))})


def _absolute_dataset(dataset: Dataset | None, folder: Path) -> Dataset | None:
    if dataset is None:
        return None
    sources = [
        source.model_copy(update={"location": str(folder / expanded(source.location))})
        if source.kind == "folder"
        else source
        for source in dataset.sources
    ]
    return dataset.model_copy(update={"sources": tuple(sources)})
