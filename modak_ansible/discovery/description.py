"""From a survey to a target that can be written down: every value with where it comes from. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from modak_ansible.catalogue.processor import architecture_of
from modak_ansible.discovery.aim import Aim
from modak_ansible.discovery.limits import partition_from
from modak_ansible.discovery.node import place_words
from modak_ansible.discovery.surveying import Survey
from modak_ansible.errors import ModakError
from modak_ansible.model.quantities import counted, format_size
from modak_ansible.model.target import Partition
from modak_ansible.planning.this_machine import TELLING
from modak_ansible.reading.blueprint.forms import text_rules as rules
from modak_ansible.schedulers.cluster import ClusterFacts, NodeKind, PartitionFacts, kinds_of
from modak_ansible.schedulers.registry import SCHEDULERS
from modak_ansible.target.core.processor import model_of
from modak_ansible.target.survey.node_view import PLACES, NodePlace, NodeView
from modak_ansible.target.survey.survey import SurveyFacts

# A training's data is copied there; less room than this is of no use.
_ROOMY = 5 * 10**9
_EVERYBODYS = ("/tmp", "/var/tmp")  # noqa: S108
# What stands before and behind a name that is a part of a longer one, such as nvidia_a100-sxm4.
_START, _END = "(?<![a-z0-9])", "(?![a-z0-9])"
_VENDORS = {
    "nvidia": (
        "nvidia|tesla|geforce|[gr]tx|quadro|titan|kepler|maxwell|pascal|volta|turing|ampere|lovelace|hopper|blackwell"
        # T4; A100, A5000, and as sites call some of their kinds V100L, K20m, A100sxm4; GH200; 2080ti; a part: 1g.10gb
        rf"|{_START}(?:[akhlpvgbt]\d{{1,4}}|(?:a?\d000)?ada|[akhlpvb]\d{{2,3}}(?:[cdglmstx]|nvl?|pcie|sxm\d?|fat)|m[1-6]0|m20\d0)"
        rf"{_END}"
        rf"|{_START}(?:g[bhv]\d00|[1-5]0[5-9]0(?:ti|s|super|d)?){_END}|{_START}\dg\.\d"
    ),
    "amd": rf"{_START}amd{_END}|radeon|instinct|{_START}(?:vega|mi\d{{2,3}}|gfx\d|rx\d{{4}}|w[67]\d00)",
    "intel": rf"{_START}intel{_END}|ponte|{_START}(?:pvc{_END}|max_?1\d{{3}})|flex",
}


@dataclass(frozen=True)
class Value:
    """Something that is written down, or None where it is not known; and where it comes from."""

    value: Any
    source: str


@dataclass(frozen=True)
class Description:
    """A target, as it is written."""

    scheduler: str  # slurm, torque, pbspro, lsf, kubernetes or none
    title: str  # what was looked at, in a line
    # address, username: how it is entered; empty where that goes without saying
    address: str
    username: str
    local: bool  # whether jobs run on this machine; a scheduler's front end is entered by ssh even here
    partitions: tuple[tuple[Partition, str], ...]  # each with what people should know of it
    closed: tuple[str, ...]  # partitions that the user's jobs cannot go to, and why
    # by name: account, scratch, image_base, container_runtime; architecture, processor, features, cores, memory;
    # vendor, accelerator, accelerators, accelerator_memory; and peak_gflops, peak_gflops_bf16, memory_bandwidth
    values: dict[str, Value]
    unknown: tuple[str, ...]  # what could not be found out, and how it may be

    def value(self, name: str) -> Any:
        return self.values[name].value if name in self.values else None


def describe(aim: Aim, survey: Survey, peaks: dict[str, Value] | None = None) -> Description:
    """What a survey says of a target.

    Args:
        peaks: what was measured: peak_gflops, peak_gflops_bf16, memory_bandwidth, network_latency, network_bandwidth,
            home, and of home and scratch their rates, such as home_file_rate.

    Raises:
        ModakError: there is no Python on the target that could look.
    """
    facts, cluster = survey.facts, survey.cluster
    if facts is None:
        raise ModakError(
            f"{aim.target.address} has no Python that is new enough to look",
            hint=f"modak check {aim.target.address} tells what is there",
        )
    partitions = cluster.partitions if cluster else ()
    named = [partition for partition in partitions if not rules.name_problem(partition.name)]
    open_partitions = sorted(
        (partition for partition in named if not partition.closed), key=lambda partition: not partition.default
    )
    node = facts["node"] if facts["node"] and not facts["node"]["problem"] else None
    values = {
        "account": _account(aim, cluster),
        "scratch": _scratch(node, cluster),
        "image_base": _image_base(facts),
        **_runtime(facts),
        **_processor(facts, node, open_partitions),
        **_accelerators(facts, node, open_partitions),
        **(peaks or {}),
    }
    return Description(
        scheduler=facts["scheduler"],
        title=_title(facts, cluster),
        address=aim.target.address,
        username=aim.target.username or "",
        local=aim.target.local and cluster is None,
        partitions=tuple(_with_words(open_partitions)),
        closed=tuple(_closed(partitions)),
        values=values,
        unknown=tuple(_unknown(facts, cluster, values)),
    )


def _title(facts: SurveyFacts, cluster: ClusterFacts | None) -> str:
    machine = facts["machine"]
    runs = f"{machine['hostname']}, {machine['system']}"
    if cluster is None:
        return f"{runs}, no scheduler"
    words = [SCHEDULERS[cluster.scheduler].title, cluster.version, f"cluster {cluster.name}" if cluster.name else ""]
    return f"{runs}, {' '.join(word for word in words if word)}"


def _closed(partitions: Sequence[PartitionFacts]) -> Iterator[str]:
    for partition in partitions:
        problem = partition.closed or rules.name_problem(partition.name)
        if problem:
            yield f"{partition.name}: {problem}"


# --- partitions, in words


def _with_words(partitions: Sequence[PartitionFacts]) -> Iterator[tuple[Partition, str]]:
    """Accelerators are of interest only where some partition has any."""
    described = [(partition_from(partition), partition_words(partition)) for partition in partitions]
    has_any = any(partition.accelerators for partition, _ in described)
    for partition, words in described:
        yield partition if has_any else partition.model_copy(update={"accelerators": None}), words


def partition_words(partition: PartitionFacts) -> str:
    """The kinds of node of a partition, and its limits where they are not in its line."""
    parts = [kind_words(kind) for kind in partition.kinds[:4]]
    if len(partition.kinds) > 4:
        parts.append(f"and {len(partition.kinds) - 4} more kinds of node")
    if len(partition.kinds) > 1:
        parts.append("cores and memory are those that every one has")
    if not partition.kinds:
        parts.append("its nodes are not shown")
    if partition.walltime is None:
        reported = partition.walltime_said
        parts.append(f"wall time {reported}" if reported else "no wall time limit is reported")
    return "; ".join(part for part in (*parts, partition.note) if part)


def kind_words(kind: NodeKind) -> str:
    """Nodes that are alike, in a few words."""
    cores = counted(kind.cores, "core") if kind.cores else "cores not known"
    if kind.layout:
        cores += " = {} x {} x {}".format(*kind.layout)
    if kind.processors and kind.cores and kind.processors != kind.cores:
        cores += f" on {kind.processors} processors"
    memory = format_size(kind.memory) if kind.memory else "memory not known"
    gpus = ", ".join(f"{counted(count, 'GPU')} {name}".rstrip() for name, count in kind.accelerators)
    down = f"{kind.unusable} of them down or drained" if kind.unusable else ""
    off = f"{kind.off} of them off until a job needs them" if kind.off else ""
    machine = kind.machine if kind.machine != "x86_64" else ""
    parts = (f"{counted(kind.count, 'node')}: {cores}", memory, machine, gpus, down, off)
    return ", ".join(filter(None, parts))


# --- the other values


def _account(aim: Aim, cluster: ClusterFacts | None) -> Value:
    account = aim.target.site.account
    if cluster is None or cluster.accounts is None:
        return Value(account, "as the blueprint has it" if account else "the scheduler reports no accounts")
    names = ", ".join(cluster.accounts) or "none"
    if account:
        return Value(account, f"as the blueprint has it; the user's accounts: {names}")
    if not cluster.accounts:
        return Value(None, "the scheduler reports none for the user")
    if cluster.default_account:
        return Value(None, f"{cluster.default_account} is taken where none is named; the user's accounts: {names}")
    good = [name for name in cluster.accounts if not rules.account_problem(name)]
    return Value(good[0] if good else None, f"the first of the user's accounts: {names}")


def _scratch(node: NodeView | None, cluster: ClusterFacts | None) -> Value:
    if cluster is None:
        return Value(None, "the machine's own disk needs none")
    if node is None:
        note = f"; Slurm's TmpFS is {cluster.temporary}" if cluster.temporary else ""
        return Value(None, f"not known: no node was asked, which --job does{note}")
    order = [*PLACES, cluster.temporary]
    disks = [place for place in node["places"] if place["name"] in order and is_disk(place)]
    if not disks:
        seen = ", ".join(f"{place['name']} ({place_words(place)})" for place in node["places"]) or "no known folder"
        return Value(None, f"no disk of its own with room: {node['host']} has {seen}")
    # a $TMPDIR that is everybody's /tmp is no folder of the job's own
    best = min(disks, key=lambda place: (place["path"].rstrip("/") in _EVERYBODYS, order.index(place["name"])))
    return Value(best["name"], f"{best['path']} on {node['host']}: {place_words(best)}")


def is_disk(place: NodePlace) -> bool:
    """Whether a folder that a node saw is on a disk of its own, with room, and the user's to write in."""
    in_memory = place["type"] in ("tmpfs", "ramfs")
    roomy = place["free_bytes"] is not None and place["free_bytes"] >= _ROOMY
    return bool(place["writable"] and place["network"] is False and roomy and not in_memory)


def _image_base(facts: SurveyFacts) -> Value:
    if "debootstrap" in facts["containers"]["missing"]:
        return Value("docker", "there is no debootstrap on the front end; whether it reaches a hub was not tried")
    return Value("debootstrap", "it is on the front end; docker where a hub is reached")


def _runtime(facts: SurveyFacts) -> dict[str, Value]:
    if facts["containers"]["runtime"] or facts["scheduler"] != "none":
        return {}
    return {"container_runtime": Value("none", "neither apptainer nor singularity is in PATH")}


def _processor(facts: SurveyFacts, node: NodeView | None, partitions: Sequence[PartitionFacts]) -> dict[str, Value]:
    machine = facts["machine"]
    # which accelerators a node has says nothing of its processor
    kinds = kinds_of(
        replace(kind, accelerators=(), processors=None) for partition in partitions for kind in partition.kinds
    )
    front_end = architecture_of(machine["machine"], machine["cpuinfo"])
    if facts["scheduler"] == "none":
        values = _known_processor(machine["machine"], machine["cpuinfo"], "its own /proc/cpuinfo")
        return {
            **values,
            "cores": Value(machine["cores"], "as the kernel counts them"),
            "memory": Value(machine["memory"], "as the kernel counts it"),
        }
    if node is None:
        machines = {kind.machine for kind in kinds}
        if len(machines) == 1 and not machines & {"", machine["machine"]}:  # which no build on the front end is for
            source = f"as the scheduler says; the front end is {front_end}"
            return {"architecture": Value(machines.pop(), source)}
        source = f"not known: no node was asked, which --job does; the front end is {front_end}"
        return {"architecture": Value(None, source)}
    values = _known_processor(node["machine"], node["cpuinfo"], f"/proc/cpuinfo of {node['host']}")
    if len(kinds) > 1:
        seen = values["architecture"].value
        source = f"{node['host']} is {seen}, and there are {len(kinds)} kinds of node, which may differ"
        return {"architecture": Value(None, source)}
    return values


def _known_processor(machine: str, cpuinfo: dict[str, str], source: str) -> dict[str, Value]:
    flags = set((cpuinfo.get("flags") or cpuinfo.get("Features") or "").split())
    features = sorted(set(TELLING) & flags)
    return {
        "architecture": Value(architecture_of(machine, cpuinfo), source),
        "processor": Value(model_of(cpuinfo) or None, source),
        "features": Value(features or None, source),
    }


def _accelerators(facts: SurveyFacts, node: NodeView | None, partitions: Sequence[PartitionFacts]) -> dict[str, Value]:
    kinds = [kind for partition in partitions for kind in partition.kinds if kind.accelerators]
    models = [_gpu(text) for text in (node["gpus"] if node else facts["gpus"])]
    if not kinds and not models:
        return {}
    named = sorted({name for kind in kinds for name, _ in kind.accelerators if name})
    model, memory = models[0] if models else (named[0] if len(named) == 1 else None, None)
    source = f"nvidia-smi on {node['host']}" if node else "nvidia-smi"
    source = source if models else "the scheduler's own names for them"
    if len(named) > 1:
        source += f"; there are several: {', '.join(named)}"
    vendor = Value("nvidia" if models else vendor_of(" ".join(named)), source)
    if node and not models and len(node["makers"]) == 1 and not any(map(vendor_of, named)):
        vendor = Value(node["makers"][0], f"{node['host']} has its driver")
    values = {
        "accelerators": Value(
            max((kind.accelerator_count for kind in kinds), default=len(models)), "the most of a node"
        ),
        "accelerator": Value(model, source),
        "vendor": vendor,
    }
    return {**values, **({"accelerator_memory": Value(memory, source)} if memory else {})}


def _gpu(text: str) -> tuple[str, int | None]:
    """Model and bytes of a line of nvidia-smi, such as ``NVIDIA H200, 143771 MiB``; the unit may be missing."""
    model, _, memory = text.partition(",")
    number = re.match(r"\s*(\d{1,9})( MiB)?$", memory, re.ASCII)
    return model.strip(), int(number.group(1)) * 2**20 if number else None


def vendor_of(text: str) -> str | None:
    """Who makes an accelerator, by the name that a site has for it; None where the name does not say."""
    vendors = [vendor for vendor, pattern in _VENDORS.items() if re.search(pattern, text, re.IGNORECASE)]
    return vendors[0] if len(vendors) == 1 else None


def _unknown(facts: SurveyFacts, cluster: ClusterFacts | None, values: dict[str, Value]) -> Iterator[str]:
    yield from cluster.unknown if cluster else ()
    if facts["scheduler"] == "none" and facts["others"]:
        yield f"{' and '.join(facts['others'])}: modak does not submit to it; this machine itself would train"
    if facts["node"] and facts["node"]["problem"]:
        yield f"no node answered: {facts['node']['problem']}"
    for name in ("architecture", "scratch"):
        value = values.get(name)
        if value is not None and value.value is None and facts["scheduler"] != "none":
            yield f"{name}: {value.source.removeprefix('not known: ')}"
