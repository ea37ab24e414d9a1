"""Data that was on the target before: looked at, and never copied."""

from __future__ import annotations

import os

import pytest

from modak_ansible.errors import ModakError
from modak_ansible.target.core.workspace import Workspace
from modak_ansible.target.datasets import present
from modak_ansible.target.datasets.present import PresentData


@pytest.fixture
def there(tmp_path):
    folder = tmp_path / "imagenet"
    (folder / "train" / "a").mkdir(parents=True)
    for number in range(100):
        (folder / "train" / "a" / f"{number:03}.jpg").write_bytes(b"x" * number)
    return folder


def data(tmp_path, location):
    source = {"kind": "on_target", "location": str(location), "label": "d"}
    dataset = {"name": "d", "path": "datasets/d-123456789012", "sources": [source]}
    return PresentData(Workspace(str(tmp_path / "w")), dataset)


def test_a_folder(tmp_path, there):
    found = data(tmp_path, there).look(keep=True)
    assert (found["files"], found["size"], found["is_whole"], found["sample"]) == (100, 4950, True, 64)
    words = (tmp_path / "w" / "datasets" / "d-123456789012.view").read_bytes().split(b"\0")
    assert words[0] == os.fsencode(there)
    assert (words[1], words[2]) == (b"0", b"/train/a/000.jpg")
    assert words[-3:] == [b"99", b"/train/a/099.jpg", b""]
    assert sorted(path.name for path in there.iterdir()) == ["train"]


def test_a_file(tmp_path, there):
    found = data(tmp_path, there / "train" / "a" / "050.jpg").look(keep=True)
    assert (found["files"], found["size"]) == (1, 50)


def test_nothing_is_kept_where_nothing_may_be_changed(tmp_path, there):
    data(tmp_path, there).look(keep=False)
    assert not (tmp_path / "w").exists()


@pytest.mark.parametrize("change", ["size", "content", "name"])
def test_a_change_since_the_last_look_is_told(tmp_path, there, change):
    first = data(tmp_path, there).look(keep=True)
    assert not data(tmp_path, there).look(keep=True)["changed"]
    path = there / "train" / "a" / "000.jpg"
    if change == "size":
        path.write_bytes(b"y")
    elif change == "content":
        (there / "train" / "a" / "099.jpg").write_bytes(b"y" * 99)
    else:
        path.rename(path.with_name("000.png"))
    second = data(tmp_path, there).look(keep=True)
    assert second["changed"]
    assert second["fingerprint"] != first["fingerprint"]


def test_the_look_is_bounded(tmp_path, there, monkeypatch):
    monkeypatch.setattr(present, "MOST_ENTRIES", 10)
    found = data(tmp_path, there).look(keep=True)
    assert not found["is_whole"]
    assert found["files"] <= 11
    monkeypatch.setattr(present, "MOST_ENTRIES", 1000)
    monkeypatch.setattr(present, "SECONDS", -1.0)
    assert not data(tmp_path, there).look(keep=True)["is_whole"]


def test_a_circle_of_links_is_passed_by(tmp_path, there):
    (there / "again").symlink_to(there)
    (there / "gone").symlink_to("nowhere")
    assert data(tmp_path, there).look(keep=True)["files"] == 100


def test_what_is_not_there(tmp_path):
    with pytest.raises(ModakError, match=r"the dataset d: .*/none on the target: No such file or directory"):
        data(tmp_path, tmp_path / "none").look(keep=True)
    (tmp_path / "empty").mkdir()
    with pytest.raises(ModakError, match="nothing is in"):
        data(tmp_path, tmp_path / "empty").look(keep=True)
