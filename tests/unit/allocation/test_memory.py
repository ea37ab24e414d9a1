"""What a process of a training needs of memory, by a trace that is on record."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from traced import GIB, MIB, need

from modak_ansible.allocation.memory import limit_of
from modak_ansible.model.measured.need import (
    Need,
    Operator,
    TracedAccelerator,
    TracedLoop,
    TracedMemory,
    TracedRank,
    peak_of,
    split_of,
)
from modak_ansible.model.process_layout import ProcessLayout
from modak_ansible.model.target import Accelerator, Partition
from modak_ansible.planning.service import request_of
from modak_ansible.reading.blueprint.reader import Inputs


@pytest.fixture
def request_(blueprint):
    return request_of(blueprint.service, Inputs())


def middle(*words, **more):
    return peak_of(need(), *words, **more).middle / MIB


def test_one_process_has_its_base_and_the_whole_batch():
    assert middle() == 300 + 2000


def test_ranks_share_out_the_batch_and_send_gradients():
    assert middle(2, "ddp") == 300 + 1200 + 100
    assert middle(8, "ddp") == 300 + 600 + 100
    assert middle(4, "ddp") == 300 + 800 + 100  # on the line between an eighth and a half
    assert middle(2, "own") == middle(2, "none") == middle()


def test_what_does_not_learn_has_room_for_its_gradients_in_ranks():
    frozen = need().model_copy(update={"gradients": 0})
    assert peak_of(frozen, 2, "ddp") == peak_of(need(), 2, "ddp")


def test_what_evaluates_is_not_shared_out():
    assert peak_of(need(evaluates=1900 * MIB), 8, "ddp").middle == (300 + 1900 + 100) * MIB


def test_parameters_that_are_shared_out_leave_room():
    # a quarter of 100 and 200 MiB, of 1600 that grow with the batch, and a unit of 20 MiB three times and a quarter
    assert middle(4, "fsdp") == 300 + 300 / 4 + 1600 / 4 + 3.25 * 20
    assert middle(4, "fsdp", batch=128) == 300 + 300 / 4 + 1600 / 2 + 3.25 * 20


def test_layers_that_are_split_leave_room_and_the_batch_does_not():
    split = need().model_copy(update={"widths": {64: 60 * MIB, 6: 20 * MIB}})
    assert peak_of(split, 4, "tensor").middle / MIB == 300 + 2000 - 3 / 4 * 0.6 * (100 + 100 + 200)
    assert peak_of(split, 2, "tensor").middle / MIB == 300 + 2000 - 1 / 2 * 0.8 * (100 + 100 + 200)
    assert peak_of(split, 5, "tensor").middle / MIB == 300 + 2000
    assert peak_of(split, 4, "tensor", batch=32).middle / MIB == 300 + 1200 - 3 / 4 * 0.6 * 400


def test_copies_of_a_model_in_parts_share_out_the_batch_and_send_gradients():
    parted = need().model_copy(update={"widths": {64: 60 * MIB}, "stages": {2: 40 * MIB}})
    held = 100 - 0.5 * 60  # MiB of parameters in each of two ranks
    assert peak_of(parted, 4, "tensor_2").middle / MIB == 300 + 1200 - 0.5 * 0.6 * (100 + 100 + 200) + held
    assert peak_of(parted, 4, "pipeline_2").middle / MIB == 300 + 1200 - 0.6 * (100 + 100 + 200) + 40
    assert peak_of(parted, 4, "tensor_2", batch=128).middle / MIB == 300 + 2000 - 0.3 * 400 + held
    assert peak_of(parted, 4, "fsdp_2").middle / MIB == 300 + 300 / 2 + 1600 / 4 + 3.5 * 20  # halves, a quarter each
    assert peak_of(parted, 2, "tensor_2") == peak_of(parted, 2, "tensor")  # which is no copy


def test_what_copies_wait_for():
    parted = need().model_copy(update={"widths": {64: 60 * MIB}, "stages": {2: 40 * MIB}})
    whole, copies = split_of(parted, 2, "tensor"), split_of(parted, 8, "tensor_2")
    assert copies.left == whole.left / 4  # each has a quarter of the batch
    assert (copies.messages, copies.size) == (whole.messages, whole.size // 4)
    assert (whole.gradients, copies.gradients) == (0, 70 * MIB)
    assert split_of(parted, 8, "pipeline_2").left == 0.4 / 4 * (8 + 1) / 8  # 16 samples, of which 8 pieces are made
    assert split_of(parted, 8, "pipeline_2").gradients == 40 * MIB


def test_layers_of_other_ranks_leave_room():
    staged = need().model_copy(update={"stages": {4: 40 * MIB, 8: 0}})
    assert peak_of(staged, 4, "pipeline").middle / MIB == 300 + 2000 - 0.6 * (100 + 100 + 200)
    assert peak_of(staged, 2, "pipeline").middle / MIB == 300 + 2000 - 0.5 * (100 + 100 + 200)  # nobody looked: even


def test_what_ranks_wait_for_whose_layers_are_in_stages():
    staged = need().model_copy(update={"stages": {2: 75 * MIB}})
    found, rows = split_of(staged, 2, "pipeline"), max(loop.rows for loop in staged.loops)
    assert rows > 8  # as many pieces as there can be
    assert found.left == 0.75 * 9 / 8
    assert not found.are_sums
    assert found.messages in (0, 2 * 9)
    assert found.followed == 0  # an earlier trace has no operators
    operator = Operator(name="addmm", shapes=(), format="float32", count=270, flop=0, bytes=0)
    traced = staged.model_copy(update={"operators": (operator,), "batches": 1})
    assert split_of(traced, 2, "pipeline").followed == 9 * 90  # each turn all of the forward pass
    assert split_of(traced.model_copy(update={"batches": 2}), 2, "pipeline").followed == 9 * 45
    assert split_of(None, 2, "pipeline").messages == 0


def test_what_is_around_all_units_is_whole_for_all_of_a_pass():
    assert (
        peak_of(need().model_copy(update={"rest": 30 * MIB}), 4, "fsdp").middle
        == peak_of(need(), 4, "fsdp").middle + 30 * MIB
    )


def test_a_model_without_units_is_whole_at_once():
    alone = need().model_copy(update={"units": (), "loops": ()})
    assert peak_of(alone, 2, "fsdp").middle == (300 + 300 / 2 + 100 / 2 + 3.5 * 100) * MIB
    assert peak_of(alone.model_copy(update={"rest": 100 * MIB}), 2, "fsdp") == peak_of(alone, 2, "fsdp")


def test_a_step_needs_its_part_of_what_it_needs_in_one_process():
    few = {
        "rows": 64,
        "steps": 7,
        "tensors": {"8": 600 * MIB, "2": 600 * MIB, "1": 600 * MIB},
        "peaks": {"1": 600 * MIB},
    }
    found = need().model_copy(update={"loops": (TracedLoop.model_validate(few),), "units": (1,)})
    assert peak_of(found, 2, "fsdp").middle == (300 + 600 / 2) * MIB


def of_ranks(*strategies: str, ranks: int = 2):
    """A training of which ranks were traced: of 1000 MiB, the second one of a pipeline of 1100."""
    loops = [{"rows": 32, "steps": 3, "tensors": {"1": 900 * MIB}, "peaks": {"1": 1000 * MIB}}]
    more = [{**loops[0], "peaks": {"1": 1100 * MIB}}]
    about = {"ranks": ranks, "setup": 150 * MIB, "computing": 40 * MIB}
    traced = [{**about, "strategy": each, "rank": 0, "loops": loops} for each in strategies]
    traced += [{**each, "rank": 1, "loops": more} for each in traced if each["strategy"] == "pipeline"]
    return need().model_copy(update={"traced": tuple(map(TracedRank.model_validate, traced))})


def test_a_rank_that_was_traced_needs_what_its_trace_says():
    found = of_ranks("fsdp", "pipeline")
    assert peak_of(found, 2, "fsdp").middle == (250 + 20 + 40 + 1000) * MIB
    assert peak_of(found, 2, "pipeline").middle == (250 + 20 + 40 + 1100) * MIB  # the largest
    assert peak_of(found, 4, "fsdp") == peak_of(need(), 4, "fsdp")  # as the law has it
    assert peak_of(found, 2, "ddp") == peak_of(need(), 2, "ddp")
    copies = of_ranks("tensor_2", ranks=4)
    assert peak_of(copies, 4, "tensor_2").middle == (250 + 20 + 40 + 1000) * MIB
    assert peak_of(copies, 4, "tensor") == peak_of(need(), 4, "tensor")
    assert peak_of(found) == peak_of(need())


def test_a_rank_that_was_traced_with_another_batch():
    found, whole = of_ranks("ddp", "tensor"), 310 + 1000
    assert peak_of(found, 2, "ddp", batch=128).middle / MIB == whole + 1600 / 2
    assert peak_of(found, 2, "ddp", batch=32).middle / MIB == whole - 1600 / 2 / 2
    assert peak_of(found, 2, "tensor", batch=128).middle / MIB == whole + 1600  # each rank has all of it
    assert peak_of(found, 2, "tensor", batch=32).middle / MIB == whole - 1600 / 2 / 2  # and may spare as little as that


def test_a_rank_that_was_traced_with_blocks_that_compute_again():
    assert peak_of(of_ranks("ddp"), 2, "ddp", "recomputed").middle / MIB == 310 + 1000 - (900 - 90 - 100) / 2


def test_what_was_traced_of_ranks_promises_closer():
    law, traced = peak_of(need(), 2, "fsdp"), peak_of(of_ranks("fsdp"), 2, "fsdp")
    assert traced.high / traced.middle < law.high / law.middle


def test_blocks_that_compute_again_keep_what_goes_into_them():
    assert middle(kept="recomputed") == 300 + 2000 - (900 - 90 - 100)
    assert middle(2, "ddp", kept="recomputed") == pytest.approx(300 + 1200 - (900 - 90 - 100) / 2 + 100)


def test_another_batch_needs_more_or_less():
    assert middle(batch=32) == 300 + 1200
    assert middle(batch=128) == 300 + 2000 + 1600


@given(st.floats(0.01, 4), st.floats(0.01, 4))
def test_more_samples_never_need_less(one, other):
    less, more = sorted((one, other))
    assert peak_of(need(), batch=max(1, int(64 * less))).middle <= peak_of(need(), batch=max(1, int(64 * more))).middle


def on_accelerator() -> Need:
    """Of a script that keeps little on the host, and most on an accelerator."""
    host = need()
    loops = [each.model_copy(update={"accelerator": TracedMemory(tensors={1: 900 * MIB}, peaks={1: 1000 * MIB})})
             for each in host.loops]  # fmt: skip
    there = TracedAccelerator(base=500 * MIB, setup=200 * MIB)
    return host.model_copy(update={"loops": tuple(loops), "accelerator": there})


def test_an_accelerators_memory_has_a_need_of_its_own():
    found = on_accelerator()
    assert peak_of(found) == peak_of(need())
    there = peak_of(found.on_accelerator())
    assert there.middle == (500 + 1000) * MIB
    assert there.high / there.middle < peak_of(found).high / peak_of(found).middle
    assert need().on_accelerator() == need()


def test_who_uses_no_accelerator_has_the_hosts_memory(request_):
    update = {
        "target": request_.target.model_copy(update={"accelerator": Accelerator(count=1, memory=16 * GIB)}),
        "resources": request_.resources.model_copy(update={"accelerators": 1, "memory": 500 * GIB}),
    }
    asked = request_.model_copy(update=update)
    limits = [
        limit_of(asked.model_copy(update={"need": each}), None, ProcessLayout(1, 1, 1, 1))
        for each in (None, on_accelerator().on_accelerator(), need())
    ]
    assert [limit.bytes if limit else 0 for limit in limits] == [16 * GIB, 16 * GIB, 500 * GIB]


def test_intervals_hold_what_was_found_around_predictions():
    found = peak_of(need())
    assert found.low < found.middle < found.high


@pytest.mark.parametrize(
    ("memory", "partition", "processes", "size", "words"),
    [
        (8 * GIB, None, 1, 8 * GIB, "what is asked for a node"),
        (8 * GIB, 64 * GIB, 2, 4 * GIB, "what is asked for a node, for 2 processes"),
        (None, 64 * GIB, 1, 64 * GIB, "a node of the partition batch"),
        (None, None, 1, 128 * GIB, "a node of cluster"),
    ],
)
def test_a_process_has_its_part_of_what_is_asked_for_or_of_the_node(
    request_, memory, partition, processes, size, words
):
    resources = request_.resources.model_copy(update={"memory": memory})
    processor = request_.target.processor.model_copy(update={"memory": 128 * GIB})
    target = request_.target.model_copy(update={"processor": processor, "name": "cluster"})
    asked = request_.model_copy(update={"resources": resources, "target": target})
    found = limit_of(asked, Partition(name="batch", memory=partition), ProcessLayout(1, processes, 1))
    assert found == (size, words)


@pytest.mark.parametrize(
    ("partition", "options", "size", "words"),
    [
        ({"memory_per_core": 2 * GIB}, {}, 8 * GIB, "what a job of the partition batch has that asks for no memory, for 2 processes"),
        ({"memory_per_core": 2 * GIB, "exclusive": True}, {}, 16 * GIB, "what a job of the partition batch has that asks for no memory, for 2 processes"),
        ({"memory_per_core": 64 * GIB}, {}, 32 * GIB, "a node of the partition batch, for 2 processes"),  # as much as there is
        ({"usual_memory": 2 * GIB}, {}, GIB, "what a job of the partition batch has that asks for no memory, for 2 processes"),
        ({"usual_memory": 2 * GIB}, {"minimum_memory_per_processor": 3 * GIB}, 12 * GIB, "what is asked for a node, for 2 processes"),
        ({"usual_memory": 2 * GIB, "asked": 40 * GIB}, {}, 20 * GIB, "what is asked for a node, for 2 processes"),
    ],
)  # fmt: skip
def test_a_job_that_asks_for_no_memory_has_what_its_scheduler_gives_it(request_, partition, options, size, words):
    """Slurm's DefMemPerCPU and DefMemPerNode, which end what takes more, however much the node has."""
    asks = {"memory": partition.pop("asked", None), "exclusive": partition.pop("exclusive", False)}
    asked = request_.model_copy(
        update={
            "resources": request_.resources.model_copy(update=asks),
            "job_options": request_.job_options.model_copy(update=options),
        }
    )
    there = Partition(name="batch", cores=16, memory=64 * GIB, **partition)
    assert limit_of(asked, there, ProcessLayout(1, 2, 4)) == (size, words)


@pytest.mark.parametrize(("processes", "bytes_"), [(1, 16 * GIB), (4, 16 * GIB), (8, 8 * GIB)])
def test_on_accelerators_their_own_memory_is_the_limit(request_, processes, bytes_):
    there = Accelerator(count=4, memory=16 * GIB)
    asked = request_.model_copy(
        update={
            "target": request_.target.model_copy(update={"accelerator": there}),
            "resources": request_.resources.model_copy(update={"accelerators": 4, "memory": 500 * GIB}),
        }
    )
    found = limit_of(asked, None, ProcessLayout(1, processes))
    assert found.bytes == bytes_
    assert found.reason.startswith(f"an accelerator of {request_.target.name}")
