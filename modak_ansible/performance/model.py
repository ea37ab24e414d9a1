"""The performance model as planning uses it: how long a run takes, and how much faster another one is."""

from __future__ import annotations

from math import exp, log, sqrt
from pathlib import Path
from typing import NamedTuple

from modak_ansible.model.measured.prediction import SIGMAS, Gain, Interval, Prediction, Question
from modak_ansible.model.request import Request
from modak_ansible.performance.between import processes_of, slowest, wait_alike, waiting_seconds, what_link_permits
from modak_ansible.performance.doubts import Coverage, doubts_of
from modak_ansible.performance.features import FEATURES_OF, Facts
from modak_ansible.performance.regression import Regression, Vector
from modak_ansible.performance.run import Reference, Run, Runs
from modak_ansible.performance.scaling import ScalingRun
from modak_ansible.performance.series import runs_for
from modak_ansible.performance.stored import Stored, read_stored
from modak_ansible.performance.together import Combinations

SHIPPED = Path(__file__).parent / "model.json"
_LEAST_START = 0.1  # seconds: nothing that imports a framework is faster
_LEAST_SHARE = 0.01  # of the whole time: a part below it adds nothing to the interval
_KEPT = 512  # questions
_ALIKE = 0.05  # shares that differ by less count as one, so that what both runs have in common cancels


class Part(NamedTuple):
    """One part of a run: its seconds, and its regression; none where it comes from a bandwidth or a law.

    ``interval`` is that of the seconds of a part that comes from a law. ``reference`` has the features of the run whose
    part was timed on the target, where one was.
    """

    name: str
    seconds: float
    regression: Regression | None = None
    vector: Vector = Vector({}, {})
    interval: Interval | None = None
    reference: Vector | None = None

    def variance(self, facts: Facts) -> float:
        """Of the logarithm of the seconds in a new run, which is on another day than what is on record."""
        if self.regression is None:
            return 0.0
        of_days = self.regression.variance_of_days
        if self.reference is None:
            return self.regression.variance_of_run(self.vector, facts) + of_days
        # the run that was timed had its own luck, and its own day
        by_chance = 2 * (self.regression.noise(facts.framework) + of_days)
        return self.regression.variance_between(self.vector, self.reference) + by_chance


class PerformanceModel:
    """Answers questions from a fitted model; makes no use of numpy, and is quick.

    ``is_own`` tells a project's own from the one that ships.
    """

    def __init__(self, stored: Stored, *, is_own: bool = False) -> None:
        self.stored, self.is_own = stored, is_own
        self.regressions = {name: Regression(part) for name, part in stored.parts.items()}
        self.runs = Runs(stored.workloads, stored.machines)
        self._left: dict[object, tuple[str, ...]] = {}
        self._kept: dict[object, tuple[Question, Run, list[Part]]] = {}
        self.known = Coverage(self.regressions, stored.machines)
        self._together = Combinations(stored.together)

    def predict(self, question: Question) -> Prediction:
        """How long a whole run takes, its parts, and what of it is not known.

        The interval is that of a new run: with what the machine and the run do by themselves.
        """
        run = self.runs.of(question)
        parts = self.parts(run, question)
        intervals, total, variance = {}, 0.0, 0.0
        for part in parts:
            own = part.variance(run.facts)
            interval = intervals[part.name] = part.interval or _interval(part.seconds, sqrt(own))
            total += part.seconds
            variance += (
                (interval.high - interval.low) / 2 / SIGMAS if part.interval else sqrt(own) * part.seconds
            ) ** 2
        seconds = _interval(total, sqrt(variance) / total) if total else Interval(middle=0.0, low=0.0, high=0.0)
        support = self.known.run(run, question)
        apart = self.apart(run.facts)
        training = next((part.seconds for part in parts if part.name == "training"), None)
        permitted = what_link_permits(run, question, training / run.steps if training and run.steps else None)
        doubts = (*support.unknown, *support.notes, *permitted, *((apart,) if apart else ()), *doubts_of(run, question))
        cores = (run.facts.threads or 0) * question.nodes * question.processes_per_node
        is_whole = any(part.name == "training" for part in parts)
        return Prediction(
            seconds=seconds,
            parts=intervals,
            core_hours=total * cores / 3600 if cores and is_whole else None,
            records=support.records,
            known=not support.unknown and is_whole,
            doubts=doubts,
        )

    def gain(self, old: Question, new: Question) -> Gain:
        """How many times as fast the new one is as the old: what both have in common cancels.

        The interval is that of the ratio itself, without what single runs do by chance. Where it is not known how
        long the run is, the ratio is that of steady steps, and ``why`` says so.
        """
        (old_run, before), (new_run, after) = self._asked(old), self._asked(new)
        support = self.known.difference(old_run, new_run, old, new)
        is_whole = bool(before and after) and before[-1].name == after[-1].name == "training"
        ratio = self._of_wholes(before, after) if is_whole else self._of_steps(old_run, new_run)
        notes = list(support.unknown or support.notes)
        if not is_whole and not support.unknown:
            notes.append("of steady steps alone: it is not known how long the run is")
        is_known = not support.unknown and (is_whole or wait_alike(old, new))  # in steps alone nobody waits
        return Gain(
            ratio=ratio, records=support.records, known=is_known, why="; ".join(notes), apart=self.apart(new_run.facts)
        )

    def scaling_runs(self, request: Request) -> tuple[ScalingRun, ...]:
        """Measured runs of a request's program with several numbers of processes; none where there are none."""
        return runs_for(request, self.stored.scaling)

    def step_seconds(self, run: Run) -> float | None:
        """Of one steady step; None where the work or the machine's peak is not known, and no step was timed."""
        regression = self.regressions.get("step")
        if run.reference:
            return run.reference.timed.seconds * self._over_timed(run, run.reference)
        if regression is None or run.peak is None or run.facts.step_gflop is None:
            return None
        return exp(regression.mean(self._of_step(regression, run.facts))) * run.facts.step_gflop / run.peak

    def _over_timed(self, run: Run, reference: Reference) -> float:
        """How many times as long a step takes as those of the same training that were timed."""
        reference_run, regression = reference.run, self.regressions.get("step")
        factor = run.batch / reference_run.batch if run.batch and reference_run.batch else 1.0
        if regression is None:
            return factor
        if run.peak and reference_run.peak:
            factor *= reference_run.peak / run.peak
        elif run.facts.threads and reference_run.facts.threads:
            factor *= reference_run.facts.threads / run.facts.threads
        new, old = (regression.mean(self._of_step(regression, either.facts)) for either in (run, reference_run))
        return factor * exp(new - old)

    def step_variance(self, run: Run) -> float:
        """Of the logarithm of a steady step's seconds in a new run: of a day on record, or beside timed steps."""
        regression = self.regressions["step"]
        if run.reference:
            return self._training(run, 0.0, regression).variance(run.facts)
        return regression.variance_of_run(self._of_step(regression, run.facts), run.facts)

    def _training(self, run: Run, seconds: float, regression: Regression) -> Part:
        reference = run.reference and self._of_step(regression, run.reference.run.facts)
        return Part("training", seconds, regression, self._of_step(regression, run.facts), reference=reference)

    def apart(self, facts: Facts) -> str:
        """Which switches are not counted since nobody measured them beside the others, in words; empty for none."""
        left = self._uncounted(facts)
        if not left:
            return ""
        named = [f"{name} {value}" for name, value in facts.switches.items() if name in left]
        return f"no record of {' and '.join(named)} with the rest: predicted without it, until they run together"

    def counted(self, facts: Facts) -> Facts:
        """The facts with those switches alone whose effect together is known."""
        left = self._uncounted(facts)
        if not left:
            return facts
        return facts._replace(switches={name: value for name, value in facts.switches.items() if name not in left})

    def _uncounted(self, facts: Facts) -> tuple[str, ...]:
        regression = self.regressions.get("step")
        if regression is None or not facts.switches:
            return ()
        key = (*facts[:3], tuple(facts.switches.items()), *facts[4:])
        if key not in self._left:
            if len(self._left) >= _KEPT:
                self._left.clear()
            self._left[key] = self._together.uncounted(facts, lambda other_facts: self._mean(regression, other_facts))
        return self._left[key]

    @staticmethod
    def _mean(regression: Regression, facts: Facts) -> float:
        return regression.mean(regression.vector(FEATURES_OF["step"](facts)))

    def _of_step(self, regression: Regression, facts: Facts) -> Vector:
        """The places of a step's features.

        What does not count may yet gain all that the product of its factors says, or nothing: that is in the interval.
        """
        counted = self.counted(facts)
        vector = regression.vector(FEATURES_OF["step"](counted))
        if counted is facts:
            return vector
        forgone = self._mean(regression, counted) - self._mean(regression, facts)
        name = " ".join(f"{name}={value}" for name, value in facts.switches.items() if name not in counted.switches)
        return vector._replace(unseen={**vector.unseen, f"{facts.framework} {name}": forgone})

    def parts(self, run: Run, question: Question) -> list[Part]:
        """What a run consists of, the training last; parts of which nothing is known are left out."""
        parts = self._beginning(run)
        launch = run.machine.launch.get("container" if run.facts.container else "native") if run.machine else None
        if launch:
            parts.append(Part("launch", launch))
        staging = _staging_seconds(run, question)
        if staging:
            parts.append(Part("staging", staging))
        step, regression = self.step_seconds(run), self.regressions.get("step")
        if step is not None and run.steps is not None and regression is not None:
            step = slowest(question, self._share(question, step), regression.noise(run.facts.framework))
            waiting = waiting_seconds(run, question, step)
            if waiting:
                waits = {name: run.steps * seconds for name, seconds in waiting}
                parts.append(Part("waiting", waits["middle"], interval=Interval(**waits)))
            parts.append(self._training(run, run.steps * step, regression))
        return parts

    def _beginning(self, run: Run) -> list[Part]:
        """The start of the process, and what its first step takes besides; as it was timed, where it was."""
        parts = self._besides(run.facts)
        if run.reference is None:
            return parts
        timed, before = run.reference.timed, self._besides(run.reference.run.facts)
        longer = _total(parts) - _total(before)
        seconds = max(timed.start - timed.seconds + longer, _LEAST_START)  # the first step is among the training's
        start, old = (
            next((part for part in candidates if part.name == "start"), Part("start", 0.0))
            for candidates in (parts, before)
        )
        return [start._replace(seconds=seconds, reference=old.vector)]

    def _besides(self, facts: Facts) -> list[Part]:
        """The start and the first step by the model, where it has both or one of them."""
        regressions = ((name, self.regressions.get(name)) for name in ("start", "first_step"))
        return [
            self._besides_steps(name, regression, facts) for name, regression in regressions if regression is not None
        ]

    def _share(self, question: Question, step: float) -> float:
        """Seconds of a step, which is no better a share of the whole batch's than its share of the batch."""
        if question.split:
            return step * question.split.left
        if not question.shares_batch or processes_of(question) == 1:
            return step
        alone = self.runs.of(question.model_copy(update={"nodes": 1, "processes_per_node": 1}))
        return max(step, (self.step_seconds(alone) or 0.0) / processes_of(question))

    def _besides_steps(self, name: str, regression: Regression, facts: Facts) -> Part:
        """The start, or the first step: what no record has beside the rest may lengthen it, and does not shorten it."""
        variants = [facts] if (counted := self.counted(facts)) is facts else [facts, counted]
        vectors = [regression.vector(FEATURES_OF[name](variant)) for variant in variants]
        vector = max(vectors, key=regression.mean)
        return Part(name, exp(regression.mean(vector)), regression, vector)

    def _asked(self, question: Question) -> tuple[Run, list[Part]]:
        """The run of a question and its parts; planning asks of the same one again and again."""
        fields = {**question.__dict__, "settings": tuple(question.settings.items())}
        # the kept question holds both, so that nothing else can have their numbers
        fields |= {"work": id(question.work), "timed": id(question.timed)}
        key = tuple(fields.values())
        kept = self._kept.get(key)
        if kept is None:
            if len(self._kept) >= _KEPT:
                self._kept.clear()
            run = self.runs.of(question)
            kept = self._kept[key] = (question, run, self.parts(run, question))
        return kept[1:]

    def _of_wholes(self, before: list[Part], after: list[Part]) -> Interval:
        """Ratio of whole times: to first order the logarithm of a sum is the sum of its parts', by their shares."""
        old, new = _total(before), _total(after)
        ends = {part.name: part for part in after}
        variance = 0.0
        for part in before:
            other = ends.get(part.name)
            if part.regression is None or other is None:
                continue
            share, other_share = part.seconds / old, other.seconds / new
            if max(share, other_share) < _LEAST_SHARE:
                continue
            if abs(share - other_share) < _ALIKE * max(share, other_share):
                share = other_share = max(share, other_share)
            variance += part.regression.variance_between(part.vector, other.vector, share, other_share)
        # how long ranks wait is a law's: it may be off for both runs in the same way
        ratios = [old / new, *(_total(before, end) / _total(after, end) for end in ("low", "high"))]
        lowest, highest = (_interval(ratio, sqrt(variance)) for ratio in (min(ratios), max(ratios)))
        return Interval(middle=old / new, low=lowest.low, high=highest.high)

    def _of_steps(self, old_run: Run, new_run: Run) -> Interval:
        """Ratio of steady steps for each sample."""
        regression = self.regressions.get("step")
        if regression is None:
            return Interval(middle=1.0, low=0.0, high=float("inf"))
        before, after = (self._of_step(regression, run.facts) for run in (old_run, new_run))
        difference = regression.mean(before) - regression.mean(after)
        if old_run.peak and new_run.peak:
            difference += log(new_run.peak / old_run.peak)
        return _interval(exp(difference), sqrt(regression.variance_between(before, after)))


def load_model(path: Path | None = None) -> PerformanceModel:
    """The model in a file, or the one that ships.

    Raises:
        OfAnotherVersion: the file was fitted by another version.
        ModakError: it cannot be read, or is damaged.
    """
    return PerformanceModel(read_stored(path or SHIPPED), is_own=path is not None)


def _staging_seconds(run: Run, question: Question) -> float | None:
    """To copy the data, or a node's part of it, to the node's own scratch; None where bandwidths are not measured."""
    parts = {"node-local": 1, "by-node": question.nodes}.get(question.settings.get("staging", ""))
    if parts is None or not question.dataset_bytes or run.machine is None:
        return None
    storage = run.machine.storage
    read, write = storage.get("home", {}).get("read"), storage.get("scratch", {}).get("write")
    return question.dataset_bytes / parts / 1e6 / min(read, write) if read and write else None


def _total(parts: list[Part], end: str = "middle") -> float:
    """Seconds of all parts, with those that come from a law at one end of their interval."""
    return sum(getattr(part.interval, end) if part.interval else part.seconds for part in parts)


def _interval(middle: float, deviation: float) -> Interval:
    factor = exp(min(SIGMAS * deviation, 50.0))
    return Interval(middle=middle, low=middle / factor, high=middle * factor)
