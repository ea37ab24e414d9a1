"""modak discover: describes a target that nobody has described yet."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from modak_ansible.commands.admin.check import Job, Patience, SchedulerName, Target, known_scheduler
from modak_ansible.commands.options import NOTHING_ASKED, Json, PlanOptions, print_json, takes
from modak_ansible.errors import UsageError, harmless

if TYPE_CHECKING:
    from modak_ansible.discovery.description import Description
    from modak_ansible.discovery.target_files import TargetFiles

EXAMPLES = "Example: modak discover alice@login.cluster.example --job --save mycluster"


@takes("inputs", "value", "on")
def command(
    target: Target = None,
    asked: PlanOptions = NOTHING_ASKED,
    output: Annotated[
        str | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE|FOLDER",
            help="A .yaml file for the target file, or a folder for that and a TOSCA node.",
        ),
    ] = None,
    save: Annotated[
        str | None,
        typer.Option("--save", metavar="NAME", help="Save the target file under a name that --on accepts everywhere."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite existing files.")] = False,
    scheduler: SchedulerName = "",
    job: Job = False,
    patience: Patience = 120,
    measure: Annotated[
        bool,
        typer.Option("--measure", help="Also measure a node's peaks, with jobs; takes minutes, and builds images."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Read what a cluster or a host has, and write it as a target. Reads a live Slurm, Torque, PBS Pro, LSF or plain
    host; blueprints and requests accept the target.

    Without -o it is shown, and nothing is written. --job runs a job to find out what only a compute node knows, such as
    its processor and its own disk. Unknown values are reported as unknown, never guessed.
    """
    from modak_ansible.commands.deploy.progress import look
    from modak_ansible.discovery.aim import aim_at
    from modak_ansible.discovery.description import describe
    from modak_ansible.discovery.surveying import SurveyRequest, survey_target
    from modak_ansible.discovery.target_files import TargetFiles
    from modak_ansible.store.targets import new_target

    if save and output:
        raise UsageError("--save and --output both say where it is written", hint="leave one of them out")
    aim = aim_at(target, asked.all_inputs)
    files = TargetFiles(str(new_target(save)) if save else output, force, save or "")
    files.check()
    with look(f"looking at {aim.target.address}", quiet=as_json):
        survey = survey_target(aim, SurveyRequest(known_scheduler(scheduler), job or measure, patience=patience))
    description = describe(aim, survey)
    if measure:
        from modak_ansible.commands.admin.measure import measured

        description = describe(aim, survey, measured(description, aim, is_quiet=as_json))
    written = files.write(description)
    if as_json:
        print_json({**_as_json(description), "files": [str(path) for path in written]})
    elif written:
        _say(description, written, files)
    else:
        typer.echo(files.text(description), nl=False)


def _as_json(description: Description) -> dict[str, object]:
    return {
        "title": description.title,
        "scheduler": description.scheduler,
        "address": description.address,
        "partitions": [
            {**partition.model_dump(mode="json"), "about": words} for partition, words in description.partitions
        ],
        "closed": list(description.closed),
        "values": {name: {"value": value.value, "source": value.source} for name, value in description.values.items()},
        "unknown": list(description.unknown),
    }


def _say(description: Description, written: list[Path], files: TargetFiles) -> None:
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False)

    def say(text: str, style: str = "") -> None:
        console.print(Text(harmless(text), style=style), soft_wrap=True)

    say(description.title, "bold")
    for partition, words in description.partitions:
        say(f"  {partition.name}{' (default)' if partition.default else ''}: {words}")
    for words in description.closed:
        say(f"  left out: {words}", "dim")
    for words in description.unknown:
        say(f"  not known: {words}", "yellow")
    for path in written:
        say(f"written: {path}")
    for line in files.next_steps(description):
        say(line)
