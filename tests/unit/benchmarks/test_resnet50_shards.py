"""TFRecord and WebDataset shards, whole and damaged."""

from pathlib import Path

import crc32c
import pytest
import tfrecord
import webdataset
from dataset import DataError
from hypothesis import given
from hypothesis import strategies as st
from resnet50_files import JPEG, example, record, samples, write_tar
from resnet50_files import crc32c as bit_by_bit


def test_checksum_of_the_standard() -> None:
    assert crc32c.crc32c(b"123456789") == 0xE3069283  # RFC 3720, B.4, likewise
    assert crc32c.crc32c(bytes(32)) == 0x8A9136AA
    assert crc32c.crc32c(b"") == 0


@given(seed=st.binary(min_size=1, max_size=40), size=st.integers(0, 9000))
def test_checksum_of_any_length(seed: bytes, size: int) -> None:
    content = (seed * (size // len(seed) + 1))[:size]
    assert crc32c.crc32c(content) == bit_by_bit(content)


@given(image=st.binary(min_size=1, max_size=300), label=st.integers(-5, 2**40), packed=st.booleans())
def test_examples(image: bytes, label: int, packed: bool) -> None:
    assert tfrecord.example(example(image, label, packed)) == (image, label)


@given(st.binary(max_size=60))
def test_what_is_no_example_is_never_a_traceback(content: bytes) -> None:
    with pytest.raises(ValueError, match=r"tf\.train\.Example|it has no"):
        tfrecord.example(content)


@given(st.data())
def test_cut_examples_are_never_a_traceback(data: st.DataObject) -> None:
    content = example()
    cut = content[: data.draw(st.integers(0, len(content) - 1))]
    with pytest.raises(ValueError, match=r"tf\.train\.Example|it has no"):
        tfrecord.example(cut)


def test_tfrecord_file(tmp_path: Path) -> None:
    path = tmp_path / "train-00000-of-00001"
    path.write_bytes(b"".join(record(example(JPEG + bytes([n]), 10 * n)) for n in range(3)))
    offsets = tfrecord.index(str(path))
    assert [tfrecord.read(str(path), offset, 1) for offset in offsets] == [
        (JPEG + bytes([n]), 10 * n) for n in range(3)
    ]
    assert tfrecord.index(str(path), limit=2) == offsets[:2]


@pytest.mark.parametrize("lost", [1, 4, 5, 40])
def test_truncated_tfrecord_file(tmp_path: Path, lost: int) -> None:
    path = tmp_path / "a.tfrecord"
    path.write_bytes((record(example()) * 2)[:-lost])
    with pytest.raises(DataError, match=r"a\.tfrecord: record 2 is truncated$"):
        tfrecord.index(str(path))


def test_damaged_tfrecord_file(tmp_path: Path) -> None:
    path, whole = tmp_path / "a.tfrecord", record(example())
    for place, message in ((0, "record 2 has a wrong checksum of its length"), (30, "record 2 has a wrong checksum$")):
        damaged = bytearray(whole * 2)
        damaged[len(whole) + place] ^= 1
        path.write_bytes(damaged)
        with pytest.raises(DataError, match=message):
            [tfrecord.read(str(path), offset, n) for n, offset in enumerate(tfrecord.index(str(path)), 1)]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (example(image=None), "record 7: it has no image/encoded"),
        (example(label=None), "record 7: it has no image/class/label"),
        (b"no message", "record 7: it is not a tf.train.Example"),
    ],
)
def test_records_that_are_none(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "a.tfrecord"
    path.write_bytes(record(content))
    with pytest.raises(DataError, match=message):
        tfrecord.read(str(path), 0, 7)


def test_webdataset_shard(tmp_path: Path) -> None:
    path = tmp_path / "train-0.tar"
    write_tar(path, [("folder/x.json", b"{}"), *samples([])])
    with pytest.raises(DataError, match=r"sample 1 \(folder/x\) has no image"):
        webdataset.index(str(path))
    write_tar(path, [*samples([5, 6, 7]), ("folder/b.c.jpeg", b"no image: b.c is not b"), ("folder/b.cls", b" 8\n")])
    with pytest.raises(DataError, match=r"sample 4 \(folder/b\) has no image"):
        webdataset.index(str(path))
    write_tar(path, samples([5, 6, 7]))
    found = webdataset.index(str(path))
    assert [label for *_, label in found] == [5, 6, 7]
    assert webdataset.index(str(path), limit=2) == found[:2]
    assert [webdataset.read(str(path), offset, size, 1) for _, offset, size, _ in found] == [
        JPEG + bytes([n]) for n in range(3)
    ]


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ([("a.jpg", JPEG)], r"sample 1 \(a\) has no label \(\.cls\)"),
        ([*samples([1]), ("b.jpg", JPEG), ("b.cls", b"cat")], "sample 2: its label is not a number"),
    ],
)
def test_incomplete_shards(tmp_path: Path, members: list, message: str) -> None:
    write_tar(tmp_path / "a.tar", members)
    with pytest.raises(DataError, match=message):
        webdataset.index(str(tmp_path / "a.tar"))


@pytest.mark.parametrize("left", [100, 700, 1030])
def test_truncated_shard(tmp_path: Path, left: int) -> None:
    path = tmp_path / "a.tar"
    write_tar(path, [("a.jpg", bytes(3000)), ("a.cls", b"1")])
    path.write_bytes(path.read_bytes()[:left])
    with pytest.raises(DataError, match=r"a\.tar: "):
        webdataset.index(str(path))
