"""The controller's side of packing: nothing is brought where the image is, and the folder is tidied away behind it."""

from __future__ import annotations

import pytest

from modak_ansible.errors import ModakError
from modak_ansible.stages.base import Outcome
from modak_ansible.stages.dataset import ensure_packed

DATASET = {"name": "photos", "path": "datasets/photos-0123456789ab"}
DONE = {"files": 3000, "size": 6 * 10**7, "packed": 61 * 10**6}


class Target:
    """Answers as the module does: the image is there from the start, or at the end of the packing."""

    def __init__(self, *ends, packed=None):
        self.asked, self.said, self._ends, self._packed = [], [], list(ends), packed
        self.plan, self.check, self.say = {"target": {"workspace": "modak"}}, False, self.said.append
        self.deployment = "d"

    def call(self, name, action, **arguments):
        assert (name, arguments["deployment"], arguments["dataset"]) == ("modak_pack", "d", DATASET)
        self.asked.append(action)
        status = {"state": "none"}
        if action in ("pack", "wait"):
            status, self._packed = self._ends.pop(0)
        return {"packed": self._packed, "status": status}


def brought():
    return Outcome(True, "brought", {"dataset": {"files": 3000}})


def running(step):
    return {"state": "running", "step": step, "seconds": 2.0}, None


def test_what_is_packed_is_not_brought_again():
    target = Target(packed=DONE)
    outcome = ensure_packed(target, DATASET, lambda: pytest.fail("it was brought"))
    assert (outcome.changed, outcome.message) == (False, "photos: 3,000 files in one image of 61 MB")
    assert target.asked == ["look"]


def test_a_folder_is_brought_packed_and_tidied_away():
    target = Target(running("counting files"), running("packing 3000 files"), ({"state": "done"}, DONE))
    outcome = ensure_packed(target, DATASET, brought)
    assert outcome.changed
    assert outcome.data == {"dataset": {"files": 3000}, "packed": DONE}
    assert target.asked == ["look", "pack", "wait", "wait", "tidy"]
    assert target.said == ["packing photos into one image on the target", "packing 3000 files, 2.0 s"]


def test_nothing_is_touched_where_nothing_may_be():
    target = Target()
    target.check = True
    outcome = ensure_packed(target, DATASET, lambda: pytest.fail("it was brought"))
    assert (outcome.changed, target.asked) == (True, ["look"])


@pytest.mark.parametrize(
    ("status", "message"),
    [
        ({"state": "failed", "message": "the disk is full at X", "hint": "make room"}, "the disk is full at X"),
        ({"state": "killed"}, "packing photos was interrupted"),
    ],
)
def test_what_went_wrong_there_is_told_here(status, message):
    target = Target((status, None))
    with pytest.raises(ModakError, match=message):
        ensure_packed(target, DATASET, brought)
    assert "tidy" not in target.asked
