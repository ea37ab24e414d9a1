"""The catalogue for people: its table, and one entry at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TypedDict

from modak_ansible.catalogue import Entry, load_catalogue
from modak_ansible.errors import UsageError, nearest
from modak_ansible.model.target import Processor, Scheduler, Target
from modak_ansible.store.configuration import own_entries
from modak_ansible.store.deployment import DeploymentStore
from modak_ansible.store.lists.refusals import known_refusals
from modak_ansible.target.core.files import read_json

# --- the table


class Row(TypedDict):
    """An entry's line of the table, by its titles."""

    name: str
    framework: str
    version: str
    origin: str
    compilers: list[str]
    needs: list[str]
    base: str
    state: str


def entry_rows(entries: Iterable[Entry], state: Path) -> list[Row]:
    """A row for every entry, by the table's titles."""
    states = _states(state)
    ordered = sorted(entries, key=lambda entry: (entry.framework, entry.name))
    return [
        {
            "name": entry.name,
            "framework": entry.framework,
            "version": entry.version,
            "origin": entry.origin,
            "compilers": list(entry.compilers),
            "needs": _needs(entry),
            "base": entry.base,
            "state": _state(entry, states),
        }
        for entry in ordered
    ]


def print_rows(rows: list[Row]) -> None:
    from modak_ansible.commands.tables import print_table

    def cell(value: object) -> str:
        return ", ".join(value) if isinstance(value, list) else str(value)

    cells = [list(map(cell, row.values())) for row in rows]
    unwrapped = ("name", "framework", "version", "origin")
    titles = tuple(Row.__annotations__)
    print_table(titles, cells, wraps=[index for index, title in enumerate(titles) if title not in unwrapped])


def _needs(entry: Entry) -> list[str]:
    """What a target must have besides any x86_64."""
    families = [" or ".join(entry.architectures)] if entry.architectures != ("x86_64",) else []
    hub = ["a hub"] if entry.origin == "hub" else [entry.address] if entry.address else []
    return [*families, *entry.features, *([entry.accelerator] if entry.accelerator else []), *hub]


def _states(state: Path) -> dict[str, str]:
    """What this project knows of entries, by their names: where they were built, and where their probe refused them."""
    states = {}
    for plan_file in sorted(state.glob("*/*/plan.json")):
        plan = read_json(plan_file) or {}
        record = DeploymentStore(plan_file.parent).record
        stage = record.get("stages", {}).get("image", {})
        if stage.get("state") == "done" and "image" in plan:
            states[plan["image"]["entry"]] = f"built on {plan['target']['name']}"
    entries = {entry.name: entry for entry in load_catalogue().entries}
    for refusal in known_refusals(state):
        if refusal.entry in entries and entries[refusal.entry].digest == refusal.entry_digest:
            states[refusal.entry] = f"refused on {refusal.processor} ({refusal.address})"
    return states


def _state(entry: Entry, states: dict[str, str]) -> str:
    if entry.name in states:
        return states[entry.name]
    if entry.refusals:
        return f"refuses {', '.join(sorted(entry.refusals))}"
    return "untried" if entry.untried else "your own" if entry.name in own_entries() else ""


# --- one entry


def text_of(entry: Entry) -> str:
    catalogue = load_catalogue()
    base = catalogue.bases.get(entry.base)
    refusals = [f"on {name}: {reason}" for name, reason in sorted(entry.refusals.items())]
    pairs = [
        ("framework", f"{entry.framework} {entry.version}"),
        ("origin", f"{entry.origin}: {entry.provenance.strip()}"),
        ("licence", entry.licence),
        ("base", f"{base.name}, Python {base.python}" if base else entry.source),
        ("remark", base.remark.strip() if base else ""),
        ("processors", " or ".join(entry.architectures) + "".join(f", with {feature}" for feature in entry.features)),
        ("accelerator", entry.accelerator or ""),
        ("compilers", ", ".join(entry.compilers)),
        ("packages", ", ".join(entry.packages)),
        ("compiled", ", ".join(entry.libraries)),
        ("installed", ", ".join(entry.requirements)),
        ("environment", ", ".join(f"{name}={value}" for name, value in sorted(entry.environment.items()))),
        ("untried", entry.untried.strip()),
        ("file", str(own_entries().get(entry.name, ""))),
        ("refused", "; ".join(refusals)),
    ]
    lines = [entry.name, *(f"  {title:<13}{text}" for title, text in pairs if text)]
    probe = [f"    {line}".rstrip() for line in entry.probe.strip("\n").splitlines()]
    return "\n".join([*lines, "  how it is probed, right after its build:", "", *probe])


def definitions_of(entry: Entry, architecture: str) -> Iterator[tuple[str, str]]:
    """The layers of an entry's image, from the base upwards: each one's name and its definition.

    Raises:
        ModakError: it cannot be made for that processor.
    """
    from modak_ansible.planning.image_layers import image_of

    processor = Processor(architecture=_processor_name(architecture))
    target = Target(name="target", scheduler=Scheduler.NONE, processor=processor)
    for layer in image_of(entry, None, (), target, load_catalogue()).layers:
        yield layer.name, layer.definition


def dockerfile_of(entry: Entry, architecture: str) -> str:
    """An entry's image as a Dockerfile.

    Raises:
        ModakError: it cannot be made for that processor.
    """
    from modak_ansible.recipes.docker import dockerfile

    if entry.origin == "given":
        raise UsageError(f"{entry.name} is an image on {entry.address}: no Dockerfile makes it")
    return dockerfile(entry, load_catalogue().bases.get(entry.base), _processor_name(architecture))


def _processor_name(architecture: str) -> str:
    import archspec.cpu

    if architecture not in archspec.cpu.TARGETS:
        hint = nearest(architecture, archspec.cpu.TARGETS) or "such as x86_64, skylake_avx512 or zen5"
        raise UsageError(f"{architecture} is not a processor that archspec knows", hint=hint)
    return architecture
