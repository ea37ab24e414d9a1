"""What every stage gets, and what it leaves in the deployment's record."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from modak_ansible.errors import FAILED, ModakError
from modak_ansible.model.quantities import format_seconds
from modak_ansible.store.deployment import DeploymentStore
from modak_ansible.store.logs import note
from modak_ansible.store.project import read_origin
from modak_ansible.store.record import DeploymentRecord
from modak_ansible.target.core.files import mend_of
from modak_ansible.target.core.plan import Plan
from modak_ansible.transport.rsync import Say
from modak_ansible.transport.ssh import Connection, Way, connect

# What a module answers, as JSON: each has fields of its own.
Answer = dict[str, Any]
CallModule = Callable[..., Answer]
# What Ansible says of arguments that a module does not know.
_OTHER_VERSION = re.compile(r"Unsupported parameters for |value of \w+ must be one of")
# How long a module looks at a time before it reports; a dropped connection costs no more than this.
LOOK_SECONDS = 15


@dataclass
class Stage:
    plan: Plan  # the plan, as its JSON
    folder: Path  # the deployment's folder on the controller
    blueprint_folder: Path  # where the user's files are
    connection: Connection  # the way to the target
    call: CallModule  # runs a module on the target: ``call(name, **arguments)``
    say: Say  # shows a line of progress
    check: bool = False  # whether nothing may be changed

    @property
    def deployment(self) -> str:
        """The name of the deployment, unique to its plan."""
        return f"{self.plan['name']}-{self.plan['digest'][:12]}"

    @property
    def record(self) -> DeploymentRecord:
        return DeploymentRecord(self.folder)

    @property
    def store(self) -> DeploymentStore:
        return DeploymentStore(self.folder)

    def tell(self, name: str, text: str) -> None:
        """Shows a line, and notes it in the log of the deployment's stages under a stage's name."""
        self.say(text)
        if not self.check:
            note(self.folder, name, text)


def stages_of(
    files: Sequence[Path],
    call: Callable[[Connection], CallModule],
    say: Say,
    *,
    noted_as: str = "",
    check: bool = False,
) -> list[Stage]:
    """The deployments of plans, which are on one target and share the connection to it.

    Args:
        files: of the plans.
        call: gives what runs modules over a connection.
        noted_as: the stage under whose name what is said is noted in the first one's log; empty for none.

    Raises:
        ModakError: one is no plan.
    """
    folder = files[0].parent
    plans = [_read(plan_file) for plan_file in files]
    _, origin, way = plans[0]
    connection = connect(way, origin["testbed"], origin["blueprint"].parent, folder, origin["state"])

    def said(text: str) -> None:
        say(text)
        if noted_as and not check:
            note(folder, noted_as, text)

    module = call(connection)
    return [
        Stage(plan, plan_file.parent, origin["blueprint"].parent, connection, module, said, check)
        for plan_file, (plan, origin, _) in zip(files, plans, strict=True)
    ]


def _read(plan_file: Path) -> tuple[Plan, dict[str, Path], Way]:
    """A plan, where it comes from, and the way to its target."""
    try:
        plan: Plan = json.loads(plan_file.read_text(encoding="utf-8"))
        return plan, read_origin(plan_file), Way.of(plan["target"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ModakError(f"{plan_file} is not a plan that can be carried out", hint="plan again") from error


@dataclass
class Outcome:
    changed: bool  # whether the target or the results changed
    message: str  # one line for people
    data: dict[str, Any] = field(default_factory=dict)  # what other stages and the records want to know


@contextmanager
def timed_stage(stage: Stage, name: str, *, keep: bool = True) -> Iterator[Callable[[Outcome], Answer]]:
    """Times a stage and notes its outcome; a failure is noted too. Nothing is where ``keep`` is False."""
    began = time.monotonic()
    is_kept = keep and not stage.check

    def finish(outcome: Outcome) -> Answer:
        seconds = round(time.monotonic() - began, 2)
        if is_kept:
            stage.record.note_stage(
                name, state="done", seconds=seconds, changed=outcome.changed, message=outcome.message
            )
        return {"changed": outcome.changed, "msg": outcome.message, "seconds": seconds, **outcome.data}

    if is_kept:
        with suppress(OSError):
            stage.record.begin(name)
    try:
        yield finish
    except ModakError as error:
        if is_kept:
            seconds = round(time.monotonic() - began, 2)
            with suppress(OSError):  # a full disk here must not hide what went wrong
                stage.record.note_stage(name, state="failed", seconds=seconds, changed=False, message=str(error))
        raise


def until_ended(
    say: Say,
    look: Callable[..., Answer],
    answer: Answer | None = None,
    news: Literal["step", "line"] = "step",
) -> Answer:
    """Shows what a target does in the background, and gives the answer of its end.

    Args:
        answer: of the call that began it, where that says how it is.
        news: what the target answers at: each new step, or each new line of the log, which is shown, too.
    """
    last_seen = ""
    while answer is None or answer["status"]["state"] == "running":
        answer = look(action="wait", seconds=LOOK_SECONDS, seen=last_seen)
        status = answer["status"]
        if status["state"] == "running" and (news == "line" or status["step"] != last_seen):
            last_seen = status.get(news, "")
            doing = f": {last_seen[:100]}" if news == "line" and last_seen else ""
            say(f"{status['step']}, {format_seconds(status['seconds'])}{doing}")
    return answer


def words_of_disk(error: OSError) -> str:
    """What is wrong with this machine's own files, such as a full disk under the project, and what to do about it."""
    place = f"{error.filename}: " if error.filename else ""
    return f"on this machine, {place}{error.strerror or error}\n  {mend_of(error)}"


def module_error(name: str, answer: Answer) -> ModakError:
    """The error of a module: our own words, or what is left of a Python that broke on the target."""
    if "hint" in answer:
        error = ModakError(str(answer["msg"]), hint=str(answer["hint"]))
        error.exit_code = int(answer.get("exit_code") or FAILED)
        return error
    summary = getattr(getattr(answer.get("exception"), "event", None), "msg", "")
    errors = str(answer.get("module_stderr") or answer.get("msg") or summary).strip().splitlines()
    hint = str(answer.get("module_stdout", ""))[-300:].strip() or "the target needs Python 3.8 or later"
    if errors and _OTHER_VERSION.match(errors[0]):
        hint = "these playbooks belong to another version of modak_ansible; make a package again with modak package"
    return ModakError(f"{name} failed on the target: {errors[-1] if errors else 'no reason given'}", hint=hint)
