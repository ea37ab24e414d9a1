"""modak check: is a target ready for a deployment?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from modak_ansible.commands.options import NOTHING_ASKED, Json, PlanOptions, print_json, takes
from modak_ansible.errors import FAILED, TARGET_UNREACHABLE, TargetUnreachable, UsageError, harmless, nearest

if TYPE_CHECKING:
    from modak_ansible.discovery.finding import Finding

EXAMPLES = "Example: modak check mnist-pytorch-slurm -i site.yaml --job; or: modak check alice@login.cluster.example"

Target = Annotated[
    str | None,
    typer.Argument(
        metavar="[TARGET]",
        help="A blueprint or request, the name of a target in this folder's blueprint or in modak targets, a "
        "host as you would give it to ssh, or local for this machine. Default: the testbed.",
    ),
]
Job = Annotated[bool, typer.Option("--job", help="Also examine a compute node, with a job of a few seconds.")]
Patience = Annotated[int, typer.Option(min=5, metavar="SECONDS", help="How long to wait for that job.")]
SchedulerName = Annotated[
    str,
    typer.Option(
        "--scheduler",
        metavar="NAME",
        help="slurm, torque, pbspro, lsf, kubernetes or none; for a host, default: whichever it has.",
    ),
]
_STYLES = {"ok": "green", "warning": "yellow", "missing": "red"}


@takes("inputs", "value", "on", "training")
def command(
    target: Target = None,
    asked: PlanOptions = NOTHING_ASKED,
    scheduler: SchedulerName = "",
    job: Job = False,
    patience: Patience = 120,
    as_json: Json = False,
) -> None:
    """Check what a target lacks before the first deployment. Says what is fine, what is missing, and how to fix it.

    Nothing is changed there, and no job runs without --job. Exits with 0 if a deployment can work, with 1 if something
    that it needs is missing, and with 4 if the target cannot be reached.
    """
    from modak_ansible.commands.deploy.progress import look
    from modak_ansible.discovery.aim import aim_at
    from modak_ansible.discovery.costs import cost_findings
    from modak_ansible.discovery.judging import findings_of
    from modak_ansible.discovery.surveying import SurveyRequest, survey_target

    aim = aim_at(target, asked.all_inputs, asked.training)
    options = SurveyRequest(known_scheduler(scheduler), job, patience=patience)
    code = 0
    try:
        with look(f"looking at {aim.target.address}", quiet=as_json):
            findings = findings_of(aim, survey_target(aim, options))
    except TargetUnreachable as error:
        findings, code = [_unreachable(target, error)], TARGET_UNREACHABLE
    findings += cost_findings(aim)
    if code == 0 and any(finding.state == "missing" for finding in findings):
        code = FAILED
    if as_json:
        report = {"target": aim.target.name, "address": aim.target.address, "exit_code": code}
        print_json({**report, "findings": [finding.as_json() for finding in findings]})
    else:
        _print(aim.target.address, findings, code)
    if code:
        raise typer.Exit(code)


def known_scheduler(name: str) -> str:
    """
    Raises:
        UsageError: there is no such scheduler.
    """
    from modak_ansible.model.target import Scheduler

    names = [scheduler.value for scheduler in Scheduler]
    if name and name not in names:
        raise UsageError(f"--scheduler {name}: there is no such scheduler", hint=nearest(name, names))
    return name


def _unreachable(target: str | None, error: TargetUnreachable) -> Finding:
    """The one finding of a target that nobody gets into; a name may have been meant for a blueprint's."""
    from modak_ansible.discovery.aim import likely_blueprint
    from modak_ansible.discovery.finding import missing

    near = likely_blueprint(target) if target and "is not the name of a host" in error.message else ""
    return missing("ssh", error.message, f"{near} {error.hint}".strip())


def _print(address: str, findings: list[Finding], code: int) -> None:
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False)
    width = max(len(finding.about) for finding in findings)
    for finding in findings:
        line = Text(f"{finding.state:<8} ", style=_STYLES[finding.state])
        line.append(f"{finding.about:<{width}}  ", style="bold not dim")
        line.append(harmless(finding.seen), style="default")
        console.print(line, soft_wrap=True)
        if finding.todo:
            console.print(Text(f"{'':<{width + 11}}{harmless(finding.todo)}", style="italic"), soft_wrap=True)
    absent = sum(finding.state == "missing" for finding in findings)
    if code == 0:
        verdict = "a deployment can work"
    elif findings[0].about == "ssh" and findings[0].state == "missing":
        verdict = "it cannot be entered"
    else:
        verdict = f"{absent} thing{'s are' if absent > 1 else ' is'} missing"
    console.print(Text(f"\n{address}: {verdict}", style="bold"), soft_wrap=True)
