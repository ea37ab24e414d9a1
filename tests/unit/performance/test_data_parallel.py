"""The law of data-parallel training against measured steps, and what must hold of it whatever the numbers."""

from __future__ import annotations

import math
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modak_ansible.performance.data_parallel import (
    MIB,
    Buckets,
    Layer,
    Link,
    all_gather,
    all_reduce,
    even_layers,
    exposed,
    reduce_scatter,
    straggler,
)

# The MNIST-CNN: bytes of weights and biases, and each layer's share of the compute, a third of it forward.
MNIST = tuple(
    Layer(gradients, share / 3, 2 * share / 3)
    for gradients, share in (((1152, 128), 0.03), ((73728, 256), 0.9), ((4718592, 512), 0.065), ((5120, 40), 0.005))
)
# By an all-reduce of gloo's between two ranks: latency of the smallest size, the slope of the two largest ones.
SLOW, FAST = Link(0.335e-3, 84.5e-9), Link(0.335e-3, 8.45e-9)
DEFAULT, FP16 = Buckets(), Buckets(kept=0.5)

seconds = st.floats(1e-6, 10.0)
ranks = st.integers(1, 4096)
links = st.builds(Link, st.floats(0, 1e-2), st.floats(0, 1e-6))
buckets = st.builds(
    Buckets, st.floats(1, 1e9), st.floats(1, 1e9), st.floats(0.01, 1), st.integers(1, 8), st.just(0), st.just(0.0), st.just(1)
)  # fmt: skip
switched = st.builds(
    Buckets, st.floats(1, 1e9), st.floats(1, 1e9), st.floats(0.01, 1), st.integers(1, 8),
    rank=st.integers(0, 8), coding=st.floats(0, 1e-7), every=st.integers(1, 64),
)  # fmt: skip
networks = st.builds(even_layers, st.integers(1, 10**9), st.integers(1, 60))


@pytest.mark.parametrize(
    ("count", "link", "buckets", "compute", "measured"),
    [
        # 100 Mbit/s; alpha and beta of two ranks, and the step without communication, are all that it is told
        (2, SLOW, DEFAULT, 134.0, fmean([466, 528, 448, 469])),  # four settings that send the same buckets
        (4, SLOW, DEFAULT, 134.0, 697),
        (8, SLOW, DEFAULT, 134.0, 769),
        (2, SLOW, FP16, 134.0, 248),
        (4, SLOW, FP16, 134.0, 372),
        (8, SLOW, FP16, 134.0, 418),
        (2, SLOW, Buckets(100 * MIB, 100 * MIB), 134.0, 580),
        (2, SLOW, Buckets(passes=4), 134.0, 225),
        # 1 Gbit/s
        (2, FAST, DEFAULT, 137.0, fmean([166, 132, 152, 155])),
        (2, FAST, FP16, 137.0, 148),
        (2, FAST, Buckets(100 * MIB, 100 * MIB), 137.0, 188),
        (2, FAST, Buckets(passes=4), 137.0, 143),
    ],
)
def test_measured_steps_are_predicted_within_a_tenth(count, link, buckets, compute, measured):
    predicted = compute + 1e3 * exposed(count, compute / 1e3, MNIST, link, buckets)
    assert predicted == pytest.approx(measured, rel=0.1)


def test_a_ring_and_rabenseifner_send_the_same_bytes_in_more_or_fewer_messages():
    link = Link(1e-3, 1e-9)
    assert all_reduce(4, 1e9, link) == pytest.approx(6e-3 + 1.5)
    assert all_reduce(4, 1e9, link, "rabenseifner") == pytest.approx(4e-3 + 1.5)
    assert all_reduce(1024, 0, link) == 0


def test_gathering_is_half_of_a_sum_and_gloo_sums_everywhere_what_it_scatters():
    link = Link(1e-3, 1e-9)
    assert all_gather(4, 1e9, link, by_gloo=False) == pytest.approx(all_reduce(4, 1e9, link) / 2)
    assert reduce_scatter(4, 1e9, link, by_gloo=False) == pytest.approx(all_reduce(4, 1e9, link) / 2)
    assert all_gather(4, 1e9, link) == pytest.approx(3e-3 + 3.5 / 4)
    assert reduce_scatter(4, 1e9, link) == all_reduce(4, 1e9, link)


def test_what_is_ready_early_hides_behind_the_rest_of_the_backward_pass():
    link = Link(0, 1e-9)
    late = (Layer((1e8,), 0.3, 0.1), Layer((), 0.1, 0.5))
    early = tuple(reversed(late))
    assert exposed(2, 1.0, late, link) == pytest.approx(0.1)
    assert exposed(2, 1.0, early, link) == 0
    assert exposed(2, 1.0, early, link, Buckets(1e9, 1e9)) == pytest.approx(0.1)  # one bucket waits for the last


def test_factors_send_little_and_cost_computing_and_tensors_that_are_small_go_as_they_are():
    assert Buckets(rank=1).sent(4 * 2**20) == 8 * 2**10 * 4
    assert Buckets(rank=1, kept=0.5).sent(400.0) == 200.0
    layers, link = even_layers(10**6, 4), Link(1e-3, 80e-9)
    assert exposed(4, 0.1, layers, link, Buckets(rank=1)) < 0.1 * exposed(4, 0.1, layers, link)
    # conversion before and after, and what leaves at the end
    costly = exposed(4, 0.1, layers, link, Buckets(rank=1, coding=1e-8))
    assert costly == pytest.approx(exposed(4, 0.1, layers, link, Buckets(rank=1)) + 1e-8 * 4e6, rel=0.05)


def test_a_mean_every_so_many_steps_is_one_sum_for_all_of_them_and_nothing_hides_it():
    link = Link(0.0, 80e-9)
    assert exposed(4, 10.0, MNIST, link, Buckets(every=16)) == pytest.approx(1.5 * 4799528 * 80e-9 / 16)
    assert exposed(4, 10.0, MNIST, link, Buckets(every=16, kept=0.5)) == pytest.approx(1.5 * 4799528 * 40e-9 / 16)
    assert exposed(1, 10.0, MNIST, link, Buckets(every=16, coding=1.0)) == 0


def test_the_slowest_of_many_ranks_is_waited_for():
    assert straggler(1, 0.5) == 1
    # the mean of the largest of two normal numbers is 0.56 standard deviations, of a hundred 2.51
    assert math.log(straggler(2, 1.0)) == pytest.approx(0.564, rel=0.05)
    assert math.log(straggler(100, 1.0)) == pytest.approx(2.508, rel=0.01)


@given(ranks, seconds, networks, links, switched)
def test_what_is_exposed_is_a_time_and_one_rank_has_none(count, compute, layers, link, held):
    assert 0 <= exposed(count, compute, layers, link, held) < math.inf
    assert exposed(1, compute, layers, link, held) == 0


@given(ranks, seconds, networks, links, buckets)
def test_a_slower_network_never_helps(count, compute, layers, link, held):
    now = exposed(count, compute, layers, link, held)
    for worse in (Link(2 * link.alpha + 1e-6, link.beta), Link(link.alpha, 2 * link.beta + 1e-12)):
        assert exposed(count, compute, layers, worse, held) >= now
    assert exposed(count + 1, compute, layers, link, held) >= now * (1 - 1e-12)
    assert exposed(count, compute, layers, link, held._replace(kept=held.kept / 2)) <= now
    whole = all_reduce(count, sum(map(sum, (layer.gradients for layer in layers))) * held.kept, link)
    sums = sum(len(layer.gradients) for layer in layers)
    assert now * held.passes <= whole + 2 * sums * count * link.alpha + 1e-9


@given(ranks, st.floats(0, 1e12), links, st.booleans())
def test_a_gather_and_a_scatter_together_are_no_less_than_a_sum(count, size, link, by_gloo):
    each = [act(count, size, link, by_gloo=by_gloo) for act in (all_gather, reduce_scatter)]
    assert sum(each) >= all_reduce(count, size, link) * (1 - 1e-12)
    assert each[0] <= all_reduce(count, size, link) * (1 + 1e-12)
    assert all_gather(1, size, link, by_gloo=by_gloo) == reduce_scatter(1, size, link, by_gloo=by_gloo) == 0


@given(ranks)
def test_a_rank_that_jitters_never_helps(count):
    assert straggler(count, 0.2) >= straggler(count, 0.1) >= 1
