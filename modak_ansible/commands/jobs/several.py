"""What is done to the deployments of several trainings together: one run of Ansible, and few calls to their target."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from modak_ansible.deployment.playbook import TaskResult
    from modak_ansible.store.deployment import DeploymentStore


class _Answers:
    """Hands on how a playbook gets on, and keeps what each target answers about the jobs."""

    def __init__(self, display: Any) -> None:
        self._display = display
        self.messages: list[str] = []
        self.jobs: dict[str, dict[str, Any]] = {}

    def progress(self, stage: str, text: str) -> None:
        self._display.progress(stage, text)

    def task(self, name: str) -> None:
        self._display.task(name)

    def finished(self, action: str, result: TaskResult) -> None:
        self._display.finished(action, result)
        if action == "modak_job":
            self.messages.append(str(result.get("msg", "")))
            self.jobs.update({load["deployment"]: load for load in json.loads(result.get("jobs", "[]"))})


def act_on_all(found: list[DeploymentStore], state: str, *, as_json: bool) -> None:
    """Brings the jobs of deployments into a state, as far as theirs permit it, and shows a line each.

    Raises:
        ModakError: none of them permits it, or the scheduler refuses.
    """
    from rich.console import Console

    _, answers = _run("act", found, as_json=as_json, job_state=state)
    jobs = [
        answers.jobs[deployment_store.folder.name]
        for deployment_store in found
        if deployment_store.folder.name in answers.jobs
    ]
    if as_json:
        typer.echo(json.dumps(jobs, indent=2))
        return
    width = max(len(job["training"]) for job in jobs)
    console = Console(highlight=False)
    for job in jobs:
        console.print(f"{job['training']:<{width}}  {job['message']}", markup=False, soft_wrap=True)


def undeploy_all(found: list[DeploymentStore], *, remove_images: bool, leave_job: bool, as_json: bool) -> None:
    """Cancels the jobs of deployments and removes their folders, and shows which are gone.

    Raises:
        ModakError: the scheduler does not answer, or a job does not end.
    """

    _, answers = _run("undeploy", found, as_json=as_json, job_remove_images=remove_images, job_leave=leave_job)
    rows = []
    for deployment_store in found:
        record = deployment_store.record_now()
        changed = record.get("undeployed") != deployment_store.record.get("undeployed")
        names = {"training": deployment_store.plan["training"], "deployment": deployment_store.folder.name}
        rows.append({**names, "changed": changed, "message": "; ".join(answers.messages)})
    if as_json:
        typer.echo(json.dumps(rows, indent=2))


def resume_all(found: list[DeploymentStore], named: str, *, wait: bool, as_json: bool) -> None:
    """Goes on with deployments; those that failed are submitted once more, and what comes after them follows.

    Args:
        found: which; those that were undeployed are left out.
        named: how the user has named them.
        wait: whether to stay until all have ended.
        as_json: whether to print JSON.

    Raises:
        ModakError: all were undeployed, it failed on the way, or a training did not complete.
    """
    from rich.console import Console

    from modak_ansible.commands.deploy.campaign import json_of, print_table, rows_of
    from modak_ansible.deployment.playbook import PlaybookError
    from modak_ansible.errors import ModakError

    there = [deployment_store for deployment_store in found if not deployment_store.record.get("undeployed")]
    if not there:
        raise ModakError(f"all trainings of {named} were undeployed", hint="modak deploy makes them anew")
    console = Console(stderr=as_json, highlight=False)
    failure: PlaybookError | None = None
    changed = True
    try:
        changed, _ = _run("resume", there, as_json=as_json, job_wait=wait)
    except KeyboardInterrupt:
        words = f"What was submitted goes on. To take it up: modak resume {named}"
        console.print(words, style="yellow", markup=False, soft_wrap=True)
        raise
    except PlaybookError as error:
        failure = error
    rows = rows_of(there)
    if not as_json:
        print_table(console, rows)
    elif failure is None:
        typer.echo(json_of(rows, changed=changed))
    if failure is not None:
        raise failure
    if not changed and not as_json and not any(store.is_in_doubt for store in there):
        console.print("\nThere was nothing left to do.")


def _run(playbook: str, found: list[DeploymentStore], *, as_json: bool, **variables: Any) -> tuple[bool, _Answers]:
    """Runs a playbook for deployments; gives whether it changed something, and what was answered."""
    from rich.console import Console

    from modak_ansible.commands.deploy.progress import StageDisplay
    from modak_ansible.deployment.playbook import run_playbook
    from modak_ansible.deployment.run import plans_of

    with StageDisplay(Console(stderr=as_json, highlight=False)) as display:
        answers = _Answers(display)
        outcome = run_playbook(playbook, {**plans_of(found), **variables}, answers)
    return bool(outcome.changed), answers
