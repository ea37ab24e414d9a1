"""A scheduler in memory, whose jobs run, fail and wait for each other as a test tells them to."""

from __future__ import annotations

from pathlib import Path

from modak_ansible.schedulers.base import (
    NO_WAITS,
    JobRecord,
    JobState,
    Scheduler,
    SchedulerSilent,
    SubmissionRefused,
    Waits,
)


class FakeQueue(Scheduler):
    """Knows its jobs by their ids.

    Attributes:
        jobs: their states by their ids.
        names: their deployments, and what they wait for.
        room: how many jobs may live at once.
        forgets: whether what has ended cannot be waited for, as under Torque.
        largest_array: how many tasks an array may have; 0 for no arrays.
        arrays: of each that was submitted the folder, name, number of tasks and limit.
        searches: how often an array was looked for.
        others: how many jobs somebody else has in the queue.
        down: the nodes of jobs that are down, by their ids.
    """

    name = "fake"
    title = "Fake"

    def __init__(self, deployments: Path) -> None:
        self.deployments = deployments
        self.jobs: dict[str, JobState] = {}
        self.names: dict[str, str] = {}
        self.waits: dict[str, Waits] = {}
        self.room = 1000
        self.forgets = False
        self.silent = False
        self.largest_array = 0
        self.arrays: list[tuple[str, str, int, int | None]] = []
        self.searches = 0
        self.others = 0
        self.down: dict[str, str] = {}

    def submit(self, run, script, name, waits=NO_WAITS):
        if sum(not state.is_final for state in self.jobs.values()) + self.others >= self.room:
            raise SubmissionRefused("QOSMaxSubmitJobPerUserLimit")
        ended = [job_id for job_id in (*waits.ok, *waits.ended) if self.jobs[job_id].is_final]
        if self.forgets and ended:
            raise SubmissionRefused(f"no such job: {ended[0]}")
        job_id = str(len(self.jobs) + 1)
        self.jobs[job_id], self.names[job_id], self.waits[job_id] = JobState.QUEUED, name, waits
        return job_id

    def find(self, run, name, folder):
        if self.silent:
            raise SchedulerSilent("hush")
        return [job_id for job_id, job_name in self.names.items() if job_name == name]

    def status(self, run, job_id):
        if self.silent:
            raise SchedulerSilent("hush")
        down = self.down.get(job_id, "")
        return JobRecord(job_id, self.jobs[job_id], down=down) if job_id in self.jobs else None

    def statuses(self, run, job_ids):
        return {job_id: self.status(run, job_id) for job_id in job_ids if self.status(run, job_id)}

    def array_script(self, script):
        return f"array of {script.splitlines()[0]}" if self.largest_array else ""

    def array_limit(self, run):
        return self.largest_array

    def submit_array(self, run, script, name, count, parallel, waits=NO_WAITS):
        if sum(not state.is_final for state in self.jobs.values()) + count > self.room:
            raise SubmissionRefused("QOSMaxSubmitJobPerUserLimit")
        folder = Path(run._folder)
        self.arrays.append((folder.name, name, count, parallel))
        array = len(self.jobs) + 1
        for task in range(count):
            job_id = f"{array}_{task}"
            self.names[job_id] = (folder / str(task)).resolve().name
            self.jobs[job_id], self.waits[job_id] = JobState.QUEUED, waits
        return [f"{array}_{task}" for task in range(count)]

    def find_array(self, run, name, folder, count):
        self.searches += 1
        place = Path(folder)
        tasks = [(place / str(task)).resolve().name for task in range(count)]
        if place.name not in [array[0] for array in self.arrays]:
            return []
        return [self.id_of(task) for task in tasks]

    def cancel(self, run, *job_ids):
        for job_id in job_ids:
            if self.jobs[job_id].is_final:  # as Slurm's own qdel does
                raise SchedulerSilent("exit code 1")
            self.jobs[job_id] = JobState.CANCELLED

    # --- what a test tells it

    def id_of(self, name: str) -> str:
        """The newest job of a deployment."""
        return [job_id for job_id, job_name in self.names.items() if job_name == name][-1]

    def end(self, name: str, code: int = 0) -> None:
        """Has the job of a deployment begin and end."""
        job_id = self.id_of(name)
        state = self.deployments / name / "state"
        (state / "claim").write_text(f"{job_id}\n")
        (state / "started").write_text(f"1 {job_id} node01\n")
        (state / "finished").write_text(f"{code}\n")
        (state.parent / "output.log").write_text(f"{name} ended\n")
        self.jobs[job_id] = JobState.FAILED if code else JobState.COMPLETED

    def run_all(self) -> None:
        """Has all jobs end that may; those that wait for one that failed are cancelled, as Slurm does."""
        for job_id, state in list(self.jobs.items()):
            if state.is_final:
                continue
            before = [self.jobs[earlier_id] for earlier_id in self.waits[job_id].ok]
            ended = all(self.jobs[earlier_id].is_final for earlier_id in self.waits[job_id].ended)
            if any(earlier.is_final and earlier is not JobState.COMPLETED for earlier in before):
                self.jobs[job_id] = JobState.CANCELLED
            elif ended and all(earlier is JobState.COMPLETED for earlier in before):
                self.end(self.names[job_id])
