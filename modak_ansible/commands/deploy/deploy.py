"""modak deploy: carries a plan out, from the image to the results."""

from __future__ import annotations

import time
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from modak_ansible.commands.options import Json, PlanOptions, as_data, seconds_in, show_warnings, takes
from modak_ansible.errors import ModakError, TimeIsOver
from modak_ansible.store.project import find_blueprint, has_unfitted_records

if TYPE_CHECKING:
    from modak_ansible.commands.deploy.notification import Ending
    from modak_ansible.commands.deploy.progress import StageDisplay
    from modak_ansible.planning.service import Planned
    from modak_ansible.store.deployment import DeploymentStore

EXAMPLES = "Example: modak deploy mnist-pytorch-slurm -i site.yaml --input epochs=4"


class AtTimeLimit(StrEnum):
    """What becomes of a deployment whose time is over."""

    LEAVE = "leave"
    UNDEPLOY = "undeploy"


@takes("blueprint", "words", "nodes", "processes", "accelerators", "inputs", "value", "training", "on", "strict")
def command(
    asked: PlanOptions,
    as_json: Json = False,
    detach: Annotated[bool, typer.Option("--detach", help="Return once the job is submitted.")] = False,
    time_limit: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="How long to run, such as 90s, 20m or 2h; after that it exits with 6."),
    ] = None,
    at_time_limit: Annotated[
        AtTimeLimit, typer.Option(help="Whether to leave the work on the target running then, or undeploy it.")
    ] = AtTimeLimit.LEAVE,
    junit: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the outcome as JUnit XML, which CI servers read.")
    ] = None,
    notify_command: Annotated[
        str,
        typer.Option(
            envvar="MODAK_NOTIFY_COMMAND",
            metavar="COMMAND",
            help="Run a command at the end; it gets the outcome in MODAK_STATE and other variables.",
        ),
    ] = "",
    webhook: Annotated[
        str,
        typer.Option(
            "--webhook",
            envvar="MODAK_WEBHOOK",
            metavar="NAME",
            help="Send a chat message at the end, to one of the webhooks in ~/.config/modak/secrets.yaml.",
        ),
    ] = "",
) -> None:
    """Deploy a training and bring back its results. Builds the image, stages the data, submits the job once, and
    watches it.

    If a blueprint has several trainings or a sweep, all of them run, each after those it depends on. Run the command
    again to continue where it was; if everything is done, it changes nothing. Ctrl-C leaves what runs on the target
    running; modak undeploy ends it.
    """
    from modak_ansible.commands.deploy.notification import Ending

    deadline = None if time_limit is None else time.monotonic() + seconds_in("--time-limit", time_limit)
    ending = Ending(notify_command, junit, webhook=webhook)
    try:
        with ending:
            _deploy(_Asked(asked, ending, deadline, at_time_limit, as_json, detach))
    finally:
        if ending.problem:
            typer.echo(f"warning: the notification failed: {ending.problem}", err=True)


class _Asked(NamedTuple):
    plan: PlanOptions
    ending: Ending
    deadline: float | None  # of time.monotonic(); None for none
    at_time_limit: AtTimeLimit
    as_json: bool
    detach: bool


def _deploy(asked: _Asked) -> None:
    from rich.console import Console

    from modak_ansible.commands.deploy.progress import StageDisplay
    from modak_ansible.deployment.looking import look_first, unseen, with_other_builds
    from modak_ansible.deployment.playbook import PlaybookError
    from modak_ansible.deployment.run import check_that_all_run
    from modak_ansible.planning.service import plan_all

    arguments = find_blueprint(asked.plan.blueprint), asked.plan.all_inputs, asked.plan.training
    plans = plan_all(*arguments)
    check_that_all_run(plans, wait=not asked.detach)
    if unseen(plans):
        with StageDisplay(Console(stderr=asked.as_json, highlight=False)) as display:
            plans = look_first(plans, lambda: plan_all(*arguments), display, deadline=asked.deadline)
    show_warnings(plans[0].warnings)
    while True:
        try:
            _carry_out(plans, asked)
        except PlaybookError as error:
            other_plans = with_other_builds(plans, error, lambda: plan_all(*arguments))
            if not other_plans:
                raise
            builds = ", ".join(dict.fromkeys(planned.plan.image.entry for planned in other_plans))
            typer.echo(f"note: {error.message}\n  {builds} is used instead", err=asked.as_json)
            plans = other_plans
        else:
            break
    if not asked.as_json and has_unfitted_records(plans[0].state):
        typer.echo("To use these measurements in the next plans: modak model fit")


def _carry_out(plans: list[Planned], asked: _Asked) -> None:
    from rich.console import Console

    from modak_ansible.commands.deploy.outcome import carry_out
    from modak_ansible.commands.deploy.progress import whose_testbed
    from modak_ansible.commands.plan.differences import lines_again
    from modak_ansible.deployment.searches.searching import deploy_all, trials_of

    again = f"modak deploy {asked.plan.restated}"
    searches, trainings = (
        [planned for planned in plans if planned.search],
        [planned for planned in plans if not planned.search],
    )
    for line in lines_again(trainings):
        typer.echo(line, err=asked.as_json)
    asked.ending.deployments = [(planned.plan, planned.folder) for planned in trainings]
    console = Console(stderr=asked.as_json, highlight=False)
    plan = plans[0].plan
    where = ", ".join(dict.fromkeys(f"{planned.plan.target.name}{whose_testbed(planned)}" for planned in plans))
    details = f": {len(plans)} trainings on {where}" if len(plans) > 1 else f" on {where}, plan {plan.digest[:12]}"
    if len(searches) == len(plans) == 1:  # the plan is that of the usual values
        details = f" on {where}: {searches[0].search.words if searches[0].search else ''}"
    console.print(f"{plan.name}{details}", markup=False)
    if plans[0].text:
        drafted = f"its blueprint, made of {asked.plan.blueprint}: {plans[0].store.drafted}"
        console.print(drafted, markup=False, soft_wrap=True)

    stores = [planned.store for planned in trainings]
    asked.ending.stores = lambda: [
        *(planned.store for planned in trainings),
        *(trial for search in searches for trial in trials_of(search)),
    ]

    def run(display: StageDisplay) -> int:
        try:
            deployed = deploy_all(plans, wait=not asked.detach, deadline=asked.deadline, listener=display)
            stores[:] = deployed.stores
            return deployed.changed
        except TimeIsOver as over:
            hint = _what_goes_on(plans, again).replace("\n", "\n  ")
            living = [*stores, *(trial for search in searches for trial in trials_of(search) if not trial.has_ended)]
            if asked.at_time_limit is AtTimeLimit.UNDEPLOY and living:
                hint = _undeployed(living, display)
            raise TimeIsOver("the time limit is over", hint=hint) from over

    carry_out(
        stores,
        run,
        lambda: _what_goes_on(plans, again),
        f"Nothing had to be built, staged or submitted: {'these plans were' if len(plans) > 1 else 'this plan was'} "
        "carried out before.",
        is_campaign=len(plans) > 1 or bool(searches),
        as_json=asked.as_json,
        warnings=as_data(plans[0].warnings),
    )


def _undeployed(stores: list[DeploymentStore], display: StageDisplay) -> str:
    """Undeploys all after the end of the time; tells what is left."""
    import os

    from modak_ansible.deployment.fetching import fetch_results
    from modak_ansible.deployment.job_control import undeploy

    with suppress(ModakError):  # what the jobs have written so far, where there is any
        fetch_results(*stores, listener=display)
    ended = [outcome["msg"] for outcome in undeploy(stores, display)]
    fetched = [str(store.results) for store in stores if store.results.is_dir()]
    return "; ".join([*ended, *([f"what was written is in {os.path.commonpath(fetched)}"] if fetched else [])])


def _what_goes_on(plans: list[Planned], again: str) -> str:
    """What goes on after Ctrl-C or the end of the time, and what to do about it."""
    if any(planned.search for planned in plans):
        continuation = f"What was submitted continues. To have the other trials run, too: {again}"
        return f"{continuation}\nTo end one: modak cancel DEPLOYMENT"
    if len(plans) > 1:
        queued = all(planned.plan.target.scheduler.keeps_order for planned in plans)
        alone = "What runs continues to its end, and nothing is started after it"
        end = "To end one: modak undeploy DEPLOYMENT, as modak status names it"
        return (
            f"{'What was submitted continues' if queued else alone}. To follow it, and to do the rest: {again}\n{end}"
        )
    store = plans[0].store
    record = store.record_now()
    job = record.get("job") or {}
    if job.get("job_id") and not record.get("undeployed"):
        if store.has_ended:
            return f"Job {job['job_id']} had already ended. To continue: {again}"
        return f"Job {job['job_id']} continues. To follow it: {again}\nTo end it: modak undeploy {store.name}"
    message = "What had begun on the target, such as a build or the submission of a job, continues to its end"
    return f"{message}. To pick it up again: {again}\nTo end what was submitted: modak undeploy {store.name}"
