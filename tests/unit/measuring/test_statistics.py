"""Medians, spread and ratios with their intervals."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modak_ansible.measuring.statistics import Ratio, Summary, paired_ratio, summary

SPEEDS = st.dictionaries(st.integers(1, 8), st.floats(0.1, 1e4), min_size=1)


def test_a_summary_says_the_middle_the_ends_and_how_many():
    assert summary([3.0, 1.0, 2.0, 10.0]) == Summary(median=2.5, least=1.0, most=10.0, n=4)


def test_nothing_has_no_median():
    with pytest.raises(ValueError, match="nothing was measured"):
        summary([])


def test_rounds_are_divided_by_their_own_round():
    slower_each_round = {1: 100.0, 2: 50.0, 3: 25.0}
    ratio = paired_ratio(slower_each_round, {key: 1.5 * value for key, value in slower_each_round.items()})
    assert ratio == Ratio(1.5, 1.5, 1.5, 3)


def test_rounds_that_lack_one_side_do_not_count():
    ratio = paired_ratio({1: 10.0, 2: 10.0, 3: 10.0}, {2: 5.0, 3: 20.0, 4: 1000.0})
    assert (ratio.median, ratio.low, ratio.high, ratio.n) == (1.25, 0.5, 2.0, 2)


def test_one_round_has_no_interval():
    assert paired_ratio({1: 10.0}, {1: 5.0}) == Ratio(0.5, None, None, 1)


def test_no_common_round_is_no_ratio():
    assert paired_ratio({1: 10.0}, {2: 5.0}) is None


@given(SPEEDS, SPEEDS)
def test_the_interval_holds_the_median_and_stays_within_what_was_seen(baseline, other):
    ratio = paired_ratio(baseline, other)
    seen = [other[each] / baseline[each] for each in baseline if each in other]
    if len(seen) < 2:
        assert ratio is None or ratio.low is None
        return
    assert min(seen) <= ratio.low <= ratio.median <= ratio.high <= max(seen)
    assert paired_ratio(baseline, other) == ratio


def test_what_a_coarse_clock_has_made_nothing_of_is_divided_by_by_nobody():
    assert paired_ratio({1: 0.0, 2: 4.0, 3: 3.0}, {1: 1.0, 2: 2.0, 3: 1.5}).median == 0.5
    assert paired_ratio({1: 0.0}, {1: 1.0}) is None
