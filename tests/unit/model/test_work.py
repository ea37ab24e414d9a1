"""What a training computes, by its operators' rooflines."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modak_ansible.model.measured.need import Operator, by_intensity
from modak_ansible.model.measured.work import Rates, Work

SINGLE = Rates.usual()
OPERATORS = st.lists(
    st.tuples(st.integers(0, 10**15), st.integers(0, 10**12)).map(
        lambda each: Operator(name="mm", shapes=(), format="float32", count=1, flop=each[0], bytes=each[1])
    ),
    min_size=1,
)


def test_each_operator_takes_the_longer_of_its_work_and_its_bytes() -> None:
    work = Work(operators=((0.0, 2.0), (10.0, 1.0), (30.0, 0.5)))
    assert work.over_ideal(5.0, SINGLE) == (10.0 + 10.0 + 30.0) / 40.0
    assert work.over_ideal(20.0, SINGLE) == (40.0 + 20.0 + 30.0) / 40.0
    assert work.over_ideal(5.0, Rates.usual(2.0)) == (10.0 + 5.0 + 15.0) / 40.0  # what moves bytes is as slow as it was
    assert work.over_ideal(5.0, Rates.usual(0.5)) == (10.0 + 20.0 + 60.0) / 40.0


def test_convolutions_have_a_peak_of_their_own() -> None:
    work, rates = Work(operators=((10.0, 1.0, 4.0), (30.0, 10.0, 30.0))), Rates(products=2.0, convolutions=0.5)
    assert work.over_ideal(5.0, rates) == (6.0 / 2 + 4.0 / 0.5 + 30.0 / 0.5) / 40.0
    assert work.over_ideal(9.0, rates) == (6.0 / 2 + 4.0 / 0.5 + 90.0) / 40.0


def test_a_trace_tells_convolutions_apart() -> None:
    names = {"mm": 3, "convolution": 4, "convolution_backward": 5}
    operators = [
        Operator(name=name, shapes=(), format="float32", count=1, flop=flop * 10**9, bytes=10**9)
        for name, flop in names.items()
    ]
    assert by_intensity(operators, 2) == ((1.5, 0.5, 0.0), (4.5, 1.0, 4.5))


@pytest.mark.parametrize("operators", [(), ((0.0, 3.0),)])
def test_without_work_there_is_no_ideal(operators: tuple[tuple[float, float], ...]) -> None:
    assert Work(operators=operators).over_ideal(5.0, SINGLE) is None


@given(OPERATORS, st.floats(0.1, 1000))
def test_taken_together_they_lie_near_the_sum_of_their_rooflines(operators: list[Operator], balance: float) -> None:
    """Those between two powers of two are no further from it than these."""
    ideal = sum(each.flop for each in operators) / 1e9
    exact = sum(max(each.flop / 1e9, each.bytes / 1e9 * balance) for each in operators)
    found = Work(operators=by_intensity(operators, 1)).over_ideal(balance, SINGLE)
    if ideal:
        assert found is not None
        assert exact / 2 <= found * ideal * 1.001 <= exact * 2
