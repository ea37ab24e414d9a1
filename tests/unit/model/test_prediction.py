"""When a predicted gain is one."""

from __future__ import annotations

from math import exp, inf
from statistics import NormalDist

import pytest

from modak_ansible.model.measured.prediction import Gain, Interval


def gain(middle, deviation, *, known=True):
    factor = exp(min(1.6449 * deviation, 700))
    return Gain(ratio=Interval(middle=middle, low=middle / factor, high=middle * factor), records=1, known=known)


@pytest.mark.parametrize(
    ("middle", "deviation", "faster"),
    [
        (1.2, 0.0, True),
        (1.005, 0.0, False),  # worth nothing
        (1.2, 0.21, True),  # 80.7 % probable
        (1.2, 0.22, False),  # 79.6 %
        (0.8, 0.01, False),
        (1.5, 500.0, False),
    ],
)
def test_a_gain_is_one_where_it_is_probable(middle, deviation, faster):
    assert gain(middle, deviation).is_faster() is faster


def test_of_two_gains_the_surer_one_may_count_for_more():
    sure, doubtful = gain(1.25, 0.05), gain(1.3, 0.2)
    assert sure.surely() > doubtful.surely() > 1
    over = sum(1.3 * exp(0.2 * NormalDist().inv_cdf((each + 0.5) / 1000)) > doubtful.surely() for each in range(1000))
    assert over == 800


def test_what_is_not_known_is_no_gain():
    assert not gain(2.0, 0.0, known=False).is_faster()
    assert not Gain(ratio=Interval(middle=1.5, low=0, high=inf), records=0, known=True).is_faster()
