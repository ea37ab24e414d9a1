"""Archives: unpacked as they are, and nothing of them outside of their folder."""

from __future__ import annotations

import errno
import gzip
import io
import os
import shutil
import stat
import subprocess
import tarfile
import zipfile
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modak_ansible.errors import ModakError
from modak_ansible.target.datasets import archive
from modak_ansible.target.datasets.archive import limit_of, members_of, unpack

LIMIT = 10**6


def link(name, target, kind=tarfile.SYMTYPE):
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info, None


def file(name, content=b"x"):
    info = tarfile.TarInfo(name)
    info.size = len(content)
    return info, content


def device(name, kind=tarfile.CHRTYPE):
    info = tarfile.TarInfo(name)
    info.type = kind
    return info, None


def tar(path, *members, mode="w"):
    with tarfile.open(path, mode, format=tarfile.PAX_FORMAT) as made:
        for info, content in members:
            made.addfile(info, io.BytesIO(content) if content is not None else None)
    return path


def below(folder):
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if not path.is_dir()}


@pytest.fixture
def out(tmp_path):
    (tmp_path / "out").mkdir()
    return tmp_path / "out"


@pytest.mark.parametrize(
    ("members", "said"),
    [
        ([file("../x")], "leads out of its folder"),
        ([file("a/../../x")], "leads out of its folder"),
        ([file("/etc/x")], "leads out of its folder"),
        ([link("x", "/etc/passwd")], "a link to '/etc/passwd', which leads out"),
        ([link("a/x", "../../y")], "which leads out"),
        ([link("x", "../y", tarfile.LNKTYPE)], "which leads out"),
        ([link("d", "."), file("d/x"), link("y", "d/../../z")], "which leads out"),
        ([link("a", "b"), link("b", "a")], "which it does not hold"),
        ([link("a", "nowhere")], "which it does not hold"),
        ([device("x")], "a device or a pipe"),
        ([device("x", tarfile.FIFOTYPE)], "a device or a pipe"),
        ([file("a\nb")], "a line break"),
        ([file("a\udcff")], "not in UTF-8"),
        ([file("a/" + "é" * 128)], "longer than the 255 bytes"),
        ([file("a"), file("a/b")], "as a file and as a folder"),
        ([file("a/b"), file("a")], "as a file and as a folder"),
        ([file("a/b"), link("a", "a/b")], "as a file and as a folder"),
        ([file("./")], "'.' as a file and as a folder"),
    ],
)
def test_what_may_not_be_unpacked(tmp_path, out, members, said):
    path = tar(tmp_path / "x.tar", *members)
    for act in (lambda: members_of(path, LIMIT), lambda: unpack(path, out, LIMIT)):
        with pytest.raises(ModakError, match=said):
            act()
    assert [each for each in tmp_path.iterdir() if each.name not in ("x.tar", "out")] == []
    assert not any(each.is_symlink() for each in out.rglob("*"))


def test_a_link_to_a_file_of_the_archive_is_that_file(tmp_path, out):
    path = tar(
        tmp_path / "x.tar", file("a/b", b"one"), link("a/c", "b"), link("d", "a/c"), link("e", "a/b", tarfile.LNKTYPE)
    )
    unpack(path, out, LIMIT)
    assert below(out) == {"a/b", "a/c", "d", "e"}
    assert (out / "d").read_bytes() == b"one"
    assert (members_of(path, LIMIT)[0].name, members_of(path, LIMIT)[0].size) == ("a/b", 3)


def test_two_names_that_the_file_system_takes_for_one_are_no_two_files(tmp_path, out, monkeypatch):
    path = tar(tmp_path / "x.tar", file("a.txt"), file("A.txt"))
    true = os.path.lexists
    monkeypatch.setattr(os.path, "lexists", lambda place: true(os.path.join(os.path.dirname(place), "a.txt")))
    with pytest.raises(ModakError, match="two files whose names differ only in case"):
        unpack(path, out, LIMIT)


def test_what_comes_later_replaces_what_came_before(tmp_path, out):
    unpack(tar(tmp_path / "x.tar", file("a", b"1"), file("./a", b"2")), out, LIMIT)
    assert (out / "a").read_bytes() == b"2"


@pytest.mark.parametrize("ending", ["tar", "tar.gz", "tgz", "tar.bz2", "tar.xz"])
def test_tars(tmp_path, out, ending):
    kind = {"gz": "gz", "tgz": "gz", "bz2": "bz2", "xz": "xz"}.get(ending.rpartition(".")[2], "")
    path = tar(tmp_path / f"x.{ending}", file("a/b", b"one"), mode=f"w:{kind}")
    unpack(path, out, LIMIT)
    assert (out / "a" / "b").read_bytes() == b"one"


def damaged(path, change):
    """A tar of three members of a block each, with its bytes changed by a test; other endings compress it then."""
    plain = tar(path.with_name("plain"), *(file(f"{number}.txt", b"x" * 512) for number in range(3)))
    content = change(bytearray(plain.read_bytes()))
    plain.unlink()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def flipped(content):
    content[1024 + 100] ^= 1  # in the mode of the second member
    return content


@pytest.mark.parametrize("name", ["x.tar", "x.tar.gz"])
@pytest.mark.parametrize(
    "change",
    [lambda content: content[: 1024 + 200], lambda content: content[: 1024 + 700], flipped],
    ids=["within a header", "within a file", "a flipped bit in a header"],
)
def test_a_tar_that_was_cut_or_damaged_is_not_whole(tmp_path, out, name, change):
    path = damaged(tmp_path / name, change)
    for act in (lambda: members_of(path, LIMIT), lambda: unpack(path, out, LIMIT)):
        with pytest.raises(ModakError, match=r"is damaged, or is not what its name says"):
            act()


@pytest.mark.component
@pytest.mark.skipif(shutil.which("zstd") is None, reason="needs zstd")
def test_a_damaged_tar_of_zstandard_is_not_whole(tmp_path, out):
    subprocess.run(["zstd", "-q", "--rm", damaged(tmp_path / "x.tar", flipped)], check=True)
    with pytest.raises(ModakError, match=r"is damaged, or is not what its name says"):
        unpack(tmp_path / "x.tar.zst", out, LIMIT)


@pytest.mark.parametrize("zeros", [0, 512, 1024])
def test_a_tar_is_whole_with_what_gnu_tar_takes_for_its_end(tmp_path, out, zeros):
    unpack(damaged(tmp_path / "x.tar", lambda content: content[: 3072 + zeros]), out, LIMIT)
    assert below(out) == {"0.txt", "1.txt", "2.txt"}


@pytest.mark.parametrize("cut", [1, 8, 12])
def test_a_compressed_tar_is_read_to_its_checksum(tmp_path, out, cut):
    path = damaged(tmp_path / "x.tar.gz", lambda content: content)
    path.write_bytes(path.read_bytes()[:-cut])
    with pytest.raises(ModakError, match="is damaged"):
        unpack(path, out, LIMIT)


@pytest.mark.parametrize("number", [errno.EXDEV, errno.EPERM, errno.ENOSPC])
def test_a_link_is_a_copy_where_the_file_system_has_none(tmp_path, out, monkeypatch, number):
    def refuse(*_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "link", refuse)
    path = tar(tmp_path / "x.tar", file("a", b"one"), link("b", "a"))
    if number == errno.ENOSPC:
        with pytest.raises(OSError, match="No space left"):
            unpack(path, out, LIMIT)
    else:
        assert unpack(path, out, LIMIT) == {"a": 3, "b": 3}
        assert (out / "b").read_bytes() == b"one"


@pytest.mark.component
@pytest.mark.skipif(shutil.which("zstd") is None, reason="needs zstd")
@pytest.mark.parametrize("name", ["x.tar.zst", "x.txt.zst"])
def test_zstandard(tmp_path, out, name):
    plain = tmp_path / name.removesuffix(".zst")
    tar(plain, file("a/b", b"one")) if name.endswith("tar.zst") else plain.write_bytes(b"one")
    subprocess.run(["zstd", "-q", "--rm", plain], check=True)
    unpack(tmp_path / name, out, LIMIT)
    assert [(out / each).read_bytes() for each in below(out)] == [b"one"]


def test_zstandard_without_its_program(tmp_path, out, monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    (tmp_path / "x.tar.zst").write_bytes(b"x")
    with pytest.raises(ModakError, match="needs zstd, which is not on"):
        unpack(tmp_path / "x.tar.zst", out, LIMIT)


def test_zips(tmp_path, out):
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr("a/", "")
        made.writestr("a/b", "one")
        info = zipfile.ZipInfo("c")
        info.external_attr = (stat.S_IFLNK | 0o777) << 16
        made.writestr(info, "a/b")
    unpack(path, out, LIMIT)
    assert {name: (out / name).read_text() for name in below(out)} == {"a/b": "one", "c": "one"}
    with zipfile.ZipFile(path, "a") as made:
        made.writestr("../evil", "x")
    with pytest.raises(ModakError, match="leads out of its folder"):
        members_of(path, LIMIT)


def test_a_zip_of_windows_has_its_folders(tmp_path, out):
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w") as made:
        for name in ("a\\", "a\\b.jpg", "\\a\\f.jpg", "c.jpg", "a/b\\c.jpg"):
            info = zipfile.ZipInfo(name)
            info.create_system = 0
            made.writestr(info, b"x" * (not name.endswith("\\")))
        info = zipfile.ZipInfo("d\\e")
        info.create_system = 3  # where it is a letter as others are
        made.writestr(info, b"x")
    assert unpack(path, out, 10**9) == {"a/b.jpg": 1, "a/f.jpg": 1, "c.jpg": 1, "a/b\\c.jpg": 1, "d\\e": 1}


def test_an_encrypted_zip_is_told_before_anything_is_sent(tmp_path, out):
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w") as made:
        made.writestr("a", "one")
    packed = bytearray(path.read_bytes())
    packed[packed.find(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(packed)
    for act in (lambda: members_of(path, LIMIT), lambda: unpack(path, out, LIMIT)):
        with pytest.raises(ModakError, match=r"x.zip holds a, which is encrypted"):
            act()


@pytest.mark.parametrize("name", ["x.tar", "x.tar.gz", "x.tar.xz", "x.zip", "x.gz", "x.bz2"])
@pytest.mark.parametrize("content", [b"", b"nothing of the kind", b"\x1f\x8b\x08" + b"\0" * 20, b"PK\x03\x04 broken"])
def test_damage_is_told(tmp_path, out, name, content):
    if name == "x.gz" and not content:
        pytest.skip("an empty file is a file of gzip's without members")
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ModakError, match=r"is damaged|is not what its name says") as caught:
        unpack(tmp_path / name, out, LIMIT)
    assert "\n" not in caught.value.message


def test_a_bomb_is_bounded(tmp_path, out, monkeypatch):
    path = tar(tmp_path / "x.tar.gz", file("zeros", bytes(3 * 10**6)), mode="w:gz")
    assert path.stat().st_size < 10**4
    for act in (lambda: members_of(path, LIMIT), lambda: unpack(path, out, LIMIT)):
        with pytest.raises(ModakError, match="unpacks to more than 1 MB") as caught:
            act()
        assert "size: of the dataset" in caught.value.hint
    assert (out / "zeros").stat().st_size <= LIMIT
    monkeypatch.setattr(archive, "MOST_FILES", 2)
    with pytest.raises(ModakError, match="holds more than 2 files"):
        members_of(tar(tmp_path / "many.tar", file("a"), file("b"), file("c")), LIMIT)
    assert limit_of(10, None) > 10**9
    assert limit_of(10, 10**15) == 10**15


NAMES = st.text(st.sampled_from("ab/.\\ \n\0~$é"), min_size=1, max_size=8)


@given(st.lists(st.tuples(NAMES, st.sampled_from("flhc"), NAMES), max_size=5))
def test_no_archive_writes_elsewhere(tmp_path_factory, members):
    folder = tmp_path_factory.mktemp("any")
    (folder / "out").mkdir()
    kinds = {
        "f": lambda name, _: file(name),
        "l": link,
        "h": lambda name, target: link(name, target, tarfile.LNKTYPE),
        "c": lambda name, _: device(name),
    }
    path = tar(folder / "x.tar", *(kinds[kind](name, target) for name, kind, target in members))
    with suppress(ModakError, OSError):
        unpack(path, folder / "out", LIMIT)
    assert sorted(each.name for each in folder.iterdir()) == ["out", "x.tar"]
    assert all(each.is_file() or each.is_dir() for each in (folder / "out").rglob("*"))
    assert not any(each.is_symlink() for each in (folder / "out").rglob("*"))
