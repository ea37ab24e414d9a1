"""The processes of a job, counted in one place."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from modak_ansible.model.application import Resources
from modak_ansible.model.process_layout import ProcessLayout

COUNTS = st.integers(1, 200)


@given(COUNTS, COUNTS, st.none() | COUNTS, COUNTS)
def test_slots_hold_all_processes_and_none_is_left_over(nodes, each, cores, sharing):
    layout = ProcessLayout(nodes, each, cores, sharing=sharing)
    assert (layout.slots - 1) * sharing < each <= layout.slots * sharing
    assert layout.shares_cores == (sharing > 1 and each > 1)
    assert (layout.processes, layout.cores_per_node) == (nodes * each, layout.slots * (cores or 1))


def test_threads_are_those_that_are_said_or_one_for_each_core():
    found = [ProcessLayout(cores=cores, threads=threads).threads_of_process for cores, threads in ((4, 2), (4, None))]
    assert [*found, ProcessLayout().threads_of_process] == [2, 4, 1]


@given(COUNTS, COUNTS, st.none() | COUNTS)
def test_resources_take_a_layout_and_give_it_back(nodes, each, cores):
    layout = ProcessLayout(nodes, each, cores)
    changed = Resources(memory=5, exclusive=True).with_layout(layout)
    assert (changed.layout, changed.memory, changed.exclusive) == (layout, 5, True)
