"""Texts that are kept because they take long to make."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from modak_ansible.store import cache
from modak_ansible.store.cache import cache_folder, kept_text, version_of


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "modak" / "kind"


class Maker:
    def __init__(self, text="a text\r\nof two lines\n"):
        self.text, self.count = text, 0

    def __call__(self):
        self.count += 1
        return self.text


def test_it_is_made_once_of_the_same(folder):
    maker = Maker()
    assert {kept_text("kind", "this", maker) for _ in range(3)} == {maker.text}
    assert maker.count == 1
    assert kept_text("kind", "that", Maker("other")) == "other"
    assert len(list(folder.iterdir())) == 2
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}
    assert folder.stat().st_mode & 0o777 == 0o700


def test_nobody_waits_for_the_disk(folder, monkeypatch):
    monkeypatch.setattr(os, "fsync", None)
    maker = Maker()
    assert {kept_text("kind", "this", maker) for _ in range(2)} == {maker.text}
    assert maker.count == 1


def test_an_empty_text_is_kept_and_none_is_not(folder):
    empty, nothing = Maker(""), Maker(None)
    assert (kept_text("kind", "e", empty), kept_text("kind", "e", empty), empty.count) == ("", "", 1)
    assert (kept_text("kind", "n", nothing), kept_text("kind", "n", nothing), nothing.count) == (None, None, 2)
    assert len(list(folder.iterdir())) == 1


@pytest.mark.parametrize("damage", [b"", b"\xff\xfe", b"0" * 64 + b"\na text\n", b"cut"])
def test_what_is_damaged_is_made_anew(folder, damage):
    maker = Maker()
    kept_text("kind", "this", maker)
    (path,) = folder.iterdir()
    path.write_bytes(path.read_bytes()[:-3] if damage == b"cut" else damage)
    assert kept_text("kind", "this", maker) == maker.text
    assert kept_text("kind", "this", maker) == maker.text
    assert maker.count == 2


def test_what_is_another_users_is_not_taken(folder, monkeypatch):
    kept_text("kind", "this", Maker("theirs"))
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    assert kept_text("kind", "this", Maker("ours")) == "ours"


def test_what_lies_in_the_place_of_another_is_not_taken(folder):
    kept_text("kind", "this", Maker("this one's"))
    (this,) = folder.iterdir()
    kept_text("kind", "that", Maker("that one's"))
    (that,) = set(folder.iterdir()) - {this}
    that.write_bytes(this.read_bytes())
    assert kept_text("kind", "that", Maker("that one's")) == "that one's"


@pytest.mark.parametrize("place", ["a file", "/dev/null/cache", "relative"])
def test_where_nothing_can_be_kept_it_is_made_each_time(tmp_path, monkeypatch, place):
    (tmp_path / "a file").write_text("")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", place if place != "a file" else str(tmp_path / place))
    maker = Maker()
    assert {kept_text("kind", "this", maker) for _ in range(2)} == {maker.text}
    assert maker.count == 2
    assert [path.name for path in tmp_path.iterdir()] == ["a file"]


def test_a_folder_that_may_not_be_entered_is_no_error(closed_folder, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(closed_folder))
    assert kept_text("kind", "this", Maker("text")) == "text"


def test_the_oldest_go(folder, monkeypatch):
    monkeypatch.setattr(cache, "_MOST", 3)
    for number in range(5):
        kept_text("kind", str(number), Maker(f"text {number}"))
        for path in folder.iterdir():
            os.utime(path, ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns - 10**9))
    assert len(list(folder.iterdir())) == 3
    newest = Maker("another")
    assert kept_text("kind", "4", newest) == "text 4"
    assert kept_text("kind", "0", newest) == "another"


def test_a_version_is_told_without_importing(tmp_path, monkeypatch):
    package = tmp_path / "parcel_of_tests"
    package.mkdir()
    (package / "__init__.py").write_text("raise RuntimeError")
    monkeypatch.syspath_prepend(str(tmp_path))

    def in_another_process():
        version_of.cache_clear()
        return version_of("parcel_of_tests")

    before = in_another_process()
    assert in_another_process() == before
    (tmp_path / "Parcel_of_tests-2.dist-info").mkdir()
    assert version_of("parcel_of_tests") == before, "what a process has imported stays as it is"
    after = in_another_process()
    (package / "new.py").write_text("")
    os.utime(package, ns=(0, 0))
    assert len({before, after, in_another_process()}) == 3
    with pytest.raises(RuntimeError, match="no_such_parcel is not installed"):
        version_of("no_such_parcel")


def test_it_lies_where_caches_lie(monkeypatch):
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/somebody")
    assert cache_folder() == Path("/home/somebody/.cache/modak")
