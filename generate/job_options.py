"""Job options as a type of TOSCA, and their directives in docs/jobs.md: all of modak_ansible/model/job_options.py."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from generate import Writers, table, with_section
from modak_ansible.model.job_options import COMPONENT_OPTIONS, OPTIONS, Kind, Option

# Kinds that are no text in TOSCA, with the least number that they may be.
_TYPES: dict[Kind, tuple[str, int | None]] = {
    "count": ("integer", 1),
    "count or none": ("integer", 0),
    "truth": ("boolean", None),
}


_COMPONENTS = ["        type: map", "        entry_schema: { type: modak.datatypes.JobComponent }"]


def _properties(names: Iterable[str] = OPTIONS) -> str:
    return "\n".join(line for name in names for line in _property(name, OPTIONS[name]))


def _property(name: str, option: Option) -> Iterator[str]:
    kind, minimum = _TYPES.get(option.kind, ("string", None))
    description = option.as_written
    yield f"      {name}:"
    yield from _COMPONENTS if option.kind == "components" else [f"        type: {kind}"]
    yield "        required: false"
    yield f"        description: {_quoted(description) if ': ' in description else description}"
    if minimum is not None:
        yield f"        constraints: [ {{ greater_or_equal: {minimum} }}, {{ less_or_equal: 10000000 }} ]"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _directives() -> str:
    rows = [
        (f"`{name}`", option.slurm, option.torque, option.pbspro or option.torque, option.lsf)
        for name, option in OPTIONS.items()
    ]
    return table(("option", "Slurm", "Torque", "PBS Pro", "LSF"), *rows)


FILES: Writers = {
    "tosca/types/trainings.yaml": lambda text: with_section(
        with_section(text, "job_options", _properties()), "job_component", _properties(COMPONENT_OPTIONS)
    ),
    "docs/jobs.md": lambda text: with_section(text, "job_options", _directives()),
}
