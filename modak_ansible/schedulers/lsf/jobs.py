"""LSF: bsub, bjobs, bhist, bkill, bstop, bresume and brequeue.

Sources: outputs of real clusters (8.0 to 10.1) that public repositories show, see
tests/unit/schedulers/recorded/lsf.yaml; IBM's pages of these commands. It was tried with no LSF.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..base import (
    NO_WAITS,
    AccountingSilent,
    ActionRefused,
    CommandRunner,
    JobRecord,
    Scheduler,
    SchedulerSilent,
    SubmissionRefused,
    SubmissionUncertain,
    Waits,
    is_of,
)
from .records import FIELDS, read_json, read_long

# bsub reads the directives of its standard input alone; without a number of tries it waits for mbatchd and for room.
_SUBMIT = 'script=$1; shift; LSB_NTRIES=1 exec bsub "$@" < "$script"'
_NOT_THERE = 127
_JOB_ID = re.compile(r"Job <(\d+)> is submitted")
# mbatchd or the LIM was not reached, or is only starting.
_AWAY = re.compile(
    r"not responding|is down; try later|LSF is down|Cannot connect to LSF|configuration is not ready|"
    r"Cannot locate master|cannot find out the master|Connection refused|non-LSF host",
    re.IGNORECASE,
)
_BROKEN_OFF = re.compile(r"sending/receiving|Communication time ?out|Connection reset|Bad XDR", re.IGNORECASE)
_UNKNOWN = re.compile(r"No (?:matching|unfinished) job found|No job found|Job <[^>]*> is not found", re.IGNORECASE)
_ENDED = re.compile(rf"Job has already finished|{_UNKNOWN.pattern}", re.IGNORECASE)
_SYNTAX = re.compile(r"rusage|resource requirement syntax", re.IGNORECASE)
_OF_VERSION = "memory and GPUs by the host need LSF 10.1.0.9 or later"


class LSF(Scheduler):
    """IBM Spectrum LSF, which remembers finished jobs for CLEAN_PERIOD, and longer in its events."""

    name = "lsf"
    title = "LSF"
    commands = ("bsub", "bjobs", "bkill")

    def submit(self, run: CommandRunner, script: str, name: str, waits: Waits = NO_WAITS) -> str:
        options = ["-J", name, *_waiting(waits)]
        result = run(["bash", "-c", _SUBMIT, "bsub", script, *options])
        job_id = _JOB_ID.search(result.out) or _JOB_ID.search(result.err)
        if job_id:
            return job_id.group(1)
        words = " ".join((result.err or result.out).split())
        if result.timed_out:
            raise SubmissionUncertain("bsub did not answer")
        if result.code == _NOT_THERE:
            raise SubmissionRefused("bsub is not on the target's PATH")
        if result.code == 0 or _BROKEN_OFF.search(words):
            raise SubmissionUncertain(f"bsub printed no job id: {words!r}")
        if _AWAY.search(words):
            raise SchedulerSilent(f"bsub: {result.message}")
        raise SubmissionRefused(f"{words} ({_OF_VERSION})" if _SYNTAX.search(words) else words)

    def find(self, run: CommandRunner, name: str, folder: str) -> list[str]:
        job_ids = [job.job_id for job in _asked(run, ["-a", "-J", name]) if is_of(job, name, folder)]
        return sorted(job_ids, key=lambda job_id: [int(number) for number in re.findall(r"\d+", job_id)])

    def statuses(self, run: CommandRunner, job_ids: Sequence[str]) -> dict[str, JobRecord]:
        if not job_ids:
            return {}
        # of one it is asked by its id, of several for all of the user's
        records = {job.job_id: job for job in _asked(run, ["-a"] if len(job_ids) > 1 else [*job_ids])}
        forgotten = [job_id for job_id in job_ids if job_id not in records]
        records = {job_id: job for job_id, job in records.items() if job_id in job_ids}
        records.update({job.job_id: job for job in _remembered(run, forgotten, records)} if forgotten else {})
        return {job_id: records[job_id] for job_id in job_ids if job_id in records}

    def cancel(self, run: CommandRunner, *job_ids: str) -> None:
        if not job_ids:
            return  # without any, bkill ends the user's last job
        result = run(["bkill", *job_ids])
        lines = [line for line in (result.err + "\n" + result.out).splitlines() if line.strip()]
        refused = [line for line in lines if not _ENDED.search(line) and " is being " not in line]
        if result.code and (refused or not lines):
            raise SchedulerSilent(f"bkill: {refused[0].strip() if refused else result.message}")

    def removal_by_operator(self, job_id: str) -> str:
        return f"bkill -r {job_id}"

    def act(self, run: CommandRunner, action: str, job_id: str) -> None:
        command = {"hold": "bstop", "release": "bresume", "requeue": "brequeue"}[action]
        result = run([command, job_id])
        if result.code == 0:
            return
        if result.missing:
            raise ActionRefused(f"{command} is not on the target's PATH")
        if result.timed_out or _AWAY.search(result.err + result.out):
            raise SchedulerSilent(result.said_by(command))
        raise ActionRefused(result.said_by(command))

    def marks(self, job_id: str) -> tuple[str, ...]:
        return "", f"LSB_JOBID={job_id}"


def _waiting(waits: Waits) -> list[str]:
    """What a job waits for; with -ti one that can never begin is ended, and does not wait for ever."""
    conditions = [*(f"done({job_id})" for job_id in waits.ok), *(f"ended({job_id})" for job_id in waits.ended)]
    return ["-w", " && ".join(conditions), "-ti"] if conditions else []


def _asked(run: CommandRunner, selection: list[str]) -> list[JobRecord]:
    """What bjobs says of the user's jobs; in JSON, or in text where it is too old for that.

    Raises:
        SchedulerSilent: it says nothing that can be read.
    """
    broken = ""
    for options, parse in ((["-o", FIELDS, "-json"], read_json), (["-l"], read_long)):
        result = run(["bjobs", *options, *selection])
        output = result.err + result.out
        if result.timed_out or result.missing or (result.code and _AWAY.search(output)):
            raise SchedulerSilent(result.said_by("bjobs"))
        try:
            jobs = parse(result.out)
        except SchedulerSilent as error:
            jobs, broken = [], broken or str(error)
        else:
            # some may be gone, and the code is that of those
            if jobs or (result.code == 0 and (parse is read_json or not output.strip())):
                return jobs
        if _UNKNOWN.search(output):
            return []
    raise SchedulerSilent(broken or result.said_by("bjobs"))


def _remembered(run: CommandRunner, job_ids: Sequence[str], records: dict[str, JobRecord]) -> list[JobRecord]:
    """How jobs that bjobs has forgotten ended, by LSF's own history; nothing of those that it has forgotten, too.

    Raises:
        AccountingSilent: the history is not told now.
    """
    # -n 0: in all of its event files, of which the newest may begin after a job has ended
    result = run(["bhist", "-n", "0", "-l", *job_ids])
    if result.timed_out or (result.code and _AWAY.search(result.err + result.out)):
        raise AccountingSilent(result.said_by("bhist"), records)
    return [job for job in read_long(result.out) if job.state.is_final]
