"""What a trial's steps are worth, and when a difference is more than noise. Pure."""

import math

LEAST_STEPS = 4  # three intervals: fewer have no median to speak of
LEAST_GAIN = 0.01  # what is won by less is not worth another configuration than the plan's
_ONE_SIDED = 1.645  # 95 %
_P10_TO_P90 = 2.563  # standard deviations of a normal distribution
_MEDIAN = 1.2533  # standard error of a median over that of a mean


def score(candidate, measure):
    """Seconds of the whole training as these steps predict it, the start and the first step once.

    Where nobody knows how many steps it has: seconds of a steady step, for the work of one of the plan's own.
    """
    total, median = candidate.get("total_steps"), measure["median_seconds"]
    if not total:
        return median / (candidate.get("work_per_step") or 1.0)
    return (measure.get("to_first_step_seconds") or 0.0) + (total - 1) * median


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
    mine, theirs = measure.get("foreign_cores"), other.get("foreign_cores")
    return mine is None or theirs is None or abs(mine - theirs) <= busy


def beats(candidate, measure, other, other_measure, busy=math.inf):
    """Whether a candidate is faster than another by more than noise and neighbours explain."""
    if not is_comparable(measure, other_measure, busy):
        return False
    mine, theirs = score(candidate, measure), score(other, other_measure)
    noise = math.hypot(doubt(candidate, measure), doubt(other, other_measure))
    return theirs - mine > max(_ONE_SIDED * noise, LEAST_GAIN * theirs)
