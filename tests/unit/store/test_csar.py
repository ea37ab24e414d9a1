"""Archives: the same bytes for the same files, and nothing that is read from one is trusted."""

from __future__ import annotations

import io
import os
import stat
import time
import zipfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from modak_ansible.store.csar import InvalidPackage, archive, packages_folder, unpack

FILES = {
    "service.yaml": (b"a: 1\n", False),
    "src/train.py": (b"print()\n", False),
    "src/run.sh": (b"#!/bin/sh\n", True),
}


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "modak" / "packages"


def write(tmp_path, content, name="a.csar"):
    (tmp_path / name).write_bytes(content)
    return tmp_path / name


def zipped(*members, **files):
    """An archive made by somebody else: of members as they are, or of texts by name."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as made:
        for member, content in [*members, *files.items()]:
            made.writestr(member, content)
    return buffer.getvalue()


def damaged(compression):
    """An archive whose only file cannot be unpacked."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as made:
        made.writestr("service.yaml", "a: 1\n" * 1000)
    begins = buffer.getvalue().index(b"service.yaml") + len("service.yaml") + 4
    data = bytearray(buffer.getvalue())
    data[begins : begins + 12] = bytes(255 - each for each in data[begins : begins + 12])
    return bytes(data)


def test_the_same_files_are_the_same_bytes(monkeypatch):
    first = archive("service.yaml", FILES, "modak")
    monkeypatch.setattr(time, "time", lambda: 4e9)
    assert archive("service.yaml", dict(reversed(FILES.items())), "modak") == first


def test_what_was_packed_comes_out(tmp_path, cache):
    path = write(tmp_path, archive("service.yaml", FILES, "modak"))
    template = unpack(path)
    assert template.parent.parent == cache == packages_folder()
    for name, (content, executable) in FILES.items():
        assert (template.parent / name).read_bytes() == content
        assert os.access(template.parent / name, os.X_OK) == executable
    assert stat.S_IMODE(template.parent.stat().st_mode) == 0o700


def test_the_same_archive_is_unpacked_once_and_mended_where_it_was_damaged(tmp_path, cache):
    path = write(tmp_path, archive("service.yaml", FILES, "modak"))
    template = unpack(path)
    before = template.stat().st_mtime_ns
    assert unpack(write(tmp_path, path.read_bytes(), "b.zip")) == template
    assert template.stat().st_mtime_ns == before
    (template.parent / "src" / "train.py").unlink()
    template.write_text("b: 1\n")
    assert unpack(path) == template
    assert template.read_text() == "a: 1\n"
    assert (template.parent / "src" / "train.py").exists()
    assert [path.name for path in cache.iterdir()] == [template.parent.name]


def test_another_content_has_another_folder(tmp_path):
    one = unpack(write(tmp_path, archive("service.yaml", FILES, "modak")))
    two = unpack(write(tmp_path, archive("service.yaml", FILES, "somebody")))
    assert one.parent != two.parent


def link(name, target):
    member = zipfile.ZipInfo(name)
    member.create_system = 3
    member.external_attr = (stat.S_IFLNK | 0o777) << 16
    return member, target


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (zipped(**{"../evil": "x", "service.yaml": ""}), "'../evil', which is not below its folder"),
        (zipped(**{"/etc/evil": "x"}), "'/etc/evil', which is not below its folder"),
        (zipped(**{"a/../../evil": "x"}), "not below its folder"),
        (zipped(**{"C:evil": "x"}), "not below its folder"),
        (zipped(**{"a\\..\\evil": "x"}), "not below its folder"),
        (zipped(**{"train\\train.py": "x"}), "an archive has / between the names of folders"),
        (zipped(**{"a\nb": "x"}), "not below its folder"),
        (zipped(link("service.yaml", "/etc/passwd")), "service.yaml, which is a link"),
        (zipped(**{"a.yaml": "", "b.yaml": ""}), "does not say which file is the service template"),
        (
            zipped(**{"TOSCA-Metadata/TOSCA.meta": "Entry-Definitions: x.yaml\n"}),
            "names x.yaml, which it does not hold",
        ),
        (b"no archive", "this is not a readable archive"),
        (archive("service.yaml", FILES, "modak")[:-30], "this is not a readable archive"),
        (zipped(**{"servicé.yaml": ""}).replace("é".encode(), b"\xff\xff"), "this is not a readable archive"),
        (damaged(zipfile.ZIP_LZMA), "this is not a readable archive"),
        (damaged(zipfile.ZIP_BZIP2), "this is not a readable archive"),
        (zipped(**{"service.yaml": "", "x": "", "x/y": ""}), "x/y, and x is a file"),
        (zipped(**{"service.yaml": "", "x/y": "", "x": ""}), "x/y, and x is a file"),
        (zipped(**{"service.yaml": "", "./service.yaml": "b: 1"}), "service.yaml twice"),
    ],
)
def test_nobody_unpacks_that(tmp_path, cache, content, words):
    with pytest.raises(InvalidPackage) as caught:
        unpack(write(tmp_path, content))
    assert words in str(caught.value)
    assert str(tmp_path / "a.csar") in str(caught.value)
    assert not cache.exists() or list(cache.iterdir()) == []


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_name_twice(tmp_path):
    with pytest.raises(InvalidPackage, match="twice"):
        unpack(write(tmp_path, zipped(("service.yaml", "a"), ("service.yaml", "b"))))


def test_a_bomb(tmp_path):
    big = archive("service.yaml", {"service.yaml": (b"0" * 3 * 10**6, False)}, "x")
    lying = big.replace((3 * 10**6).to_bytes(4, "little"), (2_000_000_001).to_bytes(4, "little"))
    with pytest.raises(InvalidPackage, match="too large for a blueprint"):
        unpack(write(tmp_path, lying))


def test_damaged_content(tmp_path, cache):
    content = bytearray(zipped(**{"service.yaml": "a: 1\n" * 50}))
    content[content.index(b"a: 1") + 3] ^= 1
    with pytest.raises(InvalidPackage, match="CRC"):
        unpack(write(tmp_path, bytes(content)))
    assert list(cache.iterdir()) == []


def test_opera_packages_are_read(tmp_path):
    """With folders as members of their own, and a lone template."""
    folder = zipfile.ZipInfo("types/")
    folder.external_attr = (stat.S_IFDIR | 0o755) << 16
    path = write(tmp_path, zipped((folder, ""), **{"mine.yaml": "x", "types/a.yaml": "y"}))
    assert unpack(path).name == "mine.yaml"
    assert (unpack(path).parent / "types" / "a.yaml").read_text() == "y"


@pytest.mark.parametrize(
    ("files", "entry"),
    [
        ({"service.yaml": "", "inputs.yaml": ""}, "service.yaml"),
        ({"a.yaml": "", "b.yaml": "", "TOSCA-Metadata/TOSCA.meta": "Entry-Definitions: ./b.yaml\r\n"}, "b.yaml"),
        ({"./a.yaml": "", "b.yaml": "", "TOSCA-Metadata/TOSCA.meta": "Entry-Definitions: ./a.yaml"}, "a.yaml"),
    ],
)
def test_the_service_template_is_found(tmp_path, files, entry):
    assert unpack(write(tmp_path, zipped(**files))).name == entry


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=st.text(min_size=1, max_size=30) | st.lists(st.sampled_from(["..", ".", "a", "", "~", "C:"])).map("/".join))
def test_whatever_a_member_is_called_nothing_leaves_the_folder(tmp_path_factory, name):
    top = tmp_path_factory.mktemp("z")
    os.environ["XDG_CACHE_HOME"] = str(top / "cache")  # the fixture puts it back
    try:
        content = zipped((name, "x"), ("service.yaml", "y"))
    except (ValueError, IndexError):  # no archive can have it
        return
    try:
        template = unpack(write(top, content))
    except InvalidPackage:
        return
    except OSError as error:
        assert error.strerror in ("File name too long", "Not a directory", "Is a directory", "File exists")
        return
    written = [path for path in top.rglob("*") if path.is_file() and path != top / "a.csar"]
    assert all(path.resolve().is_relative_to(template.parent.resolve()) for path in written)
    assert template.read_text() == "y"
    assert Path(template).name == "service.yaml"
