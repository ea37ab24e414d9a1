"""What a job writes, shown while it is watched."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from modak_ansible.stages.jobs.members import Member
from modak_ansible.store.logs import note_look
from modak_ansible.target.core.files import as_shown, without_controls
from modak_ansible.target.jobs.campaign import JobRequest

# What is shown of a line, in characters, of what came since the last look, in lines, and of what a job wrote before its
# end was seen, in bytes. Nobody reads more, and each line goes through Ansible: 10 MB took minutes.
_LINE = 2000
_LINES = 200
_DRAIN = 4 << 20


class Output:
    """A log of a job, read on as it grows.

    Args:
        member: whose job's.
        call: has the target's module do something, as :meth:`Campaign.call`.
        log: which one.
        offset: how many bytes of it are left out.
        is_whole: whether every line is asked for, however many there are.
    """

    def __init__(
        self,
        member: Member,
        call: Callable[..., Any],
        log: str = "output.log",
        offset: int = 0,
        *,
        is_whole: bool = False,
    ) -> None:
        self._member, self._call, self._log, self._offset, self._is_whole = member, call, log, offset, is_whole
        self._said = ""

    def say_state(self) -> None:
        """Says how the job is, where that is news."""
        words = self._member.status.situation.words
        if words != self._said:
            self._member.stage.tell("job", words)
            self._said = words

    def read(self, requests: Sequence[JobRequest], seconds: float) -> Any:
        """Waits for news or for more of the log, shows that, and gives what the module answered."""
        stage = self._member.stage
        answer = self._call("watch", requests, log=self._log, offset=self._offset, seconds=seconds)
        lines = _shown_lines(answer["output"])
        if len(lines) > _LINES and not self._is_whole:
            stage.say(f"{len(lines) - _LINES:,} lines that came at once are in {self._log}")
            lines = lines[-_LINES:]
        for line in lines:
            stage.say(line[:_LINE])
        self._offset = answer["offset"]
        note_look(stage.folder, self._member.status.situation.job_id, self._log, self._offset)
        return answer

    def drain(self) -> None:
        """Shows the rest of what a job wrote that has ended, and how it ended."""
        situation, began = self._member.status.situation, self._offset
        if not situation.is_living:
            requests = [JobRequest(self._member.name, state=situation.state)]
            before = -1
            while before != self._offset and self._offset - began <= _DRAIN:
                before = self._offset
                self.read(requests, 0)
            if self._offset - began > _DRAIN:
                self._member.stage.say(f"the rest of what it wrote comes in {self._log}")
        self._member.stage.say(situation.words)


def _shown_lines(output: str) -> list[str]:
    """The lines of a terminal that are not empty, without colours."""
    return [line for line in as_shown(without_controls(output)) if line]
