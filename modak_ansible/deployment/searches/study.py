"""A search's study: optuna says what is tried next, and keeps what came of it in a journal."""

from __future__ import annotations

import statistics
import warnings
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from modak_ansible.model.search import Dimension, Search, Value

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution
    from optuna.storages.journal._file import BaseJournalFileLock
    from optuna.trial import FrozenTrial

# Of a trial, beside its values.
TRIAL_DEPLOYMENT, TRIAL_TRAINING, TRIAL_PRUNED, TRIAL_WHY = "deployment", "training", "pruned", "why"
# How many others have to have ended before one is cancelled for being worse than they were.
_OTHERS = 4
_DIGITS = 6  # of a number that is no whole one
_OVER = ("complete", "pruned", "fail")


@dataclass(frozen=True)
class Trial:
    """What is known of a trial."""

    number: int
    point: Mapping[str, Value]  # the values of its arguments
    state: str  # optuna's, in lower case: running, complete, pruned or fail
    value: float | None  # of the objective; None where there is none
    deployment: str
    training: str
    pruned: str  # why it is cancelled; empty where it is not
    why: str  # it has failed
    reported: Mapping[int, float]  # values by their places, while it ran

    @property
    def is_over(self) -> bool:
        return self.state in _OVER


class Study:
    """The trials of a search.

    Args:
        search: what is asked for.
        journal: the file that keeps them; whoever has it open has it alone.
    """

    def __init__(self, search: Search, journal: Path) -> None:
        import optuna  # noqa: PLC0415 - slow to import for whoever searches nothing
        from optuna.storages.journal import JournalFileBackend  # noqa: PLC0415

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._optuna, self._search = optuna, search
        self._space = {dimension.name: _distribution(dimension) for dimension in search.over}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            storage = optuna.storages.JournalStorage(
                JournalFileBackend(str(journal), lock_obj=cast("BaseJournalFileLock", _Alone()))
            )
        self._study = optuna.create_study(
            study_name="search", storage=storage, load_if_exists=True,
            direction="maximize" if search.rising else "minimize",
        )  # fmt: skip

    @property
    def trials(self) -> list[Trial]:
        """All that count: one whose deployment was not noted before the command ended does not."""
        trials = (self._trial_of(trial) for trial in self._study.get_trials(deepcopy=False))
        return [trial for trial in trials if trial.training]

    @property
    def best(self) -> Trial | None:
        """The best that is complete."""
        complete = [trial for trial in self.trials if trial.state == "complete" and trial.value is not None]
        sign = -1 if self._search.rising else 1
        return min(complete, key=lambda trial: sign * (trial.value or 0.0), default=None)

    def states(self) -> dict[str, int]:
        """How many trials are in each state."""
        return dict(Counter(trial.state for trial in self.trials))

    def ask(self) -> Trial:
        """Another trial.

        What it tries follows from the seed and from what the others came to, be the command killed in between or not.
        """
        self._forget()
        self._study.sampler = self._sampler()
        return self._trial_of(self._study._storage.get_trial(self._study.ask(self._space)._trial_id))

    def _forget(self) -> None:
        """Ends those that were chosen, and of which nothing was noted, for they have no deployment."""
        for trial in self._study.get_trials(deepcopy=False):
            if not trial.state.is_finished() and TRIAL_TRAINING not in trial.user_attrs:
                self._study.tell(trial.number, state=self._optuna.trial.TrialState.FAIL)

    def _sampler(self) -> Any:
        seed = self._search.seed * 1_000_003 + len(self.trials)
        if self._search.sampler == "random":
            return self._optuna.samplers.RandomSampler(seed=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", self._optuna.exceptions.ExperimentalWarning)
            return self._optuna.samplers.TPESampler(seed=seed, constant_liar=True)

    def keep(self, trial: Trial, name: str, text: str) -> None:
        """Notes something about a trial."""
        storage = self._study._storage
        storage.set_trial_user_attr(self._frozen(trial)._trial_id, name, text)

    def report(self, trial: Trial, place: int, value: float) -> None:
        """Takes what a trial that runs has come to."""
        if place not in trial.reported:
            self._study._storage.set_trial_intermediate_value(self._frozen(trial)._trial_id, place, value)

    def tell(self, trial: Trial, state: str, value: float | None = None, why: str = "") -> None:
        """Ends a trial: complete with a value, pruned, or fail."""
        if why:
            self.keep(trial, TRIAL_WHY, why)
        self._study.tell(trial.number, value, state=self._optuna.trial.TrialState[state.upper()])

    def _frozen(self, trial: Trial) -> FrozenTrial:
        return self._study.get_trials(deepcopy=False)[trial.number]

    def _trial_of(self, frozen: FrozenTrial) -> Trial:
        attributes = frozen.user_attrs
        return Trial(
            number=frozen.number,
            point={
                dimension.name: _argument(dimension, frozen.params[dimension.name]) for dimension in self._search.over
            }
            if len(frozen.params) == len(self._search.over)
            else {},
            state=frozen.state.name.lower(),
            value=frozen.value if frozen.state.name == "COMPLETE" else None,
            deployment=attributes.get(TRIAL_DEPLOYMENT, ""),
            training=attributes.get(TRIAL_TRAINING, ""),
            pruned=attributes.get(TRIAL_PRUNED, ""),
            why=attributes.get(TRIAL_WHY, ""),
            reported=dict(frozen.intermediate_values),
        )


def behind_median(own_values: Mapping[int, float], peers: list[Mapping[float, float]], *, rising: bool) -> float | None:
    """The median of what others had come to where a trial is now, if its best until now is worse; else None.

    Args:
        own_values: of a trial by their places.
        peers: the same of those that have ended.
        rising: whether more is better.
    """
    if not own_values:
        return None
    place = max(own_values)
    peer_values = [peer[max(before)] for peer in peers if (before := [point for point in peer if point <= place])]
    if len(peer_values) < _OTHERS:
        return None
    best = (max if rising else min)(own_values.values())
    median = statistics.median(peer_values)
    return median if (best < median if rising else best > median) else None


class _Alone:
    """No lock: whoever has the search has its journal alone, and a lock that is a file outlives who was killed."""

    def acquire(self) -> bool:
        return True

    def release(self) -> None:
        """There is nothing to be released."""


def _distribution(dimension: Dimension) -> BaseDistribution:
    from optuna.distributions import (  # noqa: PLC0415
        CategoricalDistribution,
        FloatDistribution,
        IntDistribution,
    )

    if dimension.choices:
        return CategoricalDistribution(dimension.choices)
    if dimension.is_whole:
        return IntDistribution(
            int(dimension.low), int(dimension.high), log=dimension.log, step=int(dimension.step or 1)
        )
    return FloatDistribution(dimension.low, dimension.high, log=dimension.log, step=dimension.step)


def _argument(dimension: Dimension, value: Any) -> Value:
    """A value as the training is given it."""
    if isinstance(value, (bool, str)):
        return value
    return str(value) if dimension.is_whole else f"{value:.{_DIGITS}g}"
