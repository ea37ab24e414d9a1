"""A folder of files as one image: whole or absent, checked, and never in the way of who still reads the folder."""

from __future__ import annotations

import os
import time

import pytest

from modak_ansible.errors import ModakError
from modak_ansible.target.core.workspace import Workspace
from modak_ansible.target.datasets import pack
from modak_ansible.target.datasets.pack import PackedData, held

pytestmark = pytest.mark.component
DATASET = {"name": "photos", "path": "datasets/photos-0123456789ab"}
# Stand-ins for the real programs, which the integration tests have: an image is an archive here.
PACKS = 'tar -cf "$2" -C "$1" .'
LISTS = """tar -tvf "$2" | grep ^- | while read -r _ _ size _; do echo "-rw------- a/b $size 2026-01-01 00:00 squashfs-root/x"; done"""


@pytest.fixture
def tools(tmp_path, monkeypatch):
    """Puts mksquashfs and unsquashfs on the PATH, and nothing of the machine's own that has these names."""
    folder = tmp_path / "bin"
    folder.mkdir()

    def put(packs=PACKS, lists=LISTS):
        for name, text in (("mksquashfs", packs), ("unsquashfs", lists)):
            path = folder / name
            path.unlink(missing_ok=True)
            if text:
                path.write_text(f"#!/bin/bash\n{text}\n")
                path.chmod(0o700)

    monkeypatch.setattr(pack, "find_program", lambda name: str(folder / name) if (folder / name).exists() else None)
    put()
    return put


@pytest.fixture
def store(tmp_path, tools):
    workspace = Workspace(str(tmp_path / "w"))
    workspace.create()
    made = PackedData(workspace, DATASET)
    for number in range(30):
        path = made.folder / str(number % 3) / f"{number}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bytes(number))
    return made


def packs(store):
    """Packs, and gives how that ended."""
    assert store.start()
    deadline = time.monotonic() + 20
    while store.activity.is_alive() and time.monotonic() < deadline:
        time.sleep(0.02)
    return store.activity.status()


def left(store):
    return sorted(path.name for path in store.image.parent.iterdir() if not path.name.endswith((".log", ".lock")))


def test_a_folder_becomes_one_image(store):
    assert store.description() is None
    assert packs(store)["state"] == "done"
    known = store.description()
    assert (known["files"], known["size"]) == (30, sum(range(30)))
    assert known["packed"] == store.image.stat().st_size
    assert not list(store.image.parent.glob("*.part"))


def test_names_of_users_and_groups_may_hold_spaces(store, tools):
    tools(lists=LISTS.replace("a/b", "alice/domain users 7"))
    assert packs(store)["state"] == "done"


def test_an_image_that_was_changed_is_none(store):
    packs(store)
    with store.image.open("r+b") as file:
        file.write(b"x")
    assert store.description() is None
    assert packs(store)["state"] == "done"
    assert store.description()


@pytest.mark.parametrize(
    ("tool", "message", "hint"),
    [
        ({"packs": ""}, "mksquashfs, which packs the dataset", "squashfs-tools"),
        ({"lists": ""}, "unsquashfs, which checks what was packed, is not on the target", "pack: none"),
        (
            {"packs": 'head -c 10 /dev/zero > "$2"; echo "Write failed because No space left on device"; exit 1'},
            "the disk is full at",
            "make room there, or set pack: none",
        ),
        ({"packs": "echo FATAL ERROR: it has no legs; exit 1"}, "it has no legs", "see "),
        ({"packs": f'{PACKS}; echo more >> "$1/0/0.jpg"'}, "changed while it was being packed", "nothing writes there"),
        ({"lists": f"{LISTS} | tail -n +2"}, "does not hold its 30 files: 29 files", "deploy again"),
        ({"lists": "echo damaged >&2; exit 1"}, "does not hold its 30 files: damaged", "deploy again"),
    ],
)
def test_what_goes_wrong_is_told_and_leaves_nothing(store, tools, tool, message, hint):
    tools(**tool)
    status = packs(store)
    assert status["state"] == "failed"
    assert message in status["message"]
    assert hint in status["hint"]
    assert left(store) == ["photos-0123456789ab", "photos-0123456789ab.sqsh.status.json"]
    tools()
    assert packs(store)["state"] == "done"


def test_too_little_room_is_told_before_anything_is_packed(store, monkeypatch):
    monkeypatch.setattr("modak_ansible.target.core.workspace.free_bytes", lambda _: 10)
    with pytest.raises(ModakError, match="the image of the dataset photos needs"):
        store.make(store.activity)
    assert not store.image.exists()


def test_a_packing_that_was_killed_begins_anew(store, tools):
    tools(packs='echo half > "$2"; kill -9 $PPID; sleep 1')
    assert packs(store)["state"] == "killed"
    assert store.description() is None
    tools()
    assert packs(store)["state"] == "done"
    assert not list(store.image.parent.glob(".*.part"))


def test_the_folder_goes_when_the_image_is_whole(store):
    assert not store.drop_folder()
    packs(store)
    assert store.drop_folder()
    assert not store.folder.exists()
    assert store.description()
    assert not store.drop_folder()


def test_a_survey_sees_names_sizes_and_dates(store):
    before = held(store.folder)
    assert held(store.folder) == before
    os.utime(store.folder / "0" / "0.jpg", (1, 1))
    assert held(store.folder) != before
