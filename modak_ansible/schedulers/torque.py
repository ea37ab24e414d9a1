"""Torque (PBS): qsub, qstat, qdel, qhold, qrls and qrerun.

Sources: recordings of a real Torque 6.1.3, see tests/unit/schedulers/recorded/torque. A finished job may be gone at
once (keep_completed), and a job whose node died can end as C with exit_status 0: the job's own marker is what counts.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from .base import (
    NO_WAITS,
    ActionRefused,
    CommandResult,
    JobRecord,
    JobState,
    Run,
    Scheduler,
    SchedulerSilent,
    SubmissionRefused,
    SubmissionUncertain,
    Waits,
    is_of,
)
from .torque_xml import read_elements

_STATES = {
    "Q": JobState.QUEUED,
    "W": JobState.QUEUED,
    "T": JobState.QUEUED,
    "H": JobState.HELD,
    "R": JobState.RUNNING,
    "S": JobState.SUSPENDED,
    "E": JobState.ENDING,
}
_JOB_ID = re.compile(r"^\d+(\[\d*\])?(\.[\w.-]+)?$", re.MULTILINE)
# Exit codes of qsub are PBS errors & 255.
_REFUSALS = {
    2: "qsub does not accept the options",
    27: "ppn is wrong",
    154: "an unknown -W attribute",
    168: "a value is wrong",
    172: "there is no such queue",
    175: "the queue is disabled",
    189: "an unknown resource",
    190: "the job is beyond the queue's limits, or no node can run it",
    208: "the dependency is wrong",
}
_SERVER_DOWN = (33, 111)
_SLURM_UNREACHED = "Unable to contact slurm"  # by Slurm's own qsub, in place of Torque's
_UNKNOWN_JOB = 153
_COMPLETED_JOB = 170
# What the server says without a word to a command other than qsub.
_REFUSED_ACTIONS = {
    153: "Torque does not know the job",
    159: "the server leaves that to its operators",
}
_SIGNAL_OFFSET = 256
_TERM = 15


class Torque(Scheduler):
    """Torque, whose finished jobs vanish."""

    name = "torque"
    title = "Torque"
    commands = ("qsub", "qstat", "qdel")

    def submit(self, run: Run, script: str, name: str, waits: Waits = NO_WAITS) -> str:
        waiting = ["-W", f"depend={waits.words}"] if waits else []
        result = run(["qsub", "-N", name, *waiting, script])
        if result.code == 0:
            found = _JOB_ID.search(result.out)
            if found:
                return found.group(0)
            raise SubmissionUncertain(f"qsub printed no job id: {result.out.strip()!r}")
        if result.timed_out:
            raise SubmissionUncertain("qsub did not answer")
        if result.missing:
            raise SubmissionRefused("qsub is not on the target's PATH")
        if result.code in _SERVER_DOWN or _SLURM_UNREACHED in result.err:
            raise SchedulerSilent(_refusal(result))
        raise SubmissionRefused(_refusal(result))

    def find(self, run: Run, name: str, folder: str) -> list[str]:
        # the table cuts long names off; a job that is not found for that is kept from training twice by its claim
        return [job.job_id for job in self._full(run, []) if is_of(job, name, folder)]

    def status(self, run: Run, job_id: str) -> JobRecord | None:
        number = job_id.split(".", maxsplit=1)[0]
        return next((job for job in self._full(run, [job_id]) if job.job_id.split(".")[0] == number), None)

    def statuses(self, run: Run, job_ids: Sequence[str]) -> dict[str, JobRecord]:
        if not job_ids:
            return {}
        # the server is asked once for all jobs: of ids that qstat is given, it would be asked for each
        jobs = {job.job_id.split(".")[0]: job for job in with_positions(self._full(run, []))}
        found = {each: jobs.get(each.split(".")[0]) for each in job_ids}
        return {each: job for each, job in found.items() if job}

    def cancel(self, run: Run, *job_ids: str) -> None:
        for job_id in job_ids:
            result = run(["qdel", job_id])
            if result.code not in (0, _UNKNOWN_JOB, _COMPLETED_JOB):
                raise SchedulerSilent(f"qdel: {result.message}")

    def hold(self, run: Run, job_id: str) -> None:
        _act(run, "qhold", job_id)

    def release(self, run: Run, job_id: str) -> None:
        _act(run, "qrls", job_id)

    def requeue(self, run: Run, job_id: str) -> None:
        _act(run, "qrerun", job_id)

    @staticmethod
    def _full(run: Run, selection: list[str]) -> list[JobRecord]:
        """Records of the selected jobs, from XML or, where qstat gives none, from its text or its table.

        Slurm's own qstat knows no -x, and its -f is broken in Debian 13.
        """
        broken: SchedulerSilent | None = None
        for options, read in ((["-f", "-x"], read_jobs), (["-f"], read_jobs), ([], read_table)):
            if broken and read is read_table:
                break  # it does not say how a job ended
            result = run(["qstat", *options, *selection])
            if result.code in (0, _UNKNOWN_JOB):
                # known and gone jobs together give output and the code for an unknown one
                try:
                    return read(result.out)
                except SchedulerSilent as error:  # the text may be whole where the XML is not
                    broken = broken or error
                    continue
            if result.timed_out or result.missing:
                break
        if broken:
            raise broken
        raise SchedulerSilent(f"qstat: {result.message}")


def _act(run: Run, command: str, job_id: str) -> None:
    result = run([command, job_id])
    if result.code == 0:
        return
    if result.missing:
        raise ActionRefused(f"{command} is not on the target's PATH")
    if result.timed_out or result.code in _SERVER_DOWN:
        raise SchedulerSilent(f"{command}: {result.message}")
    # Slurm's own commands of these names write their refusals to standard output, and warnings beside them
    own = [line for line in (result.err + "\n" + result.out).splitlines() if line.startswith(f"{command}: ")]
    words = own[-1].strip() if own else result.message
    meaning = _REFUSED_ACTIONS.get(result.code)
    raise ActionRefused(f"{words} ({meaning})" if meaning else words)


def read_jobs(text: str) -> list[JobRecord]:
    """The jobs in the output of ``qstat -f -x`` or of ``qstat -f``.

    Raises:
        SchedulerSilent: it is neither.
    """
    if not text.strip():
        return []
    if text.lstrip().startswith("<"):
        try:
            found = read_elements(text, "Job")
        except ValueError as error:
            raise SchedulerSilent(f"qstat printed {error}") from error
    else:
        found = [_attributes(block) for block in re.split(r"(?m)^(?=Job Id:\s)", text) if block.startswith("Job Id:")]
    return [_record(values) for values in found if "Job_Id" in values]


def read_table(text: str) -> list[JobRecord]:
    """The jobs in qstat's table, which says neither how a job ended nor where it was submitted."""
    rows = re.findall(r"(?m)^(\d\S*) +(\S+) +\S+ +\S+ ([A-Z]) (\S+) *$", text)
    return [
        JobRecord(
            job_id,
            JobState.COMPLETED if letter == "C" else _STATES.get(letter, JobState.QUEUED),
            name=name,
            queue=queue if letter == "Q" else "",
        )
        for job_id, name, letter, queue in rows
    ]


def with_positions(jobs: Sequence[JobRecord]) -> list[JobRecord]:
    """Jobs in the order in which qstat lists them, with their positions among those that wait in the same queue."""
    counts: dict[str, int] = {}
    placed = []
    for job in jobs:
        counts[job.queue] = counts.get(job.queue, 0) + 1
        placed.append(replace(job, position=counts[job.queue]) if job.queue else job)
    return placed


def _attributes(block: str) -> dict[str, str]:
    """The attributes of a job in the text form, where a long value goes on after a line break and a tab.

    Slurm's own qstat, which writes it for jobs that wait, has the tab before each attribute instead.
    """
    is_slurms = block.startswith("Job Id:\t")
    unfolded = block if is_slurms else re.sub(r"\n\t", "", block)
    values = dict(re.findall(r"(?m)^(?: {4}|\t)([\w.]+) = (.*)$", unfolded))
    first, _, _ = unfolded.partition("\n")
    values["Job_Id"] = first.replace("Job Id:", "").strip()
    return values


def _record(values: dict[str, str]) -> JobRecord:
    status = values.get("exit_status")
    code = int(status) if status and re.fullmatch(r"-?\d+", status.strip()) else None
    state, exit_code, signal = (
        _finished(code)
        if values.get("job_state") == "C"
        else (_STATES.get(values.get("job_state", ""), JobState.QUEUED), None, None)
    )
    return JobRecord(
        values["Job_Id"],
        state,
        exit_code,
        signal,
        values.get("comment", ""),
        _hosts(values.get("exec_host", "")),
        values.get("Job_Name", ""),
        values.get("init_work_dir", "") or _variable(values.get("Variable_List", ""), "PBS_O_WORKDIR"),
        queue=values.get("queue", "") if values.get("job_state") == "Q" else "",
    )


def _finished(code: int | None) -> tuple[JobState, int | None, int | None]:
    """How a job ended, by its exit_status: its own code, 256 + signal, or a negative number of the server's."""
    if code is None:  # deleted before it ran
        return JobState.CANCELLED, None, None
    if code == 0:
        return JobState.COMPLETED, 0, None
    if code in (-11, -12):  # over walltime, over cput
        return JobState.TIMEOUT, None, None
    if code == -10:
        return JobState.OUT_OF_MEMORY, None, None
    if code < 0:
        return JobState.BOOT_FAIL, None, None
    if code > _SIGNAL_OFFSET:
        signal = code - _SIGNAL_OFFSET
        return (JobState.CANCELLED if signal == _TERM else JobState.FAILED), None, signal
    return JobState.FAILED, code, None


def _hosts(text: str) -> str:
    """The nodes of ``node2/1-2+node1/7,13``, in the order given."""
    names = [part.split("/")[0] for part in text.split("+") if part]
    return ",".join(dict.fromkeys(names))


def _variable(text: str, name: str) -> str:
    found = re.search(rf"(?:^|,){name}=([^,]*)", text)
    return found.group(1) if found else ""


def _refusal(result: CommandResult) -> str:
    found = re.search(r"submit error \((.*)\)", result.err + result.out, re.DOTALL)
    words = " ".join(found.group(1).split()) if found else result.message
    if result.code in _SERVER_DOWN:
        return f"the PBS server is down ({words})"
    meaning = _REFUSALS.get(result.code)
    return f"{words} ({meaning})" if meaning and meaning not in words else words
