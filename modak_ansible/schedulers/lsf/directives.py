"""The directives of a job under LSF, as bsub reads them after ``#BSUB``.

Source: IBM's pages of the options of bsub 10.1.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from typing import TYPE_CHECKING

from ..directives import (
    ACCOUNT,
    NAME,
    PLAIN,
    CannotExpress,
    Patterns,
    addresses,
    mebibytes,
    memory_of_node,
    output_files,
    plain,
    start,
    variables,
)

if TYPE_CHECKING:
    from modak_ansible.model.job_options import JobDependency, JobOptions
    from modak_ansible.model.plan import PlannedJob

_WORD = r"[A-Za-z_][A-Za-z0-9_]*"  # a hyphen would be a minus
_FEATURE = rf"{_WORD}(=[A-Za-z0-9_.]+)?"
_GROUP = rf"({_FEATURE}|\({_FEATURE}([&|]{_FEATURE})*\))"
_NAME = re.compile(_WORD, re.ASCII)
_FEATURES = re.compile(rf"{_GROUP}([&|]{_GROUP})*", re.ASCII)
_RESOURCE = re.compile(rf"({_WORD})(?::(\d{{1,9}}))?", re.ASCII)
_JOB = re.compile(r"\d+(\[\d+\])?", re.ASCII)
_PATTERNS = Patterns("LSF", "%|J", "%J for the job's id")
_CONDITIONS = {"after": "started", "afterany": "ended", "afterok": "done", "afternotok": "exit"}


def lsf_directives(job: PlannedJob, gpu_request: str = "") -> list[str]:
    """Each directive of a job, without ``#BSUB``.

    A slot is asked for each core, so that nobody else gets those of the threads.

    Raises:
        CannotExpress: an option that LSF does not have, or a text that cannot stand in a directive.
    """
    return [*_place(job), *_size(job, gpu_request), *_time(job), *_surroundings(job.options), *_output(job)]


def _place(job: PlannedJob) -> Iterator[str]:
    options = job.options
    if options.job_array:
        raise CannotExpress("job_options.job_array", "job arrays are not supported on LSF", "deploy once for each task")
    if options.exclude:
        hint = "name those that it may have as request_specific_nodes"
        raise CannotExpress("job_options.exclude", "excluding nodes is not supported on LSF", hint)
    if options.licenses:
        hint = "name the resource of its hosts as gres"
        raise CannotExpress("job_options.licenses", "resources of a whole job are not supported on LSF", hint)
    yield f"-J {plain('job_options.job_name', job.name, what='a name')}"
    if job.account:
        yield f"-P {plain('job_options.account', job.account, ACCOUNT, 'a project')}"
    if job.partition:
        for queue in job.partition.split(","):
            plain("job_options.queue", queue, what="a queue")
        yield to_queues(job.partition)
    if options.qos:
        yield f"-sla {plain('job_options.qos', options.qos, what='a service class')}"
    if options.reservation:
        yield f"-U {plain('job_options.reservation', options.reservation, what='a reservation')}"


def to_queues(partition: str) -> str:
    """The directive that sends a job to a queue, or to whichever of several has room (gpu,preempt)."""
    return f'-q "{partition.replace(",", " ")}"' if "," in partition else f"-q {partition}"


def _size(job: PlannedJob, gpu_request: str) -> Iterator[str]:
    options, cores = job.options, job.layout.cores_per_node
    yield f"-n {cores * job.nodes}"
    yield f'-R "span[ptile={cores}]"'
    if memory := memory_of_node(job):
        yield f'-R "rusage[mem={mebibytes(memory)}MB/host]"'
        yield f"-M {mebibytes(memory) * job.nodes}MB"
    yield from map(_resource, options.gres)
    if gpu_request:
        yield f'-gpu "{plain("host", gpu_request, PLAIN, "the request for accelerators")}"'
    yield from _which_nodes(job)
    if job.exclusive:
        yield "-x"


def _resource(text: str) -> str:
    match = _RESOURCE.fullmatch(text)
    if not match:
        message = f"{text[:60]!r} is not an LSF resource, which has a name and a number"
        raise CannotExpress("job_options.gres", message, "such as nvme:1")
    return f'-R "rusage[{match.group(1)}={match.group(2) or 1}/host]"'


def _which_nodes(job: PlannedJob) -> Iterator[str]:
    about = "job_options.request_specific_nodes"
    hosts = [plain(about, node, NAME, "the name of a node") for node in job.options.request_specific_nodes]
    constraint = job.options.architecture_constraint or ""
    if constraint and not _FEATURES.fullmatch(constraint):
        message = f"LSF cannot select hosts by {constraint[:60]!r}"
        hint = "resources of hosts, such as ib&cpu=zen4 or (rome|milan)&ib"
        raise CannotExpress("job_options.architecture_constraint", message, hint)
    if len(hosts) == 1 and job.nodes > 1:  # one name for several nodes is something that they have in common
        shared = plain(about, hosts[0], _NAME, "a resource of hosts")
        constraint = f"{shared}&({constraint})" if constraint else shared
    elif hosts and len(hosts) != job.nodes:
        message = f"{len(hosts)} nodes are named, but the job has {job.nodes}: LSF would add no others"
        raise CannotExpress(about, message, "name as many")
    elif hosts:
        yield f'-m "{" ".join(hosts)}"'
    if constraint:
        spelt = constraint.replace("&", " && ").replace("|", " || ").replace("=", "==")
        yield f'-R "select[{spelt}]"'


def _time(job: PlannedJob) -> Iterator[str]:
    options = job.options
    minutes = -(-job.walltime // 60)
    yield f"-W {minutes // 60}:{minutes % 60:02}"
    if options.defer_job:
        moment = start(options.defer_job)
        moment += timedelta(seconds=-moment.second % 60)  # LSF counts in minutes
        yield f"-b {moment.year}:{moment.month}:{moment.day}:{moment.hour}:{moment.minute:02}"
    if options.job_dependency:
        yield f'-w "{" && ".join(_condition(job_id) for job_id in options.job_dependency)}"'


def _condition(dependency: JobDependency) -> str:
    about = "job_options.job_dependency"
    word = _CONDITIONS.get(dependency.kind)
    if word is None:
        message = f"LSF has no {dependency.kind}: it waits for jobs by their ids"
        raise CannotExpress(about, message, "name the jobs, such as afterany:12")
    if not dependency.jobs:
        raise CannotExpress(about, f"{dependency.kind} names no job", f"{dependency.kind}:12")
    return " && ".join(f"{word}({plain(about, job, _JOB, 'a job id of LSF')})" for job in dependency.jobs)


def _surroundings(options: JobOptions) -> Iterator[str]:
    copied = [*(["all"] if options.copy_environment else []), *variables(options.copy_environment_variable)]
    if copied:
        yield f'-env "{", ".join(copied)}"'
    to = addresses(options.email_address)
    occasions = options.request_event_notification or (("abort",) if to else ())
    if "begin" in occasions:
        yield "-B"
    if "end" in occasions:
        yield "-N"
    elif "abort" in occasions:
        yield "-Ne"
    if to:
        yield f'-u "{" ".join(to)}"'


def _output(job: PlannedJob) -> Iterator[str]:
    output, error = output_files(job.options, _PATTERNS)
    yield f"-o {output}"
    if error:
        yield f"-e {error}"
    yield "-r" if job.checkpoint and job.checkpoint.requeue else "-rn"
