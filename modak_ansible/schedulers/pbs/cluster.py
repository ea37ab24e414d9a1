"""What a Torque cluster has: pbsnodes and qstat, or what qmgr prints of its queues.

Sources: recordings of a real Torque 6.1.3, and the manual pages pbs_queue_attributes and pbs_node_attributes. Whatever
else a server prints is left alone.
"""

from __future__ import annotations

import os
import re
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Dict, Iterable, Iterator, List, Tuple

from ..base import CommandRunner
from ..cluster import ClusterFacts, NodeKind, PartitionFacts, bytes_of, count_of, kinds_of, shared_features
from .forecast import seconds_of
from .torque import read_elements

Attributes = Dict[str, str]

_YES = ("True", "yes")  # the latter is Slurm's own qstat
# The last three of OpenPBS, whose names for states are in pbs_internal.h.
_OUT = re.compile(
    r"\b(down|offline|offline_by_mom|unknown|state-unknown|stale|maintenance|unresolvable|provisioning)\b",
    re.IGNORECASE,
)
# Sites' own resources for what accelerators are; PBS has none.
_MODEL = re.compile(r"resources_available\.(gpu|accelerator)_?(type|model|name)", re.IGNORECASE)
# The queue, and the partition of queues, that a node of PBS Professional is kept for.
_KEPT = ("queue", "partition")
# What a queue may want of its jobs, in numbers and times, and what every job has.
_COUNTED = re.compile(r"(?=.*[1-9])[\d:]+", re.ASCII)
_OF_EVERY_JOB = ("ncpus=1", "nodect=1", "nodes=1")


def read_torque(run: CommandRunner, user: str, groups: Iterable[str], *, scheduler: str = "torque") -> ClusterFacts:
    unanswered: List[str] = []
    servers = _blocks(run, ["qstat", "-B", "-f"], "Server", unanswered)
    name, server = next(iter(servers.items()), ("", {}))
    queues = _blocks(run, ["qstat", "-Q", "-f"], "Queue", unanswered)
    if not queues:
        queues, printed = printed_queues(_out(run, ["qmgr", "-c", "print server"]))
        server = {**printed, **server}
    nodes = _nodes(run, unanswered)
    default, group_names = server.get("default_queue", ""), [*groups]
    facts = [_queue(queue, values, server, nodes, default, user, group_names) for queue, values in queues.items()]
    return ClusterFacts(
        scheduler=scheduler,
        version=server.get("pbs_version", ""),
        name=name,
        partitions=tuple(facts),
        unknown=tuple(unanswered),
    )


def read_pbspro(run: CommandRunner, user: str, groups: Iterable[str]) -> ClusterFacts:
    """The same of PBS Professional, whose queues and nodes are told in the same form with some other words."""
    return read_torque(run, user, groups, scheduler="pbspro")


def attribute_blocks(text: str, kind: str) -> Dict[str, Attributes]:
    """The attributes in what ``qstat -f`` prints, by the names of the blocks that begin with ``kind: ``.

    A long value goes on after a line break and a tab; Slurm's own qstat has the tab before each attribute.
    """
    unfolded = re.sub(r"\n\t(?![\w.]+ = )", "", text)
    blocks = {}
    for block in re.split(rf"(?m)^(?={kind}:\s)", unfolded):
        first, _, attributes = block.partition("\n")
        if first.startswith(f"{kind}:"):
            blocks[first.partition(":")[2].strip()] = _pairs(attributes)
    return {name: values for name, values in blocks.items() if name}


def printed_queues(text: str) -> Tuple[Dict[str, Attributes], Attributes]:
    """The queues and the server's own attributes in what ``qmgr -c 'print server'`` prints."""
    queues: Dict[str, Attributes] = {name: {} for name in re.findall(r"(?m)^create queue (\S+)\s*$", text)}
    for name, key, value in re.findall(r"(?m)^set queue (\S+) (\S+) \+?= ?(.*)$", text):
        values = queues.setdefault(name, {})
        values[key] = f"{values[key]},{value.strip()}" if key in values else value.strip()
    return queues, dict(re.findall(r"(?m)^set server (\S+) = (.*)$", text))


def read_nodes(text: str) -> List[NodeKind]:
    """The nodes in what ``pbsnodes -x`` or ``pbsnodes`` prints; none where it is neither."""
    if text.lstrip().startswith("<"):
        try:
            return [_node(values) for values in read_elements(text, "Node")]
        except ValueError:
            return []
    nodes = []
    for block in re.split(r"\n\s*\n", text):
        lines = block.strip("\n").split("\n")
        name = lines[0].strip()
        if name and not lines[0][:1].isspace() and len(lines) > 1:
            nodes.append(_node({"name": name, **_pairs("\n".join(lines[1:]))}))
    return nodes


def _hosts(vnodes: List[NodeKind]) -> List[NodeKind]:
    """The hosts of vnodes, in which PBS Professional tells them; nodes of Torque are hosts."""
    hosts: Dict[str, List[NodeKind]] = {}
    for vnode in vnodes:
        host = next((feature[5:] for feature in vnode.features if feature.startswith("host=")), vnode.example)
        hosts.setdefault(host, []).append(vnode)
    return [_whole(host, parts) for host, parts in hosts.items()]


def _whole(host: str, vnodes: List[NodeKind]) -> NodeKind:
    """A host that PBS Professional tells in parts, such as its sockets: a job's chunk may take of all of them."""
    if len(vnodes) == 1:
        return vnodes[0]
    parts = [vnode for vnode in vnodes if vnode.cores] or vnodes  # beside them one of its own may have none
    gpus = sum(part.accelerator_count for part in parts)
    models = {model for part in parts for model, _ in part.accelerators}
    return replace(
        parts[0],
        example=host,
        unusable=max(part.unusable for part in parts),
        cores=sum(part.cores or 0 for part in parts) or None,
        processors=sum(part.processors or 0 for part in parts) or None,
        memory=sum(part.memory or 0 for part in parts) or None,
        accelerators=((models.pop() if len(models) == 1 else "", gpus),) if gpus else (),
        features=shared_features(parts),
    )


def _pairs(text: str) -> Attributes:
    return {key: value.strip() for key, value in re.findall(r"(?m)^\s+([\w.]+) = ?(.*)$", text)}


def _node(values: Attributes) -> NodeKind:
    status = dict(part.partition("=")[::2] for part in values.get("status", "").split(","))
    kernel = (status.get("uname") or status.get("arch", "")).split()
    # PBS Professional's word behind Torque's
    count = count_of(values.get("gpus", "") or values.get("resources_available.ngpus", ""))
    product = re.search(r"gpu_product_name=([^;,]+)", values.get("gpu_status", ""))
    model = product.group(1) if product else next((value for key, value in values.items() if _MODEL.fullmatch(key)), "")
    memory = status.get("physmem") or status.get("availmem") or values.get("resources_available.mem", "")
    return NodeKind(
        unusable=1 if _OUT.search(values.get("state", "")) else 0,
        example=values.get("name", ""),
        cores=count_of(values.get("np", "") or values.get("resources_available.ncpus", "")),
        processors=count_of(status.get("ncpus", "") or values.get("pcpus", "")),
        memory=bytes_of(memory, "k") or None,  # Slurm's tells availmem
        machine=kernel[-1] if kernel else "",
        accelerators=((model.strip(), count),) if count else (),
        features=(*(word for word in values.get("properties", "").split(",") if word), *_resources(values)),
    )


def _resources(values: Attributes) -> Iterator[str]:
    """What a host of PBS Professional has that a queue may give its jobs, such as qlist=gpu, and whose it is."""
    for key, value in values.items():
        start, _, name = key.partition(".")
        if start == "resources_available" and _is_word(value):
            yield from (f"{name.lower()}={word.strip()}" for word in value.strip('"').split(","))
    yield from (f"{key}={values[key]}" for key in _KEPT if values.get(key))


def _is_word(value: str) -> bool:
    """Whether the value of a resource is none that is counted or measured."""
    return bool(value) and bytes_of(value) is None


def _queue(
    name: str, values: Attributes, server: Attributes, nodes: List[NodeKind], default: str, user: str, groups: List[str]
) -> PartitionFacts:
    limits = {**_below("resources_max", server), **_below("resources_max", values)}
    shared_limits = _shared_limits((server, values), user, groups)
    for resource, value in shared_limits.items():
        if resource not in limits or (bytes_of(limits[resource], "") or 0) > (bytes_of(value, "") or 0):
            limits[resource] = value
    if values.get("queue_type", "Execution")[:1].upper() == "R":
        note = f"a routing queue: jobs go on to {values.get('route_destinations', 'other queues')}"
        return PartitionFacts(name, name == default, _why_closed(values, user, groups), note=note)
    features = _wanted_features(values) | _chunk_features(name, values, nodes)
    members = _hosts([node for node in nodes if _has(node, features) and _may_have(node, features)])
    # by some in Torque's form, such as 4:ppn=8
    most_nodes = count_of(limits.get("nodect") or re.sub(r":[^+]*$", "", limits.get("nodes", "")))
    walltime = limits.get("walltime", "")
    notes = [f"its nodes have {', '.join(sorted(features))}"] if features else []
    lowest = _below("resources_min", values)
    minimum = [f"{key}={value}" for key, value in lowest.items() if _COUNTED.fullmatch(value)]
    minimum = [resource for resource in minimum if resource not in _OF_EVERY_JOB]
    notes += [f"its jobs must request at least {', '.join(minimum)}"] if minimum else []
    at_once = ", ".join(f"{key}={value}" for key, value in shared_limits.items())
    notes += [f"its jobs together may have at most {at_once}"] if at_once else []
    default_memory = [*_usual_memory(values), *_usual_memory(server)][:1]
    notes += [f"a job that requests no memory gets {memory}" for memory in default_memory]
    notes += _group_words(values, groups)
    return PartitionFacts(
        name=name,
        default=name == default,
        closed=_why_closed(values, user, groups),
        nodes=len(members) or None,
        most_nodes=most_nodes,
        cores=_cores(limits),
        memory=bytes_of(limits.get("mem", ""), ""),  # of all its nodes, and so of one
        usual_memory=next(
            filter(None, (bytes_of(scope.get("default_chunk.mem", "")) for scope in (values, server))), None
        ),
        accelerators=count_of(limits.get("ngpus", "")),
        walltime=seconds_of(walltime) or None,
        walltime_said=walltime,
        kinds=kinds_of(members),
        note="; ".join(notes),
    )


def _usual_memory(values: Attributes) -> Iterator[str]:
    """What a queue, or the server, gives a job of memory that asks for none: each of its chunks, or all of it."""
    for key, whose in (("default_chunk.mem", " of each node"), ("resources_default.mem", "")):
        if bytes_of(values.get(key, "")):
            yield f"{values[key]}{whose}"


def _shared_limits(scopes: Iterable[Attributes], user: str, groups: List[str]) -> Attributes:
    """What the user, the group or all may have at once of each resource, and so a job: ``[u:PBS_GENERIC=8]``.

    Args:
        scopes: the attributes of the server and of a queue, either of which may say it.
    """
    limits_by_resource: Attributes = {}
    for resource, text in (limit for values in scopes for limit in _below("max_run_res", values).items()):
        amounts = dict(re.findall(r"\b([ugo]:[^=\s\[\]]+)=(\d[\w.]*)", text))
        keys = (f"u:{user}", "u:PBS_GENERIC"), (f"g:{''.join(groups[:1])}", "g:PBS_GENERIC"), ("o:PBS_ALL",)
        limits = [next((amounts[name] for name in names if name in amounts), "") for names in keys]
        limits.append(limits_by_resource.get(resource, ""))
        sizes = [(size, limit) for limit in limits if (size := bytes_of(limit, "")) is not None]
        if sizes:
            limits_by_resource[resource] = min(sizes)[1]
    return limits_by_resource


def _below(name: str, values: Attributes) -> Attributes:
    """The members of an attribute that has several, such as resources_max.walltime, by their own names."""
    start = f"{name}."
    return {key[len(start) :]: value for key, value in values.items() if key.startswith(start)}


def _cores(limits: Attributes) -> int | None:
    """The most cores that a job may have of a node: no more than of all its nodes, which most limits are of."""
    slots = re.search(r":ppn=(\d{1,9})", limits.get("nodes", ""), re.ASCII)
    limits_per_node = (slots.group(1) if slots else "", *(limits.get(name, "") for name in ("ppn", "ncpus", "procct")))
    return min((count for count in map(count_of, limits_per_node) if count), default=None)


def _chunk_features(queue: str, values: Attributes, nodes: List[NodeKind]) -> set[str]:
    """What each chunk of a queue's jobs asks for under PBS Professional, of the resources that some node has."""
    requested = [
        f"{name.lower()}={value}" for name, value in _below("default_chunk", values).items() if _is_word(value)
    ]
    resources = {feature.partition("=")[0] for node in nodes for feature in node.features if "=" in feature}
    reserved = {f"queue={queue}", f"partition={values.get('partition')}"}
    own = reserved.intersection(feature for node in nodes for feature in node.features)
    return {*(word for word in requested if word.partition("=")[0] in resources), *own}


def _has(node: NodeKind, features: set[str]) -> bool:
    """Whether a node has all that is wanted; a truth value that nobody gave it is False to PBS Professional."""
    false = {word for word in features if word.endswith("=False") and f"{word[:-5]}True" not in node.features}
    return features - false <= set(node.features)


def _may_have(node: NodeKind, features: set[str]) -> bool:
    """Whether a node is not kept for another queue, or for those of another scheduler."""
    return features.issuperset(feature for feature in node.features if feature.partition("=")[0] in _KEPT)


def _wanted_features(values: Attributes) -> set[str]:
    """What nodes must have for a queue: its own neednodes, as far as that names properties."""
    words = values.get("resources_default.neednodes", "") or values.get("features_required", "")
    return {word for word in re.split(r"[:,+]", words) if re.match(r"[A-Za-z]", word) and "=" not in word}


def _why_closed(values: Attributes, user: str, groups: List[str]) -> str:
    if values.get("enabled", "True") not in _YES:
        return "it takes no jobs (enabled = False)"
    if values.get("started", "True") not in _YES:
        return "it starts no jobs (started = False)"
    if values.get("from_route_only") == "True":
        return "jobs reach it only through a routing queue"
    lists = {kind: values.get(f"acl_{kind}s", "") for kind in ("host", "user", "group")}
    lists = {kind: words for kind, words in lists.items() if values.get(f"acl_{kind}_enable") == "True"}
    machine = os.uname().nodename
    names = {"host": {machine, machine.partition(".")[0]}, "user": {user}, "group": set(groups)}
    refused = [kind for kind, words in lists.items() if not _is_let_in(words, names[kind])]
    if "host" in refused:
        return f"its jobs can be submitted only from {lists['host']}"
    if values.get("acl_logic_or") == "True" and {"user", "group"} <= lists.keys() and len(refused) == 1:
        return ""
    return f"only certain {refused[0]}s may use it" if refused else ""


def _group_words(values: Attributes, groups: List[str]) -> List[str]:
    """That the user's first group, of which the jobs are, is not let in, where another one is."""
    access_list = values.get("acl_groups", "")
    asks = values.get("acl_group_enable") == "True"
    asks = asks and "True" not in (values.get("acl_group_sloppy"), values.get("acl_logic_or"))
    if not asks or not groups or _is_let_in(access_list, set(groups[:1])):
        return []
    return [f"only the groups {access_list} may use it, and the user's first group is {groups[0]}"]


def _is_let_in(access_list: str, names: set[str]) -> bool:
    """Whether an access control list has one of some names in it: ``alice@*,+bob,-eve,+``, ``h1+h2``, ``*.site.org``.

    A sign alone is of everybody else. Of ranges the start is looked at; who has an address, nobody says.
    """
    words = re.split(r"\s*,\s*|(?<=\w)\+", access_list.strip())
    entries = [re.fullmatch(r"([+-]?)([^@]*)(@.*)?", re.sub(r"\[.*", "*", word)) for word in words if word]
    signed_names = [(entry.group(1), re.sub(r"^\d+\.\d.*", "*", entry.group(2))) for entry in entries if entry]
    signs = [sign for sign, name in signed_names if name and any(fnmatchcase(own_name, name) for own_name in names)]
    signs = signs or [sign for sign, name in signed_names if sign and not name]
    return bool(signs) and signs[0] != "-"


# --- the commands


def _out(run: CommandRunner, command: List[str]) -> str:
    result = run(command)
    return result.out if result.code == 0 else ""


def _blocks(run: CommandRunner, command: List[str], kind: str, unanswered: List[str]) -> Dict[str, Attributes]:
    result = run(command)
    blocks = attribute_blocks(result.out, kind) if result.code == 0 else {}
    if not blocks:
        unanswered.append(f"{' '.join(command)}: {result.message if result.code else 'no output of a known form'}")
    return blocks


def _nodes(run: CommandRunner, unknown: List[str]) -> List[NodeKind]:
    """From XML or, where pbsnodes gives none, from its text: Slurm's own pbsnodes knows no -x."""
    for command in (["pbsnodes", "-x"], ["pbsnodes"], ["pbsnodes", "-a"]):
        result = run(command)
        nodes = read_nodes(result.out) if result.code == 0 else []
        if nodes:
            return nodes
        if result.missing or result.timed_out:
            break
    unknown.append(f"pbsnodes: {result.message if result.code else 'no output of a known form'}")
    return []
