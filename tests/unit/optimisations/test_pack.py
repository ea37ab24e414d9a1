"""Whether a dataset is packed, and where it is read, by the numbers of the target's storage."""

from __future__ import annotations

import pytest

from modak_ansible.model.dataset import Contents, DataSource
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
        "20,000 files take 1 min 7 s an epoch as they lie and 2.8 s from one image, which takes 1 min 9 s to make; "
        "with 10 epochs that is the shorter way"
    )


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"files": 500}, "500 files are not many"),
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


def test_data_that_is_not_counted_is_not_packed(draft):
    assert decided(draft()).value == "none"


def test_who_asks_for_an_image_gets_it_or_is_told_why_not(made):
    asked = made(files=3, pack="squashfs")
    assert matter("pack").wish(asked) == "squashfs"
    assert why_not(matter("pack").options(asked), "squashfs") == ""
    assert matter("pack").wish(made(pack="none")) == "none"
    assert matter("pack").wish(made()) == ""
    native = made(pack="squashfs", target={"container_runtime": "none"})
    assert "mounted by the container runtime" in why_not(matter("pack").options(native), "squashfs")


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


@pytest.mark.parametrize(("scheduler", "there"), [(Scheduler.SLURM, True), (Scheduler.TORQUE, False)])
def test_each_of_several_nodes_gets_a_copy_where_something_can_make_them(made, scheduler, there):
    one = made(scratch=SSD, target={"scheduler": scheduler}, resources={"nodes": 2})
    assert (why_not(matter("staging").options(one), "node-local") == "") is there
