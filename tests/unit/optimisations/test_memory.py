"""Whether a training fits, by its trace, and what is taken where it does not."""

from __future__ import annotations

import time

import pytest
from measured import Measured
from traced import GIB, MIB, need

from modak_ansible.model.distributed import Distributed
from modak_ansible.model.measured.need import TracedLoop
from modak_ansible.optimisations.base import CannotPlan
from modak_ansible.optimisations.computation.memory import planned_memory
from modak_ansible.planning.plan import make_plan

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
    assert taken(traced(draft, 4 * GIB)).reason == "2.4 GB (1.9 GB to 3.1 GB) of 4.3 GB, what is asked for a node"
    reason = taken(traced(draft, 2200 * MIB)).reason
    assert reason.startswith("2.4 GB (1.9 GB to 3.1 GB) otherwise, and 1.7 GB")


def test_what_repeats_nothing_cannot_be_computed_again(draft):
    made = traced(draft, 2200 * MIB, need(repeats=False))
    assert taken(made).value == "out-of-core"
    assert "the model has no repeated blocks" in why_not(matter("memory").options(made), "recomputed")


def test_what_fits_in_no_way_is_refused_with_the_cures(draft):
    made = traced(draft, 1700 * MIB, resources={"accelerators": 1}, known=need(repeats=False))
    with pytest.raises(CannotPlan) as caught:
        matter("memory").options(made)
    assert caught.value.about == "resources.memory"
    assert "fits: 2.4 GB" in caught.value.message
    assert "out-of-core: an accelerator's memory cannot be kept in files" in caught.value.message
    assert "ask for 3.1 GB a node" in caught.value.hint
    assert "spread the batch over nodes: 4" in caught.value.hint


def test_without_a_trace_nothing_is_decided(draft):
    made = draft(application=PREPARES, resources={"memory": GIB})
    assert matter("memory").options(made) == ()
    assert planned_memory(made) is None


def test_a_preference_stands(draft):
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


def decided(made):
    """What is taken of prepare's strategies, why, and why not what else there is."""
    strategy = matter("strategy")
    options = {each.value: each.why_not for each in strategy.options(made)}
    found = strategy.default(made)
    return found.value, found.reason, options


def ranks(draft, room, *, count=2, known=None, **application):
    made = draft(application=PREPARES | application, resources={"memory": room, "nodes": count})
    made.request = made.request.model_copy(update={"need": known or need()})
    return made


def test_ranks_have_parts_of_the_parameters_where_only_that_fits(draft):
    made = ranks(draft, 2200 * MIB)
    value, reason, options = decided(made)
    assert value == "fsdp"
    assert reason.startswith("a rank with its part of the parameters needs 1.4 GB")
    assert reason.endswith("of 2.3 GB, what is asked for a node")
    assert options["ddp"].startswith("it needs 1.7 GB (1.3 GB to 2.6 GB)")
    assert taken(made).value == "fits"
    assert planned_memory(made).peak.middle == 1320 * MIB
    assert "only parts of the model's parameters" in why_not(matter("memory").options(made), "recomputed")


def test_ranks_keep_all_parameters_where_that_fits(draft):
    value, _, options = decided(ranks(draft, 4 * GIB))
    assert (value, options["fsdp"]) == ("ddp", "ddp fits, and sends less")


def test_what_is_asked_for_stands_whatever_fits(draft):
    for asked in ("ddp", "fsdp", "tensor", "pipeline"):
        made = ranks(draft, 2200 * MIB, distributed=Distributed(strategy=asked))
        value, reason, options = decided(made)
        assert (value, reason, list(options)) == (asked, "asked for", ["none", asked])


def test_without_a_trace_ranks_keep_all_parameters(draft):
    made = draft(application=PREPARES, resources={"memory": GIB, "nodes": 2})
    value, _, options = decided(made)
    assert (value, list(options)) == ("ddp", ["none", "ddp"])


def test_where_neither_fits_the_next_step_is_taken_and_the_refusal_names_all(draft):
    big = need().model_copy(update={"units": (500 * MIB,), "parameters": 150 * MIB})
    made = ranks(draft, 2200 * MIB, known=big)
    value, _, options = decided(made)
    assert value == "ddp"
    assert options["fsdp"].startswith("it needs 3")
    assert taken(made).value == "recomputed"
    with pytest.raises(CannotPlan) as caught:
        matter("memory").options(ranks(draft, 1100 * MIB, known=big))
    assert "; fsdp: it needs 3" in caught.value.message


def test_layers_are_split_where_only_that_fits(draft):
    sizes = {"units": (900 * MIB,), "widths": {64: 2000 * MIB}, "parameters": 2000 * MIB, "stages": {3: 0}}
    known = need().model_copy(update=sizes)
    value, reason, options = decided(ranks(draft, 4 * GIB, known=known))
    assert value == "tensor"
    assert reason.startswith("a rank with its part of the parameters needs")
    assert options["ddp"].startswith("it needs")
    assert options["fsdp"].startswith("it needs")
    value, _, options = decided(ranks(draft, 4 * GIB, known=known, count=3))
    assert value == "ddp"
    assert options["tensor"] == "by its trace nothing in the model can be split by 3 ranks"
    assert options["pipeline"] == "by its trace the model has fewer layers than 3 ranks"


def test_layers_are_split_in_copies_where_only_a_part_of_the_batch_fits_beside_them(draft):
    peaks = {"8": 2200 * MIB, "2": 3000 * MIB, "1": 4000 * MIB}
    loop = TracedLoop.model_validate({"rows": 64, "steps": 7, "peaks": peaks, "tensors": peaks})
    sizes = {"parameters": 400 * MIB, "gradients": 400 * MIB, "state": 800 * MIB, "widths": {64: 400 * MIB}}
    known = need().model_copy(update={**sizes, "units": (900 * MIB,), "loops": (loop,)})
    made = ranks(draft, 4500 * MIB, known=known, count=4)
    value, reason, options = decided(made)
    assert value == "tensor_2"
    assert "with its part of the parameters of one of 2 copies needs 2.8 GB" in reason
    assert all(options[each].startswith("it needs") for each in ("ddp", "fsdp", "tensor", "pipeline"))
    assert planned_memory(made).peak.middle == (300 + 3000 - 800 + 200) * MIB
    assert decided(ranks(draft, 4900 * MIB, known=known, count=4))[0] == "tensor"
    with pytest.raises(CannotPlan) as caught:
        matter("memory").options(ranks(draft, 2000 * MIB, known=known, count=4))
    assert "; tensor_2: it needs" in caught.value.message


def test_more_ranks_that_would_fit_are_named_with_the_degree_that_is_asked_for(draft):
    known = need().model_copy(update={"widths": {64: 100 * MIB}})
    asked = Distributed(strategy="tensor", degree=2)
    with pytest.raises(CannotPlan) as caught:
        matter("memory").options(ranks(draft, 2200 * MIB, known=known, distributed=asked))
    assert "spread the batch over nodes: 4" in caught.value.hint


def test_who_asks_for_tensor_is_told_where_nothing_can_be_split(draft):
    known = need().model_copy(update={"widths": {7: MIB}})
    with pytest.raises(CannotPlan) as caught:
        decided(ranks(draft, GIB, known=known, distributed=Distributed(strategy="tensor")))
    assert caught.value.message == "by its trace nothing in the model can be split by 2 ranks"
    assert decided(ranks(draft, GIB, distributed=Distributed(strategy="tensor")))[0] == "tensor"  # not traced so far


def test_who_asks_for_stages_is_told_where_layers_are_fewer(draft):
    known = need().model_copy(update={"stages": {2: 0}})
    with pytest.raises(CannotPlan) as caught:
        decided(ranks(draft, GIB, known=known, distributed=Distributed(strategy="pipeline")))
    assert caught.value.message == "by its trace the model has fewer layers than 2 ranks"


def test_layers_go_to_ranks_where_only_that_fits(draft):
    sizes = {"parameters": 1000 * MIB, "gradients": 1000 * MIB, "state": 0, "units": (900 * MIB,)}
    known = need().model_copy(update={**sizes, "widths": {7: MIB}, "stages": {2: 500 * MIB}})
    value, reason, options = decided(ranks(draft, 2100 * MIB, known=known))
    assert value == "pipeline"
    assert reason.startswith("a rank with its part of the parameters needs 1.4 GB")
    assert options["tensor"] == "by its trace nothing in the model can be split by 2 ranks"


def test_who_asks_for_ddp_is_told_that_fsdp_fits(draft):
    known = need(repeats=False)
    with pytest.raises(CannotPlan) as caught:
        matter("memory").options(ranks(draft, 2200 * MIB, known=known, distributed=Distributed(strategy="ddp")))
    assert "distributed: { strategy: fsdp }; or spread the batch over nodes: 4" in caught.value.hint


def test_a_pytorch_that_cannot_share_out_parameters_is_not_asked_to(draft):
    value, _, options = decided(ranks(draft, 2200 * MIB, version="2.5"))
    assert value == "ddp"
    assert options["fsdp"] == "PyTorch 2.5 cannot share out parameters as prepare has it; 2.13 can"
    made = ranks(draft, 2200 * MIB, distributed=Distributed(strategy="fsdp"))
    builds = {each.value: each.why_not for each in matter("image").options(made)}
    assert builds["pytorch-2.13-cpu"] == ""
    assert "cannot share out parameters" in builds["pytorch-1.4-pip"]


@pytest.mark.parametrize("tunes", [False, True])
def test_a_plan_goes_on_where_a_value_of_another_matter_would_leave_no_way_to_fit(draft, tunes):
    """A compiled model is neither computed again nor out of core."""
    made = traced(draft, 1000 * MIB, numerics="reassociation", autotuning=tunes)
    plan = make_plan(made.request, model=Measured())
    chosen = {each.name: each for each in plan.choices}
    assert (chosen["memory"].value, chosen["compiler"].value) == ("out-of-core", "none")
    (inductor,) = [each for each in chosen["compiler"].rejected if each.value == "inductor"]
    assert inductor.reason == "it cannot be combined with the rest of the plan"
