"""What a cluster has, as its scheduler tells it: partitions, their limits, and the kinds of nodes in them.

The same words for every scheduler; what is None or empty was not told. The survey on the target makes it, and it
travels to the controller as JSON.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from typing import Any, Dict, Iterable, List, Optional, Tuple

_MEMORY = re.compile(r"(\d{1,18}(?:\.\d{1,9})?)\s*([kmgtp]?)(?:i?b)?", re.IGNORECASE | re.ASCII)
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4, "p": 5}
# A list of node names that is longer belongs to no cluster that there is.
_MOST_NODES = 200_000


@dataclass(frozen=True)
class NodeKind:
    """Nodes that are alike."""

    count: int = 1  # how many there are
    unusable: int = 0  # how many of them are down or drained
    off: int = 0  # how many are off, and start for a job that needs them
    example: str = ""  # the name of one
    cores: Optional[int] = None  # what the scheduler hands out of one of them; hardware threads where it counts those
    layout: Optional[Tuple[int, int, int]] = None  # sockets, cores of a socket, threads of a core
    processors: Optional[int] = None  # what the node itself counts, where that is another number
    memory: Optional[int] = None  # bytes of one
    machine: str = ""  # the family of its processor as the kernel names it
    accelerators: Tuple[Tuple[str, int], ...] = ()  # their type, as the site calls it, and number
    features: Tuple[str, ...] = ()  # what the site says of them besides

    @property
    def accelerator_count(self) -> int:
        return sum(count for _, count in self.accelerators)


@dataclass(frozen=True)
class PartitionFacts:
    """A Slurm partition or another scheduler's queue."""

    name: str  # the scheduler's
    default: bool = False  # whether a job that names none goes there
    closed: str = ""  # why the user's jobs cannot go there; empty where nothing is known against it
    nodes: Optional[int] = None  # in it, down or not
    most_nodes: Optional[int] = None  # of one job
    # cores, memory: the most that a job may have of a node; bytes
    cores: Optional[int] = None
    memory: Optional[int] = None
    accelerators: Optional[int] = None  # likewise; 0 where it takes no jobs that ask for any
    # usual_memory, memory_per_core: what a job has that asks for no memory, of a node or for each of its cores; bytes
    usual_memory: Optional[int] = None
    memory_per_core: Optional[int] = None
    own_cores: bool = False  # whether no other job is on the cores that one was given: the scheduler keeps them off
    walltime: Optional[int] = None  # seconds, the longest job
    walltime_said: str = ""  # the limit in the scheduler's own words, such as UNLIMITED; empty where it says nothing
    kinds: Tuple[NodeKind, ...] = ()  # its nodes, the most frequent first
    note: str = ""  # what else people should know


@dataclass(frozen=True)
class ClusterFacts:
    scheduler: str  # slurm, torque, pbspro or none
    version: str = ""  # of the scheduler
    name: str = ""  # the cluster's
    partitions: Tuple[PartitionFacts, ...] = ()  # in the scheduler's order
    accounts: Optional[Tuple[str, ...]] = None  # that the user's jobs may be charged to; None where nobody says
    default_account: str = ""  # for jobs that name none
    needs_account: bool = False  # whether the scheduler refuses the jobs of a user without an account
    temporary: str = ""  # the folder for temporary files of each node
    unknown: Tuple[str, ...] = ()  # what could not be read, and why

    def as_json(self) -> Dict[str, Any]:
        return asdict(self)


def cluster_from_json(values: Dict[str, Any]) -> ClusterFacts:
    """What ``as_json`` gave, after its travel."""
    partitions = tuple(
        PartitionFacts(**{**partition, "kinds": tuple(_kind(kind) for kind in partition["kinds"])})
        for partition in values["partitions"]
    )
    accounts = values["accounts"]
    return ClusterFacts(
        **{
            **values,
            "partitions": partitions,
            "accounts": None if accounts is None else tuple(accounts),
            "unknown": tuple(values["unknown"]),
        }
    )


def _kind(values: Dict[str, Any]) -> NodeKind:
    layout = values["layout"]
    accelerators = tuple((str(kind), int(count)) for kind, count in values["accelerators"])
    changed = {"layout": tuple(layout) if layout else None, "accelerators": accelerators}
    return NodeKind(**{**values, **changed, "features": tuple(values["features"])})


def kinds_of(nodes: Iterable[NodeKind]) -> Tuple[NodeKind, ...]:
    """Single nodes put together where they are alike, the most frequent first; their memory is what each has."""
    groups: List[List[NodeKind]] = []
    by_hardware: Dict[Tuple[Any, ...], List[List[NodeKind]]] = {}
    for node in nodes:
        # features name racks and switches, too
        candidates = by_hardware.setdefault(
            (node.cores, node.layout, node.processors, node.machine, node.accelerators), []
        )
        members = next((group for group in candidates if _like_memory(group[0].memory, node.memory)), None)
        if members is None:
            members = []
            candidates.append(members)
            groups.append(members)
        members.append(node)
    kinds = []
    for members in groups:
        values = {name: getattr(members[0], name) for name in NodeKind.__dataclass_fields__}
        values["memory"] = min((member.memory for member in members if member.memory), default=None)
        values["features"] = shared_features(members)
        values["count"] = sum(member.count for member in members)
        values["unusable"] = sum(member.unusable for member in members)
        values["off"] = sum(member.off for member in members)
        kinds.append(NodeKind(**values))
    return tuple(sorted(kinds, key=lambda kind: -kind.count))


def shared_features(nodes: List[NodeKind]) -> Tuple[str, ...]:
    """What each of some nodes has, in the order of the first."""
    shared = set(nodes[0].features).intersection(*(node.features for node in nodes))
    return tuple(feature for feature in nodes[0].features if feature in shared)


def _like_memory(one: Optional[int], other: Optional[int]) -> bool:
    """Whether two nodes may be of a kind: PBS tells what their kernels leave of it, which is never quite the same."""
    return abs((one or 0) - (other or 0)) * 100 <= max(one or 0, other or 0)


def bytes_of(text: str, unit: str = "m") -> Optional[int]:
    """Bytes of a scheduler's size, which counts in powers of two: ``4000`` (in ``unit``), ``192000M``, ``24684092kb``.

    None for what is no size, such as UNLIMITED.
    """
    size = _MEMORY.fullmatch(text.strip())
    if not size:
        return None
    power = _POWERS[size.group(2).lower()]
    if not size.group(2) and not text.strip().lower().endswith("b"):
        power = _POWERS[unit]
    return int(float(size.group(1)) * 1024**power)


def count_of(text: str) -> Optional[int]:
    """A number; None for what is none, such as UNLIMITED or (null)."""
    return int(text.strip()) if re.fullmatch(r"\d{1,18}", text.strip(), re.ASCII) else None


def parse_walltime(text: str) -> Optional[int]:
    """Seconds of a scheduler's time limit: minutes of Slurm's ``60``, ``10:00``, ``1-00:00:00``, ``2-12``.

    None for what is no time, such as UNLIMITED, INFINITE, NONE or Partition_Limit.
    """
    duration = re.fullmatch(r"(?:(\d{1,6})-)?(\d{1,9})(?::(\d{1,2}))?(?::(\d{1,2}))?", text.strip(), re.ASCII)
    if not duration:
        return None
    days, *parts = duration.groups()
    numbers = [int(part) for part in parts if part is not None]
    if days is not None or len(numbers) == 3:  # hours first
        hours, minutes, seconds = [*numbers, 0, 0][:3]
    else:
        hours, (minutes, seconds) = 0, [*numbers, 0][:2]
    return ((int(days or 0) * 24 + hours) * 60 + minutes) * 60 + seconds


def expand_nodes(text: str) -> List[str]:
    """The names behind ``node[001-003,7],login1``, in order, each once; nothing where the list has another form."""
    names: Dict[str, None] = {}
    for part in _split(text):
        for name in _expand(part):
            names[name] = None
            if len(names) > _MOST_NODES:
                return []
    return list(names)


def _split(text: str) -> List[str]:
    """At the commas outside of brackets."""
    return [part for part in re.findall(r"(?:[^,\[\]\s]|\[[^\[\]]*\])+", text) if part != "(null)"]


def _expand(part: str) -> List[str]:
    head, bracket, rest = part.partition("[")
    if not bracket:
        return [head]
    inside, _, tail = rest.partition("]")
    tails = _expand(tail) if tail else [""]
    names = []
    for word in inside.split(","):
        numbers = re.fullmatch(r"(\d{1,9})(?:-(\d{1,9}))?", word.strip(), re.ASCII)
        if not numbers:
            return []
        first, last = numbers.group(1), numbers.group(2) or numbers.group(1)
        if (int(last) - int(first) + 1) * len(tails) > _MOST_NODES:
            return []
        width = len(first)
        names += [f"{head}{n:0{width}}{tail}" for n in range(int(first), int(last) + 1) for tail in tails]
    return names
