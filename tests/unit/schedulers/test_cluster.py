"""Names, sizes, times and nodes, as schedulers write them."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modak_ansible.schedulers.cluster import (
    ClusterFacts,
    NodeKind,
    PartitionFacts,
    bytes_of,
    cluster_from_json,
    count_of,
    expand_nodes,
    kinds_of,
    parse_walltime,
)


@pytest.mark.parametrize(
    ("text", "names"),
    [("node[01-03,7]", ["node01", "node02", "node03", "node7"]), ("a,b", ["a", "b"]), ("(null)", []), ("", []),
     ("n[1-2]-ib[0-1]", ["n1-ib0", "n1-ib1", "n2-ib0", "n2-ib1"]), ("n[009-011]", ["n009", "n010", "n011"]),
     ("a[1,3],b,c[2]x", ["a1", "a3", "b", "c2x"]), ("n[1-x]", []), ("n[1-999999999]", []), ("n[3-1]", [])],
)  # fmt: skip
def test_lists_of_nodes(text, names):
    assert expand_nodes(text) == names


@given(st.lists(st.integers(0, 9999), min_size=1, max_size=20, unique=True), st.integers(1, 5))
def test_a_list_of_numbers_is_the_nodes_that_it_names(numbers, width):
    names = [f"node{number:0{width}}" for number in numbers]
    assert expand_nodes(f"node[{','.join(f'{number:0{width}}' for number in numbers)}]") == names


@given(st.integers(0, 500), st.integers(0, 500), st.integers(1, 4))
def test_a_range_has_as_many_nodes_as_numbers(first, more, width):
    names = expand_nodes(f"n[{first:0{width}}-{first + more:0{width}}]")
    assert len(names) == len(set(names)) == more + 1


@given(st.text(alphabet="an019[],- ()\n", max_size=30))
def test_no_list_of_nodes_breaks_it(text):
    assert all(name for name in expand_nodes(text))


def test_nodes_whose_kernels_leave_a_little_more_or_less_of_their_memory_are_of_a_kind():
    """As PBS tells it of each; what a job may have is the least of it."""
    sizes = (527831088, 527831076, 527700000, 1056760000, None)
    nodes = [NodeKind(example=f"n{place}", cores=64, memory=size and size * 1024) for place, size in enumerate(sizes)]
    assert [(kind.count, kind.example, kind.memory) for kind in kinds_of(nodes)] == [
        (3, "n0", 527700000 * 1024), (1, "n3", 1056760000 * 1024), (1, "n4", None),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "unit", "count"),
    [("4000", "m", 4000 * 2**20), ("192000M", "m", 192000 * 2**20), ("187.5G", "m", int(187.5 * 2**30)), ("1T", "m", 2**40),
     ("24684092kb", "k", 24684092 * 1024), ("16gb", "k", 16 * 2**30), ("500b", "k", 500), ("8mb", "k", 8 * 2**20),
     ("UNLIMITED", "m", None), ("", "m", None), ("100mw", "k", None), ("9" * 400, "m", None)],
)  # fmt: skip
def test_sizes(text, unit, count):
    assert bytes_of(text, unit) == count


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("60", 3600), ("10:30", 630), ("12:00:00", 43200), ("1-00:00:00", 86400), ("2-12", 216000), ("1-02:30", 95400),
     ("UNLIMITED", None), ("INFINITE", None), ("NONE", None), ("Partition_Limit", None), ("", None)],
)  # fmt: skip
def test_times(text, seconds):
    assert parse_walltime(text) == seconds


@given(st.text(max_size=40))
def test_any_word_is_a_value_or_unknown(text):
    for value in (parse_walltime(text), count_of(text), bytes_of(text)):
        assert value is None or value >= 0


def test_nodes_that_are_alike_are_one_kind():
    big, small = NodeKind(cores=64, features=("rack1", "amd")), NodeKind(cores=8)
    other_rack = NodeKind(cores=64, features=("rack2", "amd"), unusable=1)
    first, second = kinds_of([small, big, other_rack])
    assert (first.count, first.unusable, first.cores, first.features) == (2, 1, 64, ("amd",))
    assert (second.count, second.cores) == (1, 8)


_WORDS = st.text(max_size=8)
_COUNTS = st.none() | st.integers(0, 10**6)
_KINDS = st.builds(
    NodeKind, count=st.integers(1, 9), example=_WORDS, cores=_COUNTS, memory=_COUNTS,
    layout=st.none() | st.tuples(*[st.integers(1, 9)] * 3),
    accelerators=st.lists(st.tuples(_WORDS, st.integers(1, 9)), max_size=3).map(tuple),
    features=st.lists(_WORDS, max_size=3).map(tuple),
)  # fmt: skip
_PARTITIONS = st.builds(PartitionFacts, name=_WORDS, nodes=_COUNTS, kinds=st.lists(_KINDS, max_size=3).map(tuple))


@given(
    st.builds(
        ClusterFacts,
        scheduler=st.just("slurm"),
        partitions=st.lists(_PARTITIONS, max_size=3).map(tuple),
        accounts=st.none() | st.lists(_WORDS, max_size=3).map(tuple),
        unknown=st.lists(_WORDS, max_size=2).map(tuple),
    )
)
def test_a_cluster_travels_as_json(cluster):
    assert cluster_from_json(json.loads(json.dumps(cluster.as_json()))) == cluster
