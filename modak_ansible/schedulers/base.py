"""What every scheduler can do, in words that are the same for all of them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum


class JobState(str, Enum):
    """Where a job is in its life."""

    QUEUED = "QUEUED"
    HELD = "HELD"
    RUNNING = "RUNNING"
    SUSPENDED = "SUSPENDED"
    ENDING = "ENDING"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"
    TIMEOUT = "TIMEOUT"
    OUT_OF_MEMORY = "OUT_OF_MEMORY"
    NODE_FAIL = "NODE_FAIL"
    PREEMPTED = "PREEMPTED"
    BOOT_FAIL = "BOOT_FAIL"
    LOST = "LOST"

    @property
    def is_final(self) -> bool:
        return self not in _LIVING

    def __str__(self) -> str:
        return self.value


_LIVING = (JobState.QUEUED, JobState.HELD, JobState.RUNNING, JobState.SUSPENDED, JobState.ENDING)


@dataclass(frozen=True)
class CommandResult:
    """What a command printed, and how it ended."""

    code: int
    out: str = ""
    err: str = ""
    timed_out: bool = False
    missing: bool = False

    @property
    def message(self) -> str:
        """The last line that says anything, errors first."""
        lines = [line.strip() for line in (self.err or self.out).splitlines() if line.strip()]
        return lines[-1] if lines else f"exit code {self.code}"

    def said_by(self, command: str) -> str:
        """The message behind the command's name, which most write before it themselves."""
        return f"{command}: {re.sub(rf'^{command}(: | )', '', self.message)}"


@dataclass(frozen=True)
class JobRecord:
    """What a scheduler says about a job."""

    job_id: str
    state: JobState
    exit_code: int | None = None
    signal: int | None = None
    reason: str = ""  # why it waits, or how it ended, in the scheduler's words
    nodes: str = ""
    name: str = ""
    folder: str = ""
    queue: str = ""  # in which it waits for its turn, where the scheduler tells; else empty
    # in the queue, from 1; None for a job that does not wait, and where the scheduler does not tell
    position: int | None = None
    starts: str = ""  # when it expects a waiting job to begin, in the target's local time; empty where it does not say
    held_by: str = ""  # of a held job ``user`` or ``operator``; empty where the scheduler does not tell
    # of a job that was ended for a limit which one, such as walltime or cput; empty where it does not tell
    limit: str = ""
    # for how many seconds a job that has ended ran; None where the scheduler does not tell
    elapsed: float | None = None
    down: str = ""  # the nodes of a running job that the scheduler calls down
    # of a job that waits for what will not come by itself, what that is; empty where its reason says so
    obstacle: str = ""
    components: tuple[int, ...] = ()  # of a running heterogeneous job, how many nodes each has


class SchedulerSilent(Exception):
    """The scheduler does not answer, so nothing is known; asking again later may help."""


class AccountingSilent(SchedulerSilent):
    """The scheduler has some jobs no more, and its accounting, or another server, that would know does not answer.

    Attributes:
        known: what the scheduler says of other jobs, by their ids.
    """

    def __init__(self, words: str, known: dict[str, JobRecord] | None = None) -> None:
        super().__init__(words)
        self.known = known or {}


class ActionRefused(Exception):
    """The scheduler answers, and does not do to a job what it is asked."""


class SubmissionRefused(Exception):
    """The scheduler has not taken the job."""


class SubmissionUncertain(Exception):
    """Nobody knows whether the scheduler has taken the job; it must be looked for before another one is submitted."""


_FULL = re.compile(
    r"submit.?limit|MaxSubmit|maximum number of jobs|too many jobs|pending job threshold|"
    r"would exceed .*per-(user|group|project) limit(?! on resource)",  # PBS Professional's, of jobs
    re.IGNORECASE,
)
# Slurm names the limit, and goes on with a line that is the same for each: "(job submit limit, user's size ...)".
_OTHER_LIMIT = re.compile(r"\b(QOS|Assoc)(?!\w*Submit)[A-Z]\w+")


def has_no_room(message: str) -> bool:
    """Whether a refusal says that the user has as many jobs as the site allows; others may follow as some end."""
    return bool(_FULL.search(message)) and not _OTHER_LIMIT.search(message)


def is_of(job: JobRecord, name: str, folder: str) -> bool:
    """Whether a job has a name, and was submitted from a folder as far as that is known."""
    if job.name != name:
        return False
    return job.folder == folder if job.folder else folder.rsplit("/", 1)[-1] == name


@dataclass(frozen=True)
class Waits:
    """The jobs that a job waits for."""

    ok: tuple[str, ...] = ()  # ids of those that have to complete; when one of them fails, the job is not to run at all
    ended: tuple[str, ...] = ()  # ids of those that have to end, however they do

    def __bool__(self) -> bool:
        return bool(self.ok or self.ended)

    @property
    def words(self) -> str:
        """As Slurm and Torque both spell it: ``afterok:12:13,afterany:7``."""
        kinds = (("afterok", self.ok), ("afterany", self.ended))
        return ",".join(":".join((kind, *ids)) for kind, ids in kinds if ids)


NO_WAITS = Waits()


class Scheduler:
    """The interface; commands are run by ``run``, a function that takes an argument list and gives a CommandResult.

    Attributes:
        knows_success: whether a job that it calls successful was: no dead node looks like that.
        brings_output: whether what a job says outside of its training comes into a file, scheduler.log.
    """

    name: str  # as a plan has it
    title: str  # for people
    commands: tuple[str, ...] = ()  # programs that it needs
    knows_success = False
    brings_output = True

    def removal_by_operator(self, job_id: str) -> str:  # noqa: ARG002 - most end what ran on a dead node by themselves
        """The command by which an operator removes a job whose node is gone; empty where none is needed."""
        return ""

    def submit(self, run: CommandRunner, script: str, name: str, waits: Waits = NO_WAITS) -> str:
        """Submits a script of the current folder, to begin after what it waits for, and gives the job's id.

        Raises:
            SubmissionRefused: with the scheduler's own words.
            SubmissionUncertain: the command did not come to an end.
            SchedulerSilent: it could not be reached.
        """
        raise NotImplementedError

    def array_script(self, script: str) -> str:  # noqa: ARG002 - most know no arrays
        """The script of an array whose tasks are jobs with the same directives as a script; empty where there is none.

        It is submitted from a folder with a link, of the task's number, to the folder of each job, and runs the script
        ``job.sh`` there, with the id of the task as its argument.
        """
        return ""

    def array_limit(self, run: CommandRunner) -> int:  # noqa: ARG002
        """How many tasks an array may have; 0 where there are no arrays."""
        return 0

    def submit_array(
        self, run: CommandRunner, script: str, name: str, count: int, parallel: int | None, waits: Waits = NO_WAITS
    ) -> list[str]:
        """Submits an array of the current folder, and gives the ids of its tasks, which are numbered from 0.

        Args:
            script: of :meth:`array_script`.
            parallel: how many of them may run at once; None for as many as the target takes.

        Raises:
            SubmissionRefused: with the scheduler's own words.
            SubmissionUncertain: the command did not come to an end.
        """
        raise NotImplementedError

    def find_array(self, run: CommandRunner, name: str, folder: str, count: int) -> list[str]:
        """The ids of the tasks of an array that was submitted from a folder; empty where there is none.

        Raises:
            SchedulerSilent: it does not answer.
        """
        raise NotImplementedError

    def find(self, run: CommandRunner, name: str, folder: str) -> list[str]:
        """The ids of the user's jobs of a name that were submitted from a folder, oldest first.

        Where the scheduler does not tell the folder, a job is taken for one of it only by a name that is the folder's
        own; a job that the user gave a name of their own is then kept from training twice by its claim.

        Raises:
            SchedulerSilent: it does not answer.
        """
        raise NotImplementedError

    def status(self, run: CommandRunner, job_id: str) -> JobRecord | None:
        """What the scheduler knows of a job; None when it does not know the job (any more).

        Raises:
            SchedulerSilent: it does not answer.
            AccountingSilent: it does not know the job any more, and nobody says how that ended.
        """
        return self.statuses(run, [job_id]).get(job_id)

    def statuses(self, run: CommandRunner, job_ids: Sequence[str]) -> dict[str, JobRecord]:
        """What the scheduler knows of many of the user's jobs, by their ids; those that it does not know are left out.

        It is asked a fixed number of times, however many jobs there are.

        Raises:
            SchedulerSilent: it does not answer.
            AccountingSilent: of some jobs it does not know any more nobody says how they ended.
        """
        raise NotImplementedError

    def placed(self, run: CommandRunner, jobs: Mapping[str, JobRecord]) -> Mapping[str, JobRecord]:  # noqa: ARG002
        """What :meth:`statuses` gave, with the places in the queue of those that wait, where the scheduler is to be
        asked for them by themselves: it may send the whole queue.
        """
        return jobs

    def forecast(self, run: CommandRunner, directives: str) -> str:  # noqa: ARG002 - not all of them say
        """When a job with some lines of directives would begin, were it submitted now; empty where nobody says.

        Nothing is submitted. The time is the target's local one, as ``2026-11-23T16:10:00``.
        """
        return ""

    def objection(self, run: CommandRunner, directives: str) -> str:  # noqa: ARG002 - most say it only of a job that they get
        """Why a job with some lines of directives would not be taken, or not run; empty where nobody says.

        Nothing is submitted.
        """
        return ""

    def start_of(self, run: CommandRunner, job_id: str) -> str:  # noqa: ARG002
        """When a job that waits is expected to begin, likewise, where the records of jobs do not say it."""
        return ""

    def joules(self, run: CommandRunner, job_ids: Sequence[str]) -> dict[str, float]:  # noqa: ARG002
        """Joules that the nodes of jobs used while these ran, by ids; of which nobody knows are left out."""
        return {}

    def cancel(self, run: CommandRunner, *job_ids: str) -> None:
        """Cancels jobs; one that has ended or is unknown is no error.

        Raises:
            SchedulerSilent: it does not answer, or refuses.
        """
        raise NotImplementedError

    def hold(self, run: CommandRunner, job_id: str) -> None:
        """Keeps a job that waits from starting; raises as :meth:`act` does."""
        self.act(run, "hold", job_id)

    def release(self, run: CommandRunner, job_id: str) -> None:
        """Lets a job that is held start; raises as :meth:`act` does."""
        self.act(run, "release", job_id)

    def requeue(self, run: CommandRunner, job_id: str) -> None:
        """Ends a job that runs, and has it wait for its turn again under the same id; raises as :meth:`act` does."""
        self.act(run, "requeue", job_id)

    def act(self, run: CommandRunner, action: str, job_id: str) -> None:
        """Does one of these three to a job.

        Raises:
            ActionRefused: with the scheduler's own words.
            SchedulerSilent: it does not answer.
        """
        raise NotImplementedError

    def enter(
        self,
        run: CommandRunner,  # noqa: ARG002
        job: JobRecord,
        nodes: int,  # noqa: ARG002
        words: Sequence[str],
        *,
        first: int = 0,
        terminal: bool = False,
    ) -> list[list[str]]:
        """The commands that run a program on each node of a running job, beside it: by ssh, where it has no own way in.

        Args:
            nodes: on how many of its nodes; all of them where it is its own number.
            words: the program; its last ones are the job's :meth:`marks`.
            first: the first of those nodes, counted from 0.
            terminal: whether the program has one, as its caller.

        Raises:
            ActionRefused: there is no way in, for example as it does not say which nodes those are.
        """
        names = [name for name in job.nodes.split(",") if name][first:]
        if not names:
            raise ActionRefused(f"{self.title} does not say on which nodes the job runs")
        return [by_ssh(name, words, terminal=terminal) for name in names]

    def marks(self, job_id: str) -> tuple[str, ...]:
        """What tells the processes of a job on a node, which start all its others: entries of their environment.

        The first is the node's name; it is empty where the node's own word serves. In all of them are variables of
        whoever looks there.
        """
        raise NotImplementedError


_FOR_PRINTF = {ord(sign): f"\\0{ord(sign):03o}" for sign in "\\\n'!"}


def by_ssh(host: str, words: Sequence[str], *, terminal: bool = False) -> list[str]:
    """The command that runs a program on another machine, which is entered with a key that asks nobody.

    Words may follow that no shell changes, such as digits: the program gets them as its last ones.
    """
    command = shlex.join(words)
    if set("\n!").intersection(command):  # of which csh, as a login shell, lets no quoted word have any
        command = f'exec sh -c \'eval "exec $(printf %b "$0") \\"\\$@\\""\' \'{command.translate(_FOR_PRINTF)}\''
    return ["ssh", *["-t"] * terminal, "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", host, command]


class CommandRunner:
    """Runs a command of the scheduler and always comes back: the type of the ``run`` arguments above."""

    def __call__(self, argv: list[str]) -> CommandResult:
        raise NotImplementedError
