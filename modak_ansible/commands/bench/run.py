"""What modak bench run does: reads the suite, measures it, and says how to go on after an interruption."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

import typer
from rich.console import Console
from rich.text import Text

from modak_ansible.commands.options import print_json
from modak_ansible.errors import TargetUnreachable
from modak_ansible.measuring.executor import PlaybookExecutor
from modak_ansible.measuring.history import History
from modak_ansible.measuring.load import wait_until_quiet
from modak_ansible.measuring.plans import place_of, plan_run, waits_for_processor
from modak_ansible.measuring.records import RecordFile
from modak_ansible.measuring.runner import Runner
from modak_ansible.measuring.suites.reader import find_target, load_inventory, read_suite
from modak_ansible.measuring.suites.variants import Variant, blocks_of
from modak_ansible.model.measured.record import Record
from modak_ansible.model.quantities import counted
from modak_ansible.planning.plan import CannotPlan
from modak_ansible.reading.blueprint.reader import Inputs
from modak_ansible.store.project import RECORDS, state_folder
from modak_ansible.transport.lifeline import signals_as_interrupts
from modak_ansible.transport.rsync import Say


@dataclass(frozen=True)
class PlannedVariant:
    group: str
    variant: str
    rounds: int
    image: str = ""  # its digest
    command: tuple[str, ...] = ()
    problem: str = ""  # why image and command are not known; empty where they are


class Benching:
    """One command's work.

    Args:
        path: the suite's file.
        inputs: for the blueprints of its targets.
        groups: names of its groups; empty for all.
        rounds: instead of the suite's.
    """

    def __init__(self, path: Path, inputs: Inputs, groups: tuple[str, ...], rounds: int | None) -> None:
        inventory = load_inventory()
        self._path = path
        self._suite = read_suite(path, inventory)
        self._blocks = blocks_of(self._suite, inventory, groups, rounds)
        used = {variant.target for block in self._blocks for variant in block.variants}
        self._places = {
            name: place_of(find_target(path, text), inputs)
            for name, text in self._suite.targets.items()
            if name in used
        }
        self.measured: list[Record] = []

    def show_plan(self, *, as_json: bool) -> None:
        """What would be run."""
        rows = [
            self._planned_variant(block.group, block.rounds, variant)
            for block in self._blocks
            for variant in block.variants
        ]
        if as_json:
            print_json([asdict(row) for row in rows])
            return
        runs = sum(row.rounds for row in rows)
        lines = [
            f"{self._suite.name}: {self._suite.title}",
            f"{counted(runs, 'run')} of {counted(len(rows), 'variant')}",
            "",
        ]
        for row in rows:
            detail = row.problem or f"{row.image[:12]}  {' '.join(row.command)}"
            lines.append(f"  {row.group}  {row.variant}  {counted(row.rounds, 'round')}  {detail}")
        typer.echo("\n".join(lines))

    def run(self, records: Path | None, *, again: bool, patience: int, attempts: int, is_quiet: bool) -> None:
        """Measures what is not on record yet.

        Raises:
            KeyboardInterrupt: the user ended it, and was told how to go on.
            TargetUnreachable: likewise.
        """
        console = Console(stderr=is_quiet, highlight=False)

        def say(text: str) -> None:
            console.print(Text(text), soft_wrap=True)

        file = RecordFile(records or state_folder(Path.cwd()) / RECORDS / f"{self._suite.name}.jsonl")
        history = self._history(file, again, say)
        runner = Runner(
            suite=self._suite,
            blocks=self._blocks,
            places=self._places,
            executor=PlaybookExecutor(say),
            file=file,
            history=history,
            say=say,
            wait=partial(wait_until_quiet, patience, say),
            attempts=attempts,
        )
        try:
            with signals_as_interrupts():
                runner.run()
        except (KeyboardInterrupt, TargetUnreachable):
            runs = "1 run is" if len(history) == 1 else f"{len(history)} runs are"
            say(f"{runs} on record in {file.path}; to continue: the same command")
            raise
        say(f"records: {file.path}")
        self.measured = list(history)

    def _history(self, file: RecordFile, again: bool, say: Say) -> History:
        if again and (aside := file.set_aside()):
            say(f"the records so far are in {aside} now")
        records, mended = file.open()
        if mended:
            say(mended)
        history = History(self._suite, records)
        if history.outdated:
            say(f"{file.path} has records of another suite, or of an earlier text of this one: they do not count")
        if len(history):
            say(f"{file.path} has records of this suite: rounds that are complete are not measured anew")
        return history

    def _planned_variant(self, group: str, rounds: int, variant: Variant) -> PlannedVariant:
        planned = PlannedVariant(group, variant.name, rounds)
        place = self._places[variant.target]
        if waits_for_processor(variant, place):
            return replace(planned, problem="planned for the processor that is found on the target")
        try:
            plan = plan_run(self._suite, variant, place, run="dry-run").plan
        except CannotPlan as error:
            return replace(planned, problem=error.message)
        words = [
            word for name, value in plan.application.arguments for word in (f"--{name}", value) if isinstance(word, str)
        ]
        return replace(planned, image=plan.image.digest, command=(plan.application.script, *words))
