"""How wide intervals have to be to hold what they say: conformal prediction, by what was left out.

Every group of trainings (a configuration, a workload, a machine) is predicted from all others with the spreads of the
whole, and the errors are counted in predicted standard deviations. The factor of a kind is what makes nine of ten of
its groups' configurations lie in their interval. It is found from the very trainings that a fold was given.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from itertools import accumulate
from statistics import median
from typing import Any

from modak_ansible.model.measured.prediction import LEVEL, SIGMAS
from modak_ansible.performance.features import Facts
from modak_ansible.performance.fit.cases import Case, configuration_of

LEFT_OUT: Mapping[str, Callable[[Case], Hashable]] = {
    "configurations": configuration_of,
    "workloads": lambda case: case.facts.workload,
    "machines": lambda case: case.facts.machine,
}
_LEAST_GROUPS = 3  # of fewer one is no guide to another


def calibration(members: Sequence[Case], answers: Any, matrix: Any, passing: Any, noise: Any) -> dict[str, float]:
    """The factor on the standard deviation of a new run, by kind; no kind of which there are too few.

    Args:
        answers: logarithms, as many as members.
        matrix: features of the members, each times its group's standard deviation.
        passing: those of the past alone, in the same way.
        noise: standard deviation of each member's run.
    """
    import numpy as np  # noqa: PLC0415 - planning never fits

    shared = matrix @ matrix.T
    inverse = np.linalg.inv(shared + passing @ passing.T + np.diag(noise**2))
    own = noise**2 + (passing**2).sum(axis=1)
    found = {}
    for kind, key in LEFT_OUT.items():
        groups: dict[Hashable, list[int]] = {}
        for place, member in enumerate(members):
            groups.setdefault(key(member), []).append(place)
        if len(groups) < _LEAST_GROUPS:
            continue
        scores = [_scores(members, answers, shared, inverse, own, gone, kind) for gone in groups.values()]
        found[kind] = _quantile(list(filter(None, scores))) / SIGMAS
    return found


def left_out_once(kind: str, facts: Facts, others: Iterable[Case]) -> bool:
    """Whether a machine's work ran elsewhere by that framework: else more than the machine is unknown."""
    work = facts.workload, facts.framework
    return kind != "machines" or any((each.facts.workload, each.facts.framework) == work for each in others)


def _scores(
    members: Sequence[Case], answers: Any, shared: Any, inverse: Any, own: Any, gone: Sequence[int], kind: str
) -> list[float]:
    """Errors of a group's configurations, in standard deviations of a run, where the group was left out."""
    import numpy as np  # noqa: PLC0415

    known = shared[gone]
    known[:, gone] = 0.0
    across = known @ inverse
    weights = across - across[:, gone] @ np.linalg.solve(inverse[np.ix_(gone, gone)], inverse[gone])  # 0 where gone
    mean = weights @ answers
    variance = own[gone] + np.diag(shared)[gone] - np.einsum("ij,ij->i", weights, known)
    configurations: dict[Hashable, list[int]] = {}
    left = set(gone)
    others = [each for place, each in enumerate(members) if place not in left]
    for number, place in enumerate(gone):
        configurations.setdefault(configuration_of(members[place]), []).append(number)
    return [
        abs(median(answers[gone[run]] for run in runs) - mean[runs[0]]) / variance[runs[0]] ** 0.5
        for runs in configurations.values()
        if left_out_once(kind, members[gone[runs[0]]].facts, others)
    ]


def _quantile(groups: Sequence[Sequence[float]]) -> float:
    """What as many new scores stay under as the level of intervals says, whatever their distribution.

    Each group counts as much as another: what is left out is a whole one, and two fifths of the configurations are of
    one machine.
    """
    scores = sorted((score, 1 / len(group)) for group in groups for score in group)
    wanted = LEVEL * len(groups) * (len(scores) + 1) / len(scores)
    within = accumulate(weight for _, weight in scores)
    return next((score for (score, _), total in zip(scores, within, strict=True) if total >= wanted), scores[-1][0])
