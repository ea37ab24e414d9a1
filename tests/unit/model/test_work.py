"""What a training computes, by its operators' rooflines."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modak_ansible.model.measured.need import Operator, by_intensity, traced_work
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


def test_a_trace_counts_the_calls_of_a_step_whatever_its_samples() -> None:
    operators = [
        Operator(name=name, shapes=(), format="float32", count=count, flop=8 * 10**9, bytes=10**9)
        for name, count in (("mm", 3), ("add_", 20))
    ]
    assert traced_work(operators, 2).calls == traced_work(operators, 8).calls == 23
    assert traced_work(operators, 2).operators == by_intensity(operators, 2)
    assert traced_work(operators, 2).kernel_seconds == 0.0  # each is as fast as its roofline


def test_some_kernels_are_slower_than_the_machine() -> None:
    """Batch-norm as to what it moves, attention as to what it computes."""

    def seconds(name: str, flop: int, size: int) -> float:
        operator = Operator(name=name, shapes=(), format="float32", count=1, flop=flop, bytes=size)
        return traced_work([operator], 10).kernel_seconds

    norm = seconds("native_batch_norm_backward", 0, 10**9)
    assert norm > 0
    assert seconds("native_batch_norm_backward", 0, 2 * 10**9) == pytest.approx(2 * norm)
    attention = "_scaled_dot_product_flash_attention_for_cpu"
    assert seconds(attention, 10**9, 10**8) == seconds(attention, 10**9, 10**9) > 0


def attention(queries: int, keys: int) -> Work:
    """Of 8 samples with 4 heads each of 32 numbers."""
    shapes = ((8, 4, queries, 32), (8, 4, keys, 32), (8, 4, keys, 32))
    name = "_scaled_dot_product_flash_attention_for_cpu"
    return traced_work(
        [Operator(name=name, shapes=shapes, format="float32", count=2, flop=10**6, bytes=10**6)], samples=8
    )


def test_attention_takes_as_long_for_each_piece_of_its_queries_in_bf16_and_by_onednn() -> None:
    one = attention(32, 32)
    assert 0 < one.bf16_seconds < one.onednn_seconds
    assert attention(16, 64).onednn_seconds == one.onednn_seconds == attention(32, 512).onednn_seconds
    assert attention(33, 64).onednn_seconds == attention(64, 64).onednn_seconds == 2 * one.onednn_seconds
    assert attention(128, 128).bf16_seconds == attention(256, 256).bf16_seconds == 4 * one.bf16_seconds
    assert attention(8, 8).onednn_seconds == attention(8, 8).bf16_seconds == 0.0  # too small for oneDNN


@pytest.mark.parametrize(
    ("gradient", "weight", "is_slow"),
    [
        ((8, 16, 12, 12), (16, 1, 3, 3), True),
        ((8, 16, 11, 11), (16, 1, 3, 3), True),  # without padding
        ((8, 16, 24, 24), (16, 1, 3, 3), False),  # without a stride
        ((8, 16, 22, 22), (16, 1, 3, 3), False),  # without both
        ((8, 32, 12, 12), (32, 16, 3, 3), False),  # in a single group
        ((8, 16, 48, 48), (16, 1, 2, 2), False),  # transposed
    ],
)
def test_the_gradient_of_a_depthwise_convolution_with_a_stride_is_slow_in_bf16(
    gradient: tuple[int, ...], weight: tuple[int, ...], is_slow: bool
) -> None:
    shapes = (gradient, (8, 16, 24, 24), weight)
    operator = Operator(name="convolution_backward", shapes=shapes, format="float32", count=1, flop=1, bytes=1)
    assert (traced_work([operator], 8).bf16_seconds > 0) is is_slow
    assert traced_work([operator], 8).onednn_seconds == 0.0


def test_calls_take_time_for_a_step_and_slow_kernels_for_each_sample() -> None:
    work = Work(calls=1000, kernel_seconds=1e-4)
    calls = Work(calls=1000).seconds_beside(32, 1, {})
    assert calls == Work(calls=1000).seconds_beside(64, 4, {}) > 0
    assert work.seconds_beside(32, 1, {}) == pytest.approx(calls + 32e-4)
    assert work.seconds_beside(32, 4, {}) == pytest.approx(calls + 8e-4)  # a kernel's rows are shared out among threads
    assert Work().seconds_beside(32, 1, {}) == 0.0  # as of records from before


def test_kernels_are_as_slow_as_the_switches_make_them() -> None:
    work, by_onednn = Work(kernel_seconds=1e-4, bf16_seconds=2e-4, onednn_seconds=5e-4), {"matmul": "onednn"}
    assert work.seconds_beside(10, 1, {"allocator": "tcmalloc"}) == pytest.approx(1e-3)
    assert work.seconds_beside(10, 1, {"precision": "bf16"}) == pytest.approx(3e-3)
    assert work.seconds_beside(10, 1, by_onednn) == pytest.approx(6e-3)
    assert work.seconds_beside(10, 1, by_onednn | {"precision": "bf16"}) == pytest.approx(3e-3)  # none is left to it


@pytest.mark.parametrize(
    ("name", "format_", "contiguous", "in_bf16"),
    [
        ("native_batch_norm", "float32", True, False),
        ("native_batch_norm", "bfloat16", False, False),
        ("native_batch_norm", "float32 channels_last", False, False),
        ("max_pool2d_with_indices", "float32", True, True),
        ("max_pool2d_with_indices", "bfloat16", True, True),
        ("max_pool2d_with_indices", "bfloat16 channels_last", False, False),
        ("max_pool2d_with_indices_backward", "float32", False, False),
    ],
)
def test_batch_norm_and_max_pooling_are_slow_unless_channels_lie_last(
    name: str, format_: str, contiguous: bool, in_bf16: bool
) -> None:
    operator = Operator(name=name, shapes=(), format=format_, count=1, flop=0, bytes=10**9)
    work, bf16 = traced_work([operator], 10), {"precision": "bf16"}
    assert [work.seconds_beside(10, 1, switches) > 0.1 for switches in ({}, bf16)] == [contiguous, in_bf16]
    for switches in ({}, bf16):
        assert work.seconds_beside(10, 1, {**switches, "memory_format": "channels_last"}) < 1e-5


@given(OPERATORS, st.floats(0.1, 1000))
def test_taken_together_they_lie_near_the_sum_of_their_rooflines(operators: list[Operator], balance: float) -> None:
    """Those between two powers of two are no further from it than these."""
    ideal = sum(each.flop for each in operators) / 1e9
    exact = sum(max(each.flop / 1e9, each.bytes / 1e9 * balance) for each in operators)
    found = Work(operators=by_intensity(operators, 1)).over_ideal(balance, SINGLE)
    if ideal:
        assert found is not None
        assert exact / 2 <= found * ideal * 1.001 <= exact * 2
