"""Which switches were measured together, and what of a configuration may be promised where some never were.

Effects of switches are factors, and two that remove the same loss would remove it twice. Which ones do, nobody knows
before they ran together. So where a record has all of a configuration's build and switches, in any work, it is
predicted as it is; where none has, only those of its gains count that ran together with each other and with what slows
it down: the best of such parts.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import combinations

from modak_ansible.performance.features import Facts

Sets = Mapping[str, tuple[tuple[str, ...], ...]]


def together(all_facts: Iterable[Facts]) -> dict[str, tuple[tuple[str, ...], ...]]:
    """The largest sets of a build and switches that ran together, by framework with version, in a fixed order."""
    sets: dict[str, set[frozenset[str]]] = {}
    for facts in all_facts:
        sets.setdefault(_place(facts), set()).add(frozenset([_build(facts), *_named(facts.switches)]))
    return {
        place: tuple(
            sorted(tuple(sorted(member)) for member in members if not any(member < another for another in members))
        )
        for place, members in sorted(sets.items())
    }


class Combinations:
    """What the records have of switches together.

    Args:
        sets: as :func:`together` gives them.
    """

    def __init__(self, sets: Sets) -> None:
        self._sets: dict[str, list[frozenset[str]]] = {}
        for place, members in sets.items():
            for place_or_framework in {place, place.partition(" ")[0]}:  # of a version, and of one that nobody says
                self._sets.setdefault(place_or_framework, []).extend(map(frozenset, members))
        self._single = {place: frozenset().union(*members) for place, members in self._sets.items()}

    def uncounted(self, facts: Facts, seconds: Callable[[Facts], float]) -> tuple[str, ...]:
        """The switches whose gain does not count beside the others, by name; none where all is on record.

        What nobody measured even alone is not among them: it is not known for other reasons.

        Args:
            seconds: of a step (or their logarithm) with other switches.
        """
        place = _place(facts)
        single = self._single.get(place, frozenset())
        counted = {name: value for name, value in facts.switches.items() if f"{name}={value}" in single}
        build = [_build(facts)] if _build(facts) in single else []
        if len(counted) + len(build) < 2 or self._has(place, [*build, *_named(counted)]):
            return ()

        def of(names: Collection[str]) -> float:
            remaining = {name: value for name, value in facts.switches.items() if name not in counted or name in names}
            return seconds(facts._replace(switches=remaining))

        stock = of(())
        losses = [name for name in counted if of((name,)) >= stock]
        gains = [name for name in counted if name not in losses]
        best = min(self._parts(place, build, counted, gains, losses), key=lambda part: of((*part, *losses)))
        return tuple(name for name in gains if name not in best) if of((*best, *losses)) > of(counted) else ()

    def _parts(
        self, place: str, build: list[str], switches: Mapping[str, str], gains: list[str], losses: list[str]
    ) -> Iterator[tuple[str, ...]]:
        """Gains that ran together with each other and with every loss; the larger parts first."""
        for size in range(len(gains), -1, -1):
            for part in combinations(gains, size):
                names = [*build, *(f"{name}={switches[name]}" for name in part)]
                if not part or all(
                    self._has(place, [*names, f"{name}={switches[name]}"]) for name in losses or part[:1]
                ):
                    yield part

    def _has(self, place: str, names: Iterable[str]) -> bool:
        names = frozenset(names)
        return any(names <= members for members in self._sets.get(place, ()))


def _place(facts: Facts) -> str:
    return f"{facts.framework} {facts.version}".rstrip()


def _build(facts: Facts) -> str:
    return f"entry={facts.entry}"


def _named(switches: Mapping[str, str]) -> list[str]:
    return [f"{name}={value}" for name, value in switches.items()]
