"""modak tune: tries on the target what the records cannot tell, and trains nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, cast

import typer

from modak_ansible.commands.options import Json, PlanOptions, print_json, show_warnings, takes
from modak_ansible.errors import ModakError
from modak_ansible.store.deployment import DeploymentStore
from modak_ansible.store.project import find_blueprint

if TYPE_CHECKING:
    from pathlib import Path

    from modak_ansible.model.plan import Plan
    from modak_ansible.stages.jobs.tuned import Row
    from modak_ansible.target.core.plan import Plan as PlanJson

EXAMPLES = "Example: modak tune mnist-pytorch-slurm --budget 300 --dry-run"


@takes("blueprint", "words", "inputs", "value", "training", "on")
def command(
    asked: PlanOptions,
    budget: Annotated[
        int | None,
        typer.Option(
            "--budget", min=1, help="Seconds that all trials together may take. Default: the blueprint's budget."
        ),
    ] = None,
    as_json: Json = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be tried, without changing anything.")
    ] = False,
) -> None:
    """Try the configurations that the records cannot tell apart. Each runs for a few steps, in a job on the target.

    The job ends when it is tuned. Every trial becomes a record of the project, from which modak model fit learns.
    """
    from modak_ansible.planning.service import plan_blueprint
    from modak_ansible.planning.tuning.tuning import tuning_alone

    planned = plan_blueprint(
        find_blueprint(asked.blueprint),
        asked.all_inputs,
        asked.training,
        change=lambda request: tuning_alone(request, budget),
    )
    show_warnings(planned.warnings)
    if dry_run:
        _show_plan(planned.plan, as_json=as_json)
        return
    folder = planned.save()
    deployed(planned.plan, folder, is_quiet=as_json)
    _show_result(planned.plan, folder, as_json=as_json)


def deployed(plan: Plan, folder: Path, *, is_quiet: bool) -> None:
    """Carries a plan out, and shows how it gets on: to standard error alone where it is to be quiet."""
    from modak_ansible.commands.jobs.operate import stage_display
    from modak_ansible.deployment.playbook import run_playbook
    from modak_ansible.deployment.run import plans_of

    typer.echo(f"{plan.name} on {plan.target.name}, plan {plan.digest[:12]}", err=is_quiet)
    with stage_display(as_json=is_quiet) as display:
        run_playbook("deploy", plans_of([DeploymentStore(folder)]), display)


def _show_plan(plan: Plan, *, as_json: bool) -> None:
    tuning = plan.tuning
    if tuning is None:
        return
    if as_json:
        typer.echo(tuning.model_dump_json(indent=2))
        return
    steps = ", ".join(map(str, tuning.steps_of_rungs))
    typer.echo(f"{plan.name}: {plan.training} on {plan.target.name}, in {plan.image.entry}")
    typer.echo(f"{tuning.alone} candidates, {steps} steps in turn, in at most {tuning.budget} s\n")
    for candidate in tuning.candidates:
        note = f" (where {' and '.join(candidate.parts)} are faster)" if candidate.parts else ""
        note += "" if candidate.may_win else " (for comparison only)"
        typer.echo(f"  {candidate.name:<4} {candidate.numerics:<14} {candidate.title}{note}")


def _show_result(plan: Plan, folder: Path, *, as_json: bool) -> None:
    from modak_ansible.commands.tables import print_table
    from modak_ansible.stages.jobs.tuned import read_report, tuning_pairs, tuning_rows

    as_planned = cast("PlanJson", plan.model_dump(mode="json"))
    report = read_report(DeploymentStore(folder).results)
    if report is None:
        raise ModakError("the job left no tuning.json", hint=f"what it wrote is in {folder / 'results'}")
    rows = tuning_rows(report, as_planned)
    if as_json:
        facts = {"digest": plan.digest, "deployment": plan.deployment, "state": report.state, "reason": report.reason}
        spent = {"budget": report.budget, "spent": report.spent, "best": report.best}
        print_json({**facts, **spent, "candidates": [_as_json(row) for row in rows]})
        return
    titles = ("step", "10 to 90 %", "first", "steps", "x stock", "x plan", "candidate", "")
    print_table(titles, map(_cells, rows), right=range(6), wraps=(6, 7))
    for _, text in tuning_pairs(report, as_planned)[:1]:
        typer.echo(f"\n{text}")
    typer.echo("modak model fit learns from these trials, and later plans use them.")


def _as_json(row: Row) -> dict[str, object]:
    trial = row.trial
    return {
        "name": row.name,
        "title": row.title,
        "rung": trial.rung if trial else None,
        "steps": trial.steps if trial else None,
        "score": trial.score if trial else None,
        "over_stock": row.over_stock,
        "over_plan": row.over_plan,
        "told": row.outcome,
    }


def _cells(row: Row) -> list[str]:
    verdict = "best" if row.outcome == "trains" else row.outcome
    if row.trial is None:
        return ["", "", "", "", "", "", row.title, verdict]
    median, low, high = (row.trial.seconds_of(name) for name in ("median", "p10", "p90"))
    first = row.trial.seconds_of("first") or row.trial.seconds_of("to_first_step")
    return [
        f"{median * 1e3:.2f} ms" if median else "",
        f"{low * 1e3:.2f} to {high * 1e3:.2f}" if low and high else "",
        f"{first:.1f} s" if first else "",
        str((row.trial.steps or {}).get("count", "")),
        f"{row.over_stock:.2f}" if row.over_stock else "",
        f"{row.over_plan:.2f}" if row.over_plan else "",
        row.title,
        verdict,
    ]
