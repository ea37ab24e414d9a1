"""How many samples files have, by what their own libraries wrote; damage leaves the number open."""

from __future__ import annotations

import gzip
import importlib.util
import shutil
import struct
import tarfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modak_ansible.sources.counting import formats, samples
from modak_ansible.sources.reader import DatasetDescription, read_dataset


def parquet(path, rows):
    """The least that a Parquet file's footer may hold: version, a schema of one element, and the number of rows."""

    def signed(value):
        value = (value << 1) ^ (value >> 63)
        found = b""
        while True:
            found += bytes([value & 0x7F | (0x80 if value > 0x7F else 0)])
            value >>= 7
            if not value:
                return found

    schema = b"\x48\x06schema" + b"\x15" + signed(1) + b"\x00"  # field 4: name; field 5: number of children
    footer = b"\x15" + signed(2) + b"\x19" + b"\x1c" + schema + b"\x16" + signed(rows) + b"\x00"
    path.write_bytes(b"PAR1" + footer + struct.pack("<I", len(footer)) + b"PAR1")


def npy(path, shape):
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}".encode()
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header)


def records(path, count):
    path.write_bytes(b"".join(struct.pack("<Q", 5) + b"c" * 4 + b"five!" + b"c" * 4 for _ in range(count)))


def shard(path, keys):
    with tarfile.open(path, "w") as made:
        for key in keys:
            for ending in ("jpg", "cls"):
                made.addfile(tarfile.TarInfo(f"{key}.{ending}"))


def test_formats_are_known_and_counted(tmp_path):
    npy(tmp_path / "train.npy", (123, 28, 28))
    parquet(tmp_path / "a.parquet", 100_000)
    parquet(tmp_path / "b.parquet", 7)
    records(tmp_path / "train-0.tfrecord", 11)
    shard(tmp_path / "0.tar", ["a", "b", "c"])
    shard(tmp_path / "1.tar", ["d"])
    (tmp_path / "t.csv").write_text("x\n1\n2\n3")
    (tmp_path / "train-labels-idx1-ubyte.gz").write_bytes(gzip.compress(struct.pack(">II", 0x0801, 60)))
    cases = {
        ("train.npy",): ("npy", 123),
        ("a.parquet", "b.parquet"): ("parquet", 100_007),
        ("train-0.tfrecord",): ("tfrecord", 11),
        ("0.tar", "1.tar"): ("webdataset", 4),
        ("t.csv",): ("csv", 3),
        ("train-labels-idx1-ubyte.gz",): ("idx", 60),
    }
    for files, (form, count) in cases.items():
        assert formats.format_of(files) == form
        assert samples.count(tmp_path, files, form) == count
    assert formats.format_of(["a.h5"]) == "hdf5"
    assert formats.format_of(["train.tfrecord-00000-of-00002", "train.tfrecord-00001-of-00002"]) == "tfrecord"
    assert formats.format_of(["a.bin"]) == ""


RECORDED = Path(__file__).parent / "recorded"


@pytest.mark.parametrize(
    ("name", "form", "count"),
    [
        ("nested.parquet", "parquet", 137),  # pyarrow 26: three row groups of nested columns, zstd
        ("records.tfrecord", "tfrecord", 23),  # tfrecord 1.14
        ("split.npz", "npy", 19),  # numpy 2.4: x_train, y_train, x_test
        ("fortran.npy", "npy", 29),
        ("structured.npy", "npy", 17),
        ("quoted.csv", "csv", 15),  # pandas 3.1: line breaks and quotes within values
    ],
)
def test_what_their_own_libraries_wrote_is_counted(name, form, count):
    assert formats.format_of([name]) == form
    assert samples.count(RECORDED, [name], form) == count


def test_of_tsv_quotes_are_letters_like_any_other(tmp_path):
    """As pairs of questions have them: one that is left open is no damage."""
    (tmp_path / "train.tsv").write_text('a\tb\n5" or less\tx\n"so"\ty\n')
    assert samples.count(tmp_path, ["train.tsv"], "csv") == 2
    assert samples.damaged(tmp_path, ["train.tsv"], "csv") == ""


def test_hdf5_is_counted_where_its_library_is():
    """The file is h5py's own, 3.16."""
    count = 41 if importlib.util.find_spec("h5py") else None
    assert samples.count(RECORDED, ["digits.h5"], "hdf5") == count


def test_hdf5_is_counted_anew_when_its_library_is_installed(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    shutil.copy(RECORDED / "digits.h5", tmp_path)
    said = DatasetDescription(name="d", source=("digits.h5",))
    with monkeypatch.context() as without:
        without.setattr(samples, "lacking", lambda form: "h5py")
        assert read_dataset(said, tmp_path, print).samples is None
    monkeypatch.setattr(samples, "lacking", lambda form: "")
    monkeypatch.setattr(samples, "count", lambda *_: 41)
    assert read_dataset(said, tmp_path, print).samples == 41


def test_parts_of_arrays_are_one_and_other_arrays_are_not(tmp_path):
    for name, shape in {"x_0.npy": (10, 4), "x_1.npy": (7, 4), "y_0.npy": (10,), "mean.npy": (4,)}.items():
        npy(tmp_path / name, shape)
    assert samples.count(tmp_path, ["mean.npy", "x_0.npy", "x_1.npy", "y_0.npy"], "npy") == 17


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("x.parquet", b"PAR1\x00" + struct.pack("<I", 1) + b"PAR1"),  # no rows in it
        ("x.parquet", b"PAR1\x19\xf3" + b"\xff" * 8 + b"\x0f" + struct.pack("<I", 11) + b"PAR1"),  # a list without end
        ("x.parquet", b"PAR1" + b"\x15" + b"\x80" * 10**6 + struct.pack("<I", 10**6 + 1) + b"PAR1"),
        ("x.parquet", b"PAR1" + b"\x1c" * 10**5 + struct.pack("<I", 10**5) + b"PAR1"),  # structures in structures
        ("x.npy", b"\x93NUMPY\x02\x00\xff\xff\xff\xff" + b"(" * 10**5),
        ("x.npz", b"PK\x05\x06" + b"\0" * 18),
        ("x.csv", b'a,b\n"never closed\n1,2\n'),
        ("x.tfrecord", b"\xff" * 100),
    ],
)
def test_made_damage_stops_no_plan(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    form = formats.format_of([name])
    assert samples.count(tmp_path, [name], form) is None


def test_training_samples_are_those_of_the_part_of_that_name():
    files = [f"{part}/cat/{number}.jpg" for part, count in (("train", 5), ("val", 2)) for number in range(count)]
    assert formats.of_names(files, "image-folder") == 5
    assert formats.of_names([*files[5:], "x/1.png"], "image-folder") == 1


@pytest.mark.parametrize(
    "form", ["csv", "npy", "parquet", "tfrecord", "webdataset", "idx", "text", "hdf5", "image-folder"]
)
@given(content=st.binary(max_size=64))
def test_damage_leaves_the_number_open(tmp_path_factory, form, content):
    folder = tmp_path_factory.mktemp("any")
    name = {"csv": "x.csv", "npy": "x.npy", "parquet": "x.parquet", "webdataset": "x.tar"}.get(form, "x")
    (folder / name).write_bytes(content)
    found = samples.count(folder, [name], form)
    assert found is None or found > 0


@pytest.mark.parametrize("form", ["parquet", "npy", "tfrecord", "webdataset"])
def test_a_file_that_is_another_is_named(tmp_path, form):
    ending = {"parquet": "parquet", "npy": "npy", "tfrecord": "tfrecord", "webdataset": "tar"}[form]
    names = [f"a.{ending}", f"b.{ending}"]
    parquet(tmp_path / "a.parquet", 3)
    npy(tmp_path / "a.npy", (3,))
    records(tmp_path / "a.tfrecord", 3)
    shard(tmp_path / "a.tar", ["x"])
    (tmp_path / names[1]).write_bytes((tmp_path / names[0]).read_bytes()[:-9] if form == "tfrecord" else b"<html>")
    assert samples.count(tmp_path, names, form) is None
    assert samples.damaged(tmp_path, names, form) == names[1]
    assert samples.damaged(tmp_path, names[:1], form) == ""
