"""What LSF says of jobs: in JSON where bjobs knows it, else in the long text of bjobs and bhist.

Sources: outputs of real clusters that public repositories show, see tests/unit/schedulers/recorded/lsf.yaml; IBM's
pages of bjobs and bhist 10.1, and of the reasons for which LSF ends a job.
"""

from __future__ import annotations

import json
import os
import re
from typing import Any, Mapping

from ..base import JobRecord, JobState, SchedulerSilent
from ..cluster import count_of

# What bjobs is asked for; all of them are known since it prints JSON (10.1.0.2).
FIELDS = "jobid stat job_name exec_host sub_cwd exec_cwd exit_code exit_reason pend_reason run_time"
_STATES = {
    "PEND": JobState.QUEUED,
    "WAIT": JobState.QUEUED,  # for the jobs before it that run as one with it
    "PROV": JobState.QUEUED,  # its host is being started
    "PSUSP": JobState.HELD,
    "RUN": JobState.RUNNING,
    "USUSP": JobState.SUSPENDED,
    "SSUSP": JobState.SUSPENDED,
    "UNKWN": JobState.RUNNING,  # its host is not heard of
    "ZOMBI": JobState.ENDING,  # it was ended while its host was not heard of
    "DONE": JobState.COMPLETED,
}
_ENDED_BY_USER = ("OWNER", "FORCE_OWNER", "ADMIN", "FORCE_ADMIN", "BUCKET_KILL", "ORPHAN_SYSTEM")
_FOR_OTHERS = ("PREEMPT", "LOAD", "WINDOW", "RC_RECLAIM", "MC_RECALL", "REQUEUE_OWNER", "REQUEUE_ADMIN")
_NEVER_BEGAN = ("CWD_NOTEXIST", "PRE_EXEC_FAIL", "DATA", "CSM_ALLOC", "KUBE")
_BY_ITS_NODE = ("ZOMBIE", "REMOVE_HUNG_JOB", "CTRL_PID", "RMS", "SLURM")
# How a job ended, by the word behind TERM_, with the limit that it passed; all others it failed by.
_REASONS: Mapping[str, tuple[JobState, str]] = {
    "RUNLIMIT": (JobState.TIMEOUT, "walltime"),
    "DEADLINE": (JobState.TIMEOUT, "deadline"),
    "CPULIMIT": (JobState.TIMEOUT, "cput"),
    "MEMLIMIT": (JobState.OUT_OF_MEMORY, "mem"),
    "SWAP": (JobState.OUT_OF_MEMORY, "vmem"),
    "PROCESSLIMIT": (JobState.FAILED, "processes"),
    "THREADLIMIT": (JobState.FAILED, "threads"),
    **dict.fromkeys(_ENDED_BY_USER, (JobState.CANCELLED, "")),
    **dict.fromkeys(_FOR_OTHERS, (JobState.PREEMPTED, "")),
    **dict.fromkeys(_NEVER_BEGAN, (JobState.BOOT_FAIL, "")),
    **dict.fromkeys(_BY_ITS_NODE, (JobState.NODE_FAIL, "")),
}
_REASON = re.compile(r"\bTERM_([A-Z_]+)\b")
# A signal's number is told above this one, as shells do.
_SIGNALS, _LAST_SIGNAL, _TERM = 128, 64, 15
# What bjobs writes where there is nothing to say.
_NOT_SAID = ("", "-")


def reason_of(text: str) -> tuple[JobState, str] | None:
    """How a job ended, and for which limit, by LSF's reason in a text; None where there is none."""
    reason = _REASON.search(text)
    return _REASONS.get(reason.group(1), (JobState.FAILED, "")) if reason else None


def read_json(text: str) -> list[JobRecord]:
    """The jobs in what ``bjobs -o ... -json`` prints; those that it does not know are left out.

    Raises:
        SchedulerSilent: it is no such output.
    """
    try:
        # a site's own words may stand before it
        jobs = json.loads(text[text.index("{") :], strict=False)["RECORDS"]
        return [_of_fields(values) for values in jobs if values.get("STAT")]
    except (ValueError, LookupError, AttributeError, TypeError) as error:
        raise SchedulerSilent(f"bjobs printed broken JSON: {error}") from error


def _of_fields(values: dict[str, Any]) -> JobRecord:
    fields = {name: "" if value in _NOT_SAID else str(value) for name, value in values.items()}
    seconds = re.match(r"(\d{1,12})\s+second", fields.get("RUN_TIME", ""), re.ASCII)
    return record_of(
        fields["JOBID"],
        fields["STAT"],
        name=fields.get("JOB_NAME", ""),
        hosts=hosts_of(fields.get("EXEC_HOST", "").replace(":", " ")),
        folder=fields.get("EXEC_CWD", "") or fields.get("SUB_CWD", ""),
        code=count_of(fields.get("EXIT_CODE", "")),
        ended=fields.get("EXIT_REASON", ""),
        waits=fields.get("PEND_REASON", ""),
        elapsed=float(seconds.group(1)) if seconds else None,
    )


def record_of(
    job_id: str,
    stat: str,
    *,
    name: str = "",
    hosts: str = "",
    folder: str = "",
    code: int | None = None,
    ended: str = "",
    waits: str = "",
    elapsed: float | None = None,
) -> JobRecord:
    """A job of a state, an exit code and reasons in LSF's own words."""
    state, signal, limit = _STATES.get(stat, JobState.QUEUED), None, ""
    if stat == "EXIT":
        state, code, signal, limit = _end(code, ended)
    elif stat in ("DONE", "POST_DONE", "POST_ERR"):
        state, code = JobState.COMPLETED, 0
    waits = " ".join(waits.replace(";", "; ").split()).rstrip("; ")
    reason = waits if state in (JobState.QUEUED, JobState.HELD) else ended if stat == "EXIT" else ""
    by_others = "by LSF admin or root" in waits or "administrator" in waits
    return JobRecord(
        job_id,
        state,
        code if state.is_final else None,
        signal,
        "its host does not answer, and LSF goes on when it does" if stat == "ZOMBI" else reason,
        hosts,
        name,
        _real(folder),
        held_by=("operator" if by_others else "user") if state is JobState.HELD else "",
        limit=limit,
        elapsed=elapsed if state.is_final else None,
        down=hosts if stat == "UNKWN" else "",
    )


def _end(code: int | None, ended: str) -> tuple[JobState, int | None, int | None, str]:
    reason = reason_of(ended)
    signal = code - _SIGNALS if code and _SIGNALS < code <= _SIGNALS + _LAST_SIGNAL else None
    if reason:
        return reason[0], None if signal else code, signal, reason[1]
    if code is None:  # ended before it began
        return JobState.CANCELLED, None, None, ""
    if signal:
        return (JobState.CANCELLED if signal == _TERM else JobState.FAILED), None, signal, ""
    return JobState.FAILED, code, None, ""


def hosts_of(text: str) -> str:
    """The nodes of ``4*node2 node1 node1``, in the order given."""
    return ",".join(dict.fromkeys(re.sub(r"^\d+\*", "", word) for word in text.split()))


def _real(folder: str) -> str:
    """A folder as the job's own script is in it: LSF writes $HOME for the user's home, and follows no links."""
    folder = folder.replace("\0", "")
    if folder.startswith("$HOME"):
        folder = os.path.expanduser("~" + folder[len("$HOME") :])
    return os.path.realpath(folder) if folder.startswith("/") else folder


# --- the long text, whose lines of more than 80 characters go on after 21 spaces

_EVENT = re.compile(r"^[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d(?: \d{4})?: ", re.ASCII)
_BEGAN = re.compile(r"(?:[Ss]tarted|[Dd]ispatched)\b[^<]*\b(?:on|to)\b[^<]*(<[^>]*>(?: <[^>]*>)*)")
_CODE = re.compile(r"Exited with exit code (\d{1,9})", re.ASCII)
_SIGNAL = re.compile(r"Exited by (?:LSF )?signal (\d{1,3})", re.ASCII)
_TOLD = re.compile(r"(?:Completed <exit>|Exited); (TERM_[A-Z_]+.*)")
_NO_MORE = re.compile(r"Done successfully|Completed <(?:done|exit)>|Exited\b")
_AGAIN = re.compile(r"[Rr]equeued|Pending:")


def read_long(text: str) -> list[JobRecord]:
    """The jobs in what ``bjobs -l`` or ``bhist -l`` prints, which has no state in its first line."""
    blocks = re.split(r"(?m)^(?=Job <)", re.sub(r"\n {21}", "", text.replace("\r", "")))
    return [record for record in map(_of_block, blocks) if record]


def _of_block(block: str) -> JobRecord | None:
    head, _, details = block.partition("\n")
    head = head.partition(", Command <")[0]  # the job's own script follows
    job_id = re.match(r"Job <(\d+(?:\[\d+\])?)>, ", head)
    if job_id is None:
        return None
    values = dict(re.findall(r"(?:^|, )([A-Z][\w ]*?) <([^>]*)>", head))
    events = [line for line in details.splitlines() if _EVENT.match(line)]
    hosts, code, ended, over = "", None, "", False
    for line in events:
        if began := _BEGAN.search(line):
            hosts, code, ended, over = hosts_of(re.sub("[<>]", " ", began.group(1))), None, "", False
        if match := _CODE.search(line):
            code = int(match.group(1))
        if match := _SIGNAL.search(line):
            code = _SIGNALS + int(match.group(1))
        if match := _TOLD.search(line):
            ended = match.group(1).rstrip(".; ")
        over = (over or bool(_NO_MORE.search(line))) and not _AGAIN.search(line)
    stat = values.get("Status", "")
    if not stat:
        is_done = over and any("Done successfully" in line or "Completed <done>" in line for line in events[-3:])
        stat = "DONE" if is_done else "EXIT" if over else "RUN" if hosts else "PEND"
    folders = re.findall(r"(?:Execution )?CWD <([^>]*)>", "\n".join(events))
    waits = re.search(r"PENDING REASONS:\n(.*?)(?:\n\s*\n|\Z)", details, re.DOTALL)
    return record_of(
        job_id.group(1),
        stat,
        name=values.get("Job Name", ""),
        hosts=hosts,
        folder=folders[-1] if folders else "",
        code=code,
        ended=ended,
        waits=waits.group(1) if waits else "",
    )
