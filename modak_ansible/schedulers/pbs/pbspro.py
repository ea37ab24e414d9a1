"""PBS Professional and OpenPBS: Torque's commands, with another qstat, other exit codes, and ends that are remembered.

Sources: outputs of real servers (19.0 to 2025.2) that public repositories show, see
tests/unit/schedulers/recorded/pbspro.yaml; the manual pages of qstat, qsub and pbs_job_attributes of OpenPBS. It was
tried with no server.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Sequence
from typing import Any

from ..base import CommandRunner, JobRecord, JobState, SchedulerSilent
from .forecast import seconds_of
from .torque import STATES, Torque, attributes, finished, hosts_of, submitted_from, waiting

_STATES = {
    **STATES,
    "M": JobState.QUEUED,  # moved to another server, which is not asked
    "B": JobState.RUNNING,  # an array of which some run
    "U": JobState.SUSPENDED,  # the workstation's owner is back
}
_ENDED = ("F", "X")  # the latter of a task of an array
_FINISHED_JOB = 35
_NO_HISTORY = "not configured to maintain job history"
# The server's own Exit_status, with the limit that was passed.
_LIMITS = {
    -24: (JobState.FAILED, "ncpus"),
    -25: (JobState.FAILED, "ncpus"),
    -26: (JobState.OUT_OF_MEMORY, "vmem"),
    -27: (JobState.OUT_OF_MEMORY, "mem"),
    -28: (JobState.TIMEOUT, "cput"),
    -29: (JobState.TIMEOUT, "walltime"),
}
# Versions before 20 wrote what stands in a job's environment without escaping it.
_CONTROL = re.compile(r"[\x00-\x1f]+")


class PBSPro(Torque):
    """PBS Professional, which remembers finished jobs where its server is told to (job_history_enable)."""

    name = "pbspro"
    title = "PBS Professional"
    ended_codes = (153, _FINISHED_JOB)
    # its codes are others than Torque's, but for words that all of them say
    away_codes = (101, 110, 111, 113)
    broken_codes = ()
    away_words = ("cannot connect to server", "Connection refused", "No route to host", "Server shutting down")
    broken_words = ("Communication failure", "End of File", "Protocol", "Premature end of message")
    refusals = {}

    def removal_by_operator(self, job_id: str) -> str:
        return f"qdel -W force {job_id}"

    def forecast(self, run: CommandRunner, directives: str) -> str:  # noqa: ARG002 - Maui and Moab are not beside it
        return ""

    def start_of(self, run: CommandRunner, job_id: str) -> str:  # noqa: ARG002 - its records say it
        return ""

    def statuses(self, run: CommandRunner, job_ids: Sequence[str]) -> dict[str, JobRecord]:
        """As under Torque; of those that it does not show the history, which has everybody's, is asked one by one."""
        jobs = super().statuses(run, job_ids)
        ended = {job_id: self.status(run, job_id) for job_id in job_ids if job_id not in jobs}
        return {**jobs, **{job_id: job for job_id, job in ended.items() if job}}

    def full(self, run: CommandRunner, selection: list[str]) -> list[JobRecord]:
        names_jobs = any(word[:1].isdigit() for word in selection)
        broken, past = "", ["-x"] if names_jobs else []
        for options, read in ((["-f", "-F", "json"], read_json_jobs), (["-f"], read_text_jobs)):
            result = run(["qstat", *past, *options, *selection])
            if past and _NO_HISTORY in result.err:  # it is refused whatever is asked, and its living jobs are told
                past = []
                result = run(["qstat", *options, *selection])
            if result.timed_out or result.missing or self.is_away(result):
                raise SchedulerSilent(result.said_by("qstat"))
            if result.code not in (0, *self.ended_codes):
                broken = broken or result.said_by("qstat")  # such as an option that it does not know
                continue
            try:
                return read(result.out)
            except SchedulerSilent as error:
                broken = broken or str(error)
        raise SchedulerSilent(broken)


def is_pbspro(version: str) -> bool:
    """Whether what ``qstat --version`` prints is of PBS Professional or OpenPBS, and not of Torque."""
    return "pbs_version" in version


def read_json_jobs(text: str) -> list[JobRecord]:
    """The jobs in the output of ``qstat -f -F json``.

    Raises:
        SchedulerSilent: it is no such output.
    """
    if not text.strip():
        return []
    try:
        jobs = json.loads(_CONTROL.sub(" ", text)).get("Jobs", {})
        return [_record(job_id, values) for job_id, values in jobs.items() if "job_state" in values]
    except (ValueError, AttributeError, TypeError) as error:
        raise SchedulerSilent(f"qstat printed broken JSON: {error}") from error


def read_text_jobs(text: str) -> list[JobRecord]:
    """The jobs in the output of ``qstat -f``."""
    blocks = [block for block in re.split(r"(?m)^(?=Job Id:\s)", text) if block.startswith("Job Id:")]
    jobs = []
    for values in map(attributes, blocks):
        nested: dict[str, Any] = dict(values)
        for name, value in values.items():
            head, dot, tail = name.partition(".")
            if dot:
                nested.setdefault(head, {})[tail] = value
        if "job_state" in nested:
            jobs.append(_record(values["Job_Id"], nested))
    return jobs


def _record(job_id: str, values: dict[str, Any]) -> JobRecord:
    letter = str(values["job_state"])
    state, exit_code, signal, limit = _STATES.get(letter, JobState.QUEUED), None, None, ""
    if letter in _ENDED:
        state, exit_code, signal, limit = finished(_number(values.get("Exit_status")), _LIMITS)
    texts = {name: value for name, value in values.items() if isinstance(value, str)}
    state, held_by, reason = waiting(state, texts)
    reason = "it was moved to another server" if letter == "M" else reason
    return JobRecord(
        job_id,
        state,
        exit_code,
        signal,
        reason,
        hosts_of(str(values.get("exec_host", ""))),
        str(values.get("Job_Name", "")),
        _folder(values.get("Variable_List")),
        queue=str(values.get("queue", "")) if letter == "Q" else "",
        starts=_moment(_part(values, "estimated", "start_time")) if state is JobState.QUEUED else "",
        held_by=held_by,
        limit=limit,
        elapsed=seconds_of(_part(values, "resources_used", "walltime")) if state.is_final else None,
    )


def _part(values: dict[str, Any], name: str, part: str) -> str:
    fields = values.get(name)
    return str(fields.get(part, "")) if isinstance(fields, dict) else ""


def _folder(variables: Any) -> str:
    """Where a job was submitted, of its Variable_List: a mapping in JSON, one line in text."""
    if isinstance(variables, dict):
        return str(variables.get("PBS_O_WORKDIR", ""))
    return submitted_from(str(variables or ""))


def _number(value: Any) -> int | None:
    return int(value) if re.fullmatch(r"-?\d{1,9}", str(value), re.ASCII) else None


def _moment(text: str) -> str:
    """``Tue Oct  4 21:23:20 2022`` as ``2022-10-04T21:23:20``; empty where it is none."""
    try:
        return time.strftime("%Y-%m-%dT%H:%M:%S", time.strptime(text, "%a %b %d %H:%M:%S %Y"))
    except ValueError:
        return ""
