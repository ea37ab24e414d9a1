"""A compute node's own view, by a job of a minute: the same home, the container runtime, the disks, the processor."""

from __future__ import annotations

import re
import select
import shlex
import time
import uuid
from contextlib import suppress
from pathlib import Path
from typing import Dict, List, Optional, Tuple, TypedDict

from ...schedulers.base import SchedulerSilent, SubmissionRefused, SubmissionUncertain
from ...schedulers.cluster import count_of
from ...schedulers.containers import CONTAINER_RUNTIMES
from ...schedulers.lsf.directives import to_queues
from ...schedulers.registry import SCHEDULERS
from ..core.commands import SYSTEM_PATHS, TimedRun
from ..core.files import make_private, read_text
from ..core.workspace import Workspace
from .storage import is_network

# Where sites have a node's own disk, the best first.
PLACES = (
    "$TMPDIR", "$SLURM_TMPDIR", "$PBS_JOBFS", "$LOCAL_SCRATCH", "$SLURM_SCRATCH", "$SNIC_TMP",
    "$SCRATCHDIR", "/scratch", "/local", "/local_scratch",
    "/localscratch", "/tmp",  # noqa: S108
)  # fmt: skip
_FOLDER = re.compile(r"(/|\$[A-Z_][A-Z0-9_]*)[A-Za-z0-9_.+/@%=-]*", re.ASCII)
_ENDED = "ended=yes"
SILENT = "does not answer"
REFUSED, LATE = "did not take the job", "did not finish within"
# The node's file system may show a file of the front end's some seconds later.
_LATE_SECONDS = 10
_SCRIPT = """\
exec > %(out)s 2> /dev/null < /dev/null
export PATH="$PATH:%(paths)s"
%(modules)s
echo "host=$(uname -n)"
echo "machine=$(uname -m)"
echo "processors=$(getconf _NPROCESSORS_ONLN)"
echo "memory=$(awk '/^MemTotal/ {print $2}' /proc/meminfo)"
for runtime in %(runtimes)s; do
  path=$(command -v $runtime) && echo "runtime=$path $($runtime --version | head -n 1)"
done
[ -e %(marker)s ] && echo "home=same"
unshare --user --map-root-user true && echo "namespaces=yes"
[ -e /proc/driver/nvidia/version ] && echo "maker=nvidia"
[ -e /dev/kfd ] && echo "maker=amd"
command -v xpu-smi > /dev/null && echo "maker=intel"
gpus=$(nvidia-smi --query-gpu=name,memory.total --format=csv,noheader) && echo "$gpus" | sed 's/^/gpu=/'
for place in %(places)s; do
  eval "path=\\"$place\\""
  [ -n "$path" ] && [ -d "$path" ] || continue
  [ -w "$path" ] && may=yes || may=no
  echo "place=$place|$path|$(stat -f -c %%T "$path")|$may|$(df -Pk "$path" | awk 'NR == 2 {print $4}')"
done
sed -n '1,/^$/p' /proc/cpuinfo | sed 's/^/cpu=/'
echo "%(ended)s"
"""


class NodeOptions(TypedDict, total=False):
    # partition, account, qos: of the job; empty for the scheduler's own
    partition: str
    account: str
    qos: str  # Slurm's quality of service
    modules: List[str]  # that are loaded first
    folders: List[str]  # that are looked at besides the usual ones


class NodePlace(TypedDict):
    """A folder that a node saw; ``network`` and ``free_bytes`` are None where they are not known."""

    name: str
    path: str
    type: str
    network: Optional[bool]
    writable: bool
    free_bytes: Optional[int]


class NodeView(TypedDict, total=False):
    """What a node says of itself; of one that did not answer there is nothing but the ``problem``."""

    problem: str  # why it did not; empty where it did
    host: str
    machine: str
    processors: Optional[int]
    memory: Optional[int]  # in bytes
    runtimes: List[str]  # path and version of each container runtime
    same_home: bool  # whether its home has the same files as the front end's
    namespaces: bool  # whether a user may make them
    gpus: List[str]
    makers: List[str]  # of accelerators that it has drivers for, also those that a job without any does not see
    cpuinfo: Dict[str, str]
    places: List[NodePlace]


def node_view(workspace: Workspace, scheduler: str, options: NodeOptions, patience: float) -> NodeView:
    """Asks a node by a job, and waits for the answer as long as somebody is there to hear it.

    Args:
        workspace: where the answer is written; the job's folder there is removed afterwards.
        patience: seconds to wait for the job to start and end.
    """
    folder = workspace.path / f".survey-{uuid.uuid4().hex[:12]}"
    is_new = not workspace.path.exists()
    make_private(folder)
    try:
        return _view(folder, scheduler, options, patience)
    finally:
        _remove(folder)
        if is_new:
            _remove_empty(workspace.path)


def _view(folder: Path, scheduler: str, options: NodeOptions, patience: float) -> NodeView:
    script, answer = folder / "job.sh", folder / "answer.txt"
    script.write_text(job_script(scheduler, folder, options), encoding="utf-8")
    run, knows = TimedRun(folder), SCHEDULERS[scheduler]
    try:
        job_id = knows.submit(run, str(script), "modak-survey")
    except (SubmissionRefused, SubmissionUncertain) as error:
        return {"problem": f"{knows.title} {REFUSED}: {error}"}
    except SchedulerSilent as error:
        return {"problem": f"{knows.title} {SILENT}, and no job was submitted: {error}"}
    deadline, end_time, state = time.monotonic() + patience, 0.0, ""
    try:
        while time.monotonic() < deadline and _has_reader():
            text = read_text(answer)
            if _ENDED in text:
                return read_view(text)
            if end_time and time.monotonic() > end_time + _LATE_SECONDS:
                return {"problem": f"the job {job_id} ended, but its answer is not in {folder.parent} here"}
            is_final, state = _state(run, scheduler, job_id)
            end_time = end_time or (time.monotonic() if is_final else 0.0)
            time.sleep(1)
    finally:
        with suppress(SchedulerSilent):  # a job that cannot be ended ends itself after two minutes
            knows.cancel(run, job_id)
    return {"problem": f"the job {job_id} {LATE} {patience:.0f} s ({state or 'nobody looked'})"}


def job_script(scheduler: str, folder: Path, options: NodeOptions) -> str:
    """The script of the job; its answer is in ``answer.txt``, which nobody writes but the script itself."""
    partition, account = options.get("partition", ""), options.get("account", "")
    if scheduler == "slurm":
        mark, partition_option, account_option = "#SBATCH", f"--partition={partition}", f"--account={account}"
        lines = ["--nodes=1", "--ntasks=1", "--time=00:02:00", "--output=/dev/null", f"--chdir={folder}"]
    elif scheduler == "lsf":
        mark, partition_option, account_option = "#BSUB", to_queues(partition), f"-P {account}"
        lines = ["-n 1", "-W 2", f"-o {folder}/output.txt"]
    else:
        mark, partition_option, account_option = "#PBS", f"-q {partition}", f"-A {account}"
        size = "select=1:ncpus=1" if scheduler == "pbspro" else "nodes=1:ppn=1"
        lines = [f"-l {size}", "-l walltime=00:02:00", "-j oe", f"-o {folder}/output.txt"]
    lines += [f"--qos={options['qos']}"] if options.get("qos") and scheduler == "slurm" else []
    lines += [line for line, is_asked in ((partition_option, partition), (account_option, account)) if is_asked]
    head = [f"{mark} {line}" for line in lines]
    body = _SCRIPT % {
        "out": shlex.quote(str(folder / "answer.txt")),
        "marker": shlex.quote(str(folder / "job.sh")),
        "paths": ":".join(SYSTEM_PATHS),
        "runtimes": " ".join(
            dict.fromkeys(name for runtime in CONTAINER_RUNTIMES.values() for name in runtime.programs)
        ),
        "modules": "\n".join(f"module load {shlex.quote(module)}" for module in options["modules"]),
        "places": " ".join(f"'{place}'" for place in [*PLACES, *filter(_FOLDER.fullmatch, options["folders"])]),
        "ended": _ENDED,
    }
    return "\n".join(["#!/bin/bash -l", *head, body])


def read_view(text: str) -> NodeView:
    pairs = [line.partition("=")[::2] for line in text.splitlines() if "=" in line]
    values: Dict[str, str] = {}
    for key, value in pairs:
        values.setdefault(key, value.strip())
    memory = count_of(values.get("memory", ""))
    cpu = (value.partition(":") for key, value in pairs if key == "cpu")
    return {
        "problem": "",
        "host": values.get("host", ""),
        "machine": values.get("machine", ""),
        "processors": count_of(values.get("processors", "")),
        "memory": memory * 1024 if memory else None,
        "runtimes": [value for key, value in pairs if key == "runtime"],
        "same_home": values.get("home") == "same",
        "namespaces": values.get("namespaces") == "yes",
        "gpus": [value for key, value in pairs if key == "gpu"],
        "makers": [value for key, value in pairs if key == "maker"],
        "cpuinfo": {name.strip(): value.strip() for name, _, value in cpu if name.strip()},
        "places": [place for key, value in pairs if key == "place" for place in _place(value)],
    }


def _place(value: str) -> List[NodePlace]:
    parts = value.split("|")
    if len(parts) != 5:
        return []
    name, path, kind, may_write, free = parts
    blocks = count_of(free)
    return [
        {
            "name": name,
            "path": path,
            "type": kind,
            "network": is_network(kind),
            "writable": may_write == "yes",
            "free_bytes": blocks * 1024 if blocks is not None else None,
        }
    ]


def _state(run: TimedRun, scheduler: str, job_id: str) -> Tuple[bool, str]:
    """Whether a job has ended, and its state in words; one that the scheduler does not know may be anywhere."""
    try:
        record = SCHEDULERS[scheduler].status(run, job_id)
    except SchedulerSilent as error:
        return False, str(error)
    if record is None:
        return False, "the scheduler does not know it"
    return record.state.is_final, " ".join([str(record.state), record.reason]).strip()


def _has_reader() -> bool:
    """Whether the other end of our output is still there: the user may have had enough of waiting."""
    watch = select.poll()
    watch.register(1, 0)
    return not any(state & (select.POLLERR | select.POLLHUP) for _, state in watch.poll(0))


def _remove(folder: Path) -> None:
    for path in folder.glob("*"):
        path.unlink()
    _remove_empty(folder)


def _remove_empty(folder: Path) -> None:
    with suppress(OSError):  # somebody uses it; or on NFS, what a process has open lies there under another name
        folder.rmdir()
