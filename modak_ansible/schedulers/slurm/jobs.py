"""Slurm: sbatch, squeue, sacct, scontrol and scancel.

Sources: the manual pages of Slurm 24.11; the outputs in tests/unit/schedulers/recorded were printed by it.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

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
    has_no_room,
    is_of,
)
from ..cluster import expand_nodes
from . import arrays
from .records import HELD, accounting_record, queue_record, shown_record

# Each task of an array on a line of its own, by the id that all commands take: 12_4.
_SQUEUE = ["squeue", "--noheader", "--array"]
_QUEUE_FORMAT = "--format=%i|%T|%r|%N|%j|%Z"
_ACCOUNT_FORMAT = "--format=JobID,State,ExitCode,NodeList,JobName,WorkDir"
# All jobs that wait, in the order of their priorities.
_QUEUE = [*_SQUEUE, "--states=PENDING", "--sort=-p,i", "--format=%i|%P|%r|%S"]
# What becomes of one component of a heterogeneous job, for which the script in another fails.
_CAUSES = (JobState.NODE_FAIL, JobState.OUT_OF_MEMORY, JobState.BOOT_FAIL)
_NOT_IN_TURN = ("Dependency", "BeginTime", "JobArrayTaskLimit")
# Whether the controller has done what it was asked is not known; some of it is said after "Unable to contact" it, too.
_UNCERTAIN = (
    "timed out", "timeout", "Zero Bytes were transmitted", "Connection reset", "send/recv operation", "send failure",
    "receive failure", "shutdown failure",
)  # fmt: skip
_UNKNOWN_JOB = ("Invalid job id", "Invalid Job Id")
_GONE = (*_UNKNOWN_JOB, "already completing", "already completed")
# What sacct says where slurmdbd is away; whatever else it says, it has no accounting to show.
_NO_DATABASE = ("Problem talking to the database", "Connection refused")
_UNREACHED = ("Unable to contact", "in standby mode", "Rate limit exceeded")
_SILENT = (*_UNCERTAIN, *_UNREACHED)
# What sbatch --test-only writes: "sbatch: Job 7 to start at 2026-11-23T16:10:00 using 1 processors on nodes node01 ..."
_TO_START = re.compile(r"to start at (\d[\d:T-]+)")
# Words of refusals that no end of another job, and no repair of a node, will change.
_NEVER = re.compile(r"invalid|violates|permi(t|ss)|denied|(?<!Rate limit )exceed|Unspecified error", re.IGNORECASE)
# The state of a job that another cluster of the federation has begun, on those that had it in their queues, too.
_REVOKED = "|REVOKED|"
# What is said of a job that was submitted with --no-requeue.
_NOT_REQUEUED = "Requested operation is presently disabled"


class Slurm(Scheduler):
    """Slurm, with accounting (sacct) or without."""

    name = "slurm"
    title = "Slurm"
    commands = ("sbatch", "squeue", "scancel")
    knows_success = True

    def submit(self, run: CommandRunner, script: str, name: str, waits: Waits = NO_WAITS) -> str:
        return _submitted(run, [f"--job-name={name}"], waits, script)

    def array_script(self, script: str) -> str:
        return arrays.array_script(script)

    def array_limit(self, run: CommandRunner) -> int:
        return arrays.limit_of(run(["scontrol", "show", "config"]).out)

    def submit_array(
        self, run: CommandRunner, script: str, name: str, count: int, parallel: int | None, waits: Waits = NO_WAITS
    ) -> list[str]:
        options = [f"--job-name={name}", *arrays.options(count, parallel)]
        array = _submitted(run, options, waits, script)
        return [f"{array}_{number}" for number in range(count)]

    def find_array(self, run: CommandRunner, name: str, folder: str, count: int) -> list[str]:
        job_ids = self.find(run, name, folder)
        array = job_ids[0].partition("_")[0] if job_ids else ""
        return [f"{array}_{number}" for number in range(count)] if array else []

    def find(self, run: CommandRunner, name: str, folder: str) -> list[str]:
        records = _queued(run, f"--name={name}")
        queued_ids = {record.job_id for record in records}
        # to a day ahead: the clock here may be behind that of the controller
        selection = [f"--name={name}", "--starttime=now-30days", "--endtime=now+1days"]
        # what began is known by its claim, too, where the accounting is away
        for record in self._accounted(run, selection)[0]:
            if record.job_id not in queued_ids:
                records.append(record)
        job_ids = [record.job_id for record in records if is_of(record, name, folder)]
        return sorted(job_ids, key=lambda job_id: [int(number) for number in re.findall(r"\d+", job_id)])

    def status(self, run: CommandRunner, job_id: str) -> JobRecord | None:
        result = _everywhere(run, [*_SQUEUE, "--states=all", f"--jobs={job_id}", _QUEUE_FORMAT])
        if result.code != 0 and not any(words in result.err for words in _UNKNOWN_JOB):
            raise SchedulerSilent(result.said_by("squeue"))
        queue = _whole(map(queue_record, _lines(result.out))) if result.code == 0 else []
        queued = next(iter(queue), None)
        if queued and not queued.state.is_final:
            return queued
        accounted, silence = self._accounted(run, [f"--jobs={job_id}"])
        if accounted:
            record = next((record for record in reversed(accounted) if record.job_id == job_id), accounted[-1])
            # the accounting runs a little behind the controller
            return queued if queued and not record.state.is_final else record
        remembered = self._shown(run, job_id) or queued
        if silence and not remembered:
            raise AccountingSilent(silence)
        return remembered

    def statuses(self, run: CommandRunner, job_ids: Sequence[str]) -> dict[str, JobRecord]:
        if not job_ids:
            return {}
        queued = _by_id(_queued(run), job_ids)
        ended = [job_id for job_id in job_ids if job_id not in queued or queued[job_id].state.is_final]
        records, silence = self._ended(run, ended, queued)
        all_records = {**queued, **records}
        if silence and set(job_ids) - set(all_records):
            raise AccountingSilent(silence, all_records)
        return all_records

    def placed(self, run: CommandRunner, jobs: Mapping[str, JobRecord]) -> dict[str, JobRecord]:
        waiting = [job_id for job_id, record in jobs.items() if record.state is JobState.QUEUED]
        places = _places(run(_QUEUE).out) if waiting else {}
        return {**jobs, **{job_id: replace(jobs[job_id], **places.get(job_id, {})) for job_id in waiting}}

    def _ended(
        self, run: CommandRunner, job_ids: list[str], queued: dict[str, JobRecord]
    ) -> tuple[dict[str, JobRecord], str]:
        """How jobs have ended, by the accounting, or by the controller's memory; and why the accounting is silent."""
        if not job_ids:
            return {}, ""
        records, silence = self._accounted(run, [f"--jobs={','.join(job_ids)}"])
        accounted = _by_id(records, job_ids)
        # the accounting runs a little behind the controller
        ended = {
            job_id: record for job_id, record in accounted.items() if record.state.is_final or job_id not in queued
        }
        unaccounted = [job_id for job_id in job_ids if job_id not in accounted]
        if unaccounted:
            result = run(["scontrol", "--oneliner", "show", "job"])
            lines = _lines(result.out) if result.code == 0 else []
            ended.update(_by_id(_whole(map(shown_record, lines)), unaccounted))
        return ended, silence

    def forecast(self, run: CommandRunner, directives: str) -> str:
        if re.search(r"(?m)^#SBATCH --hold\b", directives):  # of whose end Slurm knows nothing
            return ""
        start = _TO_START.search(_tried(run, directives).err)
        return start.group(1) if start else ""

    def objection(self, run: CommandRunner, directives: str) -> str:
        result = _tried(run, directives)
        words = _refusal(result)
        return words if result.code and _NEVER.search(words) and not has_no_room(words) else ""

    def joules(self, run: CommandRunner, job_ids: Sequence[str]) -> dict[str, float]:
        rows = ["--noheader", "--parsable2", f"--jobs={','.join(job_ids)}", "--format=JobID,ConsumedEnergyRaw"]
        return _joules(run(["sacct", *rows]).out) if job_ids else {}

    def cancel(self, run: CommandRunner, *job_ids: str) -> None:
        result = run(["scancel", *job_ids])
        if result.code != 0 and not (result.err and all(map(_says_gone, _lines(result.err)))):
            raise SchedulerSilent(result.said_by("scancel"))

    def act(self, run: CommandRunner, action: str, job_id: str) -> None:
        _control(run, action, job_id)

    def requeue(self, run: CommandRunner, job_id: str) -> None:
        try:
            _control(run, "requeue", job_id)
        except ActionRefused as refusal:
            if _NOT_REQUEUED not in str(refusal):
                raise
            # --no-requeue is meant for what Slurm does by itself; this is the owner asks for it, and for once
            _control(run, "update", f"JobId={job_id}", "Requeue=1")
            try:
                _control(run, "requeue", job_id)
            finally:
                run(["scontrol", "update", f"JobId={job_id}", "Requeue=0"])

    def enter(
        self,
        run: CommandRunner,
        job: JobRecord,
        nodes: int,
        words: Sequence[str],
        *,
        first: int = 0,
        terminal: bool = False,
    ) -> list[list[str]]:
        job_id = job.job_id
        if "_" in job_id:  # srun knows a task of an array by its own number alone
            result = run([*_SQUEUE, f"--jobs={job_id}", "--format=%A"])
            number = re.search(r"(?m)^\d+$", result.out)  # SLURM_CLUSTERS has a line with a cluster's name before it
            job_id = number.group() if number and result.code == 0 else ""
            if not job_id:
                raise ActionRefused(result.said_by("squeue"))
        commands = []
        for group, start, count in _among(job.components, first, nodes):
            step = [f"--jobid={job_id}", "--overlap", *group, f"--nodes={count}", f"--ntasks={count}"]
            step += ["--ntasks-per-node=1", *([f"--relative={start}"] if start else [])]
            commands.append(["srun", "--quiet", *step, "--cpu-bind=none", *["--pty"] * terminal, *words])
        return commands

    def marks(self, job_id: str) -> tuple[str, ...]:  # noqa: ARG002 - the step that looks is of the same job
        return "$SLURMD_NODENAME", "SLURM_JOB_ID=$SLURM_JOB_ID", "SLURMD_NODENAME=$SLURMD_NODENAME"

    def _accounted(self, run: CommandRunner, selection: list[str]) -> tuple[list[JobRecord], str]:
        """What the accounting says, and why it does not answer; nothing of either where a site keeps none."""
        rows = ["sacct", "--noheader", "--parsable2", "--allocations", *selection, _ACCOUNT_FORMAT]
        result = _everywhere(run, rows)
        if result.code != 0:
            is_away = result.timed_out or any(words in result.err for words in _NO_DATABASE)
            return [], result.said_by("sacct") if is_away else ""
        accounted = _whole(map(accounting_record, _lines(result.out)))
        # tasks that never began are one line: 12_[4-9]
        return [replace(record, job_id=job_id) for record in accounted for job_id in arrays.tasks(record.job_id)], ""

    def _shown(self, run: CommandRunner, job_id: str) -> JobRecord | None:
        """What the controller remembers of a finished job for MinJobAge seconds."""
        result = run(["scontrol", "show", "job", job_id])
        if result.code != 0:
            return None
        return next(iter(_whole(map(shown_record, re.split(r"\n\s*\n", result.out)))), None)


def _submitted(run: CommandRunner, options: list[str], waits: Waits, script: str) -> str:
    """The id of a job that sbatch has taken."""
    waiting = [f"--dependency={waits.words}", "--kill-on-invalid-dep=yes"] if waits else []
    result = run(["sbatch", "--parsable", *_directives(run, script), *options, *waiting, script])
    if result.code == 0:
        # with clusters in a federation: id;cluster; a site's filter may print lines of its own before
        job_ids = re.findall(r"^(\d+)(?:;[\w.-]+)?$", result.out, re.MULTILINE)
        if job_ids:
            return str(job_ids[-1])
        raise SubmissionUncertain(f"sbatch printed no job id: {result.out.strip()!r}")
    if result.timed_out or any(words in result.err for words in _UNCERTAIN):
        raise SubmissionUncertain(f"sbatch did not answer: {result.message}")
    if any(words in result.err for words in _UNREACHED):
        raise SchedulerSilent(_refusal(result))
    raise SubmissionRefused(_refusal(result))


def _directives(run: CommandRunner, script: str) -> list[str]:
    """A script's own directives, to be repeated: SBATCH_ACCOUNT and the like, of a user's profile, come before them.

    A heterogeneous job's are not: on the command line they would be of no component alone.
    """
    words = _words(_lines(run(["sed", "-n", "-e", "/^[^#]/q", "-e", "s/^#SBATCH //p", script]).out))
    return [] if "hetjob" in words else words


def _tried(run: CommandRunner, directives: str) -> CommandResult:
    """What sbatch says of a job with some lines of directives, of which nothing is submitted."""
    words = _words(re.findall(r"(?m)^#SBATCH (.*)$", directives))
    return run(["sbatch", "--test-only", *(":" if word == "hetjob" else word for word in words), "--wrap=true"])


def _words(lines: Iterable[str]) -> list[str]:
    """Lines of directives as words of a command: quotes in them are sbatch's own."""
    return [word for line in lines for word in shlex.split(line)]


def _queued(run: CommandRunner, *selection: str) -> list[JobRecord]:
    """The user's jobs, by the controller's own choice: with a list of them it would send everybody's.

    Raises:
        SchedulerSilent: it does not answer.
    """
    words = ["--states=all", *selection, _QUEUE_FORMAT]
    result = _everywhere(run, [*_SQUEUE, "--me", *words])
    if result.code != 0 and "unrecognized option" in result.err:  # before 20.02
        result = _everywhere(run, [*_SQUEUE, f"--user={os.getuid()}", *words])
    if result.code != 0:
        raise SchedulerSilent(result.said_by("squeue"))
    return _whole(map(queue_record, _lines(result.out)))


def _everywhere(run: CommandRunner, command: list[str]) -> CommandResult:
    """What squeue or sacct says of jobs, by all clusters of a federation where another one has begun some of them."""
    result = run(command)
    if _REVOKED not in result.out:
        return result
    federation = run([command[0], "--federation", *command[1:]])
    lines = [line for line in _lines(federation.out) if _REVOKED not in line]
    return replace(federation, out="\n".join(lines)) if federation.code == 0 and lines else result


def _control(run: CommandRunner, *words: str) -> None:
    result = run(["scontrol", *words])
    if result.code == 0:
        return
    if result.timed_out or result.missing or any(sign in result.err for sign in _SILENT):
        raise SchedulerSilent(result.said_by("scontrol"))
    raise ActionRefused(result.message)


def _says_gone(line: str) -> bool:
    return any(words in line for words in _GONE)


def _lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.strip()]


def _whole(records: Iterable[JobRecord | None]) -> list[JobRecord]:
    """Records of jobs, in their order: those of a heterogeneous job's components (12+0, 12+1) are one, the leader's.

    Its state and its end are those of the leader, where the job's script runs, unless that has failed for what became
    of another; the nodes are those of all.
    """
    jobs: list[dict[int, JobRecord]] = []
    lives: dict[str, dict[int, JobRecord]] = {}  # the last of each job, which may have had several
    for record in filter(None, records):
        leader, _, offset = record.job_id.partition("+")
        components = lives.get(leader, {})
        if not offset.isdigit() or not components or int(offset) in components:
            components = {}
            jobs.append(components)
            lives[leader] = components
        components[int(offset) if offset.isdigit() else 0] = record
    return [_leader(dict(sorted(components.items()))) for components in jobs]


def _leader(components: dict[int, JobRecord]) -> JobRecord:
    first = components[min(components)]
    job_id, plus, _ = first.job_id.partition("+")
    if not plus:
        return first
    nodes = [component.nodes for component in components.values() if component.nodes]
    counts = tuple(len(expand_nodes(node_list)) for node_list in nodes)
    causes = [component.state for component in components.values() if component.state in _CAUSES]
    state = causes[0] if causes and first.state is JobState.FAILED else first.state
    return replace(first, job_id=job_id, state=state, nodes=",".join(nodes), components=counts)


def _among(components: Sequence[int], first: int, nodes: int) -> Iterator[tuple[list[str], int, int]]:
    """Of some nodes of a job those in each component: the option that names it, the first of them there, how many."""
    if not components:
        yield [], first, nodes
    end = first + nodes
    for number, count in enumerate(components):
        part = range(max(first, 0), min(end, count))
        if part:
            yield [f"--het-group={number}"], part.start, len(part)
        first, end = first - count, end - count


def _by_id(records: Iterable[JobRecord | None], job_ids: Sequence[str]) -> dict[str, JobRecord]:
    """Records by the ids that are wanted; of an array's tasks one that lives, of a requeued job's lives the last."""
    id_set = set(job_ids)
    by_id: dict[str, JobRecord] = {}
    for record in records:
        for key in id_set.intersection(_names(record.job_id)) if record else ():
            if record and (key not in by_id or by_id[key].state.is_final):
                by_id[key] = record
    return by_id


def _names(job_id: str) -> tuple[str, ...]:
    """The ids that a job goes by: a task's own, and that of its array; a component's, and that of its job."""
    return job_id, re.split("[_+]", job_id, maxsplit=1)[0]


def _places(text: str) -> dict[str, dict[str, Any]]:
    """The position of each waiting job in the queue of its partition, and when it is expected to start.

    A job of several partitions (gpu,preempt) waits in all of them, and its turn comes where it is next.
    """
    counts: dict[str, int] = {}
    places: dict[str, dict[str, Any]] = {}
    for line in _lines(text):
        job_id, _, fields = line.partition("|")
        partition_list, _, fields = fields.partition("|")
        reason, _, starts = fields.rpartition("|")
        if not fields or HELD.match(reason) or reason.startswith(_NOT_IN_TURN):
            continue
        if "+" in job_id and _names(job_id)[1] in places:  # a further component of a job has no turn of its own
            continue
        partitions = partition_list.split(",")
        for partition in partitions:
            counts[partition] = counts.get(partition, 0) + 1
        position = min(counts[partition] for partition in partitions)
        starts = starts if re.fullmatch(r"[\d:T-]+", starts) else ""
        for name in _names(job_id):
            places.setdefault(name, {"position": position, "starts": starts})
    return places


def _joules(text: str) -> dict[str, float]:
    """The energy of jobs, out of sacct's rows of them and of their steps: ``12|9``, ``12.batch|4``, ``12.0|9``.

    A step counts whole nodes, and of a node with several of them Slurm's own sum counts it as often; so the one that
    counts most is taken: that of srun on all nodes, or, with PrologFlags=Contain, the job's own (extern).
    """
    jobs: dict[str, dict[str, int]] = {}
    for job_id, step, joules in re.findall(r"(?m)^(\d[\d_]*(?:\+\d+)?)(?:\.(\w+))?\|(\d{1,15})$", text):
        jobs.setdefault(job_id, {})[step] = int(joules)
    totals: dict[str, float] = {}
    for component, steps in jobs.items():
        job_id = component.partition("+")[0]
        of_job = steps.pop("", 0)
        counted = float(steps.get("extern") or max(steps.values(), default=0) or of_job)
        totals[job_id] = totals.get(job_id, 0.0) + counted
    return {job_id: joules for job_id, joules in totals.items() if joules}


def _refusal(result: CommandResult) -> str:
    if result.missing:
        return "sbatch is not on the target's PATH"
    lines = [line.strip() for line in (result.err or result.out).splitlines() if line.strip()]
    return " ".join(re.sub(r"^(sbatch: )?(error: |allocation failure: )?", "", line) for line in lines)
