"""The known end of a deployment's job, kept beside its markers: a scheduler forgets, or does not answer."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict, fields
from pathlib import Path

from ..core.files import NO_ROOM, read_json, write_json
from .situation import Situation

_FILE = "end.json"
_FIELDS = {field.name for field in fields(Situation)}
# Of a situation, what is looked up anew each time.
_FRESH = ("error_tail", "attempt")


def known_end(state: Path, now: Situation) -> Situation | None:
    """How a job was known to have ended; None where that is not known, or of another job, or of another run of it.

    Args:
        state: the folder of its markers.
        now: what they say; all that is newer than the end is taken from it.
    """
    noted = read_json(state / _FILE) or {}
    found = {name: value for name, value in noted.items() if name in _FIELDS and name not in _FRESH}
    if not found or (found.get("job_id"), found.get("started")) != (now.job_id, now.started):
        return None
    try:
        end = Situation(**{**asdict(now), **found})
        return end if end.is_final else None
    except TypeError:  # it is damaged
        return None


def note_end(state: Path, situation: Situation) -> None:
    """Notes how a job ended; of one that lives nothing is noted any more."""
    path = state / _FILE
    if not situation.is_final:
        with suppress(FileNotFoundError):
            path.unlink()
        return
    noted = {name: value for name, value in asdict(situation).items() if name not in _FRESH}
    if read_json(path) != noted:
        try:
            write_json(path, noted)
        except OSError as error:
            if error.errno not in NO_ROOM:
                raise
