"""The directives of a job under Slurm, as sbatch reads them after ``#SBATCH``.

Source: the manual page of sbatch 24.11.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ..directives import (
    ACCOUNT,
    NAME,
    PLAIN,
    CannotExpress,
    Patterns,
    addresses,
    license_of,
    mebibytes,
    output_files,
    plain,
    start,
    variables,
)

if TYPE_CHECKING:
    from modak_ansible.model.job_options import JobDependency, JobOptions
    from modak_ansible.model.plan import PlannedJob

_PARTITIONS = re.compile(rf"{NAME.pattern}(,{NAME.pattern})*", re.ASCII)
_ARRAY = re.compile(r"\d+(-\d+(:\d+)?)?(,\d+(-\d+(:\d+)?)?)*(%\d+)?", re.ASCII)
_FEATURE = r"[A-Za-z0-9_][A-Za-z0-9_.:=+-]*"
_GROUP = rf"({_FEATURE}|\({_FEATURE}([&|]{_FEATURE})*\))"
_COUNT = r"\*[1-9][0-9]{0,6}"
_SET = rf"\[{_GROUP}({_COUNT})?([&|]{_GROUP}({_COUNT})?)*\]"
# As sbatch 24.11 takes them: one count alone, further ones in brackets, and nothing nested in its own kind.
_FEATURES = rf"{_FEATURE}{_COUNT}|({_GROUP}|{_SET})([&|]({_GROUP}|{_SET}))*"  # large, and compiled when there is one
_RESOURCE = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*(:[A-Za-z0-9_.-]+){0,2}", re.ASCII)
_JOB = re.compile(r"\d+(_\d+)?", re.ASCII)
_PATTERNS = Patterns("Slurm", r"%|\d*[AaJjNnstux]", "%j for the job's id")
_MAIL = {"abort": "FAIL", "begin": "BEGIN", "end": "END"}


def slurm_directives(job: PlannedJob, gpu_request: str = "") -> list[str]:
    """Each directive of a job, without ``#SBATCH``.

    Raises:
        CannotExpress: an option that Slurm does not have, or a text that cannot stand in a directive.
    """
    first, *other_components = _components(job)
    directives = [*_nodes(first, gpu_request), *_start(first), *_surroundings(first.options), *_output(first)]
    for component in other_components:
        directives += ["hetjob", *_nodes(component, gpu_request), _requeue(component)]
    return directives


def _components(job: PlannedJob) -> Sequence[PlannedJob]:
    """What each component of a heterogeneous job would be by itself; any other job is its own only one."""
    return [
        job.model_copy(
            update={
                "nodes": component.node_count,
                "partition": component.partition,
                "memory": component.memory_limit,
                "options": job.options.model_copy(update={**component.stated, "core_count": None}),
            }
        )
        for component in job.options.components
    ] or [job]


def _nodes(job: PlannedJob, gpu_request: str) -> Iterator[str]:
    """Which nodes, and for how long."""
    yield from _place(job)
    yield from _size(job, gpu_request)
    yield f"--time={written_walltime(job.walltime)}"


def written_walltime(seconds: int) -> str:
    """A time limit as Slurm has it: ``1-00:00:00``."""
    days, rest = divmod(seconds, 86400)
    return f"{days}-{rest // 3600:02}:{rest // 60 % 60:02}:{rest % 60:02}"


def _place(job: PlannedJob) -> Iterator[str]:
    yield f"--job-name={plain('job_options.job_name', job.name, what='a name')}"
    if job.account:
        yield f"--account={plain('job_options.account', job.account, ACCOUNT, 'an account')}"
    if job.partition:
        yield f"--partition={plain('job_options.partition', job.partition, _PARTITIONS, 'a partition')}"
    if job.options.qos:
        yield f"--qos={plain('job_options.qos', job.options.qos, what='a quality of service')}"
    if job.options.reservation:
        yield f"--reservation={plain('job_options.reservation', job.options.reservation, what='a reservation')}"


def _size(job: PlannedJob, gpu_request: str) -> Iterator[str]:
    options = job.options
    yield f"--nodes={job.nodes}"
    if options.core_count:
        yield f"--ntasks={options.core_count}"
    yield f"--ntasks-per-node={job.processes_per_node}"
    if job.layout.cores:
        yield f"--cpus-per-task={job.layout.cores}"
    if job.memory and options.minimum_memory_per_processor:
        message = "Slurm takes a limit for each node or for each core, not both"
        raise CannotExpress("job_options.minimum_memory_per_processor", message, "leave one of the two out")
    if job.memory:
        yield f"--mem={mebibytes(job.memory)}M"
    if options.minimum_memory_per_processor:
        yield f"--mem-per-cpu={mebibytes(options.minimum_memory_per_processor)}M"
    yield from _generic(options, plain("host", gpu_request, PLAIN, "the site's request for accelerators"))
    yield from _which_nodes(job)
    if job.exclusive:
        yield "--exclusive"


def _generic(options: JobOptions, gpu_request: str) -> Iterator[str]:
    """Accelerators and other generic resources: of two --gres only the last would count."""
    resources = ",".join(
        plain("job_options.gres", resource, _RESOURCE, "a generic resource") for resource in options.gres
    )
    if resources and gpu_request.startswith("--gres="):
        gpu_request, resources = f"{gpu_request},{resources}", ""
    if gpu_request:
        yield gpu_request
    if resources:
        yield f"--gres={resources}"


def _which_nodes(job: PlannedJob) -> Iterator[str]:
    about = "job_options.request_specific_nodes"
    hosts = _node_names(about, job.options.request_specific_nodes)
    if job.options.exclude:
        yield f"--exclude={','.join(_node_names('job_options.exclude', job.options.exclude))}"
    constraint = job.options.architecture_constraint
    features = [_constraint(constraint)] if constraint else []
    if len(hosts) == 1 and job.nodes > 1:  # one name for several nodes is something that they have in common
        features.insert(0, hosts[0])
    elif len(hosts) > job.nodes:
        raise CannotExpress(about, f"{len(hosts)} nodes are named, but the job has {job.nodes}", "name as many")
    elif hosts:
        yield f"--nodelist={','.join(hosts)}"
    if len(features) > 1 and set(features[1]) & set("|*[("):
        raise CannotExpress(
            "job_options.architecture_constraint", f"{constraint} cannot be combined with {features[0]}"
        )
    if features:
        joined = "&".join(features)
        # quotes are sbatch's own, and keep what reads directives as words of a shell from taking & for one
        yield f'--constraint="{joined}"' if set(joined) & set("&|*[(") else f"--constraint={joined}"


def _node_names(about: str, names: Sequence[str]) -> list[str]:
    return [plain(about, name, what="the name of a node") for name in names]


def _constraint(text: str) -> str:
    if not re.fullmatch(_FEATURES, text, re.ASCII):
        message = f"Slurm cannot select nodes by {text[:60]!r}"
        hint = "such as ib&zen4, (rome|milan)&ib, [rack1|rack2] or [rack1*2&rack2*4]"
        raise CannotExpress("job_options.architecture_constraint", message, hint)
    return text


def _start(job: PlannedJob) -> Iterator[str]:
    options = job.options
    if options.licenses:
        yield f"--licenses={','.join(map(_license, options.licenses))}"
    if options.job_array:
        yield f"--array={plain('job_options.job_array', options.job_array, _ARRAY, 'indices')}"
    if options.defer_job:
        yield f"--begin={start(options.defer_job).isoformat(timespec='seconds')}"
    if options.job_dependency:
        yield f"--dependency={','.join(map(_dependency, options.job_dependency))}"


def _license(text: str) -> str:
    name, count = license_of(text)
    if count and not count.isdigit():
        message = f"Slurm counts licences, but {text[:60]!r} has no number"
        raise CannotExpress("job_options.licenses", message, f"{name}:1")
    return f"{name}:{count}" if count else name


def _dependency(dependency: JobDependency) -> str:
    about = "job_options.job_dependency"
    jobs = [plain(about, job, _JOB, "a job's id") for job in dependency.jobs]
    if dependency.kind == "singleton" and jobs:
        raise CannotExpress(about, "singleton waits for jobs of the same name, not for ids", "leave the ids out")
    if dependency.kind != "singleton" and not jobs:
        raise CannotExpress(about, f"{dependency.kind} names no job", f"{dependency.kind}:12")
    return ":".join([dependency.kind, *jobs])


def _surroundings(options: JobOptions) -> Iterator[str]:
    copied = [*(["ALL"] if options.copy_environment else []), *variables(options.copy_environment_variable)]
    if copied:
        yield f"--export={','.join(copied)}"
    to = addresses(options.email_address)
    if len(to) > 1:
        message = "Slurm sends mail to one address"
        raise CannotExpress("job_options.email_address", message, "give one, which may be a list's")
    # mail without an occasion is never sent by Slurm, and when the job is aborted by Torque
    occasions = options.request_event_notification or (("abort",) if to else ())
    if occasions:
        yield f"--mail-type={','.join(_MAIL[occasion] for occasion in occasions)}"
    if to:
        yield f"--mail-user={to[0]}"


def _output(job: PlannedJob) -> Iterator[str]:
    output, error = output_files(job.options, _PATTERNS)
    yield f"--output={output}"
    if error:
        yield f"--error={error}"
    yield _requeue(job)
    if job.checkpoint:
        yield "--open-mode=append"
        yield f"--signal=B:USR1@{job.checkpoint.signal_before_wall}"


def _requeue(job: PlannedJob) -> str:
    return "--requeue" if job.checkpoint and job.checkpoint.requeue else "--no-requeue"
