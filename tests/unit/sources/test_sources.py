"""Where data may come from: what is read of it, and what is refused with its reason."""

from __future__ import annotations

import os
import socket
import tarfile
import zipfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modak_ansible.sources import reader
from modak_ansible.sources.reader import DatasetDescription, mount_problem, read_dataset


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "here"
    made.mkdir()
    (made / "corpus.txt").write_text("To be, or not to be\n")
    (made / "parts" / "deep").mkdir(parents=True)
    for name in ("a.csv", "b.csv", "deep/c.csv", "readme.md"):
        (made / "parts" / name).write_text("x,y\n1,2\n3,4\n")
    return made


def read(folder, **said):
    refused = []
    said = DatasetDescription(**{"name": "mine", **said})
    dataset = read_dataset(said, folder, lambda name, number, problem: refused.append((name, number, problem)))
    return dataset, refused


def one(folder, **said):
    dataset, refused = read(folder, **said)
    assert refused == []
    return dataset, dataset.sources[0]


def refusal(folder, **said):
    dataset, refused = read(folder, **said)
    assert dataset is None
    ((name, number, problem),) = refused
    return name, number, problem.reason


def names(source):
    return [file.name for file in source.files]


def test_a_plain_file(folder):
    dataset, source = one(folder, source=("corpus.txt",))
    assert (source.kind, names(source), dataset.format, source.bytes_there) == ("file", ["corpus.txt"], "text", 20)
    assert dataset.samples is None


def test_a_folder_with_folders(folder):
    dataset, source = one(folder, source=("parts",))
    assert (source.kind, names(source)) == ("folder", ["a.csv", "b.csv", "deep/c.csv", "readme.md"])
    assert (dataset.format, dataset.samples) == ("csv", 6)


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("parts/*.csv", ["a.csv", "b.csv"]),
        ("parts/**/*.csv", ["a.csv", "b.csv", "deep/c.csv"]),
        ("*/deep", ["parts/deep/c.csv"]),
        ("parts/[ab].csv", ["a.csv", "b.csv"]),
    ],
)
def test_a_pattern(folder, pattern, found):
    _, source = one(folder, source=(pattern,))
    assert (source.kind, sorted(names(source))) == ("glob", found)


def test_a_folder_whose_name_is_a_pattern_is_a_folder(folder):
    (folder / "set[1]").mkdir()
    (folder / "set[1]" / "x").write_text("x")
    assert one(folder, source=("set[1]",))[1].kind == "folder"


def test_signs_of_patterns_in_the_names_of_folders_above_are_none_of_the_pattern(folder):
    above = folder.rename(folder.with_name("run[1]*"))
    assert names(one(above, source=("parts/*.csv",))[1]) == ["a.csv", "b.csv"]


def test_nobody_is_told_to_remove_a_device(folder):
    _, ((_, _, problem),) = read(folder, source=("/dev/null",))
    assert (problem.reason, problem.hint) == ("/dev/null is a device, a pipe or a socket", "name a file or a folder")


def test_an_archive_is_looked_through(folder):
    with zipfile.ZipFile(folder / "x.zip", "w") as made:
        for number in range(3):
            made.writestr(f"train/cat/{number}.png", "123")
    dataset, source = one(folder, source=("x.zip",))
    assert (source.kind, source.unpack, source.unpacked.files, source.bytes_there) == ("archive", "archive", 3, 9)
    assert (dataset.format, dataset.samples) == ("image-folder", 3)
    _, source = one(folder, source=("x.zip",), unpack=False)
    assert (source.kind, source.unpack) == ("file", "")
    with tarfile.open(folder / "shard.tar", "w") as made:
        made.add(folder / "corpus.txt", "corpus.txt")
    assert one(folder, source=("shard.tar",), format="webdataset")[1].unpack == ""


def test_an_archive_can_be_read_where_nothing_can_be_kept(folder, tmp_path, monkeypatch):
    (tmp_path / "full").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "full"))
    with zipfile.ZipFile(folder / "x.zip", "w") as made:
        made.writestr("train/cat/1.png", "123")
    dataset, source = one(folder, source=("x.zip",))
    assert (source.unpacked.files, dataset.samples) == (1, None)


def test_addresses(folder):
    _, source = one(folder, source=("https://example.org/data.csv?x=1",))
    assert [(file.name, file.address) for file in source.files] == [("data.csv", "https://example.org/data.csv?x=1")]
    urls = ("https://example.org/b.parquet", "https://example.org/a%20b.parquet")
    dataset, source = one(folder, urls=urls, checksum={"b.parquet": "ab" * 32})
    assert names(source) == ["a b.parquet", "b.parquet"]
    assert [file.sha256 for file in source.files] == [None, "ab" * 32]
    assert dataset.format == "parquet"
    _, source = one(folder, source=("https://example.org/data.tar.gz",))
    assert source.unpack == "archive"
    _, source = one(folder, source=("https://example.org/data",), checksum={"x.bin": "ab" * 32})
    assert [(file.name, file.address) for file in source.files] == [("x.bin", "")]


def test_a_path_on_the_target(folder):
    for path in ("/lustre/imagenet", "~/data", "$SCRATCH/data"):
        dataset, source = one(folder, on_target=path)
        assert (source.kind, source.location, dataset.size) == ("on_target", path, None)
    assert "not a path on the target" in refusal(folder, on_target="data")[2]


def test_what_is_known(folder):
    dataset, _ = one(folder, name="mnist")
    assert [source.kind for source in dataset.sources] == ["published", "digits"]
    assert refusal(folder, source=("digits",)) == ("source", 0, "digits can be drawn in place of mnist, not of mine")


LFS = f"version https://git-lfs.github.com/spec/v1\noid sha256:{'ab' * 32}\nsize 12345\n"


def socket_at(path):
    os.chdir(path.parent)
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(path.name)


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ({}, ("source", None, "nothing says where the data is")),
        ({"source": ("corpus.txt",), "urls": ("https://x/y",)}, ("urls", None, "urls and source both say where the data is")),
        ({"source": ("nowhere",)}, ("source", 0, "there is no file or folder nowhere")),
        ({"source": ("corpus.txt", " ")}, ("source", 1, "nothing is named")),
        ({"source": ("corpus.txt", "*.none")}, ("source", 1, "nothing matches *.none")),
        ({"source": ("empty",)}, ("source", 0, "there are no files in the folder empty")),
        ({"source": ("none.bin",)}, ("source", 0, "none.bin is empty")),
        ({"source": ("nothings",)}, ("source", 0, "all files of nothings are empty")),
        ({"source": ("parts",), "pack": "shards"}, ("pack", None, "shards are only for scripts that read the format webdataset")),
        ({"source": ("parts",), "pack": "shards", "format": "webdataset"}, ("pack", None, "LICENSE has no extension")),
        ({"source": ("0.tar",), "pack": "shards", "format": "webdataset"}, ("pack", None, "its files are shards already")),
        ({"on_target": "/data", "pack": "shards", "format": "webdataset"}, ("pack", None, "the data is already on the target")),
        ({"source": ("ftp://x/y",)}, ("source", 0, "'ftp://x/y' is not an http, https or file address")),
        ({"source": ("https://x/y/",)}, ("source", 0, "https://x/y/ is the address of a folder, and has no checksums")),
        ({"source": ("https://[::1/y",)}, ("source", 0, "'https://[::1/y' is not an http, https or file address")),
        ({"source": ("https://x:99999/y",)}, ("source", 0, "'https://x:99999/y' is not an http, https or file address")),
        ({"source": ("https://x/" + "a" * 300,)}, ("source", 0, "the name " + "a" * 40 + "... is longer than the 255 bytes")),
        ({"source": ("s3://bucket/x?endpoint_url=https://[::1",)}, ("source", 0, "s3://bucket/x?endpoint_url=https://[::1: https://[::1 is not the address of a server")),
        ({"source": ("corpus.txt",), "mount_as": "n" * 300}, ("mount_as", None, "the name " + "n" * 40 + "... is longer than the 255 bytes")),
        ({"urls": ("https://x/a", "https://y/a")}, ("urls", 1, "two addresses end in a")),
        ({"urls": ("https://x/a", "https://y/")}, ("urls", 1, "https://y/ is the address of no file")),
        ({"source": ("corpus.txt",), "mount_as": "/data"}, ("mount_as", None, "'/data' is not a path relative to the script's folder")),
        ({"source": ("corpus.txt",), "format": "idx", "name": "mnist", "checksum": {"corpus.txt": "ab" * 32}},
         ("source", 0, "corpus.txt has the SHA-256 ")),
    ],
)  # fmt: skip
def test_what_is_refused(folder, said, told):
    (folder / "empty").mkdir()
    (folder / "nothings").mkdir()
    for path in ("none.bin", "nothings/a", "nothings/b"):
        (folder / path).touch()
    for path in ("parts/LICENSE", "0.tar"):
        (folder / path).write_text("x")
    name, number, reason = refusal(folder, **said)
    assert (name, number) == told[:2]
    assert reason.startswith(told[2])


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda place: (place / "again").symlink_to(place), "again is a link that leads back to a folder it lies in"),
        (lambda place: (place / "a").symlink_to("b") or (place / "b").symlink_to("a"), "is a link to"),
        (lambda place: (place / "gone").symlink_to("nowhere"), "gone is a link to nowhere, which is not there"),
        (lambda place: os.mkfifo(place / "pipe"), "pipe is a device, a pipe or a socket"),
        (lambda place: socket_at(place / "s"), "s is a device, a pipe or a socket"),
        (lambda place: (place / "two\nlines").touch(), "the name 'two\\nlines' holds a line break"),
        (lambda place: (place / "x.bin").write_text(LFS), "x.bin is a pointer of Git LFS"),
        (lambda place: open(os.fsencode(place) + b"/\xff\xfe", "w").close(), "is not in UTF-8"),
    ],
)
def test_what_cannot_be_sent(folder, make, told):
    make(folder / "parts")
    for text in ("parts", "parts/*"):
        assert told in refusal(folder, source=(text,))[2]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_what_may_not_be_read(folder):
    (folder / "parts" / "a.csv").chmod(0)
    assert "a.csv may not be read" in refusal(folder, source=("parts",))[2]


def test_a_file_is_read_again_only_where_it_changed(folder, monkeypatch):
    from modak_ansible.sources import manifest

    read_files = []
    true = manifest.sha256_of
    monkeypatch.setattr(manifest, "sha256_of", lambda path: read_files.append(path.name) or true(path))
    first = one(folder, source=("parts",))[1]
    assert len(read_files) == 4
    (folder / "parts" / "b.csv").write_text("other")
    second = one(folder, source=("parts",))[1]
    assert read_files[4:] == ["b.csv"]
    assert first.contents != second.contents


@pytest.mark.parametrize(
    ("place", "good"),
    [
        ("data/MNIST/raw", True), ("data", True), ("../data/MNIST/raw", True), (".cache/x", True), ("", True),
        ("/data", False), ("~/data", False), ("$HOME", False), ("-x", False), (".", False), ("..", False),
        ("a/../../b", False), ("../../x", False), ("../state", False), ("../code/x", False), ("../plan.json", False),
        ("a\nb", False),
    ],
)  # fmt: skip
def test_where_a_script_may_look(place, good):
    assert (mount_problem(place) == "") == good


@given(st.text(max_size=12))
def test_no_place_leads_out_of_the_deployment(text):
    if not mount_problem(text) and text:
        path = os.path.normpath(f"/w/deployments/one/code/{text}")
        assert path.startswith("/w/deployments/one/")
        assert path.removeprefix("/w/deployments/one/").partition("/")[0] not in (
            *reader._OURS[1:],
            "plan.json",
            "job.sh",
        )


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("/lustre/rows", "on_target: /lustre/rows, where the target has it"),
        ("~/nothing-of-this", "on_target: ~/nothing-of-this, where the target has it"),
        ("me@cluster.example:/rows", "sftp://me@cluster.example/rows"),
        ("cluster.example:rows/x", "sftp://cluster.example/~/rows/x"),
        ("parts/{0..9}.tar", "a pattern is written with * and ?: parts/*.tar"),
        ("corpas.txt", "did you mean corpus.txt?"),
    ],
)
def test_what_is_not_here_has_a_hint(folder, text, hint):
    ((_, _, problem),) = read(folder, source=(text,))[1]
    assert problem.hint == hint


def test_loose_files_that_become_shards_are_counted_as_their_readers_count(folder):
    for name in ("train/cat/1.jpg", "train/cat/1.cls", "train/2.jpg", "val/3.jpg"):
        (folder / "photos" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "photos" / name).write_text(name)
    dataset, _ = one(folder, source=("photos",), format="webdataset", pack="shards")
    assert (dataset.pack, dataset.samples) == ("shards", 2)


def test_a_folder_that_may_not_be_listed_names_nothing_else(folder, monkeypatch):
    """As homes on clusters, which others may enter and not look through."""

    def refusing(place):
        raise PermissionError(13, "Permission denied", str(place))

    monkeypatch.setattr("pathlib.Path.iterdir", refusing)
    assert refusal(folder, source=("corpas.txt",)) == ("source", 0, "there is no file or folder corpas.txt")
