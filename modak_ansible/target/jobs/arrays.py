"""Points of a sweep as one job array: submitted together and once, each known by the id of its own task."""

from __future__ import annotations

import shutil
import uuid
from contextlib import ExitStack
from pathlib import Path
from typing import Sequence

from ...errors import SchedulerAway
from ...schedulers.base import SchedulerSilent, SubmissionRefused, SubmissionUncertain, Waits
from ...schedulers.registry import SCHEDULERS
from ..core.commands import TimedRun
from ..core.files import make_private, write_whole
from ..core.workspace import Workspace
from .intent import Intents, unreached, withdraw_intent, write_intent
from .job import Deployment

_ARRAY = ".array-"
_SCRIPT = "array.sh"
# A lock is held of each point while an array is submitted, and a process may have 1,024 files open.
_MOST = 400


class Arrays:
    """The arrays of a workspace: each has a folder, with a link to the folder of the point of each of its tasks.

    Args:
        workspace: where the deployments lie.
        scheduler: slurm, torque, pbspro, lsf, kubernetes or none.
    """

    def __init__(self, workspace: Workspace, scheduler: str) -> None:
        self._workspace = workspace
        self._scheduler = SCHEDULERS[scheduler]

    def limit(self) -> int:
        """How many points may be in one array; below 2 where each is to be a job of its own."""
        return min(_MOST, self._scheduler.array_limit(TimedRun()))

    def submit(
        self,
        members: Sequence[Deployment],
        name: str,
        script: str,
        parallel: int | None,
        waits: Waits,
        waited: dict[str, str],
    ) -> dict[str, tuple[str, bool]]:
        """Submits the jobs of deployments as an array, but for those that were submitted before.

        What is killed between the scheduler's taking the array and our noting its tasks leaves the intent behind in
        each of its points; the array is then looked for by its folder, which no other one has.

        Args:
            members: of whom :meth:`Deployment.array_script` is the same.
            parallel: how many may run at once; None for as many as the target takes.
            waited: the ids of those that have to complete before, by their deployments.

        Returns:
            By deployment the job's id, and whether it was submitted now.

        Raises:
            SubmissionRefused: the scheduler does not take it; nothing was submitted.
            ModakError: whether it was submitted is not known, or the scheduler does not answer.
        """
        with ExitStack() as locks:
            for member in sorted(members, key=lambda member: member.path.name):  # all take them in the same order
                locks.enter_context(member.lock)
            intents = Intents(self._scheduler, TimedRun())
            job_ids = {member.path.name: member.submitted(intents) for member in members}
            new = [member for member in members if not job_ids[member.path.name]]
            if new:
                for member in new:
                    member.note_waits(waited)
                job_ids.update(self._submit(new, name, script, parallel, waits))
            return {member.path.name: (job_ids[member.path.name], member in new) for member in members}

    def _submit(
        self, members: Sequence[Deployment], name: str, script: str, parallel: int | None, waits: Waits
    ) -> dict[str, str]:
        folder = self._make(members, script)
        for task, member in enumerate(members):
            write_intent(member.state, name, array=folder.name, task=task, tasks=len(members))
        # a killed module must not give the locks away while sbatch is at work
        run = TimedRun(folder, timeout=120, keep_locks=True)
        try:
            ids = self._scheduler.submit_array(run, _SCRIPT, name, len(members), parallel, waits)
        except (SubmissionRefused, SchedulerSilent) as error:
            for member in members:
                withdraw_intent(member.state)
            shutil.rmtree(folder, ignore_errors=True)
            if isinstance(error, SchedulerSilent):
                raise unreached(self._scheduler, error) from error
            raise
        except SubmissionUncertain as error:
            hint = "deploy again: modak looks for the jobs before it submits others"
            raise SchedulerAway(f"it is not known whether the jobs were submitted: {error}", hint=hint) from error
        for task, member in enumerate(members):
            member.record(ids[task])
        return {member.path.name: ids[task] for task, member in enumerate(members)}

    def _make(self, members: Sequence[Deployment], script: str) -> Path:
        folder = self._workspace.deployments / f"{_ARRAY}{uuid.uuid4().hex[:12]}"
        make_private(folder)
        for task, member in enumerate(members):
            (folder / str(task)).symlink_to(Path("..", member.path.name))
        write_whole(folder / _SCRIPT, script)
        return folder


def remove_arrays(deployments: Path) -> None:
    """Removes the folders of arrays none of whose points is there any more."""
    for folder in deployments.glob(f"{_ARRAY}*"):
        links = [path for path in folder.glob("*") if path.is_symlink()]
        if links and not any(link.exists() for link in links):  # one without is being made
            shutil.rmtree(folder, ignore_errors=True)
