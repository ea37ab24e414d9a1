"""The reasons of a plan: for every optimisation what was taken, what was not, and the nearest whole configurations."""

from __future__ import annotations

from modak_ansible.model.measured.prediction import Gain, Interval, Prediction
from modak_ansible.model.plan import Candidate, Choice, Rejected
from modak_ansible.optimisations.base import NUMERICS, CannotPlan, Optimisation, Option
from modak_ansible.planning.comparison import UNKNOWN, Weighing
from modak_ansible.planning.configurations import IMAGE, MOVES, Configuration, Configurations

_NEAREST = 4
_ALONE = UNKNOWN.model_copy(update={"why": "it cannot be combined with the rest of the plan"})


class Teller:
    """Tells of one choice.

    Args:
        configurations: all of the request.
        weighing: compares them.
        best: the one that was chosen.
        stock: what a run without this project would have.
        builds: the best configuration of every build.
    """

    def __init__(
        self,
        configurations: Configurations,
        weighing: Weighing,
        best: Configuration,
        stock: Configuration,
        builds: list[Configuration],
    ) -> None:
        self._configurations = configurations
        self._weighing = weighing
        self._best = best
        self._stock = stock
        self._builds = {configuration.build: configuration for configuration in builds}
        self._changed: dict[tuple[str, str], Configuration | None] = {}

    # --- choices

    def choices(self) -> tuple[Choice, ...]:
        """One for every optimisation that there is something to say of."""
        optimisations = (self._configurations.image, *self._configurations.optimisations)
        return tuple(
            self._choice(optimisation) for optimisation in optimisations if optimisation.name in self._best.values
        )

    def _choice(self, optimisation: Optimisation) -> Choice:
        best, name = self._best, optimisation.name
        options, option_taken = best.options[name], best.option(name)
        gain = None
        if name != IMAGE and option_taken.value != options[0].value:
            stock = self._with(optimisation, options[0].value)
            gain = self._weighing.gain(stock, best) if stock else None
        known_gain = gain if gain and gain.known else None
        return Choice(
            name=name,
            value=option_taken.value,
            reason=self._reason(optimisation, option_taken),
            numerics=option_taken.numerics,
            stock=options[0].value,
            reaches=optimisation.acts_on,
            speed=rounded(known_gain.ratio) if known_gain else None,
            records=known_gain.records if known_gain else 0,
            evidence=optimisation.evidence(best.draft),
            rejected=tuple(
                self._rejected(optimisation, option) for option in options if option.value != option_taken.value
            ),
        )

    def _reason(self, optimisation: Optimisation, option: Option) -> str:
        draft = self._configurations.start if optimisation.name == IMAGE else self._best.draft
        if optimisation.requested(draft):
            return "asked for"
        default = optimisation.default(draft)
        if default and default.value == option.value:
            return default.reason
        return option.reason or "nothing else that is permitted is known to be faster here"

    def _rejected(self, optimisation: Optimisation, option: Option) -> Rejected:
        gain = self._gain(optimisation, option)
        known_gain = gain if gain and gain.known else None
        return Rejected(
            value=option.value,
            reason=self._why_rejected(optimisation, option, gain),
            speed=rounded(known_gain.ratio) if known_gain else None,
            records=known_gain.records if known_gain else 0,
        )

    def _gain(self, optimisation: Optimisation, option: Option) -> Gain | None:
        """Of an option over the one that was taken; None where it cannot be had, and nothing would tell of it."""
        if optimisation.name == IMAGE:
            other = self._builds.get(option.value)
            return self._weighing.gain(self._best, other) if other else None
        if not option.why_not:
            changed = self._with(optimisation, option.value)
            return self._weighing.gain(self._best, changed) if changed else _ALONE
        question, model = optimisation.counterfactual(self._best.draft, option.value), self._weighing.model
        return model.gain(self._best.question, question) if model and question else None

    def _why_rejected(self, optimisation: Optimisation, option: Option, gain: Gain | None) -> str:
        if option.why_not:
            return option.why_not
        draft, value = self._best.draft, self._best.values[optimisation.name]
        own = optimisation.why_other(option.value, value, draft)
        if not self._configurations.permits(option):
            return own or f"it {MOVES[option.numerics]}, and numerics: {self._configurations.allowed} is asked for"
        default = None if optimisation.name == IMAGE else optimisation.default(draft)
        if default is not None and default.value == value:
            return own or f"good practice prefers {value}"
        if gain is None or not gain.known:
            return own or (gain.why if gain and gain.why else UNKNOWN.why)
        if gain.ratio.high < 1:
            return "slower here"
        if gain.apart and not gain.is_faster():
            return gain.apart
        return "faster, but not what is asked for" if gain.is_faster() else "no difference beyond noise"

    def _with(self, optimisation: Optimisation, value: str) -> Configuration | None:
        """What was chosen, with another value of one optimisation, whether or not it may be taken; None where nothing
        can be planned with it, as where a training fits in no way into memory."""
        key = (optimisation.name, value)
        if key not in self._changed:
            values = {**self._best.values, optimisation.name: value}
            try:
                self._changed[key] = self._configurations.exactly(self._best.build, values)
            except CannotPlan:
                self._changed[key] = None
        return self._changed[key]

    # --- candidates

    def candidates(self) -> tuple[Candidate, ...]:
        """The chosen one, stock, and those that come nearest."""
        best = self._best
        configurations = [build for build in self._builds.values() if build is not best]
        for optimisation in self._configurations.optimisations:
            for option in best.options.get(optimisation.name, ()):
                if option.why_not or option.value == best.values[optimisation.name]:
                    continue
                if other := self._with(optimisation, option.value):
                    configurations.append(other)
        gains = [(self._weighing.gain(best, other), other) for other in configurations]
        near = [
            (gain, configuration)
            for gain, configuration in gains
            if gain.known and not configuration.draft.is_alike(self._stock.draft)
        ]
        near.sort(key=lambda neighbour: -neighbour[0].ratio.middle)
        rows = [self._candidate(best, "", chosen=True)]
        if not self._stock.draft.is_alike(best.draft):
            rows.append(self._candidate(self._stock, "stock"))
        rows += [
            self._candidate(configuration, self._note(gain, configuration)) for gain, configuration in near[:_NEAREST]
        ]
        return tuple(rows)

    def _note(self, gain: Gain, other: Configuration) -> str:
        if NUMERICS.index(other.numerics) > NUMERICS.index(self._configurations.allowed):
            return f"needs numerics: {other.numerics}"
        return "slower" if gain.ratio.high < 1 else "within noise"

    def _candidate(self, configuration: Configuration, note: str, *, chosen: bool = False) -> Candidate:
        return Candidate(
            entry=configuration.draft.entry.name if configuration.draft.entry else configuration.build,
            settings=dict(configuration.draft.settings),
            numerics=configuration.numerics,
            prediction=_rounded_all(self._prediction(configuration)),
            chosen=chosen,
            note=note,
        )

    def _prediction(self, configuration: Configuration) -> Prediction | None:
        """How long a run takes; where only what safety has set was never measured, without its effect, and said so."""
        model = self._weighing.model
        if model is None:
            return None
        prediction = model.predict(configuration.question)
        settings = configuration.question.settings
        safe = [
            optimisation.name
            for optimisation in self._configurations.optimisations
            if optimisation.name in settings and optimisation.default(configuration.draft)
        ]
        if prediction.known or not safe:
            return prediction
        known_settings = {name: value for name, value in settings.items() if name not in safe}
        unmeasured = []
        for name in safe:
            extended = {**known_settings, name: settings[name]}
            if model.predict(configuration.question.model_copy(update={"settings": extended})).known:
                known_settings = extended
            else:
                unmeasured.append(name)
        without = model.predict(configuration.question.model_copy(update={"settings": known_settings}))
        if not without.known:
            return prediction
        switches = " and ".join(f"{name.replace('_', ' ')} {settings[name]}" for name in unmeasured)
        doubt = f"without the effect of {switches}, which was not measured"
        return without.model_copy(update={"doubts": (*without.doubts, doubt)})


def rounded(interval: Interval) -> Interval:
    """With four digits, which is more than is known: the last ones depend on the machine that plans."""
    return Interval(middle=_digits(interval.middle), low=_digits(interval.low), high=_digits(interval.high))


def _rounded_all(prediction: Prediction | None) -> Prediction | None:
    if prediction is None:
        return None
    hours = prediction.core_hours
    update = {
        "seconds": rounded(prediction.seconds),
        "parts": {name: rounded(part) for name, part in prediction.parts.items()},
        "core_hours": None if hours is None else _digits(hours),
    }
    return prediction.model_copy(update=update)


def _digits(value: float) -> float:
    return float(f"{value:.4g}")
