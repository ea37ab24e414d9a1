"""Collects every mistake, so that a user mends them all at once."""

from __future__ import annotations

from collections.abc import Iterator

from modak_ansible.errors import InvalidBlueprint, Location, Mistake

# The rule of a warning about a preference that a plan does not keep.
NOT_KEPT = "not-kept"


class Mistakes:
    """What was found so far."""

    def __init__(self) -> None:
        self._mistakes: dict[tuple[Location, str, str], Mistake] = {}

    def __len__(self) -> int:
        return len(self._mistakes)

    def __iter__(self) -> Iterator[Mistake]:
        return iter(
            sorted(self._mistakes.values(), key=lambda mistake: (mistake.location, mistake.rule, mistake.message))
        )

    def add(self, location: Location, rule: str, message: str, hint: str = "") -> None:
        """Notes one mistake; the same one at the same place counts once."""
        self._mistakes.setdefault((location, rule, message), Mistake(location, rule, message, hint))

    def has_rule_at(self, location: Location, start: str) -> bool:
        """Whether something is noted of a place by a rule whose name begins so."""
        return any(place == location and rule.startswith(start) for place, rule, _ in self._mistakes)

    def raise_if_any(self) -> None:
        """
        Raises:
            InvalidBlueprint: with all of them, in the order of the file.
        """
        if self._mistakes:
            raise InvalidBlueprint(list(self._mistakes.values()))
