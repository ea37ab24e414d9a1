"""A running job on a node: what it uses, by /proc, its cgroup (v1 and v2) and nvidia-smi; and its container, entered.

Its text is run on each node of a job, by ``python3 -c``, and so it imports nothing of ours.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Set, Tuple

# Fields of /proc/PID/stat behind the name, which may hold anything: parent; utime, stime, cutime, cstime; starttime.
_PARENT, _TIMES, _STARTED = 1, (11, 12, 13, 14), 19
# What cgroup v1 says where there is no limit is nearly 2**63.
_NO_LIMIT = 1 << 60
_MEMORY = (("memory.current", "memory.max"), ("memory.usage_in_bytes", "memory.limit_in_bytes"))
_GPUS = ("index", "uuid", "utilization.gpu", "memory.used", "memory.total", "power.draw")
_MEBI = 1 << 20
# What is in the environment of a training alone, inside its container.
_TRAINS = "MODAK_LAUNCHED"
# Of a container, in the order in which they are joined: who is in the first may join the others.
_SPACES = ("user", "mnt", "ipc", "uts", "net")


class Stat(NamedTuple):
    """Of a process, with times in ticks."""

    parent: int
    ticks: int  # of the processor, that it has had itself
    ended: int  # that those which it had started have had, and that have ended
    started: int  # when it began, since the node did


class Process(NamedTuple):
    """A process of the job at one moment."""

    rank: str  # of the training's; empty where it is of none
    stat: Stat
    read: int
    written: int  # bytes that it had written to disks, as ``read`` those that it had read


def parse_stat(text: str) -> Optional[Stat]:
    """/proc/PID/stat; None of a process that has ended, and of what is none."""
    fields = text.rpartition(")")[2].split()
    if len(fields) <= _STARTED or fields[0] in "ZX" or not all(map(_is_number, fields[1 : _STARTED + 1])):
        return None
    user, system, *of_ended = (int(fields[place]) for place in _TIMES)
    return Stat(int(fields[_PARENT]), user + system, sum(of_ended), int(fields[_STARTED]))


def parse_pairs(text: str) -> Dict[str, int]:
    """The numbers of ``name: 12 kB`` and ``name 12``, with kB as bytes: /proc/PID/io and smaps_rollup, memory.stat."""
    matches = re.findall(r"^([\w()]+):?[ \t]+(\d{1,19})(?:[ \t]+(kB))?[ \t]*$", text, re.MULTILINE | re.ASCII)
    return {name: int(number) * (1024 if unit else 1) for name, number, unit in matches}


def parse_environment(content: bytes) -> Dict[str, str]:
    """/proc/PID/environ."""
    pairs = (part.partition(b"=") for part in content.split(b"\0"))
    return {os.fsdecode(name): os.fsdecode(value) for name, sign, value in pairs if sign and name}


def environment_of(folder: Path) -> Dict[str, str]:
    """Of a process, by its folder; empty where that is another's to read, or it has ended."""
    try:
        return parse_environment((folder / "environ").read_bytes())
    except OSError:
        return {}


def parse_cgroup(text: str) -> str:
    """The folder below /sys/fs/cgroup where a process's memory is counted, by its /proc/PID/cgroup; empty for none."""
    paths = {}
    for line in text.splitlines():
        number, _, rest = line.partition(":")
        controllers, sign, path = rest.partition(":")
        if sign and path.startswith("/") and ".." not in path.split("/"):
            for part in controllers.split(","):
                paths[part if part or number == "0" else "?"] = path
    if "memory" in paths:  # v1, also beside an empty v2
        return f"memory{paths['memory']}".rstrip("/")
    return paths.get("", "").strip("/")


def parse_cpus(text: str) -> Set[int]:
    """The processors of ``0-3,8``."""
    cpus: Set[int] = set()
    for part in text.strip().split(","):
        ends = re.fullmatch(r"(\d{1,5})(?:-(\d{1,5}))?", part.strip(), re.ASCII)
        if ends:
            cpus.update(range(int(ends.group(1)), int(ends.group(2) or ends.group(1)) + 1))
    return cpus


def parse_gpus(gpus: str, applications: str, pids: Set[int]) -> List[Dict[str, Any]]:
    """The accelerators on which some processes are, of nvidia-smi's CSV without units; None for what it does not tell.

    Args:
        gpus: lines of index, UUID, percent in use, MiB in use, MiB and watts.
        applications: lines of process, UUID and MiB.
        pids: the processes.
    """
    by_gpu: Dict[str, Dict[str, float]] = {}
    for line in applications.splitlines():
        words = [word.strip() for word in line.split(",")]
        if len(words) == 3 and _is_number(words[0]) and int(words[0]) in pids:
            by_gpu.setdefault(words[1], {})[words[0]] = _float(words[2]) or 0.0
    rows = []
    for line in gpus.splitlines():
        words = [word.strip() for word in line.split(",")]
        if len(words) == len(_GPUS) and words[1] in by_gpu:
            busy, memory, total, power = map(_float, words[2:])
            rows.append(
                {
                    "gpu": words[0],
                    "percent": busy,
                    "memory_bytes": None if memory is None else int(memory * _MEBI),
                    "memory_total_bytes": None if total is None else int(total * _MEBI),
                    "watts": power,
                    "pids": sorted(map(int, by_gpu[words[1]])),
                }
            )
    return rows


def processes(proc: Path, marks: Sequence[str]) -> Dict[int, Process]:
    """The processes of a job, by their numbers.

    Args:
        marks: entries of an environment that a process of the job has, or ``pid=N`` for that one; all that they start
            are the job's, too. Whoever looks is not, nor are those that started it.
    """
    stats, environments = {}, {}
    for folder in proc.glob("[0-9]*"):
        stat = parse_stat(_read(folder / "stat"))
        if stat:
            stats[int(folder.name)] = stat
            environments[int(folder.name)] = environment_of(folder)
    lookers = _ancestors(stats, os.getpid())
    pairs = [mark.partition("=")[::2] for mark in marks]

    def is_marked(pid: int) -> bool:
        environment = {**environments[pid], "pid": str(pid)}
        return all(environment.get(name) == value for name, value in pairs)

    marked = {pid for pid in stats if pid not in lookers and is_marked(pid)}
    job_processes = {}
    for pid, stat in stats.items():
        ancestors = _ancestors(stats, pid)
        if pid in lookers or os.getpid() in ancestors or not marked.intersection(ancestors):
            continue
        rank = next((environments[ancestor]["RANK"] for ancestor in ancestors if "RANK" in environments[ancestor]), "")
        io = parse_pairs(_read(proc / str(pid) / "io"))
        job_processes[pid] = Process(
            rank if _is_number(rank) else "", stat, io.get("read_bytes", 0), io.get("write_bytes", 0)
        )
    return job_processes


def _ancestors(stats: Dict[int, Stat], pid: int) -> List[int]:
    """A process, its parent, and so on."""
    ancestors: List[int] = []
    while pid in stats and pid not in ancestors:
        ancestors.append(pid)
        pid = stats[pid].parent
    return ancestors


def memory_of(proc: Path, pid: int) -> int:
    """Bytes of a process, of what it shares with others its part; where that is not told, all that is resident."""
    parts = parse_pairs(_read(proc / str(pid) / "smaps_rollup"))
    return parts["Pss"] if "Pss" in parts else parse_pairs(_read(proc / str(pid) / "status")).get("VmRSS", 0)


def cgroup_of(proc: Path, root: Path, pids: Set[int]) -> Dict[str, int]:
    """What the cgroup of a job counts: ``memory_bytes``, with its files' pages, and ``limit_bytes`` where there is one.

    It is the nearest that has all of the job's processes, and is taken for the job's only where it has no other of the
    same user's.
    """
    paths = [parse_cgroup(_read(proc / str(pid) / "cgroup")) for pid in pids]
    common = os.path.commonpath(paths) if paths and all(paths) else ""
    if not common or common == "memory":
        return {}
    other_pids = {int(word) for path in (root / common).rglob("cgroup.procs") for word in _read(path).split()} - pids
    strangers = other_pids.difference(_ancestors(_stats(proc, other_pids), os.getpid()))
    if any(_owner(proc, stranger) == os.getuid() for stranger in strangers):
        return {}
    counts = {}
    for usage_file, limit_file in _MEMORY:
        texts = _read(root / common / usage_file).strip(), _limit(root, common, limit_file)
        if _is_number(texts[0]):
            counts["memory_bytes"] = int(texts[0])
            if texts[1] is not None:
                counts["limit_bytes"] = texts[1]
    return counts


def _limit(root: Path, path: str, name: str) -> Optional[int]:
    """The least of the limits that hold for a cgroup: those of the ones above it do, too."""
    words = path.split("/")
    texts = [_read(root.joinpath(*words[:count]) / name).strip() for count in range(1, len(words) + 1)]
    limits = [int(text) for text in texts if _is_number(text) and int(text) < _NO_LIMIT]
    return min(limits) if limits else None


def usage(proc: Path, root: Path, marks: Sequence[str], seconds: float) -> Dict[str, Any]:
    """What the job uses of this node, measured over some ``seconds`` until the ``time``; ``ranks`` has a row for each.

    Of the processor 100 % is one core. What is None, the node does not tell.
    """
    before, began = processes(proc, marks), time.monotonic()
    time.sleep(seconds)
    after, elapsed, end = processes(proc, marks), time.monotonic() - began, time.time()
    memory = {pid: memory_of(proc, pid) for pid in after}
    gpus = _gpus(set(after))
    allowed_cpus: Set[int] = set()
    for pid in after:
        cpu_list = re.search(r"^Cpus_allowed_list:(.*)$", _read(proc / str(pid) / "status"), re.MULTILINE)
        allowed_cpus |= parse_cpus(cpu_list.group(1)) if cpu_list else set()

    def row(earlier: Dict[int, Process], later: Dict[int, Process]) -> Dict[str, Any]:
        ticks, read, written = _growth(earlier, later)
        pids = set(later)
        return {
            "processes": len(pids),
            "cpu_percent": round(100 * ticks / os.sysconf("SC_CLK_TCK") / elapsed, 1),
            "memory_bytes": sum(memory[pid] for pid in pids),
            "read_bytes_per_second": round(read / elapsed),
            "written_bytes_per_second": round(written / elapsed),
            "gpus": [gpu for gpu in gpus if pids.intersection(gpu["pids"])],
        }

    ranks = sorted({process.rank for process in after.values() if process.rank}, key=int)
    cgroup = cgroup_of(proc, root, set(after))
    return {
        **row(before, after),
        "cores": len(allowed_cpus),
        "cgroup_memory_bytes": cgroup.get("memory_bytes"),
        "memory_limit_bytes": cgroup.get("limit_bytes"),
        "time": end,
        "seconds": round(elapsed, 3),
        "ranks": [
            {"rank": int(rank), **row(_processes_of_rank(before, rank), _processes_of_rank(after, rank))}
            for rank in ranks
        ],
    }


def _processes_of_rank(by_pid: Dict[int, Process], rank: str) -> Dict[int, Process]:
    return {pid: process for pid, process in by_pid.items() if process.rank == rank}


def _growth(before: Dict[int, Process], after: Dict[int, Process]) -> Tuple[int, int, int]:
    """The processor's ticks, bytes read and bytes written between two moments.

    What has ended between them has left its ticks to its parent, where that waited for it.
    """
    ticks = read = written = 0
    for pid, later in after.items():
        earlier = before.get(pid)
        is_same = earlier is not None and earlier.stat.started == later.stat.started
        ticks += later.stat.ticks - (earlier.stat.ticks if earlier and is_same else 0)
        read += later.read - (earlier.read if earlier and is_same else 0)
        written += later.written - (earlier.written if earlier and is_same else 0)
    total = _sum(after) - _sum(before)
    return max(ticks, total), read, written


def _sum(by_pid: Dict[int, Process]) -> int:
    return sum(process.stat.ticks + process.stat.ended for process in by_pid.values())


def gpus_here() -> List[str]:
    """Each NVIDIA accelerator of this machine as nvidia-smi names it, with its MiB: ``NVIDIA H200, 143771``."""
    return [line.strip() for line in _nvidia("--query-gpu=name,memory.total").splitlines() if line.strip()]


def _gpus(pids: Set[int]) -> List[Dict[str, Any]]:
    applications = _nvidia("--query-compute-apps=pid,gpu_uuid,used_memory")
    return parse_gpus(_nvidia(f"--query-gpu={','.join(_GPUS)}"), applications, pids) if applications else []


def _nvidia(query: str) -> str:
    try:
        call = subprocess.run(
            ["nvidia-smi", query, "--format=csv,noheader,nounits"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=15, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return "" if call.returncode else call.stdout.decode(errors="replace")  # what it complains of it writes there, too


def _stats(proc: Path, pids: Set[int]) -> Dict[int, Stat]:
    stats = {pid: parse_stat(_read(proc / str(pid) / "stat")) for pid in pids}
    return {pid: stat for pid, stat in stats.items() if stat}


def _owner(proc: Path, pid: int) -> Optional[int]:
    try:
        return (proc / str(pid)).stat().st_uid
    except OSError:
        return None


def _read(path: Path) -> str:
    """A file's text; empty where it cannot be read: processes end, and some are others'."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _is_number(text: str) -> bool:
    return re.fullmatch(r"-?\d{1,20}", text, re.ASCII) is not None


def _float(text: str) -> Optional[float]:
    return float(text) if re.fullmatch(r"\d{1,12}(\.\d{1,6})?", text, re.ASCII) else None


def training_of(by_pid: Dict[int, Process], environments: Dict[int, Dict[str, str]], rank: str = "") -> int:
    """The first process of a job's training, of several ranks that of one, or of the first; 0 before it has begun."""
    pids = [pid for pid in by_pid if _TRAINS in environments.get(pid, {}) and rank in ("", by_pid[pid].rank)]
    return min(pids, key=lambda pid: (int(by_pid[pid].rank or 0), by_pid[pid].stat.started, pid), default=0)


def enter(marks: Sequence[str], words: Sequence[str], rank: str = "") -> None:
    """Becomes a program in the container of a job's training, with its environment, in its folder.

    Args:
        rank: which of several it is that is entered; the first one where it is empty.

    Raises:
        SystemExit: it cannot; it says why.
    """
    proc = Path("/proc")
    job_processes = processes(proc, marks)
    environments = {pid: environment_of(proc / str(pid)) for pid in job_processes}
    pid = training_of(job_processes, environments, rank)
    if not pid:
        subject = f"rank {rank} of the job" if rank else "the job's training"
        sys.exit(f"modak: {subject} is not running: it has not begun yet, or has just ended")
    folder = proc / str(pid)
    try:
        root, place = (os.open(folder / name, os.O_RDONLY) for name in ("root", "cwd"))
        spaces = [folder / "ns" / name for name in _SPACES]
        descriptors = [
            os.open(path, os.O_RDONLY)
            for path in spaces
            if os.readlink(path) != os.readlink(f"/proc/self/ns/{path.name}")
        ]
        for descriptor in descriptors:
            if ctypes.CDLL(None, use_errno=True).setns(descriptor, 0) != 0:
                raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        if descriptors:
            os.fchdir(root)
            os.chroot(".")
        os.fchdir(place)
    except OSError as error:
        sys.exit(f"modak: the job's container cannot be entered on {os.uname().nodename}: {error.strerror}")
    try:
        os.execvpe(words[0], list(words), environments[pid])  # noqa: S606
    except OSError as error:
        print(f"modak: {words[0]}: {error.strerror}", file=sys.stderr)  # noqa: T201
        sys.exit(127 if isinstance(error, FileNotFoundError) else 126)


def main(words: Sequence[str]) -> None:
    """Prints one line of JSON, or enters the job.

    Args:
        words: over how many seconds it is measured, the node's name, and marks; or ``enter``, of rank 3 ``enter=3``,
            the same, and behind them what is run, as the hexadecimal digits of its JSON, which every shell on the way
            leaves alone. In names and marks are variables.
    """
    action, _, rank = words[0].partition("=")
    if action == "enter":
        enter([os.path.expandvars(word) for word in words[2:-1]], json.loads(bytes.fromhex(words[-1])), rank)
    node, *marks = [os.path.expandvars(word) for word in words[1:]]
    name = os.uname().nodename if not node or "$" in node else node
    facts = usage(Path("/proc"), Path("/sys/fs/cgroup"), marks, float(words[0]))
    print(json.dumps({"node": name, **facts}), flush=True)  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[1:])
