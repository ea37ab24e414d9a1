"""Fits the performance model: a regularised linear regression of logarithms for each part of a run.

Every coefficient has a normal prior around nought, whose standard deviation is shared by its group of features. The
groups' deviations, that of the rounds and that of a single run are those which make the measured times most probable
(maximum a posteriori, with a broad prior of their own around what such effects usually are); with them the
regression is a ridge regression, and the posterior's covariance gives the intervals. Each round has a
coefficient of its own, and so has what one configuration does on one day: a slow hour of the machine is the round's, a
day on which the kernel gives pages slowly is that of whoever asks for many, and what is left identifies the switches.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from modak_ansible.errors import ModakError
from modak_ansible.model.measured.record import Record
from modak_ansible.model.measured.work import Work
from modak_ansible.performance.features import DAY, FEATURES_OF, Feature, usual_group
from modak_ansible.performance.fit.calibration import calibration
from modak_ansible.performance.fit.cases import Case, cases, work_of
from modak_ansible.performance.fit.machines import machines
from modak_ansible.performance.series import series
from modak_ansible.performance.stored import UNIT, Machine, Part, Stored
from modak_ansible.performance.together import together

# How large effects usually are, as standard deviations of logarithms; what the records say counts for more.
USUAL = {
    "all": 3.0,
    "framework": 0.7,
    "entry": 0.4,
    "container": 0.5,
    # Rooflines have each machine's own speeds: what they leave of five machines differs by 0.03. Where it is taken for
    # much more than that, one run on a new machine moves all others there by its own luck.
    "machine": 0.1,
    "machine not measured": 0.35,
    "framework on machine": 0.1,
    # how fast a process starts is in no roofline
    "process on machine": 0.35,
    "workload on machine": 0.15,
    "configuration on machine": 0.1,
    # a Zen 4's stock training took 141 ms a step on one day, and 174 two days later on another host
    DAY: 0.1,
    "balance": 0.1,
    "workload": 0.5,
    "framework in workload": 0.2,
    "size": 0.3,
    # what memory takes besides the arithmetic: a law would have 1 here
    "roofline": 1.0,
    "framework and size": 0.1,
    "threads": 0.2,
    "switch": 0.4,
    "switch and size": 0.1,
    # two machines multiply in bf16 at twice the speed of single precision, and one at half of it
    "format not measured": 0.7,
    "switch in version": 0.15,
    "switch in build": 0.2,
    "switch in workload": 0.15,
    "pair": 0.1,
    "round": 0.05,
    # On a Zen 4's second day 68 configurations were 5 % slower in the middle, and 0.12 around that; single runs 0.09.
    "configuration that day": 0.05,
    "noise": 0.08,
}
# Of the past alone: no coefficient of these is part of a model, and a new run has one that nobody knows.
_PASSING = ("round", "configuration that day")
_FIXED = {"all"}
# A compiler may cost a factor of seven on one machine and nothing on others: such an exception is the switch's own, and
# no reason to think otherwise of all that runs there. Student's distribution has room for it.
_EXCEPTIONAL = {"switch in workload"}
_FREEDOM = 4.0
_WIDENINGS = 3
_BREADTH = 0.7  # standard deviation of the logarithm of a group's deviation around what is usual
_FARTHEST = 3.0  # of that logarithm from the usual: a factor of 20, so that a step of the search stays computable
_LEAST_RUNS = 3


@dataclass(frozen=True)
class Spreads:
    """Standard deviations of the groups of features, of rounds, and of the runs of each framework.

    ``calibration`` is that of a part; None where it is to be found.
    """

    groups: dict[str, float]
    noise: dict[str, float]
    calibration: dict[str, float] | None = None


def fit(records: Iterable[Record], works: Mapping[str, Work]) -> Stored:
    """The model of some records.

    Raises:
        ModakError: there is no training among them that can be used.
    """
    every = list(records)
    known = tuple(machine for machine in machines(every) if machine.peaks)  # of others no training can be compared
    stored = fit_cases(cases(every, works, known), known, works)
    parts = {name: part.model_copy(update=_rounded(part)) for name, part in stored.parts.items()}
    return stored.model_copy(update={"scaling": series(every), "parts": parts})


def fit_cases(
    found: Sequence[Case],
    known: tuple[Machine, ...],
    works: Mapping[str, Work],
    *,
    names: Iterable[str] = tuple(FEATURES_OF),
    spreads: Mapping[str, Spreads] | None = None,
) -> Stored:
    """The model of some measured trainings.

    Args:
        names: of the parts that are fitted.
        spreads: of each part, where they are known already; found from the trainings otherwise.

    Raises:
        ModakError: there is no training.
    """
    if not found:
        raise ModakError(
            "there is nothing to fit: no training of a known workload was measured on a machine with a measured peak",
            hint="modak bench run today-cpu measures some, with the machine's peak",
        )
    parts = {}
    with _libraries().limit(limits=1):  # threads would only wait for each other, and sum in another order
        for name in names:
            members = [case for case in found if name in case.answers]
            if len(members) >= _LEAST_RUNS:
                parts[name] = fit_part(name, members, spreads=(spreads or {}).get(name))
    return Stored(
        records=len(found),
        records_digest=digest(case.record for case in found),
        workloads=_workloads(found, works),
        machines=known,
        together=together(case.facts for case in found),
        parts=parts,
    )


@cache
def _libraries() -> Any:
    """What is loaded of that computes with threads; to find it takes longer than a small fit."""
    import scipy.optimize  # noqa: PLC0415, F401 - only the threads of what is loaded are limited
    from threadpoolctl import ThreadpoolController  # noqa: PLC0415 - it comes with scikit-learn

    return ThreadpoolController()


def spreads_of(stored: Stored) -> dict[str, Spreads]:
    """The standard deviations that a model was fitted with, by part."""
    return {
        name: Spreads({**part.spread, **part.passing}, dict(part.noise), part.calibration)
        for name, part in stored.parts.items()
    }


def digest(records: Iterable[Record]) -> str:
    """SHA-256 that names a set of records, in whatever order and files."""
    lines = sorted(record.model_dump_json(by_alias=True, exclude_defaults=True) for record in records)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def fit_part(name: str, members: Sequence[Case], spreads: Spreads | None = None) -> Part:
    import numpy as np  # noqa: PLC0415 - planning never fits

    features = [FEATURES_OF[name](member.facts) for member in members]
    design = _Design(features, [member.passing for member in members])
    answers = np.array([member.answers[name] for member in members])
    frameworks = [member.facts.framework for member in members]
    chosen = spreads or most_probable(design, answers, frameworks)
    scale = np.array([chosen.groups.get(group, USUAL[usual_group(group)]) for group in design.groups])
    noise = np.array([chosen.noise.get(framework, USUAL["noise"]) for framework in frameworks])
    kept = len(design.names) - design.passing
    passing, matrix = (design.matrix * scale)[:, kept:], design.matrix[:, :kept]
    precision = np.linalg.inv(passing @ passing.T + np.diag(noise**2))  # of runs that have a moment in common
    scale, may_be_odd = scale[:kept], design.has_exceptions[:kept]
    mean, covariance, scaled = _posterior(matrix, answers, scale, precision)
    for _ in range(_WIDENINGS):  # expectation and maximisation, for the prior of Student
        far = (mean**2 + np.diag(covariance)) / scale**2
        wider = np.where(may_be_odd, np.sqrt((_FREEDOM + far) / (_FREEDOM + 1)), 1.0)
        mean, covariance, scaled = _posterior(matrix, answers, scale * wider, precision)
    factors = chosen.calibration
    if factors is None and name == "step":
        factors = calibration(members, answers, scaled, passing, noise)
    deviations = np.sqrt(np.diag(covariance))
    correlations = covariance / np.outer(deviations, deviations)
    used = {group: spread for group, spread in chosen.groups.items() if group not in _PASSING}
    return Part(
        names=tuple(design.names[:kept]),
        groups=tuple(design.groups[:kept]),
        mean=tuple(mean.tolist()),
        deviations=tuple(deviations.tolist()),
        correlations=tuple(tuple(row[:place]) for place, row in enumerate(correlations.tolist())),
        counts=tuple((matrix != 0).sum(axis=0).tolist()),
        spread=dict(sorted({**_usual(), **used}.items())),
        noise={"": USUAL["noise"], **chosen.noise},
        calibration=factors or {},
        passing={group: chosen.groups.get(group, 0.0) for group in _PASSING},
        runs=len(members),
    )


def _posterior(matrix: Any, answers: Any, scale: Any, precision: Any) -> tuple[Any, Any, Any]:
    """Mean and covariance of the coefficients, and the matrix in units of their standard deviations.

    Args:
        precision: the inverse of the covariance of the runs' own errors.
    """
    import numpy as np  # noqa: PLC0415

    scaled = matrix * scale
    weighted = scaled.T @ precision
    inverse = np.linalg.inv(np.eye(len(scale)) + weighted @ scaled)
    return inverse @ (weighted @ answers) * scale, inverse * np.outer(scale, scale), scaled


class _Design:
    """The matrix of features, those of the past alone last."""

    def __init__(self, features: Sequence[Sequence[Feature]], past: Sequence[Mapping[str, Hashable]]) -> None:
        import numpy as np  # noqa: PLC0415

        groups = dict(sorted({name: group for row in features for group, name, _ in row}.items()))
        passing = sorted({each for row in past for each in row.items()}, key=repr)
        self.names = [*groups, *map(repr, passing)]
        self.groups = [*groups.values(), *(group for group, _ in passing)]
        self.passing = len(passing)
        self.has_exceptions = np.array([usual_group(group) in _EXCEPTIONAL for group in self.groups])
        column = {name: place for place, name in enumerate(self.names)}
        self.matrix = np.zeros((len(features), len(self.names)))
        for place, row in enumerate(features):
            for _, name, value in row:
                self.matrix[place, column[name]] = value
        for place, moments in enumerate(past):
            for moment in moments.items():
                self.matrix[place, column[repr(moment)]] = 1.0


def most_probable(design: _Design, answers: Any, frameworks: Sequence[str]) -> Spreads:
    """The standard deviations that explain the measured times best, with the usual ones as their prior."""
    import numpy as np  # noqa: PLC0415
    from scipy.linalg.blas import dsymv  # noqa: PLC0415
    from scipy.linalg.lapack import dpotrf, dpotri  # noqa: PLC0415
    from scipy.optimize import minimize  # noqa: PLC0415
    from scipy.sparse import csr_array  # noqa: PLC0415

    groups = [group for group in sorted(set(design.groups)) if group not in _FIXED]
    runners = sorted(set(frameworks))
    noises = np.array([[float(framework == runner) for framework in frameworks] for runner in runners])
    triangle = _Triangle(len(answers))
    kernels = csr_array(np.array([triangle.of(_kernel(design, group)) for group in groups]))
    fixed = triangle.of(sum((USUAL[each] ** 2 * _kernel(design, each) for each in _FIXED), triangle.matrix))
    usual = np.log([*(USUAL[usual_group(group)] for group in groups), *(USUAL["noise"] for _ in runners)])

    def loss(logarithms: Any) -> tuple[float, Any]:
        variances = np.exp(2 * logarithms)
        covariance = fixed + variances[: len(groups)] @ kernels
        covariance[triangle.diagonal] += variances[len(groups) :] @ noises
        # of Cholesky's factor come the determinant and the inverse, which takes its place
        factor, _ = dpotrf(triangle.filled(covariance), lower=1, overwrite_a=1)
        determinant = np.log(np.diag(factor)).sum()
        inverse, _ = dpotri(factor, lower=1, overwrite_c=1)
        weighted = dsymv(1.0, inverse, answers, lower=1)
        away = (logarithms - usual) / _BREADTH
        value = 0.5 * answers @ weighted + determinant + 0.5 * away @ away
        steep = triangle.of(inverse) - weighted[triangle.rows] * weighted[triangle.columns]
        slope = variances * np.concatenate([kernels @ (triangle.times * steep), noises @ steep[triangle.diagonal]])
        return float(value), slope + away / _BREADTH

    bounds = [(each - _FARTHEST, each + _FARTHEST) for each in usual]
    options = {"maxiter": 200, "ftol": 1e-6}
    best = minimize(loss, usual, jac=True, method="L-BFGS-B", bounds=bounds, options=options).x
    values = [float(f"{each:.3g}") for each in np.exp(best)]
    return Spreads(dict(zip(groups, values, strict=False)), dict(zip(runners, values[len(groups) :], strict=True)))


class _Triangle:
    """The lower triangle of symmetric matrices, column by column: the half of each is all that LAPACK reads.

    Attributes:
        rows, columns, diagonal: of a triangle's elements, and which of them are of the diagonal.
        times: how often each stands in the matrix.
        matrix: one of noughts, which is filled again and again.
    """

    def __init__(self, size: int) -> None:
        import numpy as np  # noqa: PLC0415

        self.columns, self.rows = np.triu_indices(size)
        self.diagonal = np.flatnonzero(self.rows == self.columns)
        self.times = np.where(self.rows == self.columns, 1.0, 2.0)
        self.matrix = np.zeros((size, size), order="F")

    def of(self, matrix: Any) -> Any:
        return matrix[self.rows, self.columns]

    def filled(self, triangle: Any) -> Any:
        self.matrix[self.rows, self.columns] = triangle
        return self.matrix


def _kernel(design: _Design, group: str) -> Any:
    columns = design.matrix[:, [place for place, each in enumerate(design.groups) if each == group]]
    return columns @ columns.T


def _rounded(part: Part) -> dict[str, object]:
    """What a file need not say to the last digit."""
    return {
        "mean": tuple(float(f"{value:.6g}") for value in part.mean),
        "deviations": tuple(float(f"{value:.6g}") for value in part.deviations),
        "correlations": tuple(map(_whole, part.correlations)),
        "calibration": {kind: float(f"{factor:.3g}") for kind, factor in part.calibration.items()},
    }


def _whole(row: str | tuple[float, ...]) -> str:
    """A row of correlations as a file has it."""
    if isinstance(row, str):
        return row
    numbers = (round(value * UNIT) for value in row)
    return " ".join(str(number if abs(number) > 1 else 0) for number in numbers)  # a third of them: files are smaller


def _usual() -> dict[str, float]:
    return {group: value for group, value in USUAL.items() if group not in {*_PASSING, "noise"}}


def _workloads(found: Iterable[Case], works: Mapping[str, Work]) -> dict[str, Work]:
    """What each workload of the records computes, as its newest record had it; the size of the run is the run's own."""
    known = {case.work.workload: work_of(case.record, works) for case in found}
    return {name: work.model_copy(update={"samples": None, "epochs": None}) for name, work in sorted(known.items())}
