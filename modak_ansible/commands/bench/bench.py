"""modak bench: measures suites of trainings as real jobs, and compares what was measured."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from modak_ansible.commands.bench import report as bench_report
from modak_ansible.commands.options import NOTHING_ASKED, Json, PlanOptions, check_file, group, print_json, takes
from modak_ansible.errors import UsageError, nearest

if TYPE_CHECKING:
    from modak_ansible.model.measured.record import Record

app = group("bench", "Measure builds and switches as real jobs, and compare them.", no_args_is_help=True)

Group = Annotated[list[str] | None, typer.Option("--group", metavar="NAME", help="Only this group; repeatable.")]


@app.command(epilog="Example: modak bench run smoke --rounds 1 --dry-run")
@takes("inputs", "value", "on")
def run(
    suite: Annotated[str, typer.Argument(metavar="SUITE", help="A suite file, or the name of a shipped suite.")],
    asked: PlanOptions = NOTHING_ASKED,
    rounds: Annotated[int | None, typer.Option(min=1, help="Overrides the suite's number.")] = None,
    group: Group = None,
    records: Annotated[
        Path | None,
        typer.Option(help="Where to write the records. Default: .modak/records/SUITE.jsonl in the project."),
    ] = None,
    again: Annotated[
        bool, typer.Option("--again", help="Rename the existing record file, adding a date, and start a new one.")
    ] = False,
    patience: Annotated[
        int, typer.Option(min=0, metavar="SECONDS", help="How long to wait for a quiet machine before a run.")
    ] = 120,
    attempts: Annotated[
        int, typer.Option(min=1, help="How many times to start a round while the machine is busy.")
    ] = 3,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would run, without running it.")] = False,
    as_json: Json = False,
) -> None:
    """Measure a suite: every run is a job on a node of its own, and a line in the records as soon as it has ended.

    Run again, it continues where it was stopped: recorded rounds are not repeated, and a round that was cut short is.
    Variants of a group run in turn, in reverse order every other round. If others kept the machine busy, the round is
    repeated. What cannot be built or fails is recorded with its reason, and the others continue. Ctrl-C ends the
    running job and keeps the records.
    """
    from modak_ansible.commands.bench.run import Benching
    from modak_ansible.measuring.suites.reader import find_suite

    check_file("--records", records, f"{Path(suite).stem}.jsonl")
    benching = Benching(find_suite(suite), asked.all_inputs, tuple(group or ()), rounds)
    if dry_run:
        benching.show_plan(as_json=as_json)
        return
    benching.run(records, again=again, patience=patience, attempts=attempts, is_quiet=as_json)
    _show(benching.measured, as_json=as_json)


@app.command(epilog="Example: modak bench compare .modak/records/smoke.jsonl --group pytorch")
def compare(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Record files.")],
    group: Group = None,
    as_json: Json = False,
) -> None:
    """Compare the variants of each group with the first one: medians, spread, and ratios paired by round.

    The ratio is the variant's time divided by the first one's, the median over the rounds that have both; its 95 %
    interval is from the bootstrap. A ratio whose interval includes 1 is within noise.
    """
    from modak_ansible.measuring.records import read_records

    record_lists = [read_records(file) for file in {file.resolve(): file for file in files}.values()]
    names = {record.group for records in record_lists for record in records}
    for name in group or ():
        if name not in names:
            raise UsageError(f"there are no records of a group {name}", hint=nearest(name, names))
    _show(
        *([record for record in records if not group or record.group in group] for records in record_lists),
        as_json=as_json,
    )


def _show(*files: Iterable[Record], as_json: bool) -> None:
    from modak_ansible.commands.bench.tables import print_tables
    from modak_ansible.measuring.compare import compare as compared

    if not as_json:
        print_tables(*files)
        return
    tables = []
    for table in compared(*files):
        values = asdict(table)
        for line, compared_line in zip(values["lines"], table.lines, strict=True):
            line["within_noise"] = compared_line.is_noise
        tables.append(values)
    print_json(tables)


app.command("report", epilog=bench_report.EXAMPLES)(bench_report.command)
