"""What is told when a deployment ends: a command that the user names, and a report for a CI server."""

from __future__ import annotations

import os
import shlex
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from modak_ansible.commands.deploy.junit import junit_xml
from modak_ansible.commands.options import check_file
from modak_ansible.errors import JOB_FAILED, TIME_OVER, ModakError, UsageError
from modak_ansible.model.plan import Plan
from modak_ansible.store.deployment import DeploymentStore
from modak_ansible.store.record import RecordData
from modak_ansible.target.core.files import write_whole

if TYPE_CHECKING:
    from modak_ansible.transport.secrets import Webhook

# How long a notification may take, in seconds.
_PATIENCE = 60


@dataclass
class Ending:
    """Watches over a deployment, and tells of its end, however it comes; Ctrl-C needs no word to who pressed it."""

    notify: str = ""  # a command line that is run at the end, without a shell; empty for none
    junit: Path | None = None  # a file that the report is written into; None for none
    # the plans that are carried out, with their folders
    deployments: list[tuple[Plan, Path]] = field(default_factory=list)
    webhook: str = ""  # the name of one among the secrets; empty for none
    stores: Callable[[], Sequence[DeploymentStore]] | None = None  # what a webhook tells of, at the end
    problem: str = ""  # why the notification failed; empty where it did not
    _began: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self._command = split_command(self.notify)
        check_file("--junit", self.junit, "modak.xml")
        self._webhook: Webhook | None = None
        if self.webhook:
            from modak_ansible.commands.deploy.webhook import webhook_of

            self._webhook = webhook_of(self.webhook)

    def __enter__(self) -> Ending:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if not isinstance(error, ModakError | KeyboardInterrupt | None):
            return
        seconds = time.monotonic() - self._began
        if self.junit:
            try:
                self.junit.parent.mkdir(parents=True, exist_ok=True)
                write_whole(self.junit, junit_xml(self._read(), error, seconds))
            except OSError as reason:  # how the deployment ended is what counts
                self.problem = f"--junit {self.junit}: {reason.strerror}"
        if self._command and not isinstance(error, KeyboardInterrupt):
            problem = run_command(self._command, facts_of(self._read(), error, seconds))
            self.problem = self.problem or problem
        if self._webhook and not isinstance(error, KeyboardInterrupt):
            from modak_ansible.commands.deploy.webhook import tell

            problem = tell(self._webhook, self.stores() if self.stores else [], error, seconds)
            self.problem = self.problem or (problem and f"webhook {self.webhook}: {problem}")

    def _read(self) -> list[tuple[Plan, RecordData]]:
        from modak_ansible.planning.service import planned_from_file

        plans = {folder: plan for plan, folder in self.deployments}
        stores = [DeploymentStore(folder) for folder in plans]
        trials = [store for store in (self.stores() if self.stores else ()) if store.folder not in plans]
        plans |= {store.folder: planned_from_file(store.plan_file).plan for store in trials}
        return [(plans[store.folder], store.record_now()) for store in [*stores, *trials]]


def split_command(text: str) -> list[str]:
    """The words of a command line.

    Raises:
        UsageError: a quotation does not end.
    """
    try:
        return shlex.split(text)
    except ValueError as error:
        raise UsageError(
            f"--notify-command {text}: {error}", hint="such as --notify-command 'notify-send modak'"
        ) from error


def facts_of(deployments: list[tuple[Plan, RecordData]], error: BaseException | None, seconds: float) -> dict[str, str]:
    """The environment variables of a notification.

    Args:
        error: what ended the command; None where all went well.
    """
    facts = {
        "MODAK_DEPLOYMENT": " ".join(plan.deployment for plan, _ in deployments),
        "MODAK_STATE": "COMPLETED" if error is None else "FAILED",
        "MODAK_EXIT_CODE": str(getattr(error, "exit_code", 0)),
        "MODAK_MESSAGE": str(error) if error else "",
        "MODAK_SECONDS": f"{seconds:.0f}",
    }
    facts |= dict.fromkeys(("MODAK_TRAINING", "MODAK_TARGET", "MODAK_JOB_ID", "MODAK_RESULTS"), "")
    if deployments:
        plan, record = max(deployments, key=lambda deployment: _state(deployment[1]) not in ("", "COMPLETED"))
        # an error before the job leaves the state of an earlier one in the record
        is_told_by_job = error is None or getattr(error, "exit_code", 0) in (JOB_FAILED, TIME_OVER)
        if _state(record) and is_told_by_job:
            facts["MODAK_STATE"] = _state(record)
        facts["MODAK_TRAINING"], facts["MODAK_TARGET"] = plan.training, plan.target.name
        facts["MODAK_JOB_ID"] = str((record.get("job") or {}).get("job_id") or "")
        facts["MODAK_RESULTS"] = str(record.get("results") or "")
    return {name: value.replace("\0", "") for name, value in facts.items()}


def run_command(command: list[str], facts: dict[str, str]) -> str:
    """Runs a notification; gives why it failed, or nothing where it did not."""
    try:
        process = subprocess.run(
            command, env={**os.environ, **facts}, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE, text=True, errors="replace", timeout=_PATIENCE, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return f"{command[0]} did not end within {_PATIENCE} s"
    except OSError as error:
        return f"{command[0]}: {error.strerror}"
    if process.returncode:
        errors = process.stderr.strip().splitlines()
        return f"{command[0]} ended with code {process.returncode}{': ' + errors[-1] if errors else ''}"
    return ""


def _state(record: RecordData) -> str:
    return str((record.get("job") or {}).get("state") or "")
