"""Runs the project's playbooks; the only file that knows ansible-runner."""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypedDict, cast

from modak_ansible.errors import FAILED, TARGET_UNREACHABLE, ModakError, TimeIsOver, harmless
from modak_ansible.store.project import COLLECTION, shipped
from modak_ansible.transport.lifeline import OWNER, PASSING, own_signals, run_folder
from modak_ansible.transport.secrets import handed_on

if TYPE_CHECKING:
    from modak_ansible.store.record import JobNote
    from modak_ansible.target.core.probe import TargetFacts
    from modak_ansible.target.garbage.garbage import GarbageItem
    from modak_ansible.target.images.image import ImageFacts
    from modak_ansible.target.survey.survey import SurveyFacts

_PROGRESS = re.compile(r"modak (\w+) \| (.*)")
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
# What makes no image needs no secrets, and asks for no password of a vault.
_NEEDS_NO_SECRETS = ("gc", "survey", "testbed")
# Of those, what may end a cloud's machine.
_ASKS_CLOUDS = ("gc",)
# What of Ansible's settings a user exports for ours, too: where files lie, how ssh is called, what is kept to look at.
# Others are for other projects' playbooks, and may change what is done here, ask for passwords or end a long task.
_SETTING = "ANSIBLE_"
_OURS_TOO = re.compile(
    rf"{_SETTING}(HOME|LOCAL_TEMP|REMOTE_TE?MP|COLLECTIONS_PATHS?|LOG_PATH|DEBUG|KEEP_REMOTE_FILES|PYTHON_INTERPRETER|SSH_\w+)"
)


class TaskResult(TypedDict, total=False):
    """What a task of ours answers: of its module or action, what that tells."""

    changed: bool
    msg: str  # a line for people
    seconds: float  # that it took
    exit_code: int  # of the command, where it failed
    # stdout, stderr: of one that is Ansible's own
    stdout: str
    stderr: str
    facts: TargetFacts
    survey: SurveyFacts
    image: ImageFacts
    names: list[str]  # that an image has where it was pushed
    situation: JobNote
    workspace: str
    garbage: list[GarbageItem]
    kept: list[GarbageItem]
    removed: list[GarbageItem]
    problems: list[str]  # why hosts of the target could not be asked


class _EventData(TypedDict, total=False):
    task: str
    task_action: str
    res: TaskResult
    changed: dict[str, int]
    ignore_errors: bool


class _Event(TypedDict, total=False):
    """What ansible-runner says of an event, as far as it is looked at."""

    event: str
    stdout: str
    event_data: _EventData


class Enough(Exception):
    """A listener has heard what it waited for: the playbook is ended, and that is no error."""


class Listener(Protocol):
    """Is told how a deployment gets on, by ``progress(stage, text)``, ``task(name)`` and ``finished(action, result)``.

    A class that is derived from it has those that it wants to hear.
    """

    def progress(self, stage: str, text: str) -> None:
        """A line from a stage that is going on."""

    def task(self, name: str) -> None:  # noqa: ARG002 - of interest to few
        """A task begins."""
        return

    def finished(self, action: str, result: TaskResult) -> None:  # noqa: ARG002
        """A task of ours has ended well."""
        return


class PlaybookError(ModakError):
    """A playbook that failed, with the message of the task that made it fail."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


@dataclass
class PlaybookRun:
    changed: int = 0  # tasks that changed something
    # the last result of every action of ours, by the action's name in the collection
    results: dict[str, TaskResult] = field(default_factory=dict)


def run_playbook(
    playbook: str,
    variables: Mapping[str, object],
    listener: Listener | None = None,
    *,
    deadline: float | None = None,
) -> PlaybookRun:
    """Runs one of the project's playbooks to its end.

    Args:
        playbook: its name below playbooks/, without the ending.
        deadline: of time.monotonic(), when it is ended; None for none.

    Raises:
        PlaybookError: a task failed; its message is the task's.
        Enough: the listener raised it.
        TimeIsOver: the deadline came first.
        KeyboardInterrupt: the user, or a signal, ended it.
        BrokenPipeError: nobody reads any more what the listener writes.
    """
    import ansible_runner  # noqa: PLC0415 - slow to import for commands that run no playbook
    from ansible_runner.utils import signal_handler  # noqa: PLC0415

    def is_late() -> bool:
        return deadline is not None and time.monotonic() > deadline

    inventory = _inventory(variables)
    watcher = _Watcher(listener)
    with (
        handed_on(needed=playbook not in _NEEDS_NO_SECRETS, asks=playbook in _ASKS_CLOUDS) as handed,
        own_signals(),  # whoever runs several hears of Ctrl-C between them, too
        run_folder() as private,
        _no_leftovers(private),
        _without_settings_of_others(),
    ):
        is_ended = signal_handler()
        _end_with_the_terminal()
        outcome = ansible_runner.run(
            private_data_dir=private,
            project_dir=str(shipped("playbooks")),
            playbook=f"{playbook}.yml",
            inventory=inventory or "localhost,",
            extravars=_as_they_are(variables),
            envvars={**_environment(), **handed, PASSING: private},
            settings={"pexpect_timeout": 1},
            skip_tags="always",  # with which Ansible compares a role's arguments with their types: these are ours
            event_handler=watcher.event,
            cancel_callback=lambda: bool(watcher.ended_by) or is_late() or bool(is_ended and is_ended()),
            quiet=True,
        )
    if watcher.ended_by:
        raise watcher.ended_by
    if outcome.status == "canceled" and is_late() and not (is_ended and is_ended()):
        raise TimeIsOver("the time limit is over")
    if outcome.status == "canceled" or (is_ended and is_ended()):
        raise KeyboardInterrupt
    if outcome.status != "successful":
        raise watcher.error()
    return watcher.run


def _inventory(variables: Mapping[str, object]) -> Any:
    """The targets of the plans that are named: the playbook need not find them, which takes it half a second."""
    files = variables.get("modak_plans") or [file for file in [variables.get("modak_plan")] if file]
    if not files:
        return None
    from modak_ansible.stages.targets import inventory_of  # noqa: PLC0415 - plans, which not all playbooks have

    return _as_they_are(inventory_of(cast("list[str]", files)))


def _as_they_are(value: Any) -> Any:
    """Values of which Ansible replaces nothing, not even in a folder whose name looks like one of its templates."""
    if isinstance(value, Mapping):
        return {name: _as_they_are(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_as_they_are(item) for item in value]
    return {"__ansible_unsafe": value} if isinstance(value, str) else value


def _end_with_the_terminal() -> None:
    """A terminal that is closed ends what ran in it, unless that was started with nohup."""
    if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
        signal.signal(signal.SIGHUP, lambda *_: os.kill(os.getpid(), signal.SIGTERM))


@contextmanager
def _without_settings_of_others() -> Iterator[None]:
    """Keeps them from ansible-runner, which hands on all that is in the environment."""
    names = [name for name in os.environ if name.startswith(_SETTING) and not _OURS_TOO.fullmatch(name)]
    removed = {name: os.environ.pop(name) for name in names}
    try:
        yield
    finally:
        os.environ.update(removed)


@contextmanager
def _no_leftovers(private: str) -> Iterator[None]:
    """Ends Ansible's workers, which have sessions of their own and outlive an ansible-playbook that is interrupted."""
    try:
        yield
    finally:
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            with suppress(OSError):
                if int(path.parent.name) != os.getpid() and f"{private}/".encode() in path.read_bytes():
                    os.kill(int(path.parent.name), signal.SIGKILL)


class _Watcher:
    """Turns ansible-runner's events into what a listener wants to know."""

    def __init__(self, listener: Listener | None) -> None:
        self._listener = listener
        self._failure: tuple[str, int] | None = None
        self._unparsed: list[str] = []
        self.run = PlaybookRun()
        self.ended_by: BrokenPipeError | Enough | None = None

    def event(self, event: _Event) -> bool:
        try:
            self._take(event)
        except (BrokenPipeError, Enough) as ended_by:
            self.ended_by = ended_by
        return False

    def _take(self, event: _Event) -> None:
        kind, data = event.get("event", ""), event.get("event_data") or _EventData()
        if kind == "verbose":
            self._line(event.get("stdout", ""))
        elif kind == "playbook_on_task_start" and self._listener:
            self._listener.task(data.get("task", ""))
        elif kind == "runner_on_ok":
            self._ok(data)
        elif kind == "playbook_on_stats":
            self.run.changed = sum((data.get("changed") or {}).values())
        elif kind == "runner_on_failed" and not data.get("ignore_errors"):
            self._failed(data, FAILED)
        elif kind == "runner_on_unreachable":
            self._failed(data, TARGET_UNREACHABLE)

    def error(self) -> PlaybookError:
        if self._failure:
            return PlaybookError(*self._failure)
        output = "\n".join(self._unparsed[-5:]) or "ansible-playbook said nothing"
        return PlaybookError(f"the playbook could not be run:\n{output}", FAILED)

    def _line(self, text: str) -> None:
        for raw in text.splitlines():
            line = harmless(_COLOURS.sub("", raw).rstrip())
            progress = _PROGRESS.fullmatch(line)
            if progress and self._listener:
                self._listener.progress(progress.group(1), progress.group(2))
            elif line and not progress:
                self._unparsed.append(line)

    def _ok(self, data: _EventData) -> None:
        collection, _, action = data.get("task_action", "").rpartition(".")
        result = data.get("res") or TaskResult()
        if collection == COLLECTION:
            self.run.results[action] = result
            if self._listener:
                self._listener.finished(action, result)

    def _failed(self, data: _EventData, code: int) -> None:
        result = data.get("res") or TaskResult()
        message = str(result.get("msg") or result.get("stderr") or result.get("stdout") or "no reason given")
        if not data.get("task_action", "").startswith(f"{COLLECTION}.") and data.get("task"):
            message = f"{data['task']}: {message}"
        if self._failure is None or data.get("task_action") == "ansible.builtin.fail":
            self._failure = (message, int(result.get("exit_code") or code))


def _environment() -> dict[str, str]:
    """Ansible's settings: the project's own file, and the programs of this Python first."""
    scripts = str(Path(sys.executable).parent)
    # ansible-runner writes all variables down, and only UTF-8
    variables = {name: os.fsencode(value).decode(errors="replace") for name, value in os.environ.items()}
    return {
        **{name: text for name, text in variables.items() if text != os.environ[name]},
        "PATH": os.pathsep.join([scripts, os.environ.get("PATH", os.defpath)]),
        "ANSIBLE_CONFIG": str(shipped("ansible.cfg")),
        "ANSIBLE_NOCOLOR": "1",
        "ANSIBLE_DEPRECATION_WARNINGS": "0",
        "ANSIBLE_LOCALHOST_WARNING": "0",
        # ansible-runner would turn it off
        "ANSIBLE_HOST_KEY_CHECKING": "True",
        "ANSIBLE_DISPLAY_ARGS_TO_STDOUT": "0",
        OWNER: str(os.getpid()),
    }
