"""No scheduler: the job is a process of the target, in a session of its own so that it outlives the connection."""

from __future__ import annotations

from collections.abc import Sequence

from .base import (
    NO_WAITS,
    ActionRefused,
    CommandRunner,
    JobRecord,
    JobState,
    Scheduler,
    SubmissionRefused,
    SubmissionUncertain,
    Waits,
    by_ssh,
)

# A process is known by its number and by when it began (field 22 of /proc/PID/stat): numbers are used again.
_START = 'setsid bash "$1" > /dev/null 2>&1 < /dev/null & echo "$!.$(cut -d " " -f 22 "/proc/$!/stat")"'
_NO_QUEUE = {
    "hold": "there is no queue to be held in", "release": "nothing is held", "requeue": "there is no queue to wait in",
}  # fmt: skip
_FIELDS_BEFORE_STATE = 2
_STARTED = 21


class Direct(Scheduler):
    """Jobs that start at once; the script itself keeps the wall time."""

    name = "none"
    title = "no scheduler"
    brings_output = False

    def submit(self, run: CommandRunner, script: str, name: str, waits: Waits = NO_WAITS) -> str:
        if waits:
            raise SubmissionRefused("without a scheduler, nothing starts a job after another one")
        result = run(["bash", "-c", _START, name, script])
        if result.timed_out:
            raise SubmissionUncertain("starting the job did not finish")
        if result.code != 0:
            raise SubmissionRefused(result.message)
        job_id = result.out.strip()
        if not job_id.rstrip(".").replace(".", "").isdigit():
            raise SubmissionUncertain(f"the job printed no process number: {job_id!r}")
        return job_id

    def find(self, run: CommandRunner, name: str, folder: str) -> list[str]:  # noqa: ARG002
        return []  # a process that lives has left its claim in the deployment's folder

    def statuses(self, run: CommandRunner, job_ids: Sequence[str]) -> dict[str, JobRecord]:
        if not job_ids:
            return {}
        # some may be gone, and cat then says so and shows the others
        result = run(["cat", *(f"/proc/{job_id.partition('.')[0]}/stat" for job_id in job_ids)])
        began = dict(filter(None, map(_beginning, result.out.splitlines())))
        records = {}
        for job_id in job_ids:
            pid, _, started = job_id.partition(".")
            if pid in began and started in ("", began[pid]):
                records[job_id] = JobRecord(job_id, JobState.RUNNING)
        return records

    def cancel(self, run: CommandRunner, *job_ids: str) -> None:
        for job_id in self.statuses(run, job_ids):
            pid = job_id.partition(".")[0]
            run(["bash", "-c", 'kill -TERM -- "-$1"', "kill", pid])

    def act(self, run: CommandRunner, action: str, job_id: str) -> None:  # noqa: ARG002
        raise ActionRefused(f"without a scheduler, {_NO_QUEUE[action]}")

    def enter(
        self,
        run: CommandRunner,  # noqa: ARG002
        job: JobRecord,
        nodes: int,
        words: Sequence[str],
        *,
        first: int = 0,
        terminal: bool = False,
    ) -> list[list[str]]:
        """This host's own, and behind it those of the others, where processes have the mark that this one gave them."""
        _, *program = words[: len(words) - len(self.marks(job.job_id))]
        other_hosts = [host for host in job.nodes.split(",")[1:] if host]
        on_others = [
            by_ssh(host, ["python3", *program, host, f"MODAK_JOB={job.job_id} {host}"], terminal=terminal)
            for host in other_hosts
        ]
        return [[*words], *on_others][first : first + nodes]

    def marks(self, job_id: str) -> tuple[str, ...]:
        return "", f"pid={job_id.partition('.')[0]}"


def _beginning(line: str) -> tuple[str, str] | None:
    """The number of a process and when it began, by its line in /proc; None for one that has ended."""
    pid = line.partition(" ")[0]
    fields = line.rpartition(")")[2].split()  # the name in brackets may hold spaces
    if not pid.isdigit() or not fields or fields[0] == "Z":
        return None
    place = _STARTED - _FIELDS_BEFORE_STATE
    return pid, fields[place] if len(fields) > place else ""
