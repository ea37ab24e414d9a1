"""Which builds a project knows to fail their probe: .modak/refusals.json."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from modak_ansible.errors import ModakError
from modak_ansible.model.base import Model
from modak_ansible.model.measured.refusal import Refusal
from modak_ansible.target.core.files import Lock, write_json

_FILE = "refusals.json"


class _Known(Model):
    schema_version: Literal["modak.refusals/1"] = "modak.refusals/1"
    refusals: tuple[Refusal, ...] = ()


def known_refusals(state: Path) -> tuple[Refusal, ...]:
    """What was refused before.

    Args:
        state: the state folder of a project.

    Raises:
        ModakError: the file is damaged.
    """
    path = state / _FILE
    try:
        data: Any = json.loads(path.read_text(encoding="utf-8"))
        return _Known(**data).refusals
    except FileNotFoundError:
        return ()
    except (OSError, ValueError, TypeError, ValidationError) as error:
        hint = "remove it: what was refused is then tried once more"
        raise ModakError(f"{path}, the list of refused builds, cannot be read", hint=hint) from error


def note_refusal(state: Path, refusal: Refusal) -> None:
    """Remembers a refusal in the place of an earlier one of the same build on the same target.

    Raises:
        ModakError: the file is damaged.
    """
    with _lock(state):
        others = [each for each in known_refusals(state) if not _is_same(each, refusal.entry, refusal.address)]
        _write(state, [*others, refusal])


def forget_refusals(state: Path, entry: str, address: str) -> None:
    """Has a build tried again on a target.

    Raises:
        ModakError: the file is damaged.
    """
    with _lock(state):
        known = known_refusals(state)
        others = [refusal for refusal in known if not _is_same(refusal, entry, address)]
        if len(others) < len(known):
            _write(state, others)


def _is_same(refusal: Refusal, entry: str, address: str) -> bool:
    return (refusal.entry, refusal.address) == (entry, address)


def _lock(state: Path) -> Lock:
    return Lock(state / f".{_FILE}.lock")


def _write(state: Path, refusals: list[Refusal]) -> None:
    ordered = sorted(refusals, key=lambda refusal: (refusal.entry, refusal.address))
    write_json(state / _FILE, _Known(refusals=tuple(ordered)).model_dump(mode="json"))
