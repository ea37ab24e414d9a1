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
        hint="remove it: refused builds are then tried again",
    ),
)
known_refusals, note_refusal = _REFUSALS.read, _REFUSALS.put


def forget_refusals(state: Path, entry: str, address: str) -> None:
    """Has a build tried again on a target."""
    _REFUSALS.forget(state, lambda refusal: (refusal.entry, refusal.address) == (entry, address))
