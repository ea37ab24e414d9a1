"""IDX files: what is written can be read again, and damage is named."""

import gzip
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from modak_ansible.catalogue import idx

IMAGES = np.arange(3 * 28 * 28, dtype=np.uint8).reshape(3, 28, 28)
LABELS = np.array([7, 0, 9], np.uint8)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    idx.write(tmp_path / "train-images-idx3-ubyte.gz", IMAGES)
    idx.write(tmp_path / "train-labels-idx1-ubyte.gz", LABELS)
    return tmp_path


@given(
    values=npst.arrays(np.uint8, npst.array_shapes(max_dims=4, min_side=0, max_side=50)),
    name=st.sampled_from(["values", "values.gz"]),
)
def test_what_is_written_is_read(tmp_path_factory: pytest.TempPathFactory, values: np.ndarray, name: str) -> None:
    path = tmp_path_factory.mktemp("idx") / name
    idx.write(path, values)
    again = idx.read(path)
    assert again.shape == values.shape
    assert np.array_equal(again, values)


def test_bytes_of_a_file(tmp_path: Path) -> None:
    idx.write(tmp_path / "labels", LABELS)
    assert (tmp_path / "labels").read_bytes() == bytes.fromhex("00000801 00000003 070009")


def test_gzip_holds_the_plain_file_and_no_time(tmp_path: Path) -> None:
    long = np.zeros((100, 28, 28), np.uint8)  # more than one stored block
    idx.write(tmp_path / "images", long)
    idx.write(tmp_path / "images.gz", long)
    content = (tmp_path / "images.gz").read_bytes()
    assert gzip.decompress(content) == (tmp_path / "images").read_bytes()
    assert content[4:8] == bytes(4)


def test_compressed_files_are_read(tmp_path: Path) -> None:
    idx.write(tmp_path / "labels", LABELS)
    (tmp_path / "labels.gz").write_bytes(gzip.compress((tmp_path / "labels").read_bytes(), mtime=0))
    assert np.array_equal(idx.read(tmp_path / "labels.gz"), LABELS)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("labels", b"", "truncated"),
        ("labels", b"\0\0\x08\x03\0\0\0\x01", "truncated"),
        ("labels", bytes.fromhex("00000801 00000003 0700"), "truncated: 2 values where its header states 3"),
        ("labels", bytes.fromhex("00000801 00000002 070009"), "has bytes to spare: 3 values where its header states 2"),
        ("labels", bytes.fromhex("00000d01 00000001 3f800000"), "not an IDX file of unsigned bytes"),
        ("labels", b"PK\x03\x04 a zip file", "not an IDX file of unsigned bytes: it starts with 504b0304"),
        ("labels", gzip.compress(bytes.fromhex("00000801 00000001 07"), mtime=0), "should end in .gz"),
        ("labels.gz", bytes.fromhex("00000801 00000001 07"), "not a gzip file"),
        ("labels.gz", gzip.compress(bytes(1000), mtime=0)[:-9], "truncated"),
        ("labels.gz", gzip.compress(bytes(1000), mtime=0)[:14] + b"\xff" * 20, "damaged"),
    ],
)
def test_damaged_files(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(idx.IdxError) as raised:
        idx.read(path)
    assert message in str(raised.value)
    assert str(path) in str(raised.value)


@given(cut=st.integers(0, 60), flip=st.integers(0, 60))
def test_a_damaged_gzip_never_passes_for_whole(tmp_path_factory: pytest.TempPathFactory, cut: int, flip: int) -> None:
    content = bytearray(gzip.compress(bytes.fromhex("00000801 00000020") + bytes(range(32)), mtime=0))
    path = tmp_path_factory.mktemp("idx") / "labels.gz"
    content[10 + flip % (len(content) - 10)] ^= 0xFF  # the first ten bytes hold times and names, which do not matter
    path.write_bytes(content[: len(content) - cut % 20])
    with pytest.raises(idx.IdxError):
        idx.read(path)


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(idx.IdxError, match="No such file"):
        idx.read(tmp_path / "labels")


def test_check_tells_what_a_folder_holds(folder: Path) -> None:
    idx.write(folder / "t10k-images-idx3-ubyte", IMAGES[:2])
    idx.write(folder / "t10k-labels-idx1-ubyte", LABELS[:2])
    train, test = idx.check(folder)
    assert (train.name, train.count, train.shape) == ("train", 3, (28, 28))
    assert (test.name, test.count, test.shape) == ("t10k", 2, (28, 28))
    assert train.images == folder / "train-images-idx3-ubyte.gz"
    assert test.labels == folder / "t10k-labels-idx1-ubyte"


def test_check_of_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(idx.IdxError, match="no such folder"):
        idx.check(tmp_path / "nowhere")


def test_check_of_a_folder_without_idx(tmp_path: Path) -> None:
    with pytest.raises(idx.IdxError, match="no data set in IDX form"):
        idx.check(tmp_path)


def test_check_of_images_without_labels(folder: Path) -> None:
    (folder / "train-labels-idx1-ubyte.gz").unlink()
    with pytest.raises(idx.IdxError, match=r"there is train-images-idx3-ubyte\.gz but no train-labels-idx1-ubyte"):
        idx.check(folder)


def test_check_of_labels_without_images(folder: Path) -> None:
    (folder / "train-images-idx3-ubyte.gz").unlink()
    with pytest.raises(idx.IdxError, match=r"there is train-labels-idx1-ubyte\.gz but no train-images-idx3-ubyte"):
        idx.check(folder)


def test_check_of_counts_that_differ(folder: Path) -> None:
    idx.write(folder / "train-labels-idx1-ubyte.gz", LABELS[:2])
    with pytest.raises(idx.IdxError, match=r"3 images, .* 2 labels"):
        idx.check(folder)


def test_check_of_images_and_labels_exchanged(folder: Path) -> None:
    idx.write(folder / "train-images-idx3-ubyte.gz", LABELS)
    with pytest.raises(idx.IdxError, match="images have 3 dimensions"):
        idx.check(folder)
    idx.write(folder / "train-images-idx3-ubyte.gz", IMAGES)
    idx.write(folder / "train-labels-idx1-ubyte.gz", IMAGES)
    with pytest.raises(idx.IdxError, match="labels have 1 dimension"):
        idx.check(folder)
