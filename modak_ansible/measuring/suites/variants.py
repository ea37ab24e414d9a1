"""What a suite runs: every group's variants on every target, in the suite's order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from modak_ansible.catalogue import Entry
from modak_ansible.catalogue.entry import script_for
from modak_ansible.errors import UsageError, nearest
from modak_ansible.measuring.suites.reader import Inventory, variant_name
from modak_ansible.model.measured.suite import Group, Suite
from modak_ansible.model.measured.workload import Workload


@dataclass(frozen=True)
class Variant:
    """One build with one set of switches on one target."""

    group: str  # the group in which it is compared
    name: str  # what tells it from the others of its group
    target: str  # the suite's name of the target
    workload: Workload
    entry: Entry
    script: str  # the script's name below the workload's folder
    settings: dict[str, str]
    arguments: dict[str, str]  # options of the script, without those of its switches
    nodes: int = 1

    def __str__(self) -> str:
        return f"{self.group}: {self.name}"


@dataclass(frozen=True)
class Block:
    """A group's variants, which are run in turn; the first is what the others are held against."""

    group: str
    rounds: int
    variants: tuple[Variant, ...]

    def order(self, round_number: int) -> tuple[Variant, ...]:
        """The order of a round: reversed in every other one, so that being first or last is nobody's advantage."""
        return self.variants[:: 1 if round_number % 2 else -1]


def blocks_of(suite: Suite, inventory: Inventory, groups: Iterable[str] = (), rounds: int | None = None) -> list[Block]:
    """What is to be run.

    Args:
        groups: their names; empty for all.
        rounds: instead of those that the suite says.

    Raises:
        UsageError: the suite has no such group.
    """
    names = [group.name for group in suite.groups]
    chosen = list(groups) or names
    for name in chosen:
        if name not in names:
            raise UsageError(f"the suite {suite.name} has no group {name}", hint=nearest(name, names))
    return [
        Block(group.name, rounds or group.rounds or suite.rounds, tuple(_variants(suite, group, inventory)))
        for group in suite.groups
        if group.name in chosen
    ]


def _variants(suite: Suite, group: Group, inventory: Inventory) -> Iterator[Variant]:
    workload = inventory.workloads[group.workload]
    entries = {entry.name: entry for entry in inventory.catalogue.entries}
    arguments = {**(suite.arguments if workload.kind == "training" else {}), **group.arguments}
    targets = group.targets or tuple(suite.targets)
    for target in targets:
        for matrix in group.matrix:
            for name in matrix.entries:
                script = script_for(workload, entries[name])
                assert script is not None  # noqa: S101 - the suite's reader has seen to it
                for settings in matrix.settings:
                    title = variant_name(name, settings) + (f" on {target}" if len(targets) > 1 else "")
                    yield Variant(
                        group=group.name,
                        name=title,
                        target=target,
                        workload=workload,
                        entry=entries[name],
                        script=script.script,
                        settings=settings,
                        arguments=arguments,
                        nodes=group.nodes,
                    )
