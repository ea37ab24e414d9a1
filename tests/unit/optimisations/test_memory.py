"""Whether a training fits, by its trace, and what is taken where it does not."""

from __future__ import annotations

import time

import pytest
from traced import GIB, MIB, need

from modak_ansible.optimisations.base import CannotPlan
from modak_ansible.optimisations.computation.memory import planned_memory

from .conftest import matter, why_not

PREPARES = {"prepares": True}


def traced(draft, room, known=None, **more):
    made = draft(application=PREPARES, resources={"memory": room, **more.pop("resources", {})}, **more)
    made.request = made.request.model_copy(update={"need": known or need()})
    return made


def taken(made):
    return matter("memory").default(made)


@pytest.mark.parametrize(
    ("memory", "value"), [(4 * GIB, "fits"), (2200 * MIB, "recomputed"), (1000 * MIB, "out-of-core")]
)
def test_the_first_that_fits_is_taken(draft, memory, value):
    assert taken(traced(draft, memory)).value == value


def test_the_reason_has_what_is_needed_and_what_there_is(draft):
    assert taken(traced(draft, 4 * GIB)).reason == "2.4 GB (2.1 GB to 3.1 GB) of 4.3 GB, what is asked for a node"
    reason = taken(traced(draft, 2200 * MIB)).reason
    assert reason.startswith("2.4 GB (2.1 GB to 3.1 GB) otherwise, and 1.7 GB")


def test_what_repeats_nothing_cannot_be_computed_again(draft):
    made = traced(draft, 2200 * MIB, need(repeats=False))
    assert taken(made).value == "out-of-core"
    assert "nothing in the model repeats" in why_not(matter("memory").options(made), "recomputed")


def test_what_fits_in_no_way_is_refused_with_the_cures(draft):
    made = traced(draft, 1700 * MIB, resources={"accelerators": 1}, known=need(repeats=False))
    with pytest.raises(CannotPlan) as caught:
        matter("memory").options(made)
    assert caught.value.about == "resources.memory"
    assert "fits: 2.4 GB" in caught.value.message
    assert "out-of-core: an accelerator's memory has no files" in caught.value.message
    assert "ask for 3.1 GB a node" in caught.value.hint
    assert "share out the batch over nodes: 8" in caught.value.hint


def test_without_a_trace_nothing_is_decided(draft):
    made = draft(application=PREPARES, resources={"memory": GIB})
    assert matter("memory").options(made) == ()
    assert planned_memory(made) is None


def test_a_wish_stands(draft):
    made = traced(draft, 1000 * MIB, memory="fits")
    assert taken(made) is None
    assert planned_memory(made).peak.middle == 2300 * MIB


def test_ranks_share_what_is_needed(draft):
    alone = planned_memory(traced(draft, 4 * GIB)).peak.middle
    shared = planned_memory(traced(draft, 4 * GIB, resources={"nodes": 4})).peak.middle
    assert shared == (300 + 800 + 100) * MIB < alone


def test_64_ranks_are_weighed_at_once(draft):
    made = traced(draft, 4 * GIB, resources={"nodes": 64})
    began = time.monotonic()
    taken(made)
    assert time.monotonic() - began < 1
