"""The job of a plan: what the scheduler is asked for, and its script."""

from __future__ import annotations

from collections.abc import Sequence

from modak_ansible.allocation.options import account_of
from modak_ansible.allocation.ranks import alone_of
from modak_ansible.allocation.site_rules import effects_of, one_text
from modak_ansible.model.plan import PlannedDataset, PlannedImage, PlannedJob
from modak_ansible.model.request import Request
from modak_ansible.model.target import Scheduler
from modak_ansible.model.tuning import PlannedTuning
from modak_ansible.optimisations.base import CannotPlan, Draft
from modak_ansible.optimisations.distributed.launcher import launching_of
from modak_ansible.planning.data import ON_TARGET
from modak_ansible.schedulers.containers import CONTAINER_RUNTIMES
from modak_ansible.schedulers.directives import CannotExpress
from modak_ansible.schedulers.script import DataPlace, ScriptParts, render_script

# Options of which a job can do without what the scheduler has no words for.
_OPTIONAL = tuple(f"job_options.{name}" for name in ("standard_output_file", "standard_error_file", "email_address"))
_CHOICES = "MODAK_CHOICES"  # where the runtime in the training's process reads what it is to do


def planned_job(
    draft: Draft, image: PlannedImage, datasets: Sequence[PlannedDataset], tuning: PlannedTuning | None = None
) -> PlannedJob:
    """The job of a draft in which everything is settled, or is tried in the job itself.

    Raises:
        CannotPlan: the scheduler cannot be told what is asked for.
    """
    job = _asked(draft)
    try:
        script = render_script(job, script_parts(draft, image, datasets, tuning))
    except CannotExpress as error:
        raise CannotPlan(error.about, error.message, error.hint, optional=error.about in _preferences(job)) from error
    return job.model_copy(update={"script": script})


def _preferences(job: PlannedJob) -> tuple[str, ...]:
    from modak_ansible.schedulers.kubernetes.directives import UNKNOWN  # noqa: PLC0415 - few preferences are not kept

    unsupported = UNKNOWN if job.scheduler is Scheduler.KUBERNETES else ()
    # what a job waits for may make what it reads
    return (*_OPTIONAL, *(f"job_options.{name}" for name in unsupported if name != "job_dependency"))


def _asked(draft: Draft) -> PlannedJob:
    request, target = draft.request, draft.request.target
    resources = request.resources
    return PlannedJob(
        scheduler=target.scheduler,
        name=request.job_options.job_name or request.blueprint,
        nodes=draft.layout.nodes,
        processes_per_node=draft.layout.slots,
        cores_per_process=draft.layout.cores,
        threads=draft.threads,
        memory=resources.memory,
        accelerators=resources.accelerators,
        partition=draft.partition_name,
        account=account_of(request),
        exclusive=resources.exclusive,
        walltime=resources.walltime,
        environment=_chosen_of(draft),
        options=request.job_options,
        checkpoint=request.checkpoint,
        script="",
    )


def environment_of(draft: Draft) -> tuple[tuple[str, str], ...]:
    """What the job sets for its processes; the user's own come last, and win."""
    environment = {**_chosen_of(draft), **dict(effects_of(draft.request).environment)}
    return (*sorted(environment.items()), *draft.request.application.environment)


def _chosen_of(draft: Draft) -> dict[str, str]:
    choices = " ".join(f"{name}={value}" for name, value in sorted(draft.choices.items()))
    return {**alone_of(draft.request, draft.layout), **draft.environment, **({_CHOICES: choices} if choices else {})}


def script_parts(
    draft: Draft, image: PlannedImage, datasets: Sequence[PlannedDataset], tuning: PlannedTuning | None = None
) -> ScriptParts:
    """What the job's script holds besides the job's own fields."""
    request, target = draft.request, draft.request.target
    application = request.application
    scratch = target.scratch.path if target.scratch and draft.staging != "shared" else None
    effects = effects_of(request)
    return ScriptParts(
        runtime=request.application.is_training,
        image=image.path,
        python=image.python,
        script=application.script,
        container_runtime=target.container_runtime if draft.in_container else None,
        container_flags=draft.container_flags,
        binds=draft.binds,
        modules=target.site.modules,
        data=tuple(_place(dataset) for dataset in datasets),
        staging_path=scratch,
        scratch=target.scratch.path if target.scratch and draft.uses_scratch else None,
        arguments=draft.arguments,
        environment=environment_of(draft),
        gpu_request=_gpu_request(request, draft.layout.processes_per_node),
        launch=launching_of(draft).launch,
        command=application.command,
        words=application.words,
        build=application.build,
        site_pre=effects.pre,
        pre=one_text(application.pre_execution),
        post=(*one_text(application.post_execution), *effects.post),
        tuning=tuning,
        seal=f"images/{image.digest}.seal" if draft.in_container and image.layers else "",
        signing_key=target.site.signing_key or "" if image.layers else "",
        pods=target.pods,
        after=tuple((predecessor.training, predecessor.deployments) for predecessor in request.after),
    )


def _place(dataset: PlannedDataset) -> DataPlace:
    return DataPlace(
        name=dataset.name,
        path=dataset.path,
        variable=dataset.variable,
        mount_as=dataset.mount_as,
        mounted_file=dataset.mounted_file,
        is_present=dataset.sources[0].kind == ON_TARGET,
        packed=dataset.pack == "squashfs",
        staging=dataset.staging,
    )


def _check_seen(request: Request) -> None:
    """
    Raises:
        CannotPlan: the container would not see the accelerators that the job asks for.
    """
    runtime = CONTAINER_RUNTIMES.get(request.target.container_runtime)
    vendor = request.target.accelerator.vendor
    if runtime is None or request.image or (vendor or "nvidia") in dict(runtime.accelerators):
        return
    reason = f"{request.target.container_runtime} has no flag that lets a container see accelerators"
    hint = "use another container_runtime, or an image of your own that contains their drivers"
    raise CannotPlan("accelerators", f"{reason}{f' of {vendor}' if vendor else ''}", hint)


def _gpu_request(request: Request, processes: int) -> str:
    """How accelerators are asked for, where each node has so many processes.

    Raises:
        CannotPlan: the site asks for them by the process, and they cannot be shared out evenly.
    """
    count = request.resources.accelerators
    if not count:
        return ""
    _check_seen(request)
    defaults = {
        Scheduler.TORQUE: ":gpus={count}",
        Scheduler.PBSPRO: ":ngpus={count}",
        Scheduler.LSF: "num={count}:j_exclusive=yes",
        Scheduler.KUBERNETES: f"{request.target.accelerator.vendor or 'nvidia'}.com/gpu={{count}}",
    }
    default = defaults.get(request.target.scheduler, "--gres=gpu:{count}")
    gpu_request = request.target.site.gpu_request or default
    if "{per_process}" in gpu_request and count % processes:
        message = f"{count} accelerators of a node cannot be shared evenly among {processes} processes"
        raise CannotPlan("resources.accelerators", message, "use as many processes on each node as it has accelerators")
    return gpu_request.replace("{count}", str(count)).replace("{per_process}", str(count // processes))
