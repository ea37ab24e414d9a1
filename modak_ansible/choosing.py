"""Settles every matter of a draft: by the user's wishes, by safety, and otherwise by what was measured."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from modak_ansible.model.plan import Candidate, Choice, Rejected
from modak_ansible.model.prediction import Gain, Interval, Prediction, Question
from modak_ansible.optimisations import optimisations
from modak_ansible.optimisations.base import NUMERICS, CannotPlan, Draft, Numerics, Optimisation, Option

# Matters hardly depend on each other: the second sweep changes little, the third has changed nothing yet.
_SWEEPS = 4
_NEAREST = 4
_WORTH = 1.01  # a smaller gain could be told from none by no series of runs
_IMAGE = "image"


class PerformanceModel(Protocol):
    """What knows how long things take."""

    def predict(self, question: Question) -> Prediction:
        """How long a whole run takes."""

    def gain(self, old: Question, new: Question) -> Gain:
        """How much faster the new configuration is than the old one."""


@dataclass(frozen=True)
class Chosen:
    """A draft in which everything is settled, why, and what else was weighed.

    Attributes:
        best: what was chosen.
        stock: the same build, with nothing else chosen.
        free: what else may be taken, by the names of the matters that are left to the optimiser.
        settle: the configuration with other values.
        gain: of a configuration over another.
    """

    draft: Draft
    choices: tuple[Choice, ...]
    candidates: tuple[Candidate, ...]
    best: Configuration
    stock: Configuration
    free: dict[str, tuple[Option, ...]]
    settle: Callable[[dict[str, str]], Configuration]
    gain: Callable[[Configuration, Configuration], Gain]


def choose(draft: Draft, model: PerformanceModel | None) -> Chosen:
    """Settles every matter, by coordinate descent over those that are left to the optimiser.

    An option other than stock is taken where the request permits what it does to results, and the whole interval of
    the predicted gain is over 1; without a model everything is unknown, and stock stays.

    Raises:
        CannotPlan: a wish that cannot be kept, or contradicts another.
    """
    return _Chooser(draft, model).choose()


@dataclass
class Configuration:
    """A draft with a value for every matter, and the options that there were."""

    draft: Draft
    values: dict[str, str] = field(default_factory=dict)
    options: dict[str, tuple[Option, ...]] = field(default_factory=dict)

    def option(self, name: str) -> Option:
        return next(each for each in self.options[name] if each.value == self.values[name])

    @property
    def key(self) -> tuple[tuple[str, str], ...]:
        return tuple(self.values.items())

    @property
    def numerics(self) -> Numerics:
        return max((self.option(name).numerics for name in self.values), key=NUMERICS.index)


class _Chooser:
    def __init__(self, draft: Draft, model: PerformanceModel | None) -> None:
        self._start = draft
        self._model = model
        self._image, *self._matters = _image_first(optimisations())
        self._allowed = NUMERICS.index(draft.request.optimisation.numerics)
        self._builds: dict[str, Configuration] = {}
        self._gains: dict[object, Gain] = {}

    def choose(self) -> Chosen:
        builds = self._image.options(self._start)
        wish = self._checked_wish(self._image, self._start, builds)
        names = [wish] if wish else [each.value for each in builds if self._may(each)]
        for name in names:
            draft = self._start.copy()
            self._image.apply(draft, name)
            self._builds[name] = Configuration(draft, {_IMAGE: name}, {_IMAGE: builds})
        found = [self._descend(name) for name in names]
        best = self._best(found[0], found[1:])
        stock = self._stock(names[0])
        settled = [matter for matter in (self._image, *self._matters) if matter.name in best.values]
        choices = tuple(self._choice(matter, best, found) for matter in settled)
        candidates = self._candidates(best, stock, found)
        same = self._stock(best.values[_IMAGE])
        return Chosen(best.draft, choices, candidates, best, same, self._free(best), self._settle, self._gain)

    def _free(self, best: Configuration) -> dict[str, tuple[Option, ...]]:
        open_to = {name: each for name, each in best.options.items() if name != _IMAGE}
        matters = [each for each in self._matters if each.name in open_to]
        free = [each.name for each in matters if not self._fixed(each, best.draft, open_to[each.name])]
        return {name: tuple(each for each in open_to[name] if self._may(each)) for name in free}

    # --- configurations

    def _settle(self, wanted: dict[str, str]) -> Configuration:
        """The configuration with these values, and the ones that stand without a choice where nothing is said."""
        build = self._builds[wanted[_IMAGE]]
        made = Configuration(build.draft.copy(), dict(build.values), dict(build.options))
        for matter in self._matters:
            options = matter.options(made.draft)
            if not options:
                self._checked_wish(matter, made.draft, options)
                continue
            value = self._fixed(matter, made.draft, options)
            named = next((each for each in options if each.value == wanted.get(matter.name)), None)
            if not value:
                value = named.value if named and not named.why_not else options[0].value
            matter.apply(made.draft, value)
            made.values[matter.name], made.options[matter.name] = value, options
        return made

    def _fixed(self, matter: Optimisation, draft: Draft, options: tuple[Option, ...]) -> str:
        """The value that records cannot change; empty where they may."""
        wish = self._checked_wish(matter, draft, options)
        default = matter.default(draft)
        return wish or (default.value if default else "")

    def _stock(self, build: str) -> Configuration:
        build_made = self._builds[build]
        made = Configuration(build_made.draft.copy(), dict(build_made.values), dict(build_made.options))
        for matter in self._matters:
            options = matter.options(made.draft)
            if options:
                matter.apply(made.draft, options[0].value)
                made.values[matter.name], made.options[matter.name] = options[0].value, options
        return made

    def _checked_wish(self, matter: Optimisation, draft: Draft, options: tuple[Option, ...]) -> str:
        wish = matter.wish(draft)
        if not wish:
            return ""
        about = "optimisation.entry" if matter.name == _IMAGE else f"optimisation.{matter.name}"
        there = [each.value for each in options if not each.why_not]
        hint = f"take any, or {' or '.join(there)}" if there else "take any"
        option = next((each for each in options if each.value == wish), None)
        if option is None or option.why_not:
            reason = option.why_not if option else f"there is no such {matter.name.replace('_', ' ')} here"
            raise CannotPlan(about, f"{wish} is not to be had: {reason}", hint)
        if not self._permits(option):
            allowed = NUMERICS[self._allowed]
            message = f"{wish} {_MOVES[option.numerics]}, and numerics: {allowed} is asked for"
            raise CannotPlan(about, message, f"numerics: {option.numerics} permits it")
        return wish

    def _permits(self, option: Option) -> bool:
        return NUMERICS.index(option.numerics) <= self._allowed

    def _may(self, option: Option) -> bool:
        return not option.why_not and self._permits(option)

    # --- weighing

    def _descend(self, build: str) -> Configuration:
        now = self._settle({_IMAGE: build})
        if self._model is None:
            return now
        for _ in range(_SWEEPS):
            before = now.key
            for matter in self._matters:
                if matter.name in now.values and not self._fixed(matter, now.draft, now.options[matter.name]):
                    now = self._best_of(matter, now)
            if now.key == before:
                break
        return now

    def _best_of(self, matter: Optimisation, now: Configuration) -> Configuration:
        options = now.options[matter.name]
        stock = self._with(now, matter, options[0].value)
        others = [self._with(now, matter, each.value) for each in options[1:] if self._may(each)]
        return self._best(stock, others)

    def _best(self, first: Configuration, others: list[Configuration]) -> Configuration:
        """The one with the largest gain over the first, of those whose gain is more than noise."""
        best, ratio = first, 1.0
        for other in others:
            gain = self._gain(first, other)
            if _is_faster(gain) and gain.ratio.middle > ratio:
                best, ratio = other, gain.ratio.middle
        return best

    def _with(self, now: Configuration, matter: Optimisation, value: str) -> Configuration:
        if now.values[matter.name] == value:
            return now
        return self._settle({**now.values, matter.name: value})

    def _gain(self, old: Configuration, new: Configuration) -> Gain:
        if old.draft.is_alike(new.draft):
            return _ALIKE
        key = (old.key, new.key)
        if key not in self._gains:
            self._gains[key] = self._model.gain(old.draft.question(), new.draft.question()) if self._model else _UNKNOWN
        return self._gains[key]

    # --- telling

    def _choice(self, matter: Optimisation, best: Configuration, found: list[Configuration]) -> Choice:
        name, draft = matter.name, best.draft
        options, taken = best.options[name], best.option(name)
        stock = options[0]
        gain = None
        if matter is not self._image and taken is not stock:
            gain = self._gain(self._changed(best, matter, stock), best)
        rejected = tuple(self._rejected(matter, each, best, found) for each in options if each is not taken)
        return Choice(
            name=name,
            value=taken.value,
            reason=self._reason(matter, best, taken),
            numerics=taken.numerics,
            stock=stock.value,
            reaches=matter.reaches,
            speed=gain.ratio if gain and gain.known else None,
            records=gain.records if gain and gain.known else 0,
            evidence=matter.evidence(draft),
            rejected=rejected,
        )

    def _reason(self, matter: Optimisation, best: Configuration, taken: Option) -> str:
        if matter.wish(self._start if matter is self._image else best.draft):
            return "asked for"
        default = matter.default(best.draft)
        if default:
            return default.reason
        options = best.options[matter.name]
        if taken is options[0] and len(options) > 1 and not taken.reason:
            return "nothing else that may be taken is known to be faster here"
        return taken.reason

    def _changed(self, best: Configuration, matter: Optimisation, option: Option) -> Configuration:
        """The configuration with another option, whether or not it may be taken."""
        build = self._builds[best.values[_IMAGE]]
        made = Configuration(build.draft.copy(), dict(build.values), dict(build.options))
        for each in self._matters:
            options = each.options(made.draft)
            if not options:
                continue
            value = option.value if each is matter else best.values.get(each.name, "")
            if value not in [other.value for other in options]:
                value = options[0].value
            each.apply(made.draft, value)
            made.values[each.name], made.options[each.name] = value, options
        return made

    def _rejected(
        self, matter: Optimisation, option: Option, best: Configuration, found: list[Configuration]
    ) -> Rejected:
        gain = None
        if matter is self._image:
            other = next((each for each in found if each.values[_IMAGE] == option.value), None)
            gain = self._gain(best, other) if other else None
        elif not option.why_not:
            gain = self._gain(best, self._changed(best, matter, option))
        known = gain if gain and gain.known else None
        return Rejected(
            value=option.value,
            reason=self._why_rejected(matter, option, best, gain),
            speed=known.ratio if known else None,
            records=known.records if known else 0,
        )

    def _why_rejected(self, matter: Optimisation, option: Option, best: Configuration, gain: Gain | None) -> str:
        if option.why_not:
            return option.why_not
        own = matter.why_other(option.value, best.values[matter.name], best.draft)
        if not self._permits(option):
            return own or f"it {_MOVES[option.numerics]}, and numerics: {NUMERICS[self._allowed]} is asked for"
        default = matter.default(best.draft)
        if default is not None and default.value == best.values[matter.name]:
            return own or f"good practice takes {default.value}"
        if gain is None or not gain.known:
            return own or (gain.why if gain and gain.why else "") or _UNKNOWN.why
        if gain.ratio.high < 1:
            return "slower here"
        if _is_faster(gain):
            return "faster, and not what is asked for"
        return "no difference that is more than noise"

    def _candidates(
        self, best: Configuration, stock: Configuration, found: list[Configuration]
    ) -> tuple[Candidate, ...]:
        others = [each for each in found if each is not best]
        for matter in self._matters:
            for option in best.options.get(matter.name, ()):
                if not option.why_not and option.value != best.values[matter.name]:
                    others.append(self._changed(best, matter, option))
        others = [each for each in others if not each.draft.is_alike(stock.draft)]
        near = [each for each in others if self._gain(best, each).known]
        near.sort(key=lambda each: -self._gain(best, each).ratio.middle)
        rows = [(best, "")]
        if stock.key != best.key:
            rows.append((stock, "stock"))
        rows += [(each, self._why_candidate(best, each)) for each in near[:_NEAREST]]
        return tuple(self._candidate(each, note, chosen=each is best) for each, note in rows)

    def _why_candidate(self, best: Configuration, other: Configuration) -> str:
        if NUMERICS.index(other.numerics) > self._allowed:
            return f"needs numerics: {other.numerics}"
        return "slower" if self._gain(best, other).ratio.high < 1 else "within noise"

    def _candidate(self, made: Configuration, note: str, *, chosen: bool) -> Candidate:
        return Candidate(
            entry=made.draft.entry.name if made.draft.entry else made.values.get(_IMAGE, ""),
            settings=dict(made.draft.settings),
            numerics=made.numerics,
            prediction=self._model.predict(made.draft.question()) if self._model else None,
            chosen=chosen,
            note=note,
        )


_MOVES = {"same": "keeps results", "reassociation": "sums in another order", "any": "changes results"}
_ALIKE = Gain(ratio=Interval(middle=1, low=1, high=1), records=0, known=False, why="the records do not tell them apart")
_UNKNOWN = Gain(
    ratio=Interval(middle=1, low=0, high=float("inf")), records=0, known=False, why="nothing like it was measured"
)


def _is_faster(gain: Gain) -> bool:
    return gain.known and gain.ratio.low > 1 and gain.ratio.middle >= _WORTH


def _image_first(found: tuple[Optimisation, ...]) -> list[Optimisation]:
    return sorted(found, key=lambda each: each.name != _IMAGE)  # stable
