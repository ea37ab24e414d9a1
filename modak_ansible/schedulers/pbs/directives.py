"""The directives of a job under Torque, PBS Professional and OpenPBS, as qsub reads them after ``#PBS``.

Sources: the manual of Torque 6.1, and what a real 6.1.3 did with them; OpenPBS's manual pages qsub and pbs_resources.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
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
    memory_of_node,
    output_files,
    plain,
    start,
    variables,
)

if TYPE_CHECKING:
    from modak_ansible.model.job_options import JobDependency, JobOptions
    from modak_ansible.model.plan import PlannedJob

_QUEUE = re.compile(rf"{NAME.pattern}(@{NAME.pattern})?", re.ASCII)
_ARRAY = re.compile(r"\d+(-\d+)?(,\d+(-\d+)?)*(%\d+)?", re.ASCII)
_PROPERTIES = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*(&[A-Za-z_][A-Za-z0-9_.-]*)*", re.ASCII)
_NODE = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*", re.ASCII)  # a number would be a count
# Resources of hosts: ib is ib=True.
_RESOURCES = re.compile(
    r"[A-Za-z][A-Za-z0-9_-]*(=[A-Za-z0-9_.-]+)?(&[A-Za-z][A-Za-z0-9_-]*(=[A-Za-z0-9_.-]+)?)*", re.ASCII
)
# Of a job's name OpenPBS's qsub wants no more than letters, digits, - _ + (ck_job_name.c); Torque 6.1 takes any NAME.
_PBSPRO_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_+-]*", re.ASCII)
# Resources of a whole job that follow from its other options.
_SAID = ("select", "place", "walltime", "nodes", "nodect", "ncpus", "ngpus", "mpiprocs", "mem")
_JOB = re.compile(r"\d+(\[\d*\])?(\.[A-Za-z0-9_][A-Za-z0-9_.-]*)?", re.ASCII)


def torque_directives(job: PlannedJob, gpu_request: str = "") -> list[str]:
    """Each directive of a job, without ``#PBS``.

    Raises:
        CannotExpress: an option that Torque does not have, or a text that cannot stand in a directive.
    """
    return [*_place(job), *_size(job, gpu_request), *_time(job), *_surroundings(job.options), *_output(job)]


def _named(job: PlannedJob) -> Iterator[str]:
    yield f"-N {plain('job_options.job_name', job.name, what='a name')}"
    if job.account:
        yield f"-A {plain('job_options.account', job.account, ACCOUNT, 'an account')}"
    if job.partition:
        hint = "name one queue: PBS cannot choose among several"
        yield f"-q {plain('job_options.queue', job.partition, _QUEUE, 'a queue', hint)}"


def _place(job: PlannedJob) -> Iterator[str]:
    yield from _named(job)
    if job.options.partition:
        yield f"-l partition={plain('job_options.partition', job.options.partition, what='a partition')}"
    if job.options.qos:
        yield f"-l qos={plain('job_options.qos', job.options.qos, what='a quality of service')}"
    if job.options.reservation:
        yield f"-l advres={plain('job_options.reservation', job.options.reservation, what='a reservation')}"
    if job.options.gres:
        hint = "name a property that its nodes have as architecture_constraint"
        raise CannotExpress("job_options.gres", "Torque has no generic resources of nodes", hint)
    if job.options.licenses:
        raise CannotExpress("job_options.licenses", "Torque itself does not count licences", "leave it out")
    _check_excluded(job.options)


def _check_excluded(options: JobOptions) -> None:
    if options.exclude:
        hint = "name those that it may have as request_specific_nodes"
        raise CannotExpress("job_options.exclude", "PBS cannot exclude nodes by their names", hint)


def _size(job: PlannedJob, gpu_request: str) -> Iterator[str]:
    options = job.options
    if options.counts_cores_only:
        if gpu_request or options.request_specific_nodes or options.architecture_constraint:
            message = "Torque's procs= cannot request nodes, and so no accelerators or properties of theirs"
            raise CannotExpress("job_options.core_count", message, "give node_count and process_count_per_node")
        yield f"-l procs={(options.core_count or 1) * (job.layout.cores or 1)}"
    else:
        yield f"-l nodes={_nodes(job, gpu_request)}"
    memory = options.memory_limit or (job.memory or 0) * job.nodes
    if memory:
        yield f"-l mem={mebibytes(memory)}mb"
    if options.minimum_memory_per_processor:
        yield f"-l pmem={mebibytes(options.minimum_memory_per_processor)}mb"
    if job.exclusive:
        yield "-l naccesspolicy=singlejob"


def _nodes(job: PlannedJob, gpu_request: str) -> str:
    """The value of nodes: a number or names, each with slots, accelerators and properties."""
    about = "job_options.request_specific_nodes"
    hosts = [
        plain(about, specific_node, _NODE, "the name of a node") for specific_node in job.options.request_specific_nodes
    ]
    properties = _properties(job.options.architecture_constraint or "")
    # a slot for every core, so that nobody else gets those of the threads
    resources = f":ppn={job.layout.cores_per_node}"
    resources += plain("host", gpu_request, PLAIN, "the site's request for accelerators")
    resources += "".join(f":{name}" for name in properties.split("&") if name)
    if len(hosts) > job.nodes:
        raise CannotExpress(about, f"{len(hosts)} nodes are named, but the job has {job.nodes}", "name as many")
    if len(hosts) == 1 and job.nodes > 1:  # one name for several nodes is a property
        return f"{job.nodes}{resources}:{hosts[0]}"
    parts = [f"{name}{resources}" for name in hosts]
    if len(hosts) < job.nodes:
        parts.append(f"{job.nodes - len(hosts)}{resources}")
    return "+".join(parts)


def _properties(constraint: str) -> str:
    if constraint and not _PROPERTIES.fullmatch(constraint):
        message = f"Torque cannot select nodes by {constraint[:60]!r}: its nodes have a property or do not"
        hint = "one property, or several that all nodes must have, such as ib&zen4"
        raise CannotExpress("job_options.architecture_constraint", message, hint)
    return constraint


def _time(job: PlannedJob) -> Iterator[str]:
    options = job.options
    yield f"-l walltime={job.walltime // 3600:02}:{job.walltime // 60 % 60:02}:{job.walltime % 60:02}"
    if options.job_array:
        yield f"-t {plain('job_options.job_array', options.job_array, _ARRAY, 'indices')}"
    if options.defer_job:
        moment = start(options.defer_job)
        yield f"-a {moment.year:04}{moment:%m%d%H%M.%S}"
    if options.job_dependency:
        yield f"-W depend={','.join(map(_dependency, options.job_dependency))}"


def _dependency(dependency: JobDependency) -> str:
    about = "job_options.job_dependency"
    if dependency.kind == "singleton":
        hint = "name the jobs, such as afterany:12.server"
        raise CannotExpress(about, "PBS has no singleton: it waits for jobs by their ids", hint)
    if not dependency.jobs:
        raise CannotExpress(about, f"{dependency.kind} names no job", f"{dependency.kind}:12.server")
    return ":".join([dependency.kind, *(plain(about, job, _JOB, "a job's id") for job in dependency.jobs)])


def _surroundings(options: JobOptions) -> Iterator[str]:
    if options.copy_environment:
        yield "-V"
    copied = variables(options.copy_environment_variable)
    if copied:
        yield f"-v {','.join(copied)}"
    to = addresses(options.email_address)
    occasions = options.request_event_notification or (("abort",) if to else ())
    if occasions:
        yield f"-m {''.join(occasion[0] for occasion in occasions)}"
    if to:
        yield f"-M {','.join(to)}"


def _output(job: PlannedJob) -> Iterator[str]:
    output, error = output_files(job.options, Patterns("PBS"))
    if not error:
        yield "-j oe"
    yield f"-o {output}"
    if error:
        yield f"-e {error}"
    yield "-r y" if job.checkpoint and job.checkpoint.requeue else "-r n"


# --- PBS Professional


def pbspro_directives(job: PlannedJob, gpu_request: str = "") -> list[str]:
    """The same under PBS Professional: a node is a chunk of ``select``, and by ``place`` no two of them share a host.

    Raises:
        CannotExpress: an option that PBS Professional does not have, or a text that cannot stand in a directive.
    """
    times = [line.replace("-t ", "-J ", 1) if line.startswith("-t ") else line for line in _time(job)]
    sized = [*_chunks_place(job), *_select(job, gpu_request), *map(_job_wide, job.options.licenses)]
    return [*sized, *times, *_surroundings(job.options), *_output(job)]


def _job_wide(text: str) -> str:
    """A resource of the whole job: a licence, or what the site wants named, such as filesystems=home:eagle."""
    name, value = license_of(text)
    if name in _SAID:
        raise CannotExpress("job_options.licenses", f"other options of the job already set {name}", "leave it out")
    return f"-l {name}={value or 1}"


def _chunks_place(job: PlannedJob) -> Iterator[str]:
    yield from _named(job)
    if job.options.project:
        yield f"-P {plain('job_options.project', job.options.project, ACCOUNT, 'a project')}"
    _check_excluded(job.options)
    if not _PBSPRO_NAME.fullmatch(job.name):
        message = (
            f"{job.name[:60]!r} is not a name for a job: "
            "PBS Professional requires a letter, and then letters, digits, - _ +"
        )
        raise CannotExpress("job_options.job_name", message, f"job_name: {_as_pbspro_name(job.name)}")
    if job.options.qos:
        raise CannotExpress("job_options.qos", "PBS Professional has no qualities of service", "name a queue")
    if job.options.reservation:
        hint = "give its name as queue"
        raise CannotExpress("job_options.reservation", "a reservation of PBS Professional is a queue", hint)
    if job.options.gres:
        hint = "name a resource that hosts have as architecture_constraint, such as nvme=1"
        raise CannotExpress("job_options.gres", "PBS Professional has no generic resources", hint)


def _as_pbspro_name(name: str) -> str:
    plain_name = re.sub(r"[^A-Za-z0-9_+-]", "-", name)
    return plain_name if plain_name[:1].isalpha() else f"job-{plain_name}"


def _select(job: PlannedJob, gpu_request: str) -> Iterator[str]:
    options = job.options
    chunk = f":ncpus={job.layout.cores_per_node}:mpiprocs={job.layout.processes_per_node}"
    chunk += f":mem={mebibytes(memory)}mb" if (memory := memory_of_node(job)) else ""
    chunk += plain("host", gpu_request, PLAIN, "the site's request for accelerators")
    chunk += _resources(options.architecture_constraint or "")
    yield f"-l select={_chunks(options, job.nodes, chunk)}"
    yield f"-l place={'scatter' if job.nodes > 1 else 'pack'}{':exclhost' if job.exclusive else ''}"


def _chunks(options: JobOptions, nodes: int, chunk: str) -> str:
    about = "job_options.request_specific_nodes"
    hosts = [plain(about, host, NAME, "the name of a node") for host in options.request_specific_nodes]
    if len(hosts) > nodes:
        raise CannotExpress(about, f"{len(hosts)} nodes are named, but the job has {nodes}", "name as many")
    parts = [f"1{chunk}:host={host}" for host in hosts]
    if len(hosts) < nodes:
        parts.append(f"{nodes - len(hosts)}{chunk}")
    return "+".join(parts)


def _resources(constraint: str) -> str:
    if not constraint:
        return ""
    if not _RESOURCES.fullmatch(constraint):
        message = f"PBS Professional cannot select hosts by {constraint[:60]!r}: they have resources with values"
        hint = "one resource, or several that all nodes must have, such as ib&cpu_type=zen4"
        raise CannotExpress("job_options.architecture_constraint", message, hint)
    return "".join(f":{word}" if "=" in word else f":{word}=True" for word in constraint.split("&"))
