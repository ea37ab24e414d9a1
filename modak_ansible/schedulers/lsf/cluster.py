"""What an LSF cluster has: bqueues, bhosts, lshosts, bmgroup, bparams and lsid.

Sources: outputs that public repositories show, see tests/unit/schedulers/recorded/lsf.yaml, and IBM's pages of these
commands. Whatever else a site's version prints is left alone.
"""

from __future__ import annotations

import re
from typing import Dict, Iterable, List, Optional

from ..base import CommandRunner
from ..cluster import ClusterFacts, NodeKind, PartitionFacts, bytes_of, count_of, kinds_of

_OUT = re.compile(r"unavail|unreach|closed_(?:Adm|LIM|Lock|RC)", re.IGNORECASE)
_MACHINES = {
    "X86_64": "x86_64",
    "LINUXPPC64LE": "ppc64le",
    "LINUX_ARM64": "aarch64",
}  # of LSF's types of hosts those that say it
_ALL = re.compile(r"all\b|none\b", re.IGNORECASE)
_MINUTES = re.compile(r"(\d{1,9}(?:\.\d{1,3})?) min\b", re.ASCII)


def read_lsf(run: CommandRunner, user: str, groups: Iterable[str]) -> ClusterFacts:  # noqa: ARG001 - LSF has groups of its own
    unanswered: List[str] = []
    about = _out(run, ["lsid"], unanswered)
    nodes = read_hosts(
        _out(run, ["bhosts", "-w", "-X"], unanswered),
        _out(run, ["lshosts", "-w"], unanswered),
        run(["lshosts", "-gpu", "-w"]).out,
    )
    members = read_groups(run(["bmgroup", "-r", "-w"]).out)
    default = "".join(re.findall(r"(?m)^Default Queues?:\s*(\S+)", run(["bparams"]).out)[:1])
    queues = read_queues(_out(run, ["bqueues", "-l"], unanswered))
    name = re.search(r"(?m)^My cluster name is (\S+)", about)
    version = re.match(r"[^,\n]*?(\d+(?:\.\d+)+)", about)
    return ClusterFacts(
        scheduler="lsf",
        version=version.group(1) if version else "",
        name=name.group(1) if name else "",
        partitions=tuple(
            queue_of(queue, text, nodes, members, user, is_default=queue == default) for queue, text in queues.items()
        ),
        unknown=tuple(unanswered),
    )


def read_hosts(batch: str, static: str, accelerators: str) -> List[NodeKind]:
    """The hosts that run jobs, by what bhosts, lshosts and lshosts -gpu print."""
    about = {row["HOST_NAME"]: row for row in rows_of(static)}
    models = _accelerators(accelerators)
    nodes = []
    for row in rows_of(batch):
        name, status, slots = row["HOST_NAME"], row.get("STATUS", ""), count_of(row.get("MAX", ""))
        values = about.get(name, {})
        nodes.append(
            NodeKind(
                unusable=1 if _OUT.match(status) else 0,
                example=name,
                cores=count_of(values.get("ncpus", "")) if slots is None else slots,
                memory=bytes_of(values.get("maxmem", "")),
                machine=_MACHINES.get(values.get("type", ""), ""),
                accelerators=tuple(models.get(name, {}).items()),
                features=tuple(re.findall(r"[\w.]+", values.get("RESOURCES", ""))),
            )
        )
    return [node for node in nodes if node.cores]  # a host without slots manages the others


def _is_head(line: str) -> bool:
    return line.split()[:1] == ["HOST_NAME"]


def rows_of(text: str) -> List[Dict[str, str]]:
    """The rows of a table by the names of its columns; the last takes what is left of a line."""
    lines = [line for line in text.splitlines() if line.strip()]
    start = next((place for place, line in enumerate(lines) if _is_head(line)), len(lines))
    head = lines[start].split() if start < len(lines) else []
    split = (line.split(None, len(head) - 1) for line in lines[start + 1 :])
    return [dict(zip(head, words)) for words in split if len(words) > 1]


def _accelerators(text: str) -> Dict[str, Dict[str, int]]:
    """Models and numbers of the GPUs of each host, of which each has a line; the name stands in the first of a host."""
    by_host: Dict[str, Dict[str, int]] = {}
    host, column = "", 0
    for line in text.splitlines():
        words = line.split()
        if _is_head(line):
            column = words.index("gpu_model") if "gpu_model" in words else 0
            continue
        if words and not line[0].isspace():
            host, words = words[0], words[1:]
        if column and host and len(words) >= column and words[0].isdigit():
            models = by_host.setdefault(host, {})
            models[words[column - 1]] = models.get(words[column - 1], 0) + 1
    return by_host


def read_groups(text: str) -> Dict[str, List[str]]:
    """The hosts of each group of hosts, by what ``bmgroup -r -w`` prints."""
    split = (line.split() for line in text.splitlines() if not line.startswith("GROUP_NAME"))
    return {words[0]: words[1:] for words in split if len(words) > 1}


def read_queues(text: str) -> Dict[str, str]:
    """What ``bqueues -l`` prints of each queue."""
    blocks = re.split(r"(?m)^QUEUE:\s+(\S+)\s*$", text)
    return dict(zip(blocks[1::2], blocks[2::2]))


def queue_of(
    name: str, text: str, nodes: List[NodeKind], groups: Dict[str, List[str]], user: str, *, is_default: bool = False
) -> PartitionFacts:
    users = _words(text, "USERS")
    closed, note = _why_closed(text, users, user)
    hosts = _words(text, "HOSTS")
    allowed = _hosts([word for word in hosts if word[0] != "~"], groups)
    barred = _hosts([word[1:] for word in hosts if word[0] == "~"], groups)
    members = [node for node in _selected(text, nodes) if allowed is None or node.example in allowed]
    members = [node for node in members if node.example not in (barred or ())]
    minutes, slots = _limits(text)
    return PartitionFacts(
        name=name,
        default=is_default,
        closed=closed,
        nodes=len(members) or None,
        cores=slots,
        walltime=int(float(minutes) * 60) or None if minutes else None,
        walltime_said=f"{minutes} min" if minutes else "",
        kinds=kinds_of(members),
        note=note,
    )


def _selected(text: str, nodes: List[NodeKind]) -> List[NodeKind]:
    """The hosts that a queue selects, as far as that is by what some host has: ``select[ib && !old]``."""
    selection = re.search(r"\bselect\[([^][]*)\]", " ".join(_words(text, "RES_REQ")))
    if not selection or re.search(r"\|\||!\s*\(", selection.group(1)):
        return nodes
    features = {feature for node in nodes for feature in node.features}
    for word in re.split("[&()]+", "".join(selection.group(1).split())):
        name = word.lstrip("!")
        if name in features:
            nodes = [node for node in nodes if (name in node.features) is (name == word)]
        elif re.fullmatch(r"ngpus(>0|>=1)", word) and any(node.accelerators for node in nodes):
            nodes = [node for node in nodes if node.accelerators]
    return nodes


def _words(text: str, key: str) -> List[str]:
    match = re.search(rf"(?m)^{key}:[ \t]*(.*(?:\n[ \t]+\S.*)*)", text)
    return match.group(1).split() if match else []


def _hosts(words: List[str], groups: Dict[str, List[str]]) -> Optional[set[str]]:
    """The hosts of a list, in which groups end with / and preferences with +2; None for all of them, and of none."""
    if not words or _ALL.match(words[0]):
        return None
    plain = [re.sub(r"\+\d*$", "", word) for word in words]
    return {host for word in plain for host in (groups.get(word[:-1], []) if word.endswith("/") else [word])}


def _why_closed(text: str, users: List[str], user: str) -> tuple[str, str]:
    """Why a queue is not for the user, or else what is to be known of it."""
    status = re.search(r"\b(Open|Closed):(\w+)", text)
    if status and status.group(1) == "Closed":
        return f"it takes no jobs ({status.group(0)})", ""
    if status and status.group(2).startswith("Inact") and status.group(2) != "Inact_Win":
        return f"it starts no jobs ({status.group(0)})", ""
    if "ONLY_INTERACTIVE" in text:
        return "it takes interactive jobs only", ""
    if f"~{user}" in users:
        return "the user may not use it", ""
    if not users or _ALL.match(users[0]) or user in users:
        return "", "it runs jobs only in its own hours" if status and status.group(2) == "Inact_Win" else ""
    if any(word.endswith("/") for word in users):
        return "", f"only users in LSF's groups {' '.join(users)} may use it"
    return "only certain users may use it", ""


def _limits(text: str) -> tuple[str, Optional[int]]:
    """The longest that a job may run, in minutes, and the most slots that it may have, where a maximum is told."""
    _, _, maximum = text.partition("MAXIMUM LIMITS:")
    if not maximum:
        maximum = "" if "DEFAULT LIMITS:" in text else text
    minutes, slots = "", None
    lines = maximum.splitlines()
    for head, row in zip(map(str.split, lines), lines[1:]):
        # of the limits on one line those two are in minutes, and the others are counted
        timed = [name for name in head if name in ("CPULIMIT", "RUNLIMIT")]
        values = _MINUTES.findall(row)
        if "RUNLIMIT" in timed and len(values) == len(timed):
            minutes = str(values[timed.index("RUNLIMIT")])
        if head[-1:] in (["PROCLIMIT"], ["TASKLIMIT"]):  # the least, the usual and the most, or that alone
            slots = count_of(row.split()[-1]) if row.strip() else None
    return minutes, slots


def _out(run: CommandRunner, command: List[str], unknown: List[str]) -> str:
    result = run(command)
    if result.code == 0 and result.out.strip():
        return result.out
    unknown.append(f"{' '.join(command)}: {result.message if result.code else 'no output of a known form'}")
    return ""
