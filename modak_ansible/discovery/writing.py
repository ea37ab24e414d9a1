"""A description in YAML, with a comment on where each value comes from: a target file, or a node of TOSCA."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable
from typing import Any

from modak_ansible.discovery.description import Description
from modak_ansible.model.quantities import format_walltime
from modak_ansible.model.target import RATES, Partition
from modak_ansible.reading.blueprint.target_words import SCHEDULER, TYPES

_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*", re.ASCII)
_NOT_TEXT = ("yes", "no", "on", "off", "true", "false", "null", "y", "n")
_WIDTH = 44
_COMMENT = 150
_LONGEST = 9999 * 86400
BLUEPRINTS = {"slurm": "mnist-pytorch-slurm", **dict.fromkeys(("torque", "pbspro", "lsf"), "mnist-pytorch-torque")}


def inputs_text(found: Description, date: str) -> str:
    """A target file, for any blueprint or request; of a cluster its values are inputs of the shipped blueprints, too,
    but for those that few have: accelerators, measured peaks, and no containers.
    """
    lines = [*_head(found, date), f"# modak deploy {BLUEPRINTS.get(found.scheduler, 'BLUEPRINT')} -i THIS FILE"]
    lines.append(_entry(SCHEDULER, _kind(found), "what starts jobs there"))
    if not found.local:
        lines.append(_entry("frontend", found.address, "as it was given"))
    if found.username:
        lines.append(_entry("username", found.username, "as it was given"))
    if found.scheduler not in BLUEPRINTS:
        return "\n".join([*lines, *_properties(found), *_capabilities(found, ""), *_unknown(found)]) + "\n"
    lines.append(_known(found, "account"))
    lines += _partitions(found)
    is_measured = any(f"scratch_{name}" in found.values for name in RATES)
    lines += [] if is_measured else [_known(found, "scratch", none='""')]
    lines += [_known(found, name) for name in ("container_runtime", "image_base") if name in found.values]
    known = ("architecture", "processor", "peak_gflops", "peak_gflops_bf16", "memory_bandwidth")
    lines += [_known(found, name) for name in known if name in found.values]
    lines += _capabilities(found, "", ("accelerator", "network", "home", *(("scratch",) if is_measured else ())))
    return "\n".join([*lines, *_unknown(found)]) + "\n"


def _kind(found: Description) -> str:
    return "local" if found.local else found.scheduler


def template_text(found: Description, date: str) -> str:
    """A service template with the target alone, for a request's --target or to be copied into a blueprint."""
    lines = [
        *_head(found, date),
        "tosca_definitions_version: tosca_simple_yaml_1_3",
        "",
        "imports:",
        "  - types/modak.yaml",
        "",
        "topology_template:",
        "  node_templates:",
        "    cluster:",
        f"      type: {TYPES[_kind(found)]}",
    ]
    if not found.local:
        lines += ["      attributes:", f"        {_entry('public_address', found.address, 'as it was given')}"]
    properties = [_entry("username", found.username, "as it was given")] if found.username else []
    properties += _properties(found)
    lines += ["      properties:", *(f"        {line}" for line in properties)] if properties else []
    capabilities = _capabilities(found, "  properties:")
    lines += ["      capabilities:", *(f"        {line}" for line in capabilities)] if capabilities else []
    return "\n".join([*lines, *_unknown(found)]) + "\n"


def _properties(found: Description) -> list[str]:
    lines = [_known(found, name) for name in ("container_runtime", "image_base") if name in found.values]
    return lines + _partitions(found) if found.partitions else lines


def _capabilities(found: Description, below: str, wanted: tuple[str, ...] = ()) -> list[str]:
    """The lines of all capabilities, or of those that are wanted.

    Args:
        below: what stands between a capability and its properties: their own heading in TOSCA.
        wanted: names of capabilities; none for all.
    """
    groups = {
        "processor": [
            ("architecture", "architecture"), ("processor", "model"), ("features", "features"), ("cores", "cores"),
            ("memory", "memory"), ("peak_gflops", "peak_gflops"), ("peak_gflops_bf16", "peak_gflops_bf16"),
            ("memory_bandwidth", "memory_bandwidth"),
        ],
        "accelerator": [
            ("vendor", "vendor"), ("accelerator", "model"), ("accelerators", "count"), ("accelerator_memory", "memory"),
        ],
        "home": [("home", "path"), *((f"home_{name}", name) for name in RATES)],
        "scratch": [("scratch", "path"), *((f"scratch_{name}", name) for name in RATES)],
        "network": [("network_latency", "latency"), ("network_bandwidth", "bandwidth")],
        "site": [("account", "account")],
    }  # fmt: skip
    lines: list[str] = []
    for capability, names in groups.items():
        if wanted and capability not in wanted:
            continue
        inner = [_known(found, name, title) for name, title in names if name in found.values]
        if any(not line.startswith("#") for line in inner):
            heading, indent = ([below], "    ") if below else ([], "  ")
            lines += [f"{capability}:", *heading, *(f"{indent}{line}" for line in inner)]
        else:
            lines += [_known(found, name, f"{capability} {title}") for name, title in names if name in found.values]
    return lines


def _head(found: Description, date: str) -> list[str]:
    return [f"# Written by modak discover on {date}: {_one_line(found.title)}."]


def _partitions(found: Description) -> list[str]:
    lines = ["partitions:" if found.partitions else "# partitions: none is known that is open"]
    for partition, words in found.partitions:
        said = textwrap.wrap(_printable(words), _COMMENT, max_lines=5, placeholder=" ...")
        lines += [*(f"  # {line}" for line in said), f"  - {partition_line(partition)}"]
    return lines + [f"  # left out: {_one_line(words)}" for words in found.closed]


def partition_line(partition: Partition) -> str:
    """A partition as a flow mapping, without what is not known."""
    walltime = partition.walltime
    values = {
        "name": partition.name,
        "nodes": partition.nodes,
        "cores": partition.cores,
        "memory": _mebibytes(partition.memory),
        "usual_memory": _mebibytes(partition.usual_memory),
        "memory_per_core": _mebibytes(partition.memory_per_core),
        "accelerators": partition.accelerators,
        "own_cores": partition.own_cores or None,
        "walltime": format_walltime(walltime) if walltime and walltime < _LONGEST else None,
        "default": partition.default or None,
    }
    return "{ " + ", ".join(f"{key}: {_scalar(value)}" for key, value in values.items() if value is not None) + " }"


def _mebibytes(count: int | None) -> str | None:
    return f"{count // 2**20} MiB" if count and count >= 2**20 else None


def _known(found: Description, name: str, title: str = "", none: str = "") -> str:
    """A line for a value, or for that it is not known."""
    known, title = found.values[name], title or name
    value = _mebibytes(known.value) if title == "memory" else known.value
    if value is None and none:
        return _commented(f"{title}: {none}", known.source)
    return f"# {title}: {_one_line(known.source)}" if value is None else _entry(title, value, known.source)


def _entry(name: str, value: Any, source: str) -> str:
    return _commented(f"{name}: {_scalar(value)}", source)


def _commented(text: str, source: str) -> str:
    return f"{text:<{_WIDTH - 1}} # {_one_line(source)}"  # YAML wants a space before it


def _unknown(found: Description) -> Iterable[str]:
    """What has no line of its own above."""
    return (f"# not known: {_one_line(what)}" for what in found.unknown if what.partition(":")[0] not in found.values)


def _scalar(value: Any) -> str:
    """A value as YAML has it in a flow, quoted wherever it could be read as something else."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    if isinstance(value, list):
        return f"[ {', '.join(map(_scalar, value))} ]"
    text = str(value)
    is_size = re.fullmatch(r"\d+ MiB", text) is not None
    if is_size or (_PLAIN.fullmatch(text) and text.lower() not in _NOT_TEXT):
        return text
    return '"' + "".join(map(_quoted, text)) + '"'


def _quoted(letter: str) -> str:
    """A letter between double quotes: everything but plain ASCII as its number."""
    return letter if " " <= letter <= "~" and letter not in '"\\' else f"\\U{ord(letter):08x}"


def _printable(text: str) -> str:
    return " ".join("".join(each if each.isprintable() else " " for each in text).split())


def _one_line(text: str) -> str:
    """A comment's text: printable, on one line, of a sensible length."""
    words = _printable(text)
    return words if len(words) <= _COMMENT else words[: _COMMENT - 3] + "..."
