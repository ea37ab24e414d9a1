"""Successive halving over a plan's candidates: all of them for a few steps, one in so many for more (Jamieson, 2016).

optuna keeps the study: a trial for each candidate, whose score after each rung is an intermediate value, and a pruner
that decides when a whole rung was run. Its own SuccessiveHalvingPruner decides about each trial as it comes, which
depends on the order; here the order is turned round from rung to rung, so that no candidate always has the quiet time.

What candidates combine to is tried at the end of the first rung, where each part was faster than the plan's choice.
What is left of the budget behind the last rung goes to turns of its best one and the plan's choice, until they are told
apart.
"""

import math
import time

from modak_tuner import scores

_SLOW = 3  # a trial may take so many times as long as the middle one of those before it
_MORE = 4  # turns behind the last rung


class Stopped(Exception):
    """Somebody wants it to end; what was measured counts."""


class Failed(Exception):
    """A candidate that cannot be taken, and why."""


class TooSlow(Failed):
    """A candidate that made no steps to speak of in its time."""


def pruner_of(optuna, reduction, kept):
    """A pruner that keeps the best of a rung, one in so many, and those that others are compared with."""

    class WholeRung(optuna.pruners.BasePruner):
        def prune(self, study, trial):
            step = trial.last_step
            values_by_step = [trial.intermediate_values for trial in study.get_trials(deepcopy=False)]
            values = sorted(by_step[step] for by_step in values_by_step if step in by_step)
            best = values[: max(1, math.ceil(len(values) / reduction))]
            return trial.number not in kept and trial.intermediate_values[step] > best[-1]

    return WholeRung()


class Halving:
    """One tuning.

    Args:
        tuning: the plan's section.
        run: runs a candidate for so many steps within so many seconds and gives its steps as the runtime reports
            them; raises Failed or Stopped.
        diary: is told of everything.
        clock: seconds.
    """

    def __init__(self, tuning, run, diary, clock=time.monotonic):
        self._tuning, self._run, self._diary, self._clock = tuning, run, diary, clock
        self._busy = diary.busy
        self._candidates = {candidate["name"]: candidate for candidate in tuning["candidates"]}
        self._names = list(self._candidates)
        self._choice = self._names[0]
        self._measures = [{} for _ in range(tuning["rungs"])]  # of each rung, by name
        self._durations = []
        self._began = clock()
        self._study, self._trials = None, {}

    def take_turns(self):
        """Runs the choice and stock for the same steps again and again, which halves nothing; gives why it ended."""
        self._diary.best(self._choice, 0)
        names = self._names[:2]
        for rung in range(self._tuning["rungs"]):
            if self._left() < len(names) * self._usual():
                return "the budget is spent"  # half a turn compares nothing
            reason = self._run_rung(rung, names[:: -1 if rung % 2 else 1])
            if reason:
                return reason
            self._note_faster(rung)
            if len(self._measures[rung]) < len(names):
                return "a candidate was dropped"
        return "all turns were taken"

    def _note_faster(self, rung):
        """The choice trains unless stock is faster by more than noise in two turns at least, or the choice is out.

        Then stock does, or what the plan has in its place where stock breaks a preference or good practice.
        """
        stock, *replacements = self._names[1:]
        pairs, measured = self._pairs(stock), self._measures[rung]
        is_left = bool(measured) and self._choice not in measured
        is_faster = len(pairs.gains) > 1 and pairs.wins(self._apart())
        alternative = replacements[0] if replacements else stock
        may_win = self._candidates[alternative]["may_win"]
        self._diary.best(alternative if may_win and (is_left or is_faster) else self._choice, rung)

    def tune(self, optuna):
        """Runs all of it, and gives why it ended; the best so far is in the diary at every moment."""
        self._begin_study(optuna)
        runners = [name for name in self._names if not self._candidates[name]["parts"]]
        rivals = [name for name in self._names if self._candidates[name]["may_win"]]
        for rung in range(self._tuning["rungs"]):
            reason = self._run_rung(rung, runners)
            if rung == 0 and not reason:
                reason = self._run_rung(rung, self._combined())
            if reason:
                return reason
            measured = self._measures[rung]
            rivals = [name for name in rivals if name in measured]
            for name in rivals:
                self._trials[name].report(self._score(rung, name), step=scores.steps_of(self._tuning, rung))
            if rung < self._tuning["rungs"] - 1:  # behind the last one nobody goes on
                rivals = [name for name in rivals if not self._is_pruned(rung, name)]
            self._note_best(rung)
            if not [name for name in rivals if name != self._choice]:
                break
            runners = rivals[:: -1 if rung % 2 == 0 else 1]
        else:
            self._separate(rivals)
        rivals = [name for name in rivals if name in self._trials]  # others were lost
        self._complete(rivals)
        return ("no candidate is left", "one candidate is left", "all rungs were run")[min(len(rivals), 2)]

    def _combined(self):
        """The combinations whose parts were all faster than the plan's choice, the most promising first."""
        measured, choice = self._measures[0], self._choice
        if choice not in measured:
            return []
        gains = {name: math.log(self._score(0, choice) / self._score(0, name)) for name in measured}
        promising = []
        for name in self._names:
            parts = self._candidates[name]["parts"]
            if parts and all(gains.get(part, 0.0) > 0.0 for part in parts):
                promising.append((-sum(gains[part] for part in parts), name))
        room = max(0, (self._tuning["first_rung"] or len(self._names)) - len(measured))
        return [name for _, name in sorted(promising, key=lambda pair: pair[0])[:room]]  # stable

    def _separate(self, rivals):
        """Turns of the best one and the plan's choice, until it surely is the faster one, or surely is not.

        A job that trains afterwards takes no turn that costs more than the training could gain by it.
        """
        challengers = [name for name in rivals if name != self._choice]
        rung = len(self._measures) - 1
        if self._choice not in self._measures[rung]:
            return
        best = max(challengers, key=lambda name: self._pairs(name).gain)
        for turn in range(_MORE):
            pairs, apart, cost = self._pairs(best), self._apart(), 2 * self._durations[-1]
            is_told = pairs.wins(apart) or pairs.perhaps(apart) < scores.LEAST_GAIN
            is_whole = self._tuning["trains"] and self._candidates[best].get("total_steps")
            if is_whole and self._score(rung, self._choice) * pairs.perhaps(apart) < cost:
                return
            if is_told or self._left() < cost:
                return
            self._measures.append({})
            rung += 1
            reason = self._run_rung(rung, [self._choice, best][:: -1 if turn % 2 else 1])
            if reason or len(self._measures[rung]) < 2:
                return
            self._note_best(rung)

    def _pairs(self, name):
        return scores.Pairs(self._candidates[name], self._candidates[self._choice], self._measures, self._busy)

    def _apart(self):
        return scores.apart_of(self._pairs(name) for name in self._names if name != self._choice)

    def _begin_study(self, optuna):
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        space = {"candidate": optuna.distributions.CategoricalDistribution(self._names)}
        sampler = optuna.samplers.RandomSampler(seed=0)  # never asked: every candidate is enqueued
        pruner = pruner_of(optuna, self._tuning["reduction"], {0})
        self._study = optuna.create_study(sampler=sampler, pruner=pruner)
        self._states = optuna.trial.TrialState
        for name in self._names:
            if self._candidates[name]["may_win"]:
                self._study.enqueue_trial({"candidate": name})
                self._trials[name] = self._study.ask(space)

    def _run_rung(self, rung, names):
        """Runs a rung's trials; gives why it ended before its end, if it did."""
        for place, name in enumerate(names):
            seconds = self._seconds_for(len(names) - place)
            if seconds <= 0:
                return "the budget is spent"
            began = self._clock()
            try:
                measure = self._measured(name, rung, seconds)
            except Stopped as error:
                return str(error)
            except Failed as error:
                if isinstance(error, TooSlow) and seconds < _SLOW * self._usual():
                    return "the budget is spent"  # which is no fault of the candidate's
                self._lose(rung, name, str(error), began)
                continue
            self._durations.append(self._clock() - began)
            self._measures[rung][name] = measure
            line = self._diary.trial(rung, name, measure, self._score(rung, name), self._clock() - began)
            if rung == 0:
                self._note_best(rung)
            self._diary.say(line)
        return ""

    def _measured(self, name, rung, seconds):
        measure = self._run(self._candidates[name], scores.steps_of(self._tuning, rung), seconds)
        if measure["count"] < scores.LEAST_STEPS or not measure.get("median_seconds"):
            raise TooSlow("it made %d steps in %.0f s" % (measure["count"], seconds))
        return measure

    def _left(self):
        """Seconds of the budget."""
        return self._tuning["budget"] - (self._clock() - self._began)

    def _usual(self):
        """Seconds of the middle one of the trials so far; 0 before the first."""
        return sorted(self._durations)[len(self._durations) // 2] if self._durations else 0.0

    def _seconds_for(self, trials):
        """How long the next of so many trials may take; 0 where it could not come to its end."""
        left, usual = self._left(), self._usual()
        if not usual:
            return left / 2
        return min(left, max(left / trials, _SLOW * usual)) if left > usual / 2 else 0

    def _score(self, rung, name):
        return scores.score(self._candidates[name], self._measures[rung][name])

    def _lose(self, rung, name, reason, began):
        for measured in self._measures:
            measured.pop(name, None)
        if name in self._trials:
            self._study.tell(self._trials.pop(name), state=self._states.FAIL)
        line = self._diary.lost(rung, name, reason, self._clock() - began)
        if rung:
            self._note_best(rung - 1)  # this one is not over
        self._diary.say(line)

    def _is_pruned(self, rung, name):
        if not self._trials[name].should_prune():
            return False
        self._study.tell(self._trials.pop(name), state=self._states.PRUNED)
        self._diary.pruned(rung, name)
        return True

    def _complete(self, names):
        for name in names:
            rung = max(index for index, measured in enumerate(self._measures) if name in measured)
            self._study.tell(self._trials.pop(name), self._score(rung, name))

    def _note_best(self, rung):
        """The fastest of a rung, unless the plan's own choice is as fast but for noise; of the last with any left."""
        if not self._study:  # turns have a rule of their own
            return
        measured = self._measures[rung]
        names = [name for name in self._names if name in measured and self._candidates[name]["may_win"]]
        if not names:
            if rung:
                self._note_best(rung - 1)
            else:
                self._diary.best("", None)
            return
        if self._choice in measured:
            apart = self._apart()
            against = {name: self._pairs(name) for name in names if name != self._choice}
            rivals = [name for name, pairs in against.items() if pairs.wins(apart)]
            best = max(rivals, key=lambda name: against[name].surely(apart), default=self._choice)
        else:
            best = min(names, key=lambda name: self._score(rung, name))
        self._diary.best(best, rung)
