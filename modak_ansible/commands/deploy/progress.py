"""How a deployment gets on, for people: one line a stage, and under it what it is doing now."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from threading import Timer
from typing import TYPE_CHECKING

from rich.console import Console
from rich.status import Status
from rich.text import Text

from modak_ansible.commands.wrapping import wrapped
from modak_ansible.model.quantities import format_seconds

if TYPE_CHECKING:
    from modak_ansible.deployment.playbook import TaskResult
    from modak_ansible.planning.service import Planned

# the stages by the action that carries them out
STAGES = {
    "modak_machine": "machine",
    "modak_probe": "target",
    "modak_dataset": "dataset",
    "modak_image": "image",
    "modak_job": "job",
    "modak_results": "results",
}
_NOTHING = "none"  # what a stage says that has nothing to do
_SOON, _LONG = 0.4, 4.0  # seconds
_TITLE, _NARROWEST = 12, 30
# A space at which no line is broken, and the time at the end of a line, which is kept together.
_KEPT, _TIME = "\u00a0", re.compile(r"\[[^\]]*\]")
# From the first quantity on, a line tells how far something is.
_NUMBERS = re.compile(r"(?:[\d.]+ of )?[\d.]+ ?(?:(?:s|min|h|[kMGT]?B)\b|%).*")


class StageDisplay:
    """Shows the stages of a deployment: a listener for playbooks.

    On a terminal the current step stands in one line that moves, and what the job says stays above it; elsewhere a step
    is one line, however often it tells how far it is.
    """

    def __init__(self, console: Console, about: str = "starting") -> None:
        self._console = console
        self._status: Status | None = console.status(about) if console.is_terminal else None
        self._soon: Timer | None = None
        self._said = ""

    def __enter__(self) -> StageDisplay:
        if self._status:
            self._status.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._forget_task()
        if self._status:
            self._status.stop()

    def task(self, name: str) -> None:
        """Shows a task, unless it is over at once, as those are that do not apply."""
        self._forget_task()
        if self._status and name:
            self._show_later(_SOON, self._status.update, _fitted(name, self._console))

    def _show_later(self, seconds: float, show: Callable[..., None], words: Text | str) -> None:
        self._soon = Timer(seconds, show, [words])
        self._soon.daemon = True
        self._soon.start()

    def _forget_task(self) -> None:
        if self._soon:
            self._soon.cancel()

    def progress(self, stage: str, text: str) -> None:
        if self._status is None and stage != "job" and self._is_known(stage, text):
            return
        if self._status is None or stage == "job":
            self._console.print(Text(f"  {stage:<8} {text}", style="dim" if self._status else ""), soft_wrap=True)
        else:
            self._forget_task()
            self._status.update(_fitted(f"{stage}: {text}", self._console))

    def _is_known(self, stage: str, text: str) -> bool:
        """Whether nothing but the numbers has changed since this was said."""
        previous, self._said = self._said, stage + _NUMBERS.sub("", text.split(": ", maxsplit=1)[0])
        return previous == self._said

    def finished(self, action: str, result: TaskResult) -> None:
        stage, message, changed = STAGES.get(action), str(result.get("msg", "")), bool(result.get("changed"))
        if not stage or (message == _NOTHING and not changed):
            return
        took = format_seconds(result.get("seconds", 0))
        lines = _wrapped(f"{message}  {took.replace(' ', _KEPT)}", self._console)
        for number, text in enumerate(lines):
            line = Text()
            line.append("  " if number else "* " if changed else "= ", style="green" if changed else "dim")
            line.append(f"{'' if number else stage:<8} ", style="bold")
            line.append(text.replace(_KEPT, " "))
            if number == len(lines) - 1:
                line.stylize("dim", len(line) - len(took))
            self._console.print(line, soft_wrap=True)


class TaskDisplay(StageDisplay):
    """Shows which task is being done; where no line can move, only those that take a while.

    Args:
        about: what they belong to; each line begins with it.
    """

    def __init__(self, console: Console, about: str) -> None:
        super().__init__(console, about)
        self._about = about

    def progress(self, stage: str, text: str) -> None:
        self.task(f"{stage}: {text}")

    def task(self, name: str) -> None:
        self._forget_task()
        words = f"{self._about}: {name.rsplit(' : ', maxsplit=1)[-1]}"
        if self._status:
            self._status.update(words)
        else:
            self._show_later(_LONG, self._console.print, words)

    def finished(self, action: str, result: TaskResult) -> None:
        """The end of a task is the beginning of the next."""


def _fitted(words: str, console: Console) -> Text:
    """Words on one line behind the sign that moves."""
    line = Text(words)
    line.truncate(max(1, console.width - 2), overflow="ellipsis")
    return line


def _wrapped(text: str, console: Console) -> list[str]:
    """A text in lines that fit behind a title on a terminal, and elsewhere in one."""
    room = max(_NARROWEST, console.width - _TITLE) if console.is_terminal else max(1, len(text))
    return wrapped(text, room) or [""]


def print_pairs(console: Console, pairs: Iterable[tuple[str, str]]) -> None:
    """Titles in bold and their texts; a title that repeats itself is left out.

    On a terminal a text goes on below its beginning; elsewhere each is one line.
    """
    previous = ""
    for title, text in pairs:
        for number, part in enumerate(_wrapped(_TIME.sub(lambda match: match[0].replace(" ", _KEPT), text), console)):
            line = Text(f"  {title if title != previous and not number else '':<10}", style="bold")
            line.append(part.replace(_KEPT, " "), style="not bold")
            console.print(line, soft_wrap=True)
        previous = title


@contextmanager
def look(words: str, *, quiet: bool = False) -> Iterator[None]:
    """Shows on a terminal that something is being waited for; elsewhere nothing."""
    console = Console(stderr=True, highlight=False)
    if quiet or not console.is_terminal:
        yield
        return
    with console.status(Text(words)):
        yield


def whose_testbed(planned: Planned) -> str:
    """Whose testbed a plan goes to, in words, where that is another project's; empty elsewhere."""
    from modak_ansible.store.testbeds import TESTBED, owner_of

    is_others = planned.testbed.exists() and owner_of(planned.testbed) != planned.state.resolve().parent
    return (
        f" (the testbed of {owner_of(planned.testbed)})" if planned.plan.target.address == TESTBED and is_others else ""
    )
