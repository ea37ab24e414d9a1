"""Carries runs out: through the project's own playbooks, and with nothing left behind on the target."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from modak_ansible.catalogue.processor import architecture_of
from modak_ansible.deployment.job_control import undeploy
from modak_ansible.deployment.playbook import Listener, PlaybookError, PlaybookRun, run_playbook
from modak_ansible.deployment.run import plans_of
from modak_ansible.errors import TARGET_UNREACHABLE, ModakError, TargetUnreachable
from modak_ansible.planning.service import Planned
from modak_ansible.store.record import EnergyNote, JobNote
from modak_ansible.target.core.files import read_json
from modak_ansible.target.core.probe import TargetFacts
from modak_ansible.transport.rsync import Say


@dataclass(frozen=True)
class RunOutcome:
    metrics: dict[str, Any] | None  # what it measured; None where it left nothing whole
    job: JobNote = field(default_factory=JobNote)  # the scheduler's word, as the job stage notes it
    problem: str = ""  # why it failed; empty when it did not
    energy: EnergyNote | None = None  # what the job used; None where nothing counts that


class NodeFacts(TargetFacts):
    """What a target says of itself, and its processor's architecture as archspec names it."""

    architecture: str


class PlaybookExecutor:
    """Runs the project's playbooks.

    Args:
        say: shows a line of progress.
    """

    def __init__(self, say: Say) -> None:
        self._say = say

    def look(self, planned: Planned) -> NodeFacts:
        """What the target says of itself; brings the data there, too."""
        with _temporary(planned):
            facts = self._play("probe", planned).results["modak_probe"]["facts"]
            if planned.plan.dataset:
                self._play("dataset", planned, _ProgressListener(self._say))
        return {**facts, "architecture": architecture_of(facts["machine"], facts["cpuinfo"])}

    def prepare(self, planned: Planned) -> None:
        """Has the plan's image on the target.

        Raises:
            ModakError: it cannot be made, or is refused.
        """
        with _temporary(planned):
            self._play("image", planned, _ProgressListener(self._say))

    def run(self, planned: Planned) -> RunOutcome:
        """Runs a job to its end, and leaves nothing of it on the target."""
        problem = ""
        try:
            self._play("measure", planned)
        except TargetUnreachable:
            raise
        except ModakError as error:
            problem = error.message
        job, energy = planned.store.job, planned.store.record_now().get("energy")
        metrics = read_json(planned.store.results / "metrics.json")
        if not problem and not (metrics and metrics.get("finished")):
            problem = "the run left no complete metrics.json"
        if not problem:
            shutil.rmtree(planned.folder, ignore_errors=True)
        return RunOutcome(metrics, job, problem, energy)

    def end(self, planned: Planned) -> None:
        """Ends a job that was interrupted, and leaves nothing of it on the target."""
        planned.save()
        undeploy([planned.store])
        shutil.rmtree(planned.folder, ignore_errors=True)

    def _play(self, playbook: str, planned: Planned, listener: _ProgressListener | None = None) -> PlaybookRun:
        planned.save()
        try:
            return run_playbook(playbook, plans_of([planned.store]), listener)
        except PlaybookError as error:
            if error.exit_code == TARGET_UNREACHABLE:
                raise TargetUnreachable(error.message, hint=error.hint) from error
            raise


class _ProgressListener(Listener):
    """Passes on what a build says of itself."""

    def __init__(self, say: Say) -> None:
        self._say = say

    def progress(self, stage: str, text: str) -> None:
        self._say(f"{stage}: {text}")


@contextmanager
def _temporary(planned: Planned) -> Iterator[None]:
    """A plan that only prepares is no deployment to be listed, however it ends."""
    try:
        yield
    finally:
        shutil.rmtree(planned.folder, ignore_errors=True)
