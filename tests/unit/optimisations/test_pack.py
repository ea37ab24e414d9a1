"""Whether a dataset is packed, and where it is read, by the numbers of the target's storage."""

from __future__ import annotations

import pytest

from modak_ansible.model.dataset import Contents, DataSource
from modak_ansible.model.distributed import Parallelism
from modak_ansible.model.measured.work import Work
from modak_ansible.model.target import Scheduler, Storage

from .conftest import matter, why_not

SLOW = Storage(path="~", read_bandwidth=500, write_bandwidth=300, file_rate=300)
QUICK = Storage(path="~", read_bandwidth=500, write_bandwidth=300, file_rate=30000)
SSD = Storage(path="/scratch", sharing="node-local", read_bandwidth=1000, write_bandwidth=500, file_rate=30000)


@pytest.fixture
def made(draft):
    """A draft with so many files of 20 kB, and storage with the numbers that are given."""

    def make(files=20000, epochs=10, pack="auto", home=SLOW, scratch=None, application=None, **more):
        found = draft(
            target={"home": home, "scratch": scratch, **more.pop("target", {})},
            application={"work": Work(epochs=epochs), **(application or {})},
            **more,
        )
        contents = Contents(digest="0", files=files, size=files * 20000)
        source = DataSource(kind="folder", location="photos", contents=contents)
        data = found.request.dataset.model_copy(update={"sources": (source,), "size": files * 20000, "pack": pack})
        found.request = found.request.model_copy(update={"dataset": data})
        return found

    return make


def decided(draft):
    return matter("pack").default(draft)


def test_many_files_on_a_file_system_that_is_slow_to_open_them_are_packed(made):
    found = decided(made())
    assert found.value == "squashfs"
    assert found.reason == (
        "20,000 files take 1 min 7 s an epoch as they are and 2.8 s from one image, which takes 1 min 9 s to make; "
        "with 10 epochs that is faster"
    )


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"files": 500}, "500 files are too few to matter"),
        ({"home": QUICK}, "saves less than a fifth"),
        ({"epochs": 1}, "saves less than a fifth"),
        ({"home": None}, "how fast the target opens files is not known"),
        ({"home": Storage(path="~")}, "pack: squashfs asks for one image"),
        ({"target": {"container_runtime": "none"}}, "this runs without one"),
        ({"application": {"pre_execution": ("ls {dataset}",)}}, "run outside the container"),
        ({"application": {"post_execution": ("ls $MODAK_DATASET",)}}, "run outside the container"),
    ],
)
def test_otherwise_they_are_read_as_they_lie(made, changes, reason):
    found = decided(made(**changes))
    assert found.value == "none"
    assert reason in found.reason


def test_what_a_nodes_memory_keeps_is_read_from_the_storage_once(made):
    node = {"memory": 64 * 10**9}
    warm = SLOW.model_copy(update={"warm_file_rate": 80000.0})
    found = decided(made(home=warm, processor=node))
    assert found.value == "none"
    assert "1 min 7 s an epoch as they are (0.2 s in later epochs, out of memory)" in found.reason
    assert decided(made(home=warm, resources={"memory": 5 * 10**8})).value == "squashfs"
    asked_anew = SLOW.model_copy(update={"warm_file_rate": 410.0})  # as a parallel file system does at each open
    assert decided(made(home=asked_anew, processor=node)).value == "squashfs"
    one = made(home=warm, scratch=SSD.model_copy(update={"warm_file_rate": 80000.0}), processor=node)
    assert matter("staging").default(one).value == "shared"  # a copy would save nothing


def test_data_that_is_not_counted_is_not_packed(draft):
    assert decided(draft()).value == "none"


def test_who_asks_for_an_image_gets_it_or_is_told_why_not(made):
    asked = made(files=3, pack="squashfs")
    assert matter("pack").requested(asked) == "squashfs"
    assert why_not(matter("pack").options(asked), "squashfs") == ""
    assert matter("pack").requested(made(pack="none")) == "none"
    assert matter("pack").requested(made()) == ""
    native = made(pack="squashfs", target={"container_runtime": "none"})
    assert "the container runtime mounts an image" in why_not(matter("pack").options(native), "squashfs")


def test_what_is_taken_is_noted(made):
    one = made()
    matter("pack").apply(one, "squashfs")
    assert one.packed == (one.request.dataset.name,)


@pytest.mark.parametrize(
    ("packed", "epochs", "value"), [(False, 10, "node-local"), (True, 10, "node-local"), (True, 1, "shared")]
)
def test_a_copy_to_the_node_is_weighed_by_what_was_measured(made, packed, epochs, value):
    one = made(scratch=SSD, epochs=epochs)
    one.packed = (one.request.dataset.name,) if packed else ()
    found = matter("staging").default(one)
    assert (found.value, "as the storage was measured" in found.reason) == (value, True)


def test_nothing_is_copied_where_there_is_no_room(made):
    found = matter("staging").default(made(scratch=SSD.model_copy(update={"room": 10**8})))
    assert (found.value, found.reason) == ("shared", "the data has 400 MB, and /scratch has room for 100 MB")


SPLITS = Parallelism(by="ranks", name="x", place="train.py:1", shares="webdataset.split_by_node, train.py:2")


@pytest.fixture
def sharded(made):
    """A draft of two nodes with so many shards of 1 GB."""

    def make(shards=64, epochs=10, parallelism=SPLITS, form="webdataset", scratch=SSD, **more):
        one = made(
            files=shards, epochs=epochs, home=QUICK, scratch=scratch, resources={"nodes": 2, **more.pop("resources", {})},
            application={"distributed_training": True}, **more,
        )  # fmt: skip
        data = one.request.dataset.model_copy(update={"size": shards * 10**9, "format": form})
        one.request = one.request.model_copy(update={"dataset": data, "parallelism": parallelism})
        return one

    return make


def test_each_node_brings_its_part_where_ranks_share_the_shards_out(sharded):
    found = matter("staging").default(sharded())
    assert found.value == "by-node"
    assert found.reason.endswith("with each node's part copied to it, as the storage was measured")
    assert matter("staging").why_other("node-local", "by-node", sharded()) == "9 min 36 s, and 7 min 28 s for by-node"
    assert matter("staging").default(sharded(epochs=1)).value == "shared"
    room = SSD.model_copy(update={"room": 40 * 10**9})  # all of it would not fit
    assert matter("staging").default(sharded(scratch=room)).value == "by-node"
    full = matter("staging").default(sharded(scratch=SSD.model_copy(update={"room": 10**9})))
    assert (full.value, full.reason) == ("shared", "each node has 32 GB, and /scratch has room for 1.0 GB")


def test_where_nobody_measured_one_part_each_is_no_more_than_one_reading(sharded):
    plain = Storage(path="/scratch", sharing="node-local", storage_class="default-ssd")
    found = matter("staging").default(sharded(scratch=plain))
    assert (found.value, "webdataset.split_by_node, train.py:2" in found.reason) == ("by-node", True)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"form": "text"}, "its files are not shards, which need format: webdataset, tfrecord, parquet"),
        ({"shards": 1}, "has 1 shards, and the job 2 ranks"),
        ({"resources": {"nodes": 1}, "optimisation": "by-node"}, "the job has one node"),
        ({"target": {"scheduler": Scheduler.TORQUE}}, "the copy is made on one node"),
    ],
)
def test_nodes_bring_no_parts_of_what_is_not_in_parts(sharded, changes, reason):
    wanted = {"staging": changes.pop("optimisation")} if "optimisation" in changes else {}
    one = sharded(**changes, **wanted)
    assert reason in why_not(matter("staging").options(one), "by-node")


def test_a_script_that_does_not_share_files_out_is_told_why_nodes_bring_no_parts(sharded):
    one = sharded(parallelism=SPLITS.model_copy(update={"shares": ""}))
    assert matter("staging").default(one).value == "shared"  # 64 GB to each
    assert "shares files out between ranks" in matter("staging").why_other("by-node", "shared", one)


@pytest.mark.parametrize(("scheduler", "there"), [(Scheduler.SLURM, True), (Scheduler.TORQUE, False)])
def test_each_of_several_nodes_gets_a_copy_where_something_can_make_them(made, scheduler, there):
    one = made(scratch=SSD, target={"scheduler": scheduler}, resources={"nodes": 2})
    assert (why_not(matter("staging").options(one), "node-local") == "") is there
