"""Slurm: sbatch, squeue, sacct, scontrol and scancel.

Sources: the manual pages of Slurm 24.11; the outputs in tests/unit/schedulers/recorded were printed by it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

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

_STATES = {
    "PENDING": JobState.QUEUED,
    "CONFIGURING": JobState.QUEUED,
    "REQUEUED": JobState.QUEUED,
    "REQUEUE_FED": JobState.QUEUED,
    "REQUEUE_HOLD": JobState.HELD,
    "RESV_DEL_HOLD": JobState.HELD,
    "SPECIAL_EXIT": JobState.HELD,
    "RUNNING": JobState.RUNNING,
    "RESIZING": JobState.RUNNING,
    "SIGNALING": JobState.RUNNING,
    "STAGE_OUT": JobState.ENDING,
    "COMPLETING": JobState.ENDING,
    "SUSPENDED": JobState.SUSPENDED,
    "STOPPED": JobState.SUSPENDED,
    "COMPLETED": JobState.COMPLETED,
    "FAILED": JobState.FAILED,
    "LAUNCH_FAILED": JobState.FAILED,
    "RECONFIG_FAIL": JobState.FAILED,
    "CANCELLED": JobState.CANCELLED,
    "REVOKED": JobState.CANCELLED,
    "TIMEOUT": JobState.TIMEOUT,
    "DEADLINE": JobState.TIMEOUT,
    "OUT_OF_MEMORY": JobState.OUT_OF_MEMORY,
    "NODE_FAIL": JobState.NODE_FAIL,
    "PREEMPTED": JobState.PREEMPTED,
    "BOOT_FAIL": JobState.BOOT_FAIL,
}
_QUEUE_FORMAT = "--format=%i|%T|%r|%N|%j|%Z"
_ACCOUNT_FORMAT = "--format=JobIDRaw,State,ExitCode,NodeList,JobName,WorkDir"
# All jobs that wait, in the order of their priorities.
_QUEUE = ["squeue", "--noheader", "--states=PENDING", "--sort=-p,i", "--format=%i|%P|%r|%S"]
_NOT_IN_TURN = ("JobHeld", "Dependency", "BeginTime")
_UNCERTAIN = ("timed out", "timeout", "Zero Bytes were transmitted", "Connection reset", "send/recv operation")
_UNKNOWN_JOB = ("Invalid job id", "Invalid Job Id")
_NO_ACCOUNTING = ("accounting storage is disabled", "No such file or directory", "command not found")
_SILENT = (*_UNCERTAIN, "Unable to contact")
# What is said of a job that was submitted with --no-requeue.
_NOT_REQUEUED = "Requested operation is presently disabled"


class Slurm(Scheduler):
    """Slurm, with accounting (sacct) or without."""

    name = "slurm"
    title = "Slurm"
    commands = ("sbatch", "squeue", "scancel")

    def submit(self, run: Run, script: str, name: str, waits: Waits = NO_WAITS) -> str:
        waiting = [f"--dependency={waits.words}", "--kill-on-invalid-dep=yes"] if waits else []
        result = run(["sbatch", "--parsable", f"--job-name={name}", *waiting, script])
        if result.code == 0:
            # with clusters in a federation: id;cluster; a site's filter may print lines of its own before
            found = re.findall(r"^(\d+)(?:;[\w.-]+)?$", result.out, re.MULTILINE)
            if found:
                return str(found[-1])
            raise SubmissionUncertain(f"sbatch printed no job id: {result.out.strip()!r}")
        if result.timed_out or any(words in result.err for words in _UNCERTAIN):
            raise SubmissionUncertain(f"sbatch did not answer: {result.message}")
        raise SubmissionRefused(_refusal(result))

    def find(self, run: Run, name: str, folder: str) -> list[str]:
        result = run(["squeue", "--noheader", "--me", "--states=all", f"--name={name}", _QUEUE_FORMAT])
        if result.code != 0:
            raise SchedulerSilent(f"squeue: {result.message}")
        records = [*map(_queue_record, _lines(result.out))]
        known = {record.job_id for record in records if record}
        for record in self._accounted(run, [f"--name={name}", "--starttime=now-30days"]) or []:
            if record.job_id not in known:
                records.append(record)
        ours = [record.job_id for record in records if record and is_of(record, name, folder)]
        return sorted(ours, key=int)

    def status(self, run: Run, job_id: str) -> JobRecord | None:
        result = run(["squeue", "--noheader", "--states=all", f"--jobs={job_id}", _QUEUE_FORMAT])
        if result.code != 0 and not any(words in result.err for words in _UNKNOWN_JOB):
            raise SchedulerSilent(f"squeue: {result.message}")
        queued = _queue_record(_first(result.out)) if result.code == 0 else None
        if queued and not queued.state.is_final:
            return queued
        accounted = self._accounted(run, [f"--jobs={job_id}"])
        if accounted:
            record = accounted[-1]
            # the accounting runs a little behind the controller
            return queued if queued and not record.state.is_final else record
        return self._shown(run, job_id) or queued

    def statuses(self, run: Run, job_ids: Sequence[str]) -> dict[str, JobRecord]:
        if not job_ids:
            return {}
        # with --me the controller itself picks the user's jobs; with a list of them it would send everybody's
        result = run(["squeue", "--noheader", "--me", "--states=all", _QUEUE_FORMAT])
        if result.code != 0:
            raise SchedulerSilent(f"squeue: {result.message}")
        queued = _by_id(map(_queue_record, _lines(result.out)), job_ids)
        ended = [each for each in job_ids if each not in queued or queued[each].state.is_final]
        found = {**queued, **self._ended(run, ended, queued)}
        waiting = [each for each, record in found.items() if record.state is JobState.QUEUED]
        places = _places(run(_QUEUE).out) if waiting else {}
        return {**found, **{each: replace(found[each], **places.get(each, {})) for each in waiting}}

    def _ended(self, run: Run, job_ids: list[str], queued: dict[str, JobRecord]) -> dict[str, JobRecord]:
        """How jobs have ended, by the accounting, and by the controller's memory where that says nothing."""
        if not job_ids:
            return {}
        accounted = _by_id(self._accounted(run, [f"--jobs={','.join(job_ids)}"]) or [], job_ids)
        # the accounting runs a little behind the controller
        found = {each: record for each, record in accounted.items() if record.state.is_final or each not in queued}
        missing = [each for each in job_ids if each not in accounted]
        if missing:
            shown = run(["scontrol", "--oneliner", "show", "job"])
            lines = _lines(shown.out) if shown.code == 0 else []
            found.update(_by_id(map(_shown_record, lines), missing))
        return found

    def cancel(self, run: Run, job_id: str) -> None:
        result = run(["scancel", job_id])
        gone = any(words in result.err for words in (*_UNKNOWN_JOB, "already completing", "already completed"))
        if result.code != 0 and not gone:
            raise SchedulerSilent(f"scancel: {result.message}")

    def hold(self, run: Run, job_id: str) -> None:
        _control(run, "hold", job_id)

    def release(self, run: Run, job_id: str) -> None:
        _control(run, "release", job_id)

    def requeue(self, run: Run, job_id: str) -> None:
        try:
            _control(run, "requeue", job_id)
        except ActionRefused as refusal:
            if _NOT_REQUEUED not in str(refusal):
                raise
            # --no-requeue is meant for what Slurm does by itself; this is the owner's own wish, and for once
            _control(run, "update", f"JobId={job_id}", "Requeue=1")
            try:
                _control(run, "requeue", job_id)
            finally:
                run(["scontrol", "update", f"JobId={job_id}", "Requeue=0"])

    def _accounted(self, run: Run, selection: list[str]) -> list[JobRecord] | None:
        """What the accounting says; None where a site keeps none."""
        result = run(["sacct", "--noheader", "--parsable2", "--allocations", *selection, _ACCOUNT_FORMAT])
        if result.code != 0:
            if result.missing or any(words in result.err for words in _NO_ACCOUNTING):
                return None
            if result.timed_out:
                raise SchedulerSilent(f"sacct: {result.message}")
            return None
        found = [_accounting_record(line) for line in _lines(result.out)]
        return [record for record in found if record]

    def _shown(self, run: Run, job_id: str) -> JobRecord | None:
        """What the controller remembers of a finished job for MinJobAge seconds."""
        result = run(["scontrol", "show", "job", job_id])
        if result.code != 0:
            return None
        return _shown_record(result.out)


def _control(run: Run, *words: str) -> None:
    result = run(["scontrol", *words])
    if result.code == 0:
        return
    if result.timed_out or result.missing or any(each in result.err for each in _SILENT):
        raise SchedulerSilent(f"scontrol: {result.message}")
    raise ActionRefused(result.message)


def _lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.strip()]


def _first(text: str) -> str:
    return next(iter(_lines(text)), "")


def _state(text: str) -> JobState | None:
    """The state behind squeue's and sacct's words, such as ``CANCELLED by 1000`` or a cut-off ``OUT_OF_ME+``."""
    words = text.split()
    if not words:
        return None
    word = words[0]
    if word.endswith("+"):
        return next((state for name, state in _STATES.items() if name.startswith(word[:-1])), None)
    return _STATES.get(word)


def _exit(text: str) -> tuple[int | None, int | None]:
    """The code and the signal of ``3:0``; a signal that Slurm makes up (125, out of memory) stays as it is."""
    code, separator, signal = text.partition(":")
    if not separator or not code.isdigit() or not signal.isdigit():
        return None, None
    return int(code), int(signal) or None


def _nodes(text: str) -> str:
    return "" if text in ("None assigned", "(null)") else text


def _queue_record(line: str) -> JobRecord | None:
    parts = line.split("|", 5)
    state = _state(parts[1]) if len(parts) == 6 else None
    if state is None:
        return None
    job_id, _, reason, nodes, name, folder = parts
    if state is JobState.QUEUED and reason.startswith("JobHeld"):
        state = JobState.HELD
    return JobRecord(job_id, state, None, None, "" if reason == "None" else reason, _nodes(nodes), name, folder)


def _accounting_record(line: str) -> JobRecord | None:
    parts = line.split("|", 5)
    state = _state(parts[1]) if len(parts) == 6 else None
    if state is None:
        return None
    code, signal = _exit(parts[2])
    return JobRecord(parts[0], state, code, signal, "", _nodes(parts[3]), parts[4], parts[5])


def _shown_record(text: str) -> JobRecord | None:
    """A job as scontrol shows it."""
    values = dict(re.findall(r"(\w+)=(\S*)", text))
    state = _state(values.get("JobState", ""))
    if state is None:
        return None
    code, signal = _exit(values.get("ExitCode", ""))
    reason = values.get("Reason", "")
    nodes = _nodes(values.get("NodeList", ""))
    return JobRecord(values.get("JobId", ""), state, code, signal, "" if reason == "None" else reason, nodes)


def _by_id(records: Iterable[JobRecord | None], job_ids: Sequence[str]) -> dict[str, JobRecord]:
    """Records by the ids that are wanted; of an array's tasks one that lives, of a requeued job's lives the last."""
    wanted = set(job_ids)
    found: dict[str, JobRecord] = {}
    for record in records:
        number = re.match(r"\d*", record.job_id) if record else None
        key = number.group() if number else ""
        if record and key in wanted and (key not in found or found[key].state.is_final):
            found[key] = record
    return found


def _places(text: str) -> dict[str, dict[str, Any]]:
    """The position of each waiting job in the queue of its partition, and when it is expected to start."""
    counts: dict[str, int] = {}
    found: dict[str, dict[str, Any]] = {}
    for line in _lines(text):
        job_id, _, rest = line.partition("|")
        partition, _, rest = rest.partition("|")
        reason, _, starts = rest.rpartition("|")
        if not rest or reason.startswith(_NOT_IN_TURN):
            continue
        counts[partition] = counts.get(partition, 0) + 1
        number = re.match(r"\d+", job_id)
        if number:
            starts = starts if re.fullmatch(r"[\d:T-]+", starts) else ""
            found.setdefault(number.group(), {"position": counts[partition], "starts": starts})
    return found


def _refusal(result: CommandResult) -> str:
    if result.missing:
        return "sbatch is not on the target's PATH"
    lines = [line.strip() for line in (result.err or result.out).splitlines() if line.strip()]
    return " ".join(re.sub(r"^(sbatch: )?(error: )?", "", line) for line in lines)
