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


def inputs_text(description: Description, date: str) -> str:
    """A target file, for any blueprint or request; of a cluster its values are inputs of the shipped blueprints, too,
    but for those that few have: accelerators, measured peaks, and no containers.
    """
    lines = [
        *_head(description, date),
        f"# modak deploy {BLUEPRINTS.get(description.scheduler, 'BLUEPRINT')} -i THIS FILE",
    ]
    lines.append(_entry(SCHEDULER, _kind(description), "what starts jobs there"))
    if not description.local:
        lines.append(_entry("frontend", description.address, "as it was given"))
    if description.username:
        lines.append(_entry("username", description.username, "as it was given"))
    if description.scheduler not in BLUEPRINTS:
        return (
            "\n".join([*lines, *_properties(description), *_capabilities(description, ""), *_unknown(description)])
            + "\n"
        )
    lines.append(_line(description, "account"))
    lines += _partitions(description)
    is_measured = any(f"scratch_{name}" in description.values for name in RATES)
    lines += [] if is_measured else [_line(description, "scratch", fallback='""')]
    lines += [_line(description, name) for name in ("container_runtime", "image_base") if name in description.values]
    names = ("architecture", "processor", "peak_gflops", "peak_gflops_bf16", "memory_bandwidth")
    lines += [_line(description, name) for name in names if name in description.values]
    lines += _capabilities(description, "", ("accelerator", "network", "home", *(("scratch",) if is_measured else ())))
    return "\n".join([*lines, *_unknown(description)]) + "\n"


def _kind(description: Description) -> str:
    return "local" if description.local else description.scheduler


def template_text(description: Description, date: str) -> str:
    """A service template with the target alone, for a request's --target or to be copied into a blueprint."""
    lines = [
        *_head(description, date),
        "tosca_definitions_version: tosca_simple_yaml_1_3",
        "",
        "imports:",
        "  - types/modak.yaml",
        "",
        "topology_template:",
        "  node_templates:",
        "    cluster:",
        f"      type: {TYPES[_kind(description)]}",
    ]
    if not description.local:
        lines += ["      attributes:", f"        {_entry('public_address', description.address, 'as it was given')}"]
    properties = [_entry("username", description.username, "as it was given")] if description.username else []
    properties += _properties(description)
    lines += ["      properties:", *(f"        {line}" for line in properties)] if properties else []
    capabilities = _capabilities(description, "  properties:")
    lines += ["      capabilities:", *(f"        {line}" for line in capabilities)] if capabilities else []
    return "\n".join([*lines, *_unknown(description)]) + "\n"


def _properties(description: Description) -> list[str]:
    lines = [_line(description, name) for name in ("container_runtime", "image_base") if name in description.values]
    return lines + _partitions(description) if description.partitions else lines


def _capabilities(description: Description, below: str, capabilities: tuple[str, ...] = ()) -> list[str]:
    """The lines of all capabilities, or of those that are named.

    Args:
        below: what stands between a capability and its properties: their own heading in TOSCA.
        capabilities: their names; none for all.
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
        if capabilities and capability not in capabilities:
            continue
        inner = [_line(description, name, title) for name, title in names if name in description.values]
        if any(not line.startswith("#") for line in inner):
            heading, indent = ([below], "    ") if below else ([], "  ")
            lines += [f"{capability}:", *heading, *(f"{indent}{line}" for line in inner)]
        else:
            lines += [
                _line(description, name, f"{capability} {title}") for name, title in names if name in description.values
            ]
    return lines


def _head(description: Description, date: str) -> list[str]:
    return [f"# Written by modak discover on {date}: {_one_line(description.title)}."]


def _partitions(description: Description) -> list[str]:
    lines = ["partitions:" if description.partitions else "# partitions: none is known that is open"]
    for partition, words in description.partitions:
        comments = textwrap.wrap(_printable(words), _COMMENT, max_lines=5, placeholder=" ...")
        lines += [*(f"  # {line}" for line in comments), f"  - {partition_line(partition)}"]
    return lines + [f"  # left out: {_one_line(words)}" for words in description.closed]


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


def _line(description: Description, name: str, title: str = "", fallback: str = "") -> str:
    """A line for a value, or for that it is not known."""
    item, title = description.values[name], title or name
    value = _mebibytes(item.value) if title == "memory" else item.value
    if value is None and fallback:
        return _commented(f"{title}: {fallback}", item.source)
    return f"# {title}: {_one_line(item.source)}" if value is None else _entry(title, value, item.source)


def _entry(name: str, value: Any, source: str) -> str:
    return _commented(f"{name}: {_scalar(value)}", source)


def _commented(text: str, source: str) -> str:
    return f"{text:<{_WIDTH - 1}} # {_one_line(source)}"  # YAML wants a space before it


def _unknown(description: Description) -> Iterable[str]:
    """What has no line of its own above."""
    return (
        f"# not known: {_one_line(what)}"
        for what in description.unknown
        if what.partition(":")[0] not in description.values
    )


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
    return " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())


def _one_line(text: str) -> str:
    """A comment's text: printable, on one line, of a sensible length."""
    words = _printable(text)
    return words if len(words) <= _COMMENT else words[: _COMMENT - 3] + "..."
