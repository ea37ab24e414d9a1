"""The text of a drafted blueprint: TOSCA, in at most 25 lines."""

from __future__ import annotations

import re
from typing import Any

import yaml

from modak_ansible.reading.drafts.draft import Draft

_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?", re.ASCII)


def text_of(draft: Draft) -> str:
    metadata = {"template_name": draft.name, **({"target": draft.target} if draft.target else {})}
    host = {"host": "cluster"}
    cluster = {"type": draft.target_type, "properties": draft.target_properties}
    lines = [
        "tosca_definitions_version: tosca_simple_yaml_1_3",
        f"metadata: {flow(metadata)}",
        "imports: [ types/modak.yaml ]",
        "topology_template:",
        "  node_templates:",
        f"    cluster: {flow({name: value for name, value in cluster.items() if value})}",
    ]
    nodes = ["data", *(f"data_{number}" for number in range(2, len(draft.data) + 1))][: len(draft.data)]
    for node, data in zip(nodes, draft.data, strict=True):
        fields = {
            "name": data.name,
            "source": [data.source] if data.source else None,
            "unpack": data.unpack,
            "mount_as": data.mount_as,
        }
        properties = {name: value for name, value in fields.items() if value}
        parts = {"type": "modak.nodes.Dataset", "properties": properties, "requirements": [host]}
        if len(nodes) == 1:
            lines += [f"    {node}:", *(f"      {name}: {flow(value)}" for name, value in parts.items())]
        else:  # 25 lines are soon full
            lines.append(f"    {node}: {flow(parts)}")
    lines += ["    training:", "      type: modak.nodes.Training", "      properties:"]
    script = draft.script.absolute().relative_to(draft.folder.absolute()).as_posix()
    places = {"nodes": draft.nodes, "processes_per_node": draft.processes_per_node}
    resources: dict[str, Any] = {name: count for name, count in places.items() if count > 1}
    if draft.accelerators is not None:
        resources["accelerators"] = draft.accelerators
    if draft.partition:
        resources["partition"] = draft.partition
    values: dict[str, Any] = {
        "framework": draft.framework,
        "version": draft.version,
        "optimisation": {"entry": draft.entry} if draft.entry else {},
        "script": script,
        "files": draft.files,
        "arguments": _Arguments(draft.arguments),
        "words": draft.words,
        "requirements_txt": draft.requirements,
        "outputs": draft.outputs,
        "walltime": draft.walltime,
        "resources": resources,
    }
    lines += [f"        {name}: {flow(value)}" for name, value in values.items() if value or name == "walltime"]
    lines.append(f"      requirements: {flow([host, *({'dataset': node} for node in nodes)])}")
    return "\n".join(lines) + "\n"


class _Arguments(dict[str, Any]):
    """Options of a script, of which the reader takes the text as it is written."""


def flow(value: Any) -> str:
    """A value as YAML has it on one line."""
    if isinstance(value, _Arguments):
        return f"{{ {', '.join(f'{flow(name)}: {_argument(argument)}' for name, argument in value.items())} }}"
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{flow(name)}: {flow(item)}' for name, item in value.items())} }}"
    if isinstance(value, list | tuple):
        return f"[ {', '.join(map(flow, value))} ]"
    if isinstance(value, bool):
        return "true" if value else "false"
    style = (
        '"' if isinstance(value, str) and value.splitlines() not in ([], [value]) else None
    )  # else a line's end stays one
    dumped = yaml.safe_dump([value], default_flow_style=True, default_style=style, width=2**31, allow_unicode=False)
    text = dumped.strip()
    return text[1:-1] if text.startswith("[") else text


def _argument(value: Any) -> str:
    if isinstance(value, list):
        return f"[ {', '.join(map(_argument, value))} ]"
    return value if isinstance(value, str) and _NUMBER.fullmatch(value) else flow(value)
