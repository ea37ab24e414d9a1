"""IDX files: what is written can be read again."""

import gzip
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from modak_ansible.catalogue import idx

LABELS = np.array([7, 0, 9], np.uint8)


def read(path: Path) -> np.ndarray:
    """As the format has it, whole."""
    content = path.read_bytes() if path.suffix != ".gz" else gzip.decompress(path.read_bytes())
    (magic,) = struct.unpack_from(">I", content)
    assert magic & ~0xFF == 0x0800
    dimensions = magic & 0xFF
    shape = struct.unpack_from(f">{dimensions}I", content, 4)
    return np.frombuffer(content, np.uint8, offset=4 + 4 * dimensions).reshape(shape)


@given(
    values=npst.arrays(np.uint8, npst.array_shapes(max_dims=4, min_side=0, max_side=50)),
    name=st.sampled_from(["values", "values.gz"]),
)
def test_what_is_written_is_read(tmp_path_factory: pytest.TempPathFactory, values: np.ndarray, name: str) -> None:
    path = tmp_path_factory.mktemp("idx") / name
    idx.write(path, values)
    again = read(path)
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
