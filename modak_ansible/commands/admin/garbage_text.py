"""What nobody uses, for people: a table for each place."""

from __future__ import annotations

from collections import Counter

from rich.console import Console
from rich.text import Text

from modak_ansible.commands.admin.garbage import Collection
from modak_ansible.commands.tables import print_table
from modak_ansible.model.quantities import format_size
from modak_ansible.target.garbage.garbage import GarbageItem

_DAY = 86400.0
# Of these there are many, and nobody knows them by their names.
_SMALL = {
    "unfinished": "left over from interrupted work",
    "log": "of old builds and downloads",
    "lock": "that will not be used again",
    "reservation": "of deployments that arrived or never will",
    "trash": "left over from an interrupted removal",
}


def print_garbage(console: Console, collection: Collection) -> None:
    """What would be removed, place by place, and why the rest stays."""
    for target in collection.targets:
        console.print(Text(f"{target.name} ({target.address}): {target.workspace}", style="bold"), soft_wrap=True)
        _print_table(console, target.garbage)
        for reason, count in Counter(item["keep"] for item in target.kept).most_common():
            console.print(Text(f"  {count} stay: {reason}", style="dim"), soft_wrap=True)
    if collection.local:
        console.print(Text(f"here: {collection.state}", style="bold"), soft_wrap=True)
        _print_table(console, collection.local)
    if not collection.targets and not collection.problems:
        message = "this project has no deployments, and so no targets; name a blueprint to look at its target"
        console.print(message, soft_wrap=True)
    if collection.garbage:
        console.print(f"{format_size(_size(collection.garbage))} would be removed")


def print_removed(console: Console, collection: Collection) -> None:
    removed = [*collection.removed_here, *(item for target in collection.targets for item in target.removed)]
    console.print(f"{len(removed)} removed, {format_size(_size(removed))}")


def age(seconds: float) -> str:
    """How long something was not used: ``3 d``, ``5 h``, ``12 min``."""
    if seconds >= _DAY:
        return f"{seconds / _DAY:.0f} d"
    return f"{seconds / 3600:.0f} h" if seconds >= 3600 else f"{seconds / 60:.0f} min"


def _print_table(console: Console, garbage: list[GarbageItem]) -> None:
    if not garbage:
        console.print("  nothing unused")
        return
    rows = [
        ("", item["kind"], item["name"], format_size(item["size"]), age(item["idle"]))
        for item in sorted(garbage, key=lambda item: -item["size"])
        if item["kind"] not in _SMALL
    ]
    for kind, plural in _SMALL.items():
        items = [item for item in garbage if item["kind"] == kind]
        if items:
            idle = age(min(item["idle"] for item in items))
            rows.append(("", kind, f"{len(items)} {plural}", format_size(_size(items)), idle))
    print_table([""] * 5, rows, right=(3, 4), console=console)


def _size(items: list[GarbageItem]) -> int:
    return sum(item["size"] for item in items)
