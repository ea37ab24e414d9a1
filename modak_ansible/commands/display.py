"""How a deployment gets on, for people: one line a stage, and under it what it is doing now."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.status import Status
from rich.text import Text

from modak_ansible.model.quantities import format_seconds

# the stages by the action that carries them out
STAGES = {
    "modak_probe": "target",
    "modak_dataset": "dataset",
    "modak_image": "image",
    "modak_job": "job",
    "modak_results": "results",
}
# From the first quantity on, a line tells how far something is.
_NUMBERS = re.compile(r"(?:[\d.]+ of )?[\d.]+ ?(?:(?:s|min|h|[kMGT]?B)\b|%).*")


class StageDisplay:
    """Shows the stages of a deployment: a listener for playbooks.

    On a terminal the current step stands in one line that moves, and what the job says stays above it; elsewhere a step
    is one line, however often it tells how far it is.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._status: Status | None = console.status("starting") if console.is_terminal else None
        self._said = ""

    def __enter__(self) -> StageDisplay:
        if self._status:
            self._status.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._status:
            self._status.stop()

    def task(self, name: str) -> None:
        if self._status and name:
            self._status.update(Text(name))

    def progress(self, stage: str, text: str) -> None:
        if self._status is None and stage != "job" and self._is_known(stage, text):
            return
        if self._status is None or stage == "job":
            self._console.print(Text(f"  {stage:<8} {text}", style="dim" if self._status else ""), soft_wrap=True)
        else:
            self._status.update(Text(f"{stage}: {text}"))

    def _is_known(self, stage: str, text: str) -> bool:
        """Whether nothing but the numbers has changed since this was said."""
        said, self._said = self._said, stage + _NUMBERS.sub("", text.split(": ", maxsplit=1)[0])
        return said == self._said

    def finished(self, action: str, result: dict[str, Any]) -> None:
        stage = STAGES.get(action)
        if stage:
            line = Text()
            line.append("* " if result.get("changed") else "= ", style="green" if result.get("changed") else "dim")
            line.append(f"{stage:<8} ", style="bold")
            line.append(str(result.get("msg", "")))
            line.append(f"  {format_seconds(result.get('seconds', 0))}", style="dim")
            self._console.print(line, soft_wrap=True)


def print_pairs(console: Console, pairs: Iterable[tuple[str, str]]) -> None:
    """Titles in bold and their texts; a title that repeats itself is left out."""
    previous = ""
    for title, text in pairs:
        line = Text(f"  {title if title != previous else '':<10}", style="bold")
        line.append(text, style="not bold")
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
