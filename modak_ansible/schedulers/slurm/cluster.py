"""What a Slurm cluster has: scontrol and sacctmgr, read as far as the user may ask them.

Sources: the manual pages of scontrol, slurm.conf, gres.conf and sacctmgr, Slurm 20.11 to 24.11; what the testbed's
Slurm printed is in tests/unit/schedulers/recorded. Whatever else a site's version prints is left alone.
"""

from __future__ import annotations

import os
import re
from typing import Dict, Iterable, List, NamedTuple, Optional, Set, Tuple

from ..base import CommandResult, CommandRunner
from ..cluster import ClusterFacts, NodeKind, PartitionFacts, bytes_of, count_of, expand_nodes, kinds_of, parse_walltime
from .directives import written_walltime

# Keys begin a word and values go on to the next key: OS, Reason and Comment hold spaces.
_PAIR = re.compile(r"(?:^|\s)([A-Za-z][\w/:]*)=(.*?)(?=\s+[A-Za-z][\w/:]*=|\s*$)")
_NOTHING = ("", "(null)", "N/A", "None", "n/a")
_OUT = re.compile(r"DOWN|DRAIN|FAIL|ERROR|UNKNOWN|NO_RESPOND|NOT_RESPONDING|MAINT|INVAL", re.IGNORECASE)
# Words of a node's state about its power; POWER is that of Slurm before 21.08 for one that is off.
_OFF, _STARTING = ("POWERED_DOWN", "POWERING_DOWN", "POWER_DOWN", "POWER"), ("POWERING_UP", "POWER_UP")
_GRES = re.compile(r"(?:^|,)([\w.-]+)((?::[^,:()\[\]]+)*)(?:[(\[][^)\]]*[)\]])*")
_LAYOUT = ("Sockets", "CoresPerSocket", "ThreadsPerCore")
_COUNT = re.compile(r"(\d{1,9})([kKmMgG]?)", re.ASCII)
# What a job has that asks for no memory, as Slurm says it, as PartitionFacts have it, and in words.
_USUAL = (
    ("DefMemPerNode", "usual_memory", "of each node"),
    ("DefMemPerCPU", "memory_per_core", "for each of its cores"),
)
# The version since which a partition's list of accounts means those below them, too.
_HIERARCHICAL = (23, 2)
_FACTORS = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3}


class Associations(NamedTuple):
    """What a user may name on a cluster; None of that of which nobody says it."""

    accounts: Optional[Tuple[str, ...]] = None
    qualities: Optional[Tuple[str, ...]] = None  # of service
    default: str = ""  # account
    own_qualities: Tuple[str, ...] = ()  # those of jobs that name none; empty where nobody says
    partitions: Optional[Tuple[str, ...]] = None  # that the accounts are for; None for all
    longest: Optional[int] = None  # job of the user's, in seconds, by the one of their associations that allows most


class Quality(NamedTuple):
    """What a quality of service lets a job have."""

    longest: Optional[int] = None  # in seconds
    most: str = ""  # such as node=4,gres/gpu=8; what a user, or all together, may have at once is a job's limit, too


def read_slurm(run: CommandRunner, user: str, groups: Iterable[str]) -> ClusterFacts:
    unanswered: List[str] = []
    config = _config(_asked(run, ["scontrol", "show", "config"], unanswered))
    nodes = _nodes(records(_asked(run, ["scontrol", "--all", "--oneliner", "show", "node"], unanswered)))
    partitions = records(_asked(run, ["scontrol", "--all", "--oneliner", "show", "partition"], unanswered))
    name = _value(config.get("ClusterName", ""))
    version = config.get("SLURM_VERSION", "") or _version(run)
    enforced = config.get("AccountingStorageEnforce", "").lower()
    needs_account = "associations" in enforced or "limits" in enforced or "safe" in enforced
    associations = _own_associations(run, user, name)
    if not needs_account:
        associations = associations._replace(partitions=None)
    if associations.accounts and _numbers(version) >= _HIERARCHICAL:
        _name_accounts_below(run, user, name, set(associations.accounts), partitions)
    qualities = _qualities(run)
    facts = [
        partition_of(partition, nodes, set(groups), associations, qualities, config)
        for partition in partitions
        if _name(partition)
    ]
    return ClusterFacts(
        scheduler="slurm",
        version=version,
        name=name,
        partitions=tuple(facts),
        accounts=associations.accounts,
        default_account=associations.default,
        needs_account=needs_account,
        temporary=_value(config.get("TmpFS", "")),
        unknown=tuple(unanswered),
    )


def records(text: str) -> List[Dict[str, str]]:
    """The records of ``scontrol --oneliner``: a line each, of the first value that every key has."""
    rows = []
    for line in text.splitlines():
        values: Dict[str, str] = {}
        for key, value in _PAIR.findall(line):
            values.setdefault(key, value.strip())
        if values:
            rows.append(values)
    return rows


def node_of(values: Dict[str, str]) -> NodeKind:
    """One node of ``scontrol show node``."""
    numbers = [count_of(values.get(key, "")) for key in _LAYOUT]
    layout = (numbers[0], numbers[1], numbers[2]) if None not in numbers else None
    unusable, is_off = _condition(values.get("State", ""))
    return NodeKind(
        unusable=int(unusable),
        off=int(is_off),
        example=values.get("NodeName", ""),
        cores=count_of(values.get("CPUEfctv", "")) or _cores_of(values),
        layout=layout,  # type: ignore[arg-type] # none of them is None
        memory=_memory_of(values),
        machine=_value(values.get("Arch", "")),
        accelerators=accelerators_of(values.get("Gres", "")),
        features=tuple(word for word in _value(values.get("AvailableFeatures", "")).split(",") if word),
    )


def _condition(state: str) -> Tuple[bool, bool]:
    """Whether jobs cannot have a node, and whether it is off and starts for the next job, to save energy or money.

    Args:
        state: as ``scontrol show node`` has it, such as ``IDLE+CLOUD+POWERED_DOWN``.
    """
    words = state.upper().split("+")
    power = [word for word in words if word in (*_OFF, *_STARTING)]
    # one that is off, or on its way, need not answer
    rest = [word.rstrip("*") for word in words if word not in ("NOT_RESPONDING", *power)] if power else words
    unusable = any(_OUT.search(word) or word.endswith("*") for word in rest)
    return unusable, not unusable and any(word in _OFF for word in power)


def _cores_of(values: Dict[str, str]) -> Optional[int]:
    """What jobs may have of a node's, before Slurm 22.05, which does not say it."""
    total, reserved_cores = count_of(values.get("CPUTot", "")), count_of(values.get("CoreSpecCount", "")) or 0
    sockets, cores, threads = (count_of(values.get(key, "")) or 1 for key in _LAYOUT)
    cpus_per_core = 1 if total == sockets * cores else threads  # some sites have Slurm hand out cores alone
    return max(0, total - reserved_cores * cpus_per_core) if total else None


def _memory_of(values: Dict[str, str]) -> Optional[int]:
    """Bytes that jobs may have of a node: what Slurm keeps for itself is no part of it.

    Where slurm.conf does not say how much there is, Slurm shows its default of 1 MB, which is no node's.
    """
    stated = values.get("RealMemory", "")
    total, reserved = bytes_of(stated) if stated != "1" else None, bytes_of(_value(values.get("MemSpecLimit", "")))
    return max(0, total - (reserved or 0)) or None if total else None


def accelerators_of(text: str) -> Tuple[Tuple[str, int], ...]:
    """Types and numbers of the GPUs in a node's Gres, such as ``gpu:a100:4(S:0-1),mps:400``.

    A type that is not named is empty; ``gpu`` without a number is one.
    """
    counts: Dict[str, int] = {}
    for name, details in _GRES.findall(_value(text)):
        if name != "gpu":
            continue
        parts = [part for part in details.split(":") if part not in ("", "no_consume")]
        number = _COUNT.fullmatch(parts[-1]) if parts else None
        kind = ":".join(parts[:-1] if number else parts)
        count = int(number.group(1)) * _FACTORS[number.group(2).lower()] if number else 1
        counts[kind] = counts.get(kind, 0) + count
    return tuple((kind, count) for kind, count in counts.items() if count)


def partition_of(
    values: Dict[str, str],
    nodes: List[Tuple[Dict[str, str], NodeKind]],
    groups: Iterable[str],
    associations: Associations,
    qualities: Dict[str, Quality],
    config: Dict[str, str],
) -> PartitionFacts:
    """One partition of ``scontrol show partition``.

    Args:
        values: the partition's.
        nodes: those of all nodes, and what they say.
        groups: of the user.
        associations: the user's accounts and qualities of service.
        qualities: the limits of each quality of service.
        config: of the whole cluster.
    """
    name = _name(values)
    members = _members(values, nodes)
    kinds = kinds_of(members) or _average(values)
    walltime = parse_walltime(values.get("MaxTime", ""))
    of_quality, limits = qualities.get(_value(values.get("QoS", "")), Quality())
    counts = re.findall(r"(?:^|,)node=(\d+)", f"{limits},node={values.get('MaxNodes')}")
    notes = ["hidden"] if values.get("Hidden") == "YES" else []
    minimum = count_of(values.get("MinNodes", "")) or 1
    notes += [f"its jobs have at least {minimum} nodes"] * (minimum > 1)
    if of_quality and (walltime is None or of_quality < walltime):
        walltime = of_quality
        notes.append(f"its quality of service {values['QoS']} limits the wall time")
    notes += [f"its quality of service {values['QoS']} gives a job at most {limits}"] if limits else []
    notes += _quality_words(values, associations) or _own_limit_words(walltime, of_quality, associations, qualities)
    words, default_memory = _usual_memory(values, config)
    notes += words
    is_whole, cores = values.get("OverSubscribe") == "EXCLUSIVE", [kind.cores or 0 for kind in kinds]
    if is_whole:
        notes.append("its jobs get whole nodes, and are charged for all of them")
        default_memory = (
            {"usual_memory": default_memory["memory_per_core"] * min(cores, default=0)}
            if "memory_per_core" in default_memory
            else default_memory
        )
    if any(kind.off for kind in kinds):
        notes.append(_start_words(values, config))
    return PartitionFacts(
        name=name,
        default=values.get("Default") == "YES",
        closed=_why_closed(values, set(groups), associations),
        nodes=len(members) or count_of(values.get("TotalNodes", "")),
        most_nodes=min(map(int, counts), default=None),
        cores=_most_cores(values, kinds),
        memory=_most_memory(values, config, kinds),
        usual_memory=default_memory.get("usual_memory") or None,
        memory_per_core=default_memory.get("memory_per_core"),
        own_cores=is_whole or (_confines(config) and not values.get("OverSubscribe", "NO").startswith("FORCE")),
        walltime=walltime or None,
        walltime_said=values.get("MaxTime", ""),
        kinds=kinds,
        note="; ".join(notes),
    )


def _confines(config: Dict[str, str]) -> bool:
    """Whether every job is confined to its cores, by the section of the configuration that is cgroup.conf's."""
    return "task/cgroup" in config.get("TaskPlugin", "") and config.get("ConstrainCores", "").lower() == "yes"


def _name(values: Dict[str, str]) -> str:
    return values.get("PartitionName", "")


def _nodes(rows: List[Dict[str, str]]) -> List[Tuple[Dict[str, str], NodeKind]]:
    """Those that are there, each read once, in however many partitions it is."""
    return [(values, node_of(values)) for values in rows if not values.get("State", "").startswith("FUTURE")]


def _members(values: Dict[str, str], nodes: List[Tuple[Dict[str, str], NodeKind]]) -> List[NodeKind]:
    """The nodes of a partition: those that name it, or those that it lists."""
    name = _name(values)
    if any("Partitions" in row for row, _ in nodes):
        return [node for row, node in nodes if name in row.get("Partitions", "").split(",")]
    names = set(expand_nodes(values.get("Nodes", "")))
    return [node for row, node in nodes if row.get("NodeName") in names]


def _names_some(allowed: str) -> bool:
    """Whether what a partition takes is a list of names, and not all."""
    return allowed not in ("ALL", *_NOTHING)


def _quality_words(values: Dict[str, str], associations: Associations) -> List[str]:
    """That a job is to name its quality of service, where the partition does not take that of a job that names none."""
    allowed = values.get("AllowQos", "ALL")
    qualities = allowed.split(",")
    if not _names_some(allowed) or not associations.own_qualities or set(qualities) & set(associations.own_qualities):
        return []
    names = [name for name in qualities if name in (associations.qualities or ())]
    return [f"its jobs must name a quality of service: {' or '.join(names)}"] if names else []


def _own_limit_words(
    walltime: Optional[int], of_partition: Optional[int], associations: Associations, qualities: Dict[str, Quality]
) -> List[str]:
    """That the user's jobs are shorter, by the quality of service of those that name none, or else by the user's
    associations: that of the partition goes before both, where it has a limit.
    """
    names = associations.own_qualities or associations.qualities or ()
    limits = [qualities.get(name, Quality()).longest for name in names]
    limit, whose, by = associations.longest, "the user's jobs", "their associations"
    if any(limits):
        limit = limits[0] if len(associations.own_qualities) == 1 else None  # which of several it is, nobody says
        whose, by = "jobs that name no quality of service", names[0]
    if of_partition or not limit or (walltime is not None and walltime <= limit):
        return []
    return [f"{whose} have at most {written_walltime(limit)}, by {by}"]


def _usual_memory(values: Dict[str, str], config: Dict[str, str]) -> Tuple[List[str], Dict[str, int]]:
    """What a job has of memory that asks for none, by the partition or else by the whole cluster: in words, and what
    it has of a node or for each of its cores, in bytes, where it does not go by its GPUs.
    """
    gpus = [re.search(r"\bDefMemPerGPU=(\d+)", section.get("JobDefaults", "")) for section in (values, config)]
    words = [f"{gpu.group(1)} MB for each of its GPUs" for gpu in gpus if gpu][:1]
    defaults = [
        (count_of(section.get(key, "")), name, whose) for section in (values, config) for key, name, whose in _USUAL
    ]
    stated = [default for default in defaults if default[0]][:1]
    default_memory = {name: count * 2**20 for count, name, _ in stated if count and not words}
    words += [f"{count} MB {whose}" for count, _, whose in stated]
    return [f"a job that requests no memory gets {', or '.join(words)}"] if words else [], default_memory


def _most_cores(values: Dict[str, str], kinds: Iterable[NodeKind]) -> Optional[int]:
    """The most cores that a partition's jobs may have of a node, by its limits for a node and for each socket."""
    sockets = min((kind.layout[0] for kind in kinds if kind.layout), default=0)
    limits = count_of(values.get("MaxCPUsPerNode", "")), (count_of(values.get("MaxCPUsPerSocket", "")) or 0) * sockets
    return min(filter(None, limits), default=None)


def _most_memory(values: Dict[str, str], config: Dict[str, str], kinds: Iterable[NodeKind]) -> Optional[int]:
    """The most that a job may have of a node, by the partition or else by the whole cluster.

    A limit for each core keeps none from more, but as many cores as it then takes there must be.
    """
    most = max((kind.cores or 0 for kind in kinds), default=0)
    cores = min(_most_cores(values, kinds) or most, most)
    for section in (values, config):
        per_node, per_core = (bytes_of(section.get(f"MaxMemPer{unit}", "")) for unit in ("Node", "CPU"))
        if per_node or (per_core and cores):
            return per_node or (per_core or 0) * cores
    return None


def _start_words(values: Dict[str, str], config: Dict[str, str]) -> str:
    """How long nodes that are off take to start for a job, and when they go again."""

    def seconds(name: str) -> Optional[int]:
        own = values.get(name, "GLOBAL")  # a partition's
        return count_of((config.get(name, "") if own == "GLOBAL" else own).replace("sec", ""))

    start, idle = seconds("ResumeTimeout"), seconds("SuspendTime")
    within = f" within {start} s" if start else ""
    after = f", and is powered off after {idle} s without one" if idle else ""
    return f"a node that is powered off starts for a job{within}{after}"


def _average(values: Dict[str, str]) -> Tuple[NodeKind, ...]:
    """What the partition's sums say of a node, where nodes are not shown and may be alike."""
    tres = dict(word.partition("=")[::2] for word in values.get("TRES", "").split(","))
    # without those that are kept for the system
    count, cores = count_of(values.get("TotalNodes", "")), count_of(tres.get("cpu", values.get("TotalCPUs", "")))
    if not count or not cores or cores % count:
        return ()
    total = bytes_of(tres.get("mem", ""))
    typed_gpus = {name: number for name, number in tres.items() if name.startswith("gres/gpu:")}
    gpus = {
        name[9:]: count_of(number) or 0
        for name, number in (typed_gpus or {"gres/gpu": tres.get("gres/gpu", "")}).items()
    }
    accelerators = tuple((name, -(-number // count)) for name, number in gpus.items() if number)
    memory = total // count if total else None
    return (NodeKind(count=count, cores=cores // count, memory=memory, accelerators=accelerators),)


def _why_closed(values: Dict[str, str], groups: Iterable[str], associations: Associations) -> str:
    state = values.get("State", "UP")
    if state != "UP":
        return f"its state is {state}"
    if values.get("RootOnly") == "YES":
        return "only root may submit to it"
    if values.get("ReqResv") == "YES":
        return "it takes only jobs of a reservation"
    if count_of(values.get("TotalNodes", "")) == 0:
        return "it has no nodes"
    hosts = values.get("AllocNodes", "ALL")
    if _names_some(hosts) and os.uname().nodename.partition(".")[0] not in expand_nodes(hosts):
        return f"its jobs can be submitted only from {hosts}"
    allowed = values.get("AllowGroups", "ALL")
    if _names_some(allowed) and not set(allowed.split(",")) & set(groups):
        return f"only the groups {allowed} may use it"
    if associations.partitions is not None and _name(values) not in associations.partitions:
        return "the user's accounts may not use it"
    for key, title, names in (
        ("Accounts", "accounts", associations.accounts),
        ("Qos", "qualities of service", associations.qualities),
    ):
        allowed, denied = values.get(f"Allow{key}", "ALL"), values.get(f"Deny{key}", "")
        if names is not None and _names_some(allowed) and not set(allowed.split(",")) & set(names):
            return f"only the {title} {allowed} may use it"
        if names and denied not in _NOTHING and set(names) <= set(denied.split(",")):
            return f"the {title} {denied} may not use it"
    return ""


# --- the commands


def _asked(run: CommandRunner, command: List[str], unknown: List[str]) -> str:
    """What a command prints; that it does not is noted."""
    result = run(command)
    if result.code != 0:
        unknown.append(f"{' '.join(command)}: {result.message}")
        return ""
    return result.out


def _config(text: str) -> Dict[str, str]:
    return {key: value.strip() for key, value in re.findall(r"(?m)^(\w+)\s*=[ \t]*(.*)$", text)}


def _version(run: CommandRunner) -> str:
    result = run(["sinfo", "--version"])
    return result.out.replace("slurm", "").strip() if result.code == 0 else ""


def _own_associations(run: CommandRunner, user: str, cluster: str) -> Associations:
    """By the accounting, where there is one, and it is for users to ask."""
    rows = _associations(run, user, cluster, "format=Account,QOS,DefaultQOS,Partition,MaxWall")
    if rows is None:
        return Associations()
    accounts = tuple(dict.fromkeys(row[0] for row in rows if row[0]))
    qualities = dict.fromkeys(quality for row in rows for quality in "".join(row[1:2]).split(",") if quality)
    default = _accounting(run, ["user", f"name={user}", "format=DefaultAccount"]) or []
    full_rows = [row for row in rows if len(row) >= 4]
    # a single one is taken, too; which of several is, the accounting's root may say
    own = [row[2] or row[1] * ("," not in row[1]) for row in full_rows]
    walls = [parse_walltime(row[4]) for row in full_rows if len(row) > 4]
    return Associations(
        accounts,
        tuple(qualities) or None,
        next((row[0] for row in default if row[0]), ""),
        tuple(dict.fromkeys(own)) if all(own) else (),
        tuple(dict.fromkeys(row[3] for row in full_rows)) if full_rows and all(row[3] for row in full_rows) else None,
        max((wall or 0 for wall in walls), default=0) if all(walls) else None,
    )


def _name_accounts_below(
    run: CommandRunner, user: str, cluster: str, own: Set[str], partitions: List[Dict[str, str]]
) -> None:
    """Has the lists of accounts of partitions name those of the user's, too, that are below one in the list."""

    def below(accounts: str) -> List[str]:
        rows = _associations(run, user, cluster, f"account={accounts}", "withsubaccounts", "format=Account")
        return [row[0] for row in rows or [] if row[0]]

    lists: Dict[str, List[Tuple[Dict[str, str], str]]] = {}
    for values in partitions:
        for key in ("AllowAccounts", "DenyAccounts"):
            account_list = values.get(key, "ALL")
            lets_in = key == "AllowAccounts" and own & set(account_list.split(","))
            if _names_some(account_list) and not lets_in:
                lists.setdefault(account_list, []).append((values, key))
    if len(lists) > 1 and not below(",".join(lists)):  # some sites have hundreds, each for its owners
        return
    for account_list, places in lists.items():
        names = ",".join(dict.fromkeys([*account_list.split(","), *below(account_list)]))
        for values, key in places:
            values[key] = names


def _numbers(version: str) -> Tuple[int, ...]:
    """Of a version's first two parts; of none at all nothing."""
    match = re.match(r"(\d{1,4})\.(\d{1,4})", version, re.ASCII)
    return tuple(map(int, match.groups())) if match else ()


def _qualities(run: CommandRunner) -> Dict[str, Quality]:
    rows = _accounting(run, ["qos", "format=Name,MaxWall,MaxTRES,MaxTRESPU,GrpTRES"]) or []
    return {row[0]: Quality(parse_walltime(row[1]) or None, _least(row[2:])) for row in rows if len(row) > 1}


def _least(limits: Iterable[str]) -> str:
    """What holds of several lists such as ``cpu=64,mem=1T``: of each resource the least."""
    least: Dict[str, str] = {}
    for name, sign, value in (word.partition("=") for text in limits for word in text.split(",")):
        lowest = bytes_of(least.get(name, ""), "")
        if sign and (lowest is None or (bytes_of(value, "") or 0) < lowest):
            least[name] = value
    return ",".join(f"{name}={value}" for name, value in least.items())


def _associations(run: CommandRunner, user: str, cluster: str, *words: str) -> Optional[List[List[str]]]:
    """The user's, on this cluster alone: several may share an accounting."""
    condition = [f"cluster={cluster}"] if cluster else []
    return _accounting(run, ["associations", f"user={user}", *condition, *words])


def _accounting(run: CommandRunner, words: List[str]) -> Optional[List[List[str]]]:
    result: CommandResult = run(["sacctmgr", "--noheader", "--parsable2", "--readonly", "show", *words])
    return [line.split("|") for line in result.out.splitlines()] if result.code == 0 else None


def _value(text: str) -> str:
    return "" if text.strip() in _NOTHING else text.strip()
