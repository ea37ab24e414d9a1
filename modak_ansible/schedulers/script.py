"""The text of a job script; runs where plans are made, never on a target."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import import_module
from types import SimpleNamespace
from typing import TYPE_CHECKING, Literal, NamedTuple

from .containers import CONTAINER_RUNTIMES
from .directives import plain
from .rendered import render

if TYPE_CHECKING:
    from modak_ansible.model.application import Build
    from modak_ansible.model.plan import PlannedJob
    from modak_ansible.model.target import Pods
    from modak_ansible.model.tuning import PlannedTuning

# What stands in a value for a folder that only the job knows.
_NEGATIVE = re.compile(r"-\d+|-\d*\.\d+", re.ASCII)
_PLACEHOLDER = re.compile(r"(\{dataset(?:\.[^{}]*)?\}|\{after:[^{}]*\})")
# The same in shell lines, where ${dataset} is a variable.
_IN_LINES = re.compile(rf"(?<!\$){_PLACEHOLDER.pattern}")
# Flags with which a container sees nothing of the job's environment.
_CLEANING = ("--cleanenv", "-e", "--containall", "-C", "--compat")
# How long, in seconds, a tuner may take to start and to end besides its budget.
_TUNER_GRACE = 60
# What a training says by its exit code when it has saved its state and is to go on (ERESTART of errno.h).
_GOES_ON = 85
# Files of a dataset that are sent to all nodes one by one; each takes a fraction of a second besides its bytes.
_BROADCAST = 64
# How long, in seconds, the first of several Pods waits for the others before it gives them up.
_PATIENCE = 1500
# Seconds before the wall at which a training is ended that was asked to end and does not; and how long that may take.
_LATE, _MERCY = 30, 15
_SLURM_HOSTS = 'scontrol show hostnames "$SLURM_JOB_NODELIST"'


@dataclass(frozen=True)
class Ranks:
    """What each process of one training is told of itself and of the others."""

    count: int  # of the processes
    each: int  # of them on a node
    strategy: str = ""  # of modak_runtime.prepare; empty where the script is parallel by itself
    timeout: int = 300  # seconds that a rank waits for the others
    interface: str = ""  # of the nodes, by which they meet; empty: that of the route there
    # the variable that tells a process its accelerators, of which each rank then has one of its own; empty where the
    # script takes the one of its LOCAL_RANK, as torchrun has it, or there are none
    devices: str = ""
    accelerators: int = 0  # of a node
    is_local: bool = False  # whether the script itself starts them: on its node, on other hosts, or in each Pod
    cores: int = 0  # of each that the script itself starts, which are its own; 0 where they go where the kernel has it
    hosts: tuple[str, ...] = ()  # of the other nodes, as the first one's ssh knows them
    tells_all: bool = False  # whether each learns the addresses of all, by TensorFlow's TF_CONFIG

    @property
    def all_devices(self) -> str:
        return ",".join(map(str, range(self.accelerators)))


class Launch(NamedTuple):
    """How the processes of a job are started."""

    outside: tuple[str, ...] = ()  # words of bash before the container's own, such as srun or mpirun of the host
    inside: tuple[str, ...] = ()  # words of bash before the program, for a launcher that is in the image
    # what a launcher's list of hosts has behind each name, for sed; empty where nothing is, or there is no list
    hosts: str = ""
    lines: int = 0  # of each host in that list, for a launcher that starts a process for each
    slots: bool = False  # whether the list is the scheduler's own, with a line for each core
    notes_cores: bool = False  # whether each rank of a program notes which cores it has; those of a training do
    ranks: Ranks | None = None  # of a training whose processes are one; None for every other job


class DataPlace(NamedTuple):
    name: str  # stands in ``{dataset.NAME}``
    path: str  # of its folder below the workspace; of one that the target has already, of what was found of it
    variable: str = ""  # of the environment, besides MODAK_DATASET of the first; empty for none
    mount_as: str = ""  # a link to it below the script's folder; empty for none
    mounted_file: str = ""  # the file that the link leads to; empty for the folder
    is_present: bool = False  # whether the target has it already
    packed: bool = False  # whether it is one squashfs image beside its folder's place, which the container mounts there
    # where the job has a place for copies: all of it, or by-node, or shared, where it lies
    staging: Literal["shared", "node-local", "by-node"] = "node-local"

    @property
    def is_copied(self) -> bool:
        return not self.is_present and self.staging != "shared"


class ScriptParts(NamedTuple):
    """What a script holds besides the job's own fields.

    Paths are below the target's workspace unless they are absolute.
    """

    image: str  # empty for a program of the target's own
    python: str
    script: str
    container_runtime: str | None = None
    container_flags: tuple[str, ...] = ()
    binds: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    data: tuple[DataPlace, ...] = ()  # what it reads; the first is ``{dataset}``
    staging_path: str | None = None
    scratch: str | None = None  # a folder of the node's own disk that the training writes to while it runs
    arguments: tuple[tuple[str, str | bool], ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    gpu_request: str = ""
    launch: Launch = Launch()
    command: tuple[str, ...] = ()  # words of a program that runs in place of the Python script
    words: tuple[str, ...] = ()  # what follows the arguments
    build: Build | None = None  # how the program is made before it runs
    # the site's shell lines, which run first, in the job's own shell; the first command that fails ends the job
    site_pre: tuple[str, ...] = ()
    pre: tuple[str, ...] = ()  # the user's, in the same way, when the data is where it will be read
    post: tuple[str, ...] = ()  # shell lines that run last, however the program ended, with its code in MODAK_EXIT_CODE
    runtime: bool = False
    tuning: PlannedTuning | None = None
    seal: str = ""  # what tells that the image is the one that was made; empty for an environment
    signing_key: str = ""  # a private key whose signature the image must have; its public half lies beside it
    pods: Pods | None = None  # of Kubernetes, whose nodes pull the image
    # names of trainings that completed before, each with the names of its deployments
    after: tuple[tuple[str, tuple[str, ...]], ...] = ()


# Schedulers whose scripts have the words of another.
_FAMILIES = {"pbspro": "torque"}
# What begins a line that the scheduler reads, and in words of bash: the deployment's folder, the job, and its hosts.
_WORDS = {
    name: dict(zip(("directive", "folder", "job_id", "hosts"), words, strict=True))
    for name, words in {
        # a task of an array is told its id: the number that Slurm gives the last one is that of all together
        "slurm": ("#SBATCH", "$SLURM_SUBMIT_DIR", "${1:-$SLURM_JOB_ID}", _SLURM_HOSTS),
        # Slurm's own qsub gives its jobs Slurm's variables
        "torque": (
            "#PBS", "${PBS_O_WORKDIR:-$SLURM_SUBMIT_DIR}", "${PBS_JOBID:-$SLURM_JOB_ID}",
            f'if [ -n "${{PBS_NODEFILE:-}}" ]; then cat "$PBS_NODEFILE"; else {_SLURM_HOSTS}; fi',
        ),
        "lsf": ("#BSUB", "$LS_SUBCWD", "$LSB_JOBID", 'cat "$LSB_DJOB_HOSTFILE"'),
        # as it was submitted: a Job that is made anew under the same name has another uid
        "kubernetes": (
            "#KUBERNETES", '$(dirname "$0")', "$((16#${MODAK_JOB_UID::8})).$MODAK_JOB_NAME.$MODAK_JOB_NAMESPACE",
            "hostname",
        ),
        # as it is submitted: its number may be another process's one day
        "none": ("", '$(dirname "$0")', "$$.$(cut -d ' ' -f 22 /proc/$$/stat)", "hostname"),
    }.items()
}  # fmt: skip
# The folders of schedulers that share one.
_FOLDERS = {"pbspro": "pbs", "torque": "pbs"}


def render_script(job: PlannedJob, parts: ScriptParts) -> str:
    """The whole job script, directives first.

    Every text that came from a blueprint is quoted for bash; where quoting does not reach, in directives, anything
    but plain characters is an error.

    Raises:
        CannotExpress: an option that the scheduler has not, or a directive that would hold a space, a quote, a line
            break or the like.
    """
    container = CONTAINER_RUNTIMES.get(parts.container_runtime or "")
    is_entered = container is not None and parts.pods is None
    built, command = _program(parts)
    data = [_data(place, number, parts.data) for number, place in enumerate(parts.data)]
    copied = [dataset for dataset in data if dataset.is_copied] if parts.staging_path else []
    ways = {dataset.staging for dataset in copied if not dataset.packed} if _everywhere(job) else set()
    family = _FAMILIES.get(job.scheduler.value, job.scheduler.value)
    pods = job.nodes if parts.pods and job.nodes > 1 else 0
    entry = container.entry if container else ""
    enters_first = entry == "pyxis" and bool(parts.launch.outside)  # the launcher itself enters the container
    # a program's own image need not have the bash that would note them in it
    notes_cores = parts.launch.ranks is not None or (parts.launch.notes_cores and not enters_first)
    return render(
        "body",
        {
            **_WORDS[family],
            **_hosts(job),
            "job": job,
            "scheduler": "none" if parts.pods else family,  # a Pod knows nothing of others, either
            "directives": _directives(job, parts),
            "output_file": job.options.standard_output_file,
            "error_file": job.options.standard_error_file,
            "scheduler_says": _scheduler_says(job),
            "exports_nothing": job.options.copy_environment_variable and not job.options.copy_environment,
            "container": is_entered,
            "runtimes": container.programs if container else (),
            "entry": entry,
            # whether an engine has an image in its own store
            "known": 'inspect "$image" > /dev/null 2>&1' if entry == "docker" else 'exists "$image"',
            "container_flags": parts.container_flags,
            "image": _workspace_path(parts.image) if parts.image and not parts.pods else "",
            "seal": parts.seal,
            "signing_key": _node_path(parts.signing_key) if container else "",
            "python": parts.python if container or parts.pods else '"$image/bin/python"',
            "script": parts.script,
            "binds": parts.binds,
            "modules": parts.modules,
            "data": data,
            "named": [dataset for dataset in data if dataset.variable],
            "mounted": [dataset for dataset in data if dataset.mount_as],
            "copied": copied,
            "pods": pods,
            "patience": _PATIENCE,
            "everywhere": _everywhere(job),
            "names_no_cores": _names_no_cores(job, parts.launch, is_brought=bool(copied)),
            "parts_of": job.nodes * job.processes_per_node if "by-node" in ways else 0,
            "brings_all": "node-local" in ways,
            "broadcast": _BROADCAST,
            "staging_path": _node_path(parts.staging_path or "") if copied else "",
            "scratch": _node_path(parts.scratch) if parts.scratch else "",
            "arguments": [_option(name, value, is_program=bool(parts.command)) for name, value in parts.arguments],
            "environment": [(name, _word(value)) for name, value in parts.environment],
            "command": [_word(word) for word in command],
            "is_program": bool(parts.command),
            "built_program": built,
            "words": [_word(word) for word in parts.words],
            "build": parts.build,
            "archive": _archive(parts.build) if parts.build else "",
            "site_pre": [shlex.quote(line) for line in parts.site_pre],
            "pre": [_lines(line, parts) for line in parts.pre],
            "post": [_lines(line, parts) for line in parts.post],
            "launch": parts.launch,
            "launcher": "".join(
                f"{word} " for word in _launcher(parts.launch, enters_first=enters_first, through=notes_cores)
            ),
            "enters_first": enters_first,
            "ranks": parts.launch.ranks,
            "notes_cores": notes_cores,
            "threads": job.threads or job.layout.cores or 1,
            "by_file": bool(pods) or _by_file(family, parts.launch.ranks),
            "cleans": any(flag.partition("=")[0] in _CLEANING for flag in parts.container_flags),
            "runtime": parts.runtime,
            "tuning": _tuning(parts.tuning),
            "after": [(after_variable(name), deployments) for name, deployments in parts.after],
            "limit": job.walltime if job.scheduler.value in ("none", "kubernetes") else 0,
            "checkpoint": _checkpoint(job),
        },
    )


def _directives(job: PlannedJob, parts: ScriptParts) -> list[str]:
    """What the script begins with; the modules of other schedulers are not imported for it."""
    if parts.pods:
        from .kubernetes.directives import kubernetes_directives  # noqa: PLC0415

        ranks = parts.launch.ranks
        is_one = ranks is not None and ranks.is_local
        return kubernetes_directives(job, parts.gpu_request, parts.pods, parts.image, is_one=is_one)
    name = job.scheduler.value
    if name == "none":  # nobody would read them
        plain("job_options.job_name", job.name, what="a name")
        return []
    module = import_module(f"{__package__}.{_FOLDERS.get(name, name)}.directives")
    lines: list[str] = getattr(module, f"{name}_directives")(job, parts.gpu_request)
    return lines


def _hosts(job: PlannedJob) -> dict[str, str]:
    """What lists the nodes of a heterogeneous job, component by component; nothing of any other."""
    lists = [f"$SLURM_JOB_NODELIST_HET_GROUP_{number}" for number, _ in enumerate(job.options.components)]
    return {"hosts": f'scontrol show hostnames "{",".join(lists)}"'} if lists else {}


def _scheduler_says(job: PlannedJob) -> str:
    """The file that the scheduler writes to where the user names one, as a word of bash."""
    error = job.options.standard_error_file
    if job.scheduler.value == "slurm":
        return f'"$(readlink /proc/$$/fd/{4 if error else 3})"'
    name = error or job.options.standard_output_file or ""
    return '"' + name.replace("%J", "$job_id").replace("%%", "%") + '"' if "%" in name else shlex.quote(name)


def _launcher(launch: Launch, *, enters_first: bool, through: bool) -> tuple[str, ...]:
    entry = ('"${contained[@]}"', '--container-workdir="$PWD"') if enters_first else ()
    ranks = ("bash", '"$deployment/state/rank.sh"') if through else ()
    return (*launch.outside, *entry, *ranks)


def _by_file(scheduler: str, ranks: Ranks | None) -> bool:
    """Whether ranks find what to run in a file: blaunch and ssh may have a shell read their words once more."""
    return ranks is not None and (bool(ranks.hosts) if ranks.is_local else scheduler == "lsf")


def _everywhere(job: PlannedJob) -> str:
    """What has a command run once on each node of a job; empty where the job has one, or nothing that does it."""
    several = job.nodes > 1 and job.scheduler.value == "slurm"
    return f"srun --ntasks={job.nodes} --ntasks-per-node=1 " if several else ""


def _names_no_cores(job: PlannedJob, launch: Launch, *, is_brought: bool) -> bool:
    """Whether some srun is not told the cores of a task: one that brings data, or that of a launcher as it stands."""
    is_told = not launch.outside or any(word.startswith("--cpus-per-task") for word in launch.outside)
    return job.scheduler.value == "slurm" and (not is_told or (is_brought and bool(_everywhere(job))))


def _program(parts: ScriptParts) -> tuple[str, tuple[str, ...]]:
    """A program's path where it may lie below fetched sources, or empty; and its other words."""
    first = parts.command[0] if parts.command else ""
    if parts.build and parts.build.source and "/" in first and not first.startswith("/"):
        return first, parts.command[1:]
    return "", parts.command


def _tuning(tuning: PlannedTuning | None) -> SimpleNamespace | None:
    """What the script needs of a tuning; the tuner itself reads the plan."""
    if tuning is None:
        return None
    candidates = [candidate for candidate in tuning.candidates[1:] if candidate.may_win]
    return SimpleNamespace(
        limit=tuning.budget + _TUNER_GRACE,
        trains=tuning.trains,
        others=[
            SimpleNamespace(
                name=other.name,
                title="".join(letter for letter in other.title if letter.isprintable()),
                environment=[(name, _word(value)) for name, value in other.environment],
                arguments=[_option(name, value) for name, value in other.arguments],
            )
            for other in candidates
        ],
    )


def _checkpoint(job: PlannedJob) -> SimpleNamespace | None:
    """What the script needs of checkpoints, in seconds where it is a time."""
    if job.checkpoint is None:
        return None
    before = job.checkpoint.signal_before_wall
    return SimpleNamespace(
        every=job.checkpoint.every,
        requeue=job.checkpoint.requeue,
        after=max(1, job.walltime - before),
        patience=max(before // 2, before - _LATE),
        mercy=min(_MERCY, before // 4),
        exit_code=_GOES_ON,
    )


def _archive(build: Build) -> str:
    """A name for what is downloaded: a file's own, among the sources; an archive's ending says what it is."""
    address = build.source.partition("?")[0].partition("#")[0]
    if build.kind == "file":
        return f"build/{address.rstrip('/').rsplit('/', 1)[-1]}"
    return "build.zip" if address.endswith(".zip") else "build.tar"


def _workspace_path(path: str) -> str:
    """A path below the workspace, or an absolute or home-relative one, in double quotes for bash."""
    if path.startswith(("/", "~", "$")):
        return f'"{_node_path(path)}"'
    return f'"$workspace/{path}"'


def _node_path(path: str) -> str:
    """A path with ``~`` and a leading ``$NAME`` as bash expands them inside double quotes.

    Without the variable nothing can be made or found there, and the script goes on without.
    """
    if path == "~" or path.startswith("~/"):
        return "$HOME" + path[1:]
    return re.sub(r"^\$([A-Z_][A-Z0-9_]*)", r"${\1:-/dev/null}", path)


def _option(name: str, value: str | bool, *, is_program: bool = False) -> str:
    """An option of the training script with its value, quoted for bash; placeholders become folders."""
    option = f"-{name}" if len(name) == 1 else f"--{name}"
    if isinstance(value, bool):
        return option if value else ""
    # Python's parsers take a word that begins so for an option: -1e-5 too, but not -1 and -0.5
    is_apart = is_program or len(name) == 1 or not value.startswith("-") or _NEGATIVE.fullmatch(value)
    return f"{option}{' ' if is_apart else '='}{_word(value)}"


def _word(value: str) -> str:
    """A word quoted for bash; {dataset} becomes the data's folder, {dataset.NAME} that of the dataset of the name,
    {after:NAME} those where a training before ran."""
    return "".join(_piece(part) for part in _PLACEHOLDER.split(value) if part) or "''"


def _piece(part: str) -> str:
    if part == "{dataset}":
        return '"$dataset"'
    if not _PLACEHOLDER.fullmatch(part):
        return shlex.quote(part)
    if part.startswith("{dataset."):
        return f'"${dataset_variable(part[len("{dataset.") : -1])}"'
    return f'"${after_variable(part[len("{after:") : -1])}"'


def _lines(text: str, parts: ScriptParts) -> str:
    """Shell lines quoted for eval, with the folders that placeholders stand for as words of the shell."""
    words = []
    for number, piece in enumerate(_IN_LINES.split(text)):
        is_folder = number % 2 and (not piece.startswith("{dataset") or parts.data)
        words.append(f'"$(printf %q {_piece(piece)})"' if is_folder else shlex.quote(piece) if piece else "")
    return "".join(words)


def _data(place: DataPlace, number: int, places: tuple[DataPlace, ...]) -> SimpleNamespace:
    """What the script needs of a dataset; the first one is the script's own ``dataset``.

    Of several that are copied to a node, each has a folder of its own ``below`` the copy's.
    """
    is_alone = sum(place.is_copied for place in places) == 1
    shell = f"dataset_{number + 1}" if number else "dataset"
    return SimpleNamespace(
        **place._asdict(), is_copied=place.is_copied, shell=shell, below="" if is_alone else f"/{place.name}"
    )


def dataset_variable(name: str) -> str:
    """The environment variable with the folder of a dataset: MODAK_DATASET_CORPUS."""
    return "MODAK_DATASET_" + re.sub(r"[^A-Z0-9]", "_", name.upper())


def datasets_named(values: Iterable[str]) -> set[str]:
    """The datasets whose folders stand in values as {dataset.NAME}."""
    return {name for text in values for name in re.findall(r"(?<!\$)\{dataset\.([^{}]*)\}", text)}


def after_variable(training: str) -> str:
    """The environment variable with the folders where a training ran that came before: MODAK_AFTER_TRAIN."""
    return "MODAK_AFTER_" + re.sub(r"[^A-Z0-9]", "_", training.upper())


def trainings_before(values: Iterable[str | bool]) -> set[str]:
    """The trainings whose folders stand in values as {after:NAME}."""
    texts = [value for value in values if isinstance(value, str)]
    return {name for text in texts for name in re.findall(r"\{after:([^{}]*)\}", text)}
