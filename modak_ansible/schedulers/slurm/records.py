"""What Slurm says of jobs: lines of squeue and sacct, and scontrol's words.

Sources: the manual pages of Slurm 24.11; the outputs in tests/unit/schedulers/recorded were printed by it.
"""

from __future__ import annotations

import os
import re

from ..base import JobRecord, JobState

_STATES = {
    "PENDING": JobState.QUEUED,
    "CONFIGURING": JobState.QUEUED,
    "REQUEUED": JobState.QUEUED,
    "EXPEDITING": JobState.QUEUED,  # requeued before all others (25.11)
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
_HOLDERS = {"JobHeldUser": "user", "JobHeldAdmin": "operator"}
# Held: by somebody, or by Slurm itself, whose launches on a node have failed.
HELD = re.compile(r"JobHeld|JobHoldMaxRequeue|launch[ _]failed[ _]requeued[ _]held")
# Reasons of jobs that no end of another will start, and what they mean.
_OBSTACLES = {
    r"PartitionTimeLimit|(QOS|Assoc)MaxWallDuration\w*": "it asks for more time than it may have there",
    r"(QOS|Assoc)Max\w+Per(Job|Node)(Limit)?": "it asks for more than one job may have",
    r"PartitionNodeLimit": "it asks for more or fewer nodes than it may have there, or than are up",
    r"MaxMemPerLimit": "it asks for more memory than it may have there",
    r"QOSMin\w+": "it asks for less than its quality of service requires",
    r"InvalidAccount|AccountNotAllowed": "its account may not be charged for it",
    r"InvalidQOS|QOSNotAllowed": "it may not use its quality of service",
    r"BadConstraints": "no node has everything that it asks for",
    r"DependencyNeverSatisfied": "a job that it waits for did not end as it should",
    r"(Assoc|QOS)Grp(?!\w*Run)\w+Minutes(Limit)?": "what its account or quality of service may use is used up",
}


def queue_record(line: str) -> JobRecord | None:
    parts = line.split("|", 5)
    if len(parts) < 6 or not parts[0][:1].isdigit():
        return None
    job_id, word, reason, nodes, name, folder = parts
    # a word of a later Slurm's: the job is in the queue, and not gone
    state = _state(word) or (JobState.RUNNING if _nodes(nodes) else JobState.QUEUED)
    if state is JobState.QUEUED and HELD.match(reason):
        state = JobState.HELD
    reason = "" if reason == "None" else reason
    waits = _obstacle(reason) if state is JobState.QUEUED else ""
    held_by = _HOLDERS.get(reason, "")
    return JobRecord(
        job_id, state, None, None, reason, _nodes(nodes), name, folder,
        held_by=held_by, limit=_limit(word), obstacle=waits,
    )  # fmt: skip


def accounting_record(line: str) -> JobRecord | None:
    parts = line.split("|", 5)
    state = _state(parts[1]) if len(parts) == 6 else None
    if state is None:
        return None
    code, signal = _exit(parts[2])
    reason, nodes = _by_another(parts[1]), _nodes(parts[3])
    return JobRecord(parts[0], state, code, signal, reason, nodes, parts[4], parts[5], limit=_limit(parts[1]))


def shown_record(text: str) -> JobRecord | None:
    """A job as scontrol shows it."""
    values = dict(re.findall(r"(\w+)=(\S*)", text))
    word = values.get("JobState", "")
    state = _state(word)
    if state is None:
        return None
    code, signal = _exit(values.get("ExitCode", ""))
    reason = values.get("Reason", "")
    nodes = _nodes(values.get("NodeList", ""))
    job_id = values.get("JobId", "")
    for leader, number, sign in (("ArrayJobId", "ArrayTaskId", "_"), ("HetJobId", "HetJobOffset", "+")):
        if values.get(number, "").isdigit():
            job_id = f"{values.get(leader)}{sign}{values[number]}"
    return JobRecord(job_id, state, code, signal, "" if reason == "None" else reason, nodes, limit=_limit(word))


def _state(text: str) -> JobState | None:
    """The state behind squeue's and sacct's words, such as ``CANCELLED by 1000`` or a cut-off ``OUT_OF_ME+``."""
    words = text.split()
    if not words:
        return None
    word = words[0]
    if word.endswith("+"):
        return next((state for name, state in _STATES.items() if name.startswith(word[:-1])), None)
    return _STATES.get(word)


def _limit(text: str) -> str:
    """Which limit a job passed, by the same words, where that is not the one that their state goes by."""
    return "deadline" if text.startswith("DEADLINE") else ""


def _by_another(text: str) -> str:
    """Who cancelled a job, by the same words, where it was not the user: an operator, or Slurm itself as root."""
    match = re.fullmatch(r"CANCELLED by (\d+)", text)
    return f"by user {match.group(1)}" if match and int(match.group(1)) != os.getuid() else ""


def _exit(text: str) -> tuple[int | None, int | None]:
    """The code and the signal of ``3:0``; a signal that Slurm makes up (125, out of memory) stays as it is."""
    code, separator, signal = text.partition(":")
    if not separator or not code.isdigit() or not signal.isdigit():
        return None, None
    return int(code), int(signal) or None


def _nodes(text: str) -> str:
    return "" if text in ("None assigned", "(null)") else text


def _obstacle(reason: str) -> str:
    return next((words for pattern, words in _OBSTACLES.items() if re.fullmatch(pattern, reason)), "")
