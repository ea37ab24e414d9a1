"""Which builds a project knows not to serve on a target: .modak/refusals.json."""

from __future__ import annotations

from pathlib import Path

from modak_ansible.errors import ModakError
from modak_ansible.model.measured.refusal import Refusal
from modak_ansible.store.lists.kept_list import KeptList

_REFUSALS = KeptList(
    Refusal,
    "refusals",
    lambda refusal: (refusal.entry, refusal.address, str(refusal.container), refusal.lacks),
    lambda path: ModakError(
        f"{path}, the list of refused builds, cannot be read",
        hint="remove it: what was refused is then tried once more",
    ),
)


def known_refusals(state: Path) -> tuple[Refusal, ...]:
    """What was refused before.

    Raises:
        ModakError: the file is damaged.
    """
    return _REFUSALS.read(state)


def note_refusal(state: Path, refusal: Refusal) -> None:
    """Remembers a refusal in the place of an earlier one of the same build on the same target.

    Raises:
        ModakError: the file is damaged.
    """
    _REFUSALS.put(state, refusal)


def forget_refusals(state: Path, entry: str, address: str) -> None:
    """Has a build tried again on a target.

    Raises:
        ModakError: the file is damaged.
    """
    _REFUSALS.forget(state, lambda refusal: (refusal.entry, refusal.address) == (entry, address))
