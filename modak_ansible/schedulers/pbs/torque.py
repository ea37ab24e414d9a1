"""Torque (PBS): qsub, qstat, qdel, qhold, qrls, qrerun and pbsnodes.

Sources: recordings of a real Torque 6.1.3, see tests/unit/schedulers/recorded/torque.yaml. A finished job may be gone
at once (keep_completed), and a job whose node died can end as C with exit_status 0: its own marker is what counts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from ..base import (
    NO_WAITS,
    AccountingSilent,
    ActionRefused,
    CommandResult,
    CommandRunner,
    JobRecord,
    JobState,
    Scheduler,
    SchedulerSilent,
    SubmissionRefused,
    SubmissionUncertain,
    Waits,
    is_of,
)
from .forecast import size_of, start_by_showstart

# Servers of before 2015 write the values of a job's environment as they are, with characters that XML has not
# (https://github.com/adaptivecomputing/torque/issues/318), raw or by their numbers: all below a space but tab and the
# ends of lines, and what is no character at all.
_NOT_XML = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]"
    "|&#(?:x0*(?:[0-8bcef]|1[0-9a-f])|0*(?:[0-8]|1[124-9]|2[0-9]|3[01]));",
    re.IGNORECASE,
)
STATES = {
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
# The server is away, shuts down or is too busy, and has taken nothing: no route, no connection, no trqauthd and so on.
_SERVER_AWAY = (16, 29, 30, 31, 32, 33, 101, 110, 111, 113, 187, 214)
# The last of these words are of Slurm's own qsub, in place of Torque's.
_AWAY = ("cannot connect to server", "Server shutting down", "currently too busy", "slurm controller (connect failure)")
# The connection broke on the way: whether the server has done what it was asked is not known.
_BROKEN_OFF = (10, 104, 185, 237, 248, 249, 250, 251)
# Slurm's own qsub, likewise.
_CUT_OFF = ("send failure", "receive failure", "shutdown failure")
_UNKNOWN_JOB = 153
_COMPLETED_JOB = 170
# What the server says without a word to a command other than qsub.
_REFUSED_ACTIONS = {
    153: "Torque does not know the job",
    159: "the server lets only its operators do that",
}
_SIGNAL_OFFSET = 256
_TERM = 15
# The server's own exit_status, with the limit that was passed.
_LIMITS = {
    -10: (JobState.OUT_OF_MEMORY, "mem"),
    -11: (JobState.TIMEOUT, "walltime"),
    -12: (JobState.TIMEOUT, "cput"),
}
# What a job waits for, in its attribute depend; there beforeok and the like are of those that wait for it.
_WAITS_FOR_OTHERS = re.compile(r"(^|,)(after\w*|on|syncwith):")
# What the comment still says of a run that is over, when the job waits again.
_STALE = re.compile(r"Job started on|Starting job at|Job run at")
# How many letters pbsnodes -l shows of a node's name.
_LISTED = 20


class Torque(Scheduler):
    """Torque, whose finished jobs vanish."""

    name = "torque"
    title = "Torque"
    commands = ("qsub", "qstat", "qdel")
    ended_codes: tuple[int, ...] = (_UNKNOWN_JOB, _COMPLETED_JOB)  # of qdel, for a job that has ended
    away_codes: tuple[int, ...] = _SERVER_AWAY
    away_words: tuple[str, ...] = _AWAY
    broken_codes: tuple[int, ...] = _BROKEN_OFF
    broken_words: tuple[str, ...] = _CUT_OFF
    refusals: Mapping[int, str] = _REFUSALS

    def submit(self, run: CommandRunner, script: str, name: str, waits: Waits = NO_WAITS) -> str:
        waiting = ["-W", f"depend={waits.words}"] if waits else []
        result = run(["qsub", "-N", name, *waiting, script])
        if result.code == 0:
            job_id = _JOB_ID.search(result.out)
            if job_id:
                return job_id.group(0)
            raise SubmissionUncertain(f"qsub printed no job id: {result.out.strip()!r}")
        if result.timed_out:
            raise SubmissionUncertain("qsub did not answer")
        if result.missing:
            raise SubmissionRefused("qsub is not on the target's PATH")
        if self.is_away(result):
            raise SchedulerSilent(self._refusal(result))
        if self._is_broken_off(result):
            raise SubmissionUncertain(self._refusal(result))
        raise SubmissionRefused(self._refusal(result))

    def find(self, run: CommandRunner, name: str, folder: str) -> list[str]:
        # the table cuts long names off; a job that is not found for that is kept from training twice by its claim
        return [job.job_id for job in self.full(run, []) if is_of(job, name, folder)]

    def status(self, run: CommandRunner, job_id: str) -> JobRecord | None:
        number = _number(job_id)
        record = next((job for job in self.full(run, [job_id]) if _number(job.job_id) == number), None)
        if record is None:
            return None
        if _is_ended_array(record):
            return _of_tasks(record, self.full(run, ["-t", job_id]))
        return _with_nodes(run, [record])[0]

    def statuses(self, run: CommandRunner, job_ids: Sequence[str]) -> dict[str, JobRecord]:
        if not job_ids:
            return {}
        # the server is asked once for all jobs: of ids that qstat is given, it would be asked for each
        numbers = {_number(job_id) for job_id in job_ids}
        all_jobs = with_positions(self.full(run, []))
        jobs = [job for job in all_jobs if _number(job.job_id) in numbers]
        shown_numbers = {_number(job.job_id) for job in jobs}
        if any(map(_is_ended_array, jobs)) or any("[" in number for number in numbers - shown_numbers):
            tasks = self.full(run, ["-t"])
            jobs = [_of_tasks(job, tasks) if _is_ended_array(job) else job for job in jobs]
            jobs += [task for task in tasks if _number(task.job_id) in numbers - shown_numbers]
        by_number = {_number(job.job_id): job for job in _with_nodes(run, jobs)}
        by_id = {job_id: by_number.get(_number(job_id)) for job_id in job_ids}
        own_jobs = {job_id: job for job_id, job in by_id.items() if job and _is_of_server(job, job_id)}
        # a queue may be another server's, which is asked for its jobs by their ids
        servers = {"", *(_server(job.job_id) for job in all_jobs)}
        elsewhere = [job_id for job_id in job_ids if job_id not in own_jobs and _server(job_id) not in servers]
        try:
            other_jobs = self.full(run, elsewhere) if elsewhere else []
        except SchedulerSilent as error:  # which says nothing of this one's
            raise AccountingSilent(str(error), own_jobs) from error
        return {**own_jobs, **{job.job_id: job for job in other_jobs if job.job_id in elsewhere}}

    def forecast(self, run: CommandRunner, directives: str) -> str:
        size = size_of(directives)
        return start_by_showstart(run, size) if size else ""

    def start_of(self, run: CommandRunner, job_id: str) -> str:
        return start_by_showstart(run, _number(job_id))

    def cancel(self, run: CommandRunner, *job_ids: str) -> None:
        silent = ""
        for job_id in job_ids:  # one whose node is gone keeps no other from being cancelled
            result = run(["qdel", job_id])
            if result.code not in (0, *self.ended_codes):
                silent = silent or result.said_by("qdel")
        if silent:
            raise SchedulerSilent(silent)

    def removal_by_operator(self, job_id: str) -> str:
        return f"qdel -p {job_id}"

    def marks(self, job_id: str) -> tuple[str, ...]:
        return "", f"PBS_JOBID={job_id}"

    def is_away(self, result: CommandResult) -> bool:
        """Whether the server was not reached, and so has taken nothing."""
        return result.code in self.away_codes or any(words in result.err + result.out for words in self.away_words)

    def _is_broken_off(self, result: CommandResult) -> bool:
        output = result.err + result.out
        return result.code in self.broken_codes or any(words in output for words in self.broken_words)

    def _refusal(self, result: CommandResult) -> str:
        reason = re.search(r"submit error \((.*)\)", result.err + result.out, re.DOTALL)
        words = " ".join(reason.group(1).split()) if reason else result.message
        if self.is_away(result):
            return f"the PBS server is down ({words})"
        meaning = self.refusals.get(result.code)
        return f"{words} ({meaning})" if meaning and meaning not in words else words

    def act(self, run: CommandRunner, action: str, job_id: str) -> None:
        command = {"hold": "qhold", "release": "qrls", "requeue": "qrerun"}[action]
        result = run([command, job_id])
        if result.code == 0:
            return
        if result.missing:
            raise ActionRefused(f"{command} is not on the target's PATH")
        if result.timed_out or self.is_away(result) or self._is_broken_off(result):
            raise SchedulerSilent(result.said_by(command))
        # Slurm's own commands of these names write their refusals to standard output, and warnings beside them
        own = [line for line in (result.err + "\n" + result.out).splitlines() if line.startswith(f"{command}: ")]
        words = own[-1].strip() if own else result.message
        meaning = _REFUSED_ACTIONS.get(result.code)
        raise ActionRefused(f"{words} ({meaning})" if meaning and self.refusals else words)

    def full(self, run: CommandRunner, selection: list[str]) -> list[JobRecord]:
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
        raise SchedulerSilent(result.said_by("qstat"))


def _number(job_id: str) -> str:
    """A job's id without the server's name."""
    return job_id.split(".", maxsplit=1)[0]


def _is_of_server(job: JobRecord, job_id: str) -> bool:
    """Whether a job of an id's number is that of the id's server, as far as both name one."""
    servers = [_server(job.job_id), _server(job_id)]
    return servers[0] == servers[1] or "" in servers


def _server(job_id: str) -> str:
    """The name of the server in a job's id, without its domain; empty where there is none."""
    return job_id.partition(".")[2].partition(".")[0]


def _is_ended_array(job: JobRecord) -> bool:
    """Whether a record is of a whole array that is over: how its tasks ended, it does not say."""
    return job.state.is_final and job.exit_code is None and "[]" in job.job_id


def _of_tasks(array: JobRecord, jobs: Sequence[JobRecord]) -> JobRecord:
    """The record of an array that is over, by those of its tasks: the first that lives or failed counts for all."""
    stem = _number(array.job_id)[:-1]
    tasks = [job for job in jobs if job.job_id.startswith(stem) and not job.job_id.startswith(f"{stem}]")]
    if not tasks:  # they are forgotten, and nobody knows how they ended
        return replace(array, state=JobState.COMPLETED)
    telling = [
        *(job for job in tasks if not job.state.is_final),
        *(job for job in tasks if job.state not in (JobState.COMPLETED, JobState.CANCELLED)),
        *(job for job in tasks if job.state is JobState.CANCELLED),
        *tasks,
    ][0]
    times = [job.elapsed for job in tasks if job.elapsed is not None]
    return replace(telling, job_id=array.job_id, name=array.name, elapsed=max(times, default=None))


def _with_nodes(run: CommandRunner, jobs: Sequence[JobRecord]) -> list[JobRecord]:
    """Records with those nodes of running jobs that are down: the server goes on calling such jobs running."""
    names = {name for job in jobs if job.state is JobState.RUNNING for name in job.nodes.split(",") if name}
    down = _down(run, names) if names else set()
    return [replace(job, down=",".join(name for name in job.nodes.split(",") if name in down)) for job in jobs]


def _down(run: CommandRunner, names: set[str]) -> set[str]:
    """Which of some nodes are down, or not heard of by the server; none where pbsnodes does not tell."""
    result = run(["pbsnodes", "-l"])
    lines = [line.split() for line in result.out.splitlines()] if result.code == 0 else []
    down_names = {words[0] for words in lines if len(words) > 1 and _says_down(words[1])}
    matches = {name for name in names if name[:_LISTED] in down_names}
    return {name for name in matches if len(name) < _LISTED or _says_down(_state_of(run, name))}


def _says_down(state: str) -> bool:
    """By the words of a node's state; one that is offline only takes no new jobs."""
    return not {"down", "state-unknown", "unknown"}.isdisjoint(state.split(","))


def _state_of(run: CommandRunner, node: str) -> str:
    try:
        (values,) = read_elements(run(["pbsnodes", "-x", node]).out, "Node")
    except ValueError:
        return ""
    return values.get("state", "").replace(" ", "")


def read_jobs(text: str) -> list[JobRecord]:
    """The jobs in the output of ``qstat -f -x`` or of ``qstat -f``.

    Raises:
        SchedulerSilent: it is neither.
    """
    if not text.strip():
        return []
    if text.lstrip().startswith("<"):
        try:
            jobs = read_elements(text, "Job")
        except ValueError as error:
            raise SchedulerSilent(f"qstat printed {error}") from error
    else:
        jobs = [attributes(block) for block in re.split(r"(?m)^(?=Job Id:\s)", text) if block.startswith("Job Id:")]
    return [_record(values) for values in jobs if "Job_Id" in values]


def read_table(text: str) -> list[JobRecord]:
    """The jobs in qstat's table, which says neither how a job ended nor where it was submitted."""
    rows = re.findall(r"(?m)^(\d\S*) +(\S+) +\S+ +\S+ ([A-Z]) (\S+) *$", text)
    return [
        JobRecord(
            job_id,
            JobState.COMPLETED if letter == "C" else STATES.get(letter, JobState.QUEUED),
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


def attributes(block: str) -> dict[str, str]:
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
    letter = values.get("job_state", "")
    status = values.get("exit_status")
    code = int(status) if status and re.fullmatch(r"-?\d+", status.strip()) else None
    state, exit_code, signal, limit = STATES.get(letter, JobState.QUEUED), None, None, ""
    if letter == "C":
        state, exit_code, signal, limit = finished(code, _LIMITS)
    state, held_by, reason = waiting(state, values)
    return JobRecord(
        values["Job_Id"],
        state,
        exit_code,
        signal,
        reason,
        hosts_of(values.get("exec_host", "")),
        values.get("Job_Name", ""),
        values.get("init_work_dir", "") or submitted_from(values.get("Variable_List", "")),
        queue=values.get("queue", "") if letter == "Q" else "",
        held_by=held_by,
        limit=limit,
        elapsed=_elapsed(values) if letter == "C" else None,
    )


def waiting(state: JobState, values: dict[str, str]) -> tuple[JobState, str, str]:
    """A job's state, who holds it, and why it waits, or why it was ended: state H is not always somebody's hold.

    Of the Hold_Types u is the user's own and o the operators'; s is the system's, which waits for other jobs or is a
    manager's; and none is of a task of an array of which enough run already.
    """
    comment = values.get("comment", "").strip()
    comment = "" if _STALE.match(comment) else comment
    if state not in (JobState.QUEUED, JobState.HELD):
        return state, "", comment if state.is_final and state is not JobState.COMPLETED else ""
    types = values.get("Hold_Types")
    if state is JobState.QUEUED or types is None:
        return state, "", comment
    if "u" in types:
        return JobState.HELD, "user", comment
    if "o" in types:
        return JobState.HELD, "operator", comment or "an operator holds it"
    if not types.strip():
        return JobState.QUEUED, "", comment or "enough tasks of its array run"
    if "s" in types and _WAITS_FOR_OTHERS.search(values.get("depend", "")):
        return JobState.QUEUED, "", "it waits for other jobs"
    return JobState.HELD, "operator" if "s" in types else "", comment or "the system holds it"


def _elapsed(values: dict[str, str]) -> float | None:
    """For how many seconds a job ran, where the server says so."""
    if re.fullmatch(r"\d{1,12}(\.\d*)?", values.get("total_runtime", ""), re.ASCII):
        return float(values["total_runtime"])
    times = [values.get(name, "") for name in ("start_time", "comp_time")]  # since the epoch, in XML
    if all(re.fullmatch(r"\d{1,12}", time_, re.ASCII) for time_ in times):
        return max(0.0, float(times[1]) - float(times[0]))
    return None


def finished(
    code: int | None, limits: Mapping[int, tuple[JobState, str]]
) -> tuple[JobState, int | None, int | None, str]:
    """How a job ended, by its exit_status: its own code, 256 + signal, or a negative number of the server's.

    Args:
        limits: what those numbers mean that tell of a limit.

    Returns:
        The state, the exit code, the signal, and which limit was passed.
    """
    if code is None:  # deleted before it ran
        return JobState.CANCELLED, None, None, ""
    if code in limits:
        state, limit = limits[code]
        return state, None, None, limit
    if code < 0:
        return JobState.BOOT_FAIL, None, None, ""
    if code > _SIGNAL_OFFSET:
        signal = code - _SIGNAL_OFFSET
        return (JobState.CANCELLED if signal == _TERM else JobState.FAILED), None, signal, ""
    return (JobState.FAILED if code else JobState.COMPLETED), code, None, ""


def hosts_of(text: str) -> str:
    """The nodes of ``node2/1-2+node1/7,13``, in the order given."""
    names = [part.split("/")[0] for part in text.split("+") if part]
    return ",".join(dict.fromkeys(names))


def submitted_from(variables: str) -> str:
    """The folder that a job was submitted from, by its Variable_List."""
    folder = re.search(r"(?:^|,)PBS_O_WORKDIR=([^,]*)", variables)
    return folder.group(1) if folder else ""


def read_elements(text: str, tag: str) -> list[dict[str, str]]:
    """The values of each element of a name, by the names of what is in it.

    Raises:
        ValueError: it is no XML.
    """
    from xml.etree import ElementTree  # noqa: PLC0415 - what plans a job needs none

    try:
        root = ElementTree.fromstring(_NOT_XML.sub("?", text))  # noqa: S314 - printed by the site's own server
    except ElementTree.ParseError as error:
        raise ValueError(f"broken XML: {error}") from error
    return [{child.tag: child.text or "" for child in element} for element in root.iter(tag)]
