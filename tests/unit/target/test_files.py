import errno
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from modak_ansible.target.core import files as files_module
from modak_ansible.target.core.files import (
    Lock,
    expanded,
    free_bytes,
    lack_in,
    lack_of,
    lack_of_room,
    mend_of,
    read_json,
    read_text,
    sha256_of,
    tail,
    write_json,
    write_whole,
)


def test_files_are_whole_or_as_before(tmp_path):
    path = tmp_path / "a.json"
    write_json(path, {"a": 1})
    assert read_json(path) == {"a": 1}
    write_whole(path, b"\x00")
    assert path.read_bytes() == b"\x00"
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]


def test_what_cannot_be_written_is_named_and_leaves_nothing(tmp_path):
    (tmp_path / "a.json").mkdir()
    (tmp_path / "a.json" / "kept").touch()
    with pytest.raises(IsADirectoryError) as caught:
        write_json(tmp_path / "a.json", {})
    assert caught.value.filename == str(tmp_path / "a.json")
    assert "move it away" in mend_of(caught.value)
    with pytest.raises(FileNotFoundError) as caught:  # as of a deployment whose folder somebody removed while it ran
        write_whole(tmp_path / "gone" / "state", "x")
    assert "was removed meanwhile" in mend_of(caught.value)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["a.json", "kept"]


def test_a_full_disk_is_known_by_trying(tmp_path, monkeypatch):
    assert not lack_of_room(tmp_path)
    assert not lack_of_room(tmp_path / "none")
    full = {errno.EDQUOT: "the quota is used up", errno.ENOSPC: "the disk is full", errno.EIO: ""}
    for code, words in full.items():

        def no(*_, code=code):
            raise OSError(code, os.strerror(code))

        monkeypatch.setattr(os, "fsync", no)
        assert lack_of_room(tmp_path) == words
        with pytest.raises(OSError, match=os.strerror(code)) as caught:
            write_json(tmp_path / "b.json", {})
        assert ("make room there" in mend_of(caught.value)) == bool(words)
        assert lack_in(f"cp: error writing 'a': {os.strerror(code)}") == words
    assert list(tmp_path.iterdir()) == []


def test_a_disk_without_inodes_is_told_from_a_full_one(tmp_path, monkeypatch):
    """It has bytes to give: who only hears that it is full looks in the wrong place."""
    spent = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    full = os.statvfs(tmp_path)
    assert lack_of(spent, tmp_path) == "the disk is full"
    numbers = SimpleNamespace(f_files=full.f_files or 1, f_favail=0)
    monkeypatch.setattr(os, "statvfs", lambda _: numbers)
    assert lack_of(spent, tmp_path) == "the disk has no inodes left for more files (df -i)"
    assert lack_of(OSError(errno.EDQUOT, ""), tmp_path) == "the quota is used up"
    numbers.f_files = 0  # as btrfs has it, which counts none
    assert lack_of(spent, tmp_path) == "the disk is full"
    making = 'rsync: [receiver] mkstemp "/w/.part/.f1.txt.x" failed: No space left on device (28)'
    writing = 'rsync: [receiver] write failed on "/w/.part/f0.txt": No space left on device (28)'
    assert lack_in(making).startswith("the disk is full, or has no inodes left")
    assert lack_in(f"{making}\n{writing}") == "the disk is full"


def test_damaged_files_are_nothing(tmp_path):
    (tmp_path / "half.json").write_text('{"a": ')
    (tmp_path / "list.json").write_text("[1]")
    assert read_json(tmp_path / "half.json") is None
    assert read_json(tmp_path / "list.json") is None
    assert read_json(tmp_path / "none.json") is None
    assert read_text(tmp_path / "none") == ""


def test_tail_takes_the_last_lines_and_no_carriage_returns(tmp_path):
    (tmp_path / "log").write_bytes(b"one\n\ntwo\n 10%\r 50%\r100%\n\xff\n")
    assert tail(tmp_path / "log", 2) == ["100%", "\ufffd"]
    assert tail(tmp_path / "none", 2) == []


def test_tail_takes_no_colours_of_loggers_and_tracebacks(tmp_path):
    """An error would be told as \\x1b[1;31mRuntimeError\\x1b[0m."""
    text = "\x1b[1;31mRuntimeError\x1b[0m: \x1b]8;;file://x\x1b\\train.py\x1b]8;;\x1b\\:3\n\x1b[0m\nfirst\x1b(B\x1b[m\n"
    (tmp_path / "error.log").write_text(text)
    assert tail(tmp_path / "error.log", 15) == ["RuntimeError: train.py:3", "first"]


def test_space_is_known_before_a_folder_is_there(tmp_path):
    assert free_bytes(tmp_path / "not" / "yet") > 0


def test_digest(tmp_path):
    (tmp_path / "a").write_bytes(b"abc")
    assert sha256_of(tmp_path / "a").startswith("ba7816bf")


@pytest.mark.component
def test_a_lock_is_held_by_one_and_ends_with_its_owner(tmp_path):
    path = tmp_path / "lock"
    mine = Lock(path)
    assert mine.take(wait=False)
    assert Lock(path).is_taken()
    assert not Lock(path).take(wait=False)
    mine.release()
    assert not Lock(path).is_taken()
    code = (
        "import sys, time; from pathlib import Path; from modak_ansible.target.core.files import Lock;"
        "lock = Lock(Path(sys.argv[1])); lock.take(wait=True); print('held', flush=True); time.sleep(60)"
    )
    owner = subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, env=os.environ)
    assert owner.stdout.readline() == b"held\n"
    assert Lock(path).is_taken()
    owner.kill()
    owner.wait()
    assert not Lock(path).is_taken()


def test_the_home_folder_of_nobody_is_a_name_like_any_other(monkeypatch):
    monkeypatch.setenv("HOME", "/home/me")
    assert expanded("~/data") == Path("/home/me/data")
    assert expanded("~nobody-of-this-name/data") == Path("~nobody-of-this-name/data")


@pytest.fixture
def without_locks(tmp_path, monkeypatch):
    """A file system that has none, as Lustre where it is mounted without them; /tmp is another one."""
    real, local = files_module.fcntl.flock, tmp_path / "local"
    local.mkdir()

    def flock(file, how):
        if not os.readlink(f"/proc/self/fd/{file}").startswith(str(local)):
            raise OSError(errno.ENOSYS, "Function not implemented")
        return real(file, how)

    monkeypatch.setattr(files_module.fcntl, "flock", flock)
    monkeypatch.setattr(files_module, "_LOCAL", local)
    return local


def test_where_a_file_system_has_no_locks_those_of_the_machine_serve(tmp_path, without_locks):
    path = tmp_path / "shared" / "lock"
    mine = Lock(path)
    assert mine.take(wait=False)
    assert Lock(path).is_taken()
    assert not Lock(tmp_path / "shared" / "other").is_taken()
    mine.remove()
    assert not Lock(path).is_taken()
    assert Lock(path).take(wait=True)


def test_a_folder_that_is_somebody_elses_guards_nothing(tmp_path, without_locks):
    folder = without_locks / f"modak-locks-{os.getuid()}"
    folder.mkdir(mode=0o777)
    folder.chmod(0o777)
    assert Lock(tmp_path / "lock").take(wait=False)
    assert not Lock(tmp_path / "lock").is_taken()
    folder.rmdir()
    folder.symlink_to(tmp_path)
    assert Lock(tmp_path / "lock").take(wait=False)
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["lock"]
