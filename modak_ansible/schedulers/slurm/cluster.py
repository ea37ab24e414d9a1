"""What a Slurm cluster has: scontrol and sacctmgr, read as far as the user may ask them.

Sources: the manual pages of scontrol, slurm.conf, gres.conf and sacctmgr, Slurm 20.11 to 24.11; what the testbed's
Slurm printed is in tests/unit/schedulers/recorded. Whatever else a site's version prints is left alone.
"""

from __future__ import annotations

import os
import re
from typing import Dict, Iterable, List, NamedTuple, Optional, Set, Tuple

from ..base import CommandResult, Run
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


class Mine(NamedTuple):
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


def read_slurm(run: Run, user: str, groups: Iterable[str]) -> ClusterFacts:
    unknown: List[str] = []
    config = _config(_asked(run, ["scontrol", "show", "config"], unknown))
    nodes = _nodes(records(_asked(run, ["scontrol", "--all", "--oneliner", "show", "node"], unknown)))
    partitions = records(_asked(run, ["scontrol", "--all", "--oneliner", "show", "partition"], unknown))
    name = _value(config.get("ClusterName", ""))
    version = config.get("SLURM_VERSION", "") or _version(run)
    enforced = config.get("AccountingStorageEnforce", "").lower()
    needs_account = "associations" in enforced or "limits" in enforced or "safe" in enforced
    mine = _mine(run, user, name)
    if not needs_account:
        mine = mine._replace(partitions=None)
    if mine.accounts and _numbers(version) >= _HIERARCHICAL:
        _name_accounts_below(run, user, name, set(mine.accounts), partitions)
    qualities = _qualities(run)
    facts = [
        partition_of(partition, nodes, set(groups), mine, qualities, config)
        for partition in partitions
        if _name(partition)
    ]
    return ClusterFacts(
        scheduler="slurm",
        version=version,
        name=name,
        partitions=tuple(facts),
        accounts=mine.accounts,
        default_account=mine.default,
        needs_account=needs_account,
        temporary=_value(config.get("TmpFS", "")),
        unknown=tuple(unknown),
    )


def records(text: str) -> List[Dict[str, str]]:
    """The records of ``scontrol --oneliner``: a line each, of the first value that every key has."""
    found = []
    for line in text.splitlines():
        values: Dict[str, str] = {}
        for key, value in _PAIR.findall(line):
            values.setdefault(key, value.strip())
        if values:
            found.append(values)
    return found


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
    whole, kept = count_of(values.get("CPUTot", "")), count_of(values.get("CoreSpecCount", "")) or 0
    sockets, cores, threads = (count_of(values.get(key, "")) or 1 for key in _LAYOUT)
    each = 1 if whole == sockets * cores else threads  # some sites have Slurm hand out cores alone
    return max(0, whole - kept * each) if whole else None


def _memory_of(values: Dict[str, str]) -> Optional[int]:
    """Bytes that jobs may have of a node: what Slurm keeps for itself is no part of it.

    Where slurm.conf does not say how much there is, Slurm shows its default of 1 MB, which is no node's.
    """
    said = values.get("RealMemory", "")
    whole, kept = bytes_of(said) if said != "1" else None, bytes_of(_value(values.get("MemSpecLimit", "")))
    return max(0, whole - (kept or 0)) or None if whole else None


def accelerators_of(text: str) -> Tuple[Tuple[str, int], ...]:
    """Types and numbers of the GPUs in a node's Gres, such as ``gpu:a100:4(S:0-1),mps:400``.

    A type that is not named is empty; ``gpu`` without a number is one.
    """
    found: Dict[str, int] = {}
    for name, rest in _GRES.findall(_value(text)):
        if name != "gpu":
            continue
        parts = [part for part in rest.split(":") if part not in ("", "no_consume")]
        number = _COUNT.fullmatch(parts[-1]) if parts else None
        kind = ":".join(parts[:-1] if number else parts)
        count = int(number.group(1)) * _FACTORS[number.group(2).lower()] if number else 1
        found[kind] = found.get(kind, 0) + count
    return tuple((kind, count) for kind, count in found.items() if count)


def partition_of(
    values: Dict[str, str],
    nodes: List[Tuple[Dict[str, str], NodeKind]],
    groups: Iterable[str],
    mine: Mine,
    qualities: Dict[str, Quality],
    config: Dict[str, str],
) -> PartitionFacts:
    """One partition of ``scontrol show partition``.

    Args:
        values: the partition's.
        nodes: those of all nodes, and what they say.
        groups: of the user.
        mine: the user's accounts and qualities of service.
        qualities: the limits of each quality of service.
        config: of the whole cluster.
    """
    name = _name(values)
    members = _members(values, nodes)
    kinds = kinds_of(members) or _average(values)
    walltime = parse_walltime(values.get("MaxTime", ""))
    of_quality, most = qualities.get(_value(values.get("QoS", "")), Quality())
    counts = re.findall(r"(?:^|,)node=(\d+)", f"{most},node={values.get('MaxNodes')}")
    notes = ["hidden"] if values.get("Hidden") == "YES" else []
    least = count_of(values.get("MinNodes", "")) or 1
    notes += [f"its jobs have at least {least} nodes"] * (least > 1)
    if of_quality and (walltime is None or of_quality < walltime):
        walltime = of_quality
        notes.append(f"its quality of service {values['QoS']} limits the wall time")
    notes += [f"its quality of service {values['QoS']} gives a job at most {most}"] if most else []
    notes += _quality_words(values, mine) or _own_limit_words(walltime, of_quality, mine, qualities)
    words, usual = _usual_memory(values, config)
    notes += words
    is_whole, cores = values.get("OverSubscribe") == "EXCLUSIVE", [kind.cores or 0 for kind in kinds]
    if is_whole:
        notes.append("its jobs get whole nodes, and are charged for all of them")
        usual = (
            {"usual_memory": usual["memory_per_core"] * min(cores, default=0)} if "memory_per_core" in usual else usual
        )
    if any(kind.off for kind in kinds):
        notes.append(_start_words(values, config))
    return PartitionFacts(
        name=name,
        default=values.get("Default") == "YES",
        closed=_why_closed(values, set(groups), mine),
        nodes=len(members) or count_of(values.get("TotalNodes", "")),
        most_nodes=min(map(int, counts), default=None),
        cores=count_of(values.get("MaxCPUsPerNode", "")),
        memory=_most_memory(values, config, kinds),
        usual_memory=usual.get("usual_memory") or None,
        memory_per_core=usual.get("memory_per_core"),
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


def _nodes(listed: List[Dict[str, str]]) -> List[Tuple[Dict[str, str], NodeKind]]:
    """Those that are there, each read once, in however many partitions it is."""
    return [(values, node_of(values)) for values in listed if not values.get("State", "").startswith("FUTURE")]


def _members(values: Dict[str, str], nodes: List[Tuple[Dict[str, str], NodeKind]]) -> List[NodeKind]:
    """The nodes of a partition: those that name it, or those that it lists."""
    name = _name(values)
    if any("Partitions" in said for said, _ in nodes):
        return [node for said, node in nodes if name in said.get("Partitions", "").split(",")]
    listed = set(expand_nodes(values.get("Nodes", "")))
    return [node for said, node in nodes if said.get("NodeName") in listed]


def _names_some(allowed: str) -> bool:
    """Whether what a partition takes is a list of names, and not all."""
    return allowed not in ("ALL", *_NOTHING)


def _quality_words(values: Dict[str, str], mine: Mine) -> List[str]:
    """That a job is to name its quality of service, where the partition does not take that of a job that names none."""
    allowed = values.get("AllowQos", "ALL")
    listed = allowed.split(",")
    if not _names_some(allowed) or not mine.own_qualities or set(listed) & set(mine.own_qualities):
        return []
    names = [name for name in listed if name in (mine.qualities or ())]
    return [f"its jobs must name a quality of service: {' or '.join(names)}"] if names else []


def _own_limit_words(
    walltime: Optional[int], of_partition: Optional[int], mine: Mine, qualities: Dict[str, Quality]
) -> List[str]:
    """That the user's jobs are shorter, by the quality of service of those that name none, or else by the user's
    associations: that of the partition goes before both, where it has a limit.
    """
    names = mine.own_qualities or mine.qualities or ()
    limits = [qualities.get(name, Quality()).longest for name in names]
    limit, whose, by = mine.longest, "the user's jobs", "their associations"
    if any(limits):
        limit = limits[0] if len(mine.own_qualities) == 1 else None  # which of several it is, nobody says
        whose, by = "jobs that name no quality of service", names[0]
    if of_partition or not limit or (walltime is not None and walltime <= limit):
        return []
    return [f"{whose} have at most {written_walltime(limit)}, by {by}"]


def _usual_memory(values: Dict[str, str], config: Dict[str, str]) -> Tuple[List[str], Dict[str, int]]:
    """What a job has of memory that asks for none, by the partition or else by the whole cluster: in words, and what
    it has of a node or for each of its cores, in bytes, where it does not go by its GPUs.
    """
    gpus = [re.search(r"\bDefMemPerGPU=(\d+)", said.get("JobDefaults", "")) for said in (values, config)]
    found = [f"{each.group(1)} MB for each of its GPUs" for each in gpus if each][:1]
    others = [(count_of(said.get(key, "")), name, whose) for said in (values, config) for key, name, whose in _USUAL]
    told = [each for each in others if each[0]][:1]
    usual = {name: count * 2**20 for count, name, _ in told if count and not found}
    found += [f"{count} MB {whose}" for count, _, whose in told]
    return [f"a job that requests no memory gets {', or '.join(found)}"] if found else [], usual


def _most_memory(values: Dict[str, str], config: Dict[str, str], kinds: Iterable[NodeKind]) -> Optional[int]:
    """The most that a job may have of a node, by the partition or else by the whole cluster.

    A limit for each core keeps none from more, but as many cores as it then takes there must be.
    """
    most = max((kind.cores or 0 for kind in kinds), default=0)
    cores = min(count_of(values.get("MaxCPUsPerNode", "")) or most, most)
    for said in (values, config):
        whole, each = (bytes_of(said.get(f"MaxMemPer{what}", "")) for what in ("Node", "CPU"))
        if whole or (each and cores):
            return whole or (each or 0) * cores
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
    whole = bytes_of(tres.get("mem", ""))
    named = {name: number for name, number in tres.items() if name.startswith("gres/gpu:")}
    gpus = {
        name[9:]: count_of(number) or 0 for name, number in (named or {"gres/gpu": tres.get("gres/gpu", "")}).items()
    }
    accelerators = tuple((name, -(-number // count)) for name, number in gpus.items() if number)
    memory = whole // count if whole else None
    return (NodeKind(count=count, cores=cores // count, memory=memory, accelerators=accelerators),)


def _why_closed(values: Dict[str, str], groups: Iterable[str], mine: Mine) -> str:
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
    if mine.partitions is not None and _name(values) not in mine.partitions:
        return "the user's accounts may not use it"
    for key, what, names in (("Accounts", "accounts", mine.accounts), ("Qos", "qualities of service", mine.qualities)):
        allowed, denied = values.get(f"Allow{key}", "ALL"), values.get(f"Deny{key}", "")
        if names is not None and _names_some(allowed) and not set(allowed.split(",")) & set(names):
            return f"only the {what} {allowed} may use it"
        if names and denied not in _NOTHING and set(names) <= set(denied.split(",")):
            return f"the {what} {denied} may not use it"
    return ""


# --- the commands


def _asked(run: Run, command: List[str], unknown: List[str]) -> str:
    """What a command prints; that it does not is noted."""
    result = run(command)
    if result.code != 0:
        unknown.append(f"{' '.join(command)}: {result.message}")
        return ""
    return result.out


def _config(text: str) -> Dict[str, str]:
    return {key: value.strip() for key, value in re.findall(r"(?m)^(\w+)\s*=[ \t]*(.*)$", text)}


def _version(run: Run) -> str:
    result = run(["sinfo", "--version"])
    return result.out.replace("slurm", "").strip() if result.code == 0 else ""


def _mine(run: Run, user: str, cluster: str) -> Mine:
    """By the accounting, where there is one, and it is for users to ask."""
    rows = _associations(run, user, cluster, "format=Account,QOS,DefaultQOS,Partition,MaxWall")
    if rows is None:
        return Mine()
    accounts = tuple(dict.fromkeys(row[0] for row in rows if row[0]))
    qualities = dict.fromkeys(each for row in rows for each in "".join(row[1:2]).split(",") if each)
    default = _accounting(run, ["user", f"name={user}", "format=DefaultAccount"]) or []
    told = [row for row in rows if len(row) >= 4]
    # a single one is taken, too; which of several is, the accounting's root may say
    own = [row[2] or row[1] * ("," not in row[1]) for row in told]
    walls = [parse_walltime(row[4]) for row in told if len(row) > 4]
    return Mine(
        accounts,
        tuple(qualities) or None,
        next((row[0] for row in default if row[0]), ""),
        tuple(dict.fromkeys(own)) if all(own) else (),
        tuple(dict.fromkeys(row[3] for row in told)) if told and all(row[3] for row in told) else None,
        max((wall or 0 for wall in walls), default=0) if all(walls) else None,
    )


def _name_accounts_below(run: Run, user: str, cluster: str, own: Set[str], partitions: List[Dict[str, str]]) -> None:
    """Has the lists of accounts of partitions name those of the user's, too, that are below one in the list."""

    def below(listed: str) -> List[str]:
        rows = _associations(run, user, cluster, f"account={listed}", "withsubaccounts", "format=Account")
        return [row[0] for row in rows or [] if row[0]]

    lists: Dict[str, List[Tuple[Dict[str, str], str]]] = {}
    for values in partitions:
        for key in ("AllowAccounts", "DenyAccounts"):
            listed = values.get(key, "ALL")
            lets_in = key == "AllowAccounts" and own & set(listed.split(","))
            if _names_some(listed) and not lets_in:
                lists.setdefault(listed, []).append((values, key))
    if len(lists) > 1 and not below(",".join(lists)):  # some sites have hundreds, each for its owners
        return
    for listed, places in lists.items():
        names = ",".join(dict.fromkeys([*listed.split(","), *below(listed)]))
        for values, key in places:
            values[key] = names


def _numbers(version: str) -> Tuple[int, ...]:
    """Of a version's first two parts; of none at all nothing."""
    found = re.match(r"(\d{1,4})\.(\d{1,4})", version, re.ASCII)
    return tuple(map(int, found.groups())) if found else ()


def _qualities(run: Run) -> Dict[str, Quality]:
    rows = _accounting(run, ["qos", "format=Name,MaxWall,MaxTRES,MaxTRESPU,GrpTRES"]) or []
    return {row[0]: Quality(parse_walltime(row[1]) or None, _least(row[2:])) for row in rows if len(row) > 1}


def _least(limits: Iterable[str]) -> str:
    """What holds of several lists such as ``cpu=64,mem=1T``: of each resource the least."""
    found: Dict[str, str] = {}
    for name, sign, value in (word.partition("=") for text in limits for word in text.split(",")):
        known = bytes_of(found.get(name, ""), "")
        if sign and (known is None or (bytes_of(value, "") or 0) < known):
            found[name] = value
    return ",".join(f"{name}={value}" for name, value in found.items())


def _associations(run: Run, user: str, cluster: str, *words: str) -> Optional[List[List[str]]]:
    """The user's, on this cluster alone: several may share an accounting."""
    here = [f"cluster={cluster}"] if cluster else []
    return _accounting(run, ["associations", f"user={user}", *here, *words])


def _accounting(run: Run, words: List[str]) -> Optional[List[List[str]]]:
    result: CommandResult = run(["sacctmgr", "--noheader", "--parsable2", "--readonly", "show", *words])
    return [line.split("|") for line in result.out.splitlines()] if result.code == 0 else None


def _value(text: str) -> str:
    return "" if text.strip() in _NOTHING else text.strip()
