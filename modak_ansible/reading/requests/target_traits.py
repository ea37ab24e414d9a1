"""What a request itself says of its target: the processor, the accelerator, the container runtime."""

from __future__ import annotations

from modak_ansible.model.target import Target
from modak_ansible.reading.blueprint.forms.forms import FieldProblem
from modak_ansible.reading.requests.checks import APPLICATION, OPTIMISATION
from modak_ansible.reading.requests.form.form import JobForm
from modak_ansible.reading.requests.form.notes import Notes
from modak_ansible.reading.requests.targets import Named
from modak_ansible.target.core.container import RUNTIMES

# archspec's names of what requests call cpu_type
_FAMILIES = {"x86": "x86_64", "amd": "x86_64", "arm": "aarch64", "power": "ppc64le"}
_AMD = "AuthenticAMD"


def with_traits(named: Named, job: JobForm, notes: Notes) -> Target:
    """The target with what the request says of it; what its description says otherwise is noted."""
    target = named.target
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
        target = _with_processor(named, target, build.cpu_type, notes)
    if build and build.acc_type in ("nvidia", "amd") and (job.job_options is None or job.options.request_gpus):
        target = _with_accelerator(target, build.acc_type, notes)
    return target


def _with_processor(named: Named, target: Target, wanted: str, notes: Notes) -> Target:
    import archspec.cpu  # noqa: PLC0415 - slow to import, and seldom needed

    family = _FAMILIES[wanted]
    known = archspec.cpu.TARGETS.get(target.processor.architecture)
    fits = known is None or (
        known.family.name == family and not (wanted == "amd" and known.vendor not in ("generic", _AMD))
    )
    if fits:
        return target
    if not named.is_described and not target.local:
        return target.model_copy(update={"processor": target.processor.model_copy(update={"architecture": family})})
    reason = f"the processor of {target.name} is {target.processor.architecture}"
    hint = "leave it out, or describe the target's processor"
    notes.cannot_keep((*OPTIMISATION, "opt_build", "cpu_type"), reason, hint)
    return target


def _with_accelerator(target: Target, vendor: str, notes: Notes) -> Target:
    known = target.accelerator.vendor
    if known and known != vendor:
        reason = f"the accelerators of {target.name} are of {known}"
        notes.cannot_keep((*OPTIMISATION, "opt_build", "acc_type"), reason, f"acc_type: {known}")
        return target
    return target.model_copy(update={"accelerator": target.accelerator.model_copy(update={"vendor": vendor})})
