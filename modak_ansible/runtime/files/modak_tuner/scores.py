"""What a trial's steps are worth, and when a difference is more than noise. Pure."""

import math

LEAST_STEPS = 4  # three intervals: fewer have no median to speak of
LEAST_GAIN = 0.01  # a logarithm: what is won by less is not worth another configuration than the plan's
# Standard deviation of the logarithm of how two candidates compare, from one pair of processes to the next, and what it
# is worth in pairs. Of seven candidates against the choice in two tunings of compute-bound steps (12 degrees).
_APART, _WORTH = 0.025, 2
_SURE = 2.576  # standard errors: 99.5 %, as the best of several is looked at several times
_ONE_SIDED = 1.645  # 95 %
_P10_TO_P90 = 2.563  # standard deviations of a normal distribution
_MEDIAN = 1.2533  # standard error of a median over that of a mean


def steps_of(tuning, rung):
    """Steps of each trial of a rung; the turns behind the last one have as many as that."""
    return tuning["steps"] * tuning["reduction"] ** min(rung, tuning["rungs"] - 1)


def score(candidate, measure):
    """Seconds of the whole training as these steps predict it, the start and the first step once.

    The import of frameworks is left out: it is alike for all, but for who comes first and has to read them from disk.
    Where nobody knows how many steps it has: seconds of a steady step, for the work of one of the plan's own.
    """
    total, median = candidate.get("total_steps"), measure["median_seconds"]
    if not total:
        return median / (candidate.get("work_per_step") or 1.0)
    start = (measure.get("to_first_step_seconds") or 0.0) - (measure.get("import_seconds") or 0.0)
    return max(0.0, start) + (total - 1) * median


def doubt(candidate, measure):
    """The standard error of a score, by how far the single steps lie apart."""
    spread = max(0.0, measure.get("p90_seconds", 0.0) - measure.get("p10_seconds", 0.0)) / _P10_TO_P90
    error = _MEDIAN * spread / math.sqrt(max(1, measure["count"] - 1))
    total = candidate.get("total_steps")
    return error * (total - 1) if total else error / (candidate.get("work_per_step") or 1.0)


def busy_limit(cores):
    """Cores that others may keep busy more while one candidate runs than while another does.

    On a machine of two cores it is what suites take for undisturbed, and the same share of larger ones: there others
    have most of their work on cores of their own.
    """
    return max(0.25, (cores or 1) / 8)


def is_comparable(measure, other, busy):
    """Whether others kept the machine as busy while one ran as while the other did, as far as anybody knows."""
    foreign_cores, other_cores = measure.get("foreign_cores"), other.get("foreign_cores")
    return foreign_cores is None or other_cores is None or abs(foreign_cores - other_cores) <= busy


class Pairs:
    """A candidate against another one, in the rungs in which both ran and neighbours were alike.

    Args:
        measures: of each rung, by name.
        busy: cores by which neighbours may differ.
    """

    def __init__(self, candidate, other, measures, busy=math.inf):
        self.gains, self._doubts = [], []
        for measured in measures:
            measure, other_measure = measured.get(candidate["name"]), measured.get(other["name"])
            if measure and other_measure and is_comparable(measure, other_measure, busy):
                own_score, other_score = score(candidate, measure), score(other, other_measure)
                self.gains.append(math.log(other_score / own_score))
                self._doubts.append(
                    math.hypot(doubt(candidate, measure) / own_score, doubt(other, other_measure) / other_score)
                )

    @property
    def gain(self):
        """How many times as fast, as a logarithm, on the middle of all; 0 where they cannot be compared."""
        return sum(self.gains) / len(self.gains) if self.gains else 0.0

    def error(self, apart):
        """The standard error of the gain, by how far two pairs lie apart and how far single steps do."""
        within = sum(noise * noise for noise in self._doubts) / len(self.gains)
        return math.sqrt((apart * apart + within) / len(self.gains))

    def surely(self, apart):
        """What the gain is at least, with 99.5 %."""
        return self.gain - _SURE * self.error(apart) if self.gains else -math.inf

    def wins(self, apart):
        """Whether it is faster by more than noise explains, and by enough to be worth it."""
        return self.surely(apart) > 0 and self.gain > LEAST_GAIN

    def perhaps(self, apart):
        """What the gain is at most, with 95 %."""
        return self.gain + _ONE_SIDED * self.error(apart) if self.gains else math.inf


def apart_of(all_pairs):
    """How far two pairs of the same candidates lie apart, by all pairs of a tuning and by what is usual."""
    squares, degrees = _WORTH * _APART * _APART, _WORTH
    for pairs in all_pairs:
        squares += sum((gain - pairs.gain) ** 2 for gain in pairs.gains)
        degrees += max(0, len(pairs.gains) - 1)
    return math.sqrt(squares / degrees)
