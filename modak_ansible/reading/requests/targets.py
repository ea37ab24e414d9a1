"""Which target a request means, one of the user's own descriptions or one that ships, and what it says of it itself."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from modak_ansible.errors import nearest
from modak_ansible.model.target import Scheduler, Target
from modak_ansible.reading.blueprint.forms.forms import FieldProblem
from modak_ansible.reading.blueprint.forms.mistakes import Mistakes
from modak_ansible.reading.blueprint.forms.yaml_files import read_yaml
from modak_ansible.reading.blueprint.reader import Inputs, read_targets
from modak_ansible.reading.blueprint.target_words import SCHEDULER, TargetDefaults, describes_machine, is_target_file
from modak_ansible.reading.requests.checks import APPLICATION, OPTIMISATION
from modak_ansible.reading.requests.form.form import JobForm, TargetForm
from modak_ansible.reading.requests.form.notes import Notes
from modak_ansible.store.project import shipped
from modak_ansible.store.targets import own_targets
from modak_ansible.store.testbeds import TESTBED
from modak_ansible.target.core.container import RUNTIMES
from modak_ansible.target.core.files import expanded

TARGETS_FILE = "targets.yaml"
_FOLDER = "targets"
_LOCAL = ("local", "localhost")
# Options that no machine without a scheduler can do anything about.
_SCHEDULERS = (
    "account", "project", "queue", "partition", "qos", "request_gpus", "request_specific_nodes",
    "architecture_constraint", "job_array", "job_dependency", "request_event_notification", "email_address",
    "node_exclusive",
)  # fmt: skip


class TargetProblem(Exception):
    """A target that is not there, or is another; ``field`` is name or job_scheduler_type."""

    def __init__(self, field: str, rule: str, reason: str, hint: str = "") -> None:
        super().__init__(reason)
        self.field = field
        self.problem = FieldProblem(rule, reason, hint)


@dataclass(frozen=True)
class NamedTarget:
    """A target, and whether the user has described it."""

    target: Target
    is_described: bool


# archspec's names of what requests call cpu_type
_FAMILIES = {"x86": "x86_64", "amd": "x86_64", "arm": "aarch64", "power": "ppc64le"}
_AMD = "AuthenticAMD"
_TITLES = {"pbspro": "PBS Professional", "lsf": "LSF"}


def find_target(job: JobForm, folder: Path, inputs: Inputs, mistakes: Mistakes, notes: Notes) -> NamedTarget | None:
    """The target that a request means; None where its description has mistakes.

    Args:
        job: the request. Without a target it is this machine, or a cluster that nobody describes where it asks for
            what only a scheduler gives.
        folder: the request's; ``targets.yaml`` there describes targets.
        inputs: a service template or a target file that describes them instead, and values for its inputs; a file of
            values that is a target file describes them, too.
        notes: are told what is taken for granted.

    Raises:
        TargetProblem: there is no such target, or it has another scheduler.
    """
    form = job.target or TargetForm.model_validate({})
    beside = folder / TARGETS_FILE if (folder / TARGETS_FILE).is_file() else None
    file = inputs.targets or (_target_file(inputs.file, beside) if form.name not in (TESTBED, *_LOCAL) else None)
    description = file or beside
    before = len(mistakes)
    values = Inputs(None if inputs.file == file else inputs.file, inputs.values)
    is_one_target = inputs.targets is not None and _is_one_target(inputs.targets)
    name = description.stem if description and is_one_target else form.name or ""
    defaults = TargetDefaults(name, form.job_scheduler_type or "")
    targets = read_targets(description, values, mistakes, defaults) if description else {}
    if len(mistakes) > before:
        return None
    if name in targets and is_one_target:  # whatever the request itself names
        return NamedTarget(_absolute(targets[name], description), is_described=True)
    if form.name in targets or (form.name is None and file and len(targets) == 1):
        target = targets[form.name or next(iter(targets))]
        _check_scheduler(form, target)
        return NamedTarget(_absolute(target, description), is_described=True)
    if file and form.name is None and targets:
        raise TargetProblem(
            "name", "missing-field", f"{file} describes several targets", f"name: {next(iter(targets))}"
        )
    own_inputs = Inputs() if description else inputs
    if form.name in (None, TESTBED, *_LOCAL):
        return _default_target(job, form, own_inputs, mistakes, notes)
    return _shipped_target(job, form, targets, own_inputs, mistakes, notes)


def _is_one_target(path: Path) -> bool:
    """Whether a file describes one target without a name."""
    tree = read_yaml(path, Mistakes())
    return tree is not None and is_target_file(tree) and describes_machine(tree)


def _target_file(path: Path | None, beside: Path | None) -> Path | None:
    """A file of values that describes a target by itself: none for the inputs of the description beside a request."""
    tree = read_yaml(path, Mistakes()) if path else None
    is_whole = tree is not None and is_target_file(tree) and (beside is None or SCHEDULER in tree.entries)
    return path if is_whole else None


def _default_target(
    job: JobForm, form: TargetForm, inputs: Inputs, mistakes: Mistakes, notes: Notes
) -> NamedTarget | None:
    """The testbed, this machine, or the cluster that inputs describe, or nobody."""
    kind = form.job_scheduler_type or ("slurm" if form.name == TESTBED else "none")
    if (form.name == TESTBED) == (kind == "none") and form.name:
        reason = f"{form.name} is not used without a scheduler" if kind == "none" else f"{form.name} has no {kind}"
        raise TargetProblem("job_scheduler_type", "contradiction", reason, "leave it out")
    if kind == "kubernetes":
        reason = "which cluster that is, and what its Pods see, cannot be known here"
        raise TargetProblem(
            "job_scheduler_type", "missing-field", reason, "target: { name: one that you have described }"
        )
    option = _for_a_scheduler(job) if form.name is None and form.job_scheduler_type is None else ""
    if option:
        kind = "slurm"
        words = f"no target is named, and {option} does not apply to this machine: a cluster with Slurm is planned for"
        notes.warn(("job",), words, "target: { job_scheduler_type: torque }, or the name of one")
    node = "local" if kind == "none" else kind
    is_given = inputs.file is not None or bool(inputs.values)
    targets = read_targets(shipped("tosca") / TARGETS_FILE, Inputs(inputs.file, inputs.values), mistakes)
    if node not in targets:
        return None
    if is_given or form.name or kind == "none":
        return NamedTarget(targets[node], is_described=is_given)
    words = (
        f"no description of the cluster with {_TITLES.get(kind, kind.capitalize())} is given: what it has is not "
        "checked"
    )
    notes.warn(("job", "target"), words, "name one, or describe it with -i site.yaml")
    unknown = {"partitions": (), "scratch": None, "image_base": "docker"}
    return NamedTarget(_with_requested_accelerators(targets[node].model_copy(update=unknown), job), is_described=False)


def _with_requested_accelerators(target: Target, job: JobForm) -> Target:
    """A target of which nobody says what accelerators it has, with those that are asked for."""
    if target.accelerator.count:
        return target
    count = job.options.request_gpus or 0
    return target.model_copy(update={"accelerator": target.accelerator.model_copy(update={"count": count})})


def _for_a_scheduler(job: JobForm) -> str:
    """The first option of a job that only a scheduler can do something about; empty where there is none."""
    options = job.options
    if (options.node_count or 1) > 1:
        return "node_count"
    return next((name for name in _SCHEDULERS if getattr(options, name)), "")


def _shipped_target(
    job: JobForm, form: TargetForm, targets: dict[str, Target], inputs: Inputs, mistakes: Mistakes, notes: Notes
) -> NamedTarget | None:
    """A target whose description ships with the project: nobody has tried it there."""
    files = {path.stem: path for path in sorted((shipped("tosca") / _FOLDER).glob("*.yaml"))}
    name = (form.name or "").lower().replace("_", "-")
    if name not in files:
        if form.name in own_targets():
            hint = f"--on {form.name} uses the one of modak targets"
        else:
            hint = nearest(form.name or "", (*targets, *files, TESTBED, "local"))
        hint += " or " if hint.endswith("?") else "; or "
        advice = f"describe it in {TARGETS_FILE} beside the request, or in a file for --target"
        raise TargetProblem("name", "unknown-target", f"no target {form.name} is known", f"{hint}{advice}")
    shipped_targets = read_targets(files[name], inputs, mistakes)
    if name not in shipped_targets:
        return None
    target = shipped_targets[name].model_copy(update={"unverified": _source(files[name])})
    scheduler = form.job_scheduler_type
    if scheduler and scheduler != target.scheduler.value:
        words = f"{scheduler} is used, although the shipped description has {target.scheduler.value}"
        notes.warn(("job", "target", "job_scheduler_type"), words, "leave it out, or describe the target yourself")
        target = target.model_copy(update={"scheduler": Scheduler(scheduler)})
    return NamedTarget(_with_requested_accelerators(target, job), is_described=True)


def _source(path: Path) -> str:
    """Where a description that ships comes from."""
    root = read_yaml(path, Mistakes())
    unverified = root.get("metadata", "unverified") if root else None
    return str(unverified.value) if unverified else "nobody has tried it"


def _check_scheduler(form: TargetForm, target: Target) -> None:
    scheduler_type = form.job_scheduler_type
    if scheduler_type and scheduler_type != target.scheduler.value:
        reason = f"{target.name} is described with {target.scheduler.value}, not {scheduler_type}"
        raise TargetProblem("job_scheduler_type", "contradiction", reason, "leave it out")


def _absolute(target: Target, description: Path | None) -> Target:
    """The target with its key found from anywhere: elsewhere it is looked for beside the request."""
    if not target.identity_file or description is None:
        return target
    path = description.parent / expanded(target.identity_file)
    return target.model_copy(update={"identity_file": str(path.absolute())})


# --- what the request itself says of it


def with_traits(named_target: NamedTarget, job: JobForm, notes: Notes) -> Target:
    """The target with what the request says of it; what its description says otherwise is noted."""
    target = named_target.target
    runtime = job.runs.container_runtime
    if runtime == "docker" and target.container_runtime != "docker":
        problem = FieldProblem("not-allowed-value", f"Docker is not run on {target.name}", "leave it out")
        notes.refuse((*APPLICATION, "container_runtime"), problem)
    elif runtime in RUNTIMES and runtime != "any":
        if target.container_runtime not in ("any", runtime) and not target.local:
            reason = f"{target.name} is described with {target.container_runtime}"
            notes.refuse((*APPLICATION, "container_runtime"), FieldProblem("contradiction", reason, "leave it out"))
        target = target.model_copy(update={"container_runtime": runtime})
    build = job.optimisation.opt_build if job.optimisation else None
    if build and build.cpu_type and build.cpu_type != "none":
        target = _with_processor(named_target, target, build.cpu_type, notes)
    if build and build.acc_type in ("nvidia", "amd") and (job.job_options is None or job.options.request_gpus):
        target = _with_accelerator(target, build.acc_type, notes)
    return target


def _with_processor(named_target: NamedTarget, target: Target, cpu_type: str, notes: Notes) -> Target:
    import archspec.cpu  # noqa: PLC0415 - slow to import, and seldom needed

    family = _FAMILIES[cpu_type]
    microarchitecture = archspec.cpu.TARGETS.get(target.processor.architecture)
    fits = microarchitecture is None or (
        microarchitecture.family.name == family
        and not (cpu_type == "amd" and microarchitecture.vendor not in ("generic", _AMD))
    )
    if fits:
        return target
    if not named_target.is_described and not target.local:
        return target.model_copy(update={"processor": target.processor.model_copy(update={"architecture": family})})
    reason = f"the processor of {target.name} is {target.processor.architecture}"
    hint = "leave it out, or describe the target's processor"
    notes.cannot_keep((*OPTIMISATION, "opt_build", "cpu_type"), reason, hint)
    return target


def _with_accelerator(target: Target, vendor: str, notes: Notes) -> Target:
    own_vendor = target.accelerator.vendor
    if own_vendor and own_vendor != vendor:
        reason = f"the accelerators of {target.name} are of {own_vendor}"
        notes.cannot_keep((*OPTIMISATION, "opt_build", "acc_type"), reason, f"acc_type: {own_vendor}")
        return target
    return target.model_copy(update={"accelerator": target.accelerator.model_copy(update={"vendor": vendor})})
