"""The drawn digits: the same bytes everywhere, and digits that differ."""

import gzip
import hashlib
import struct
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from modak_ansible.catalogue import digits, idx
from modak_ansible.errors import ModakError

# Of the pixels and labels themselves, whatever their packing.
TRAINING_IMAGES = "b310704fa3eec6924fab95011935d38fceae1e65b971d44b758b8ae3223f8531"
TEST_IMAGES = "64b4db142ef410be16fc97e2037ae85c1f72652da1f59ce39a46d6b8dda847ff"


@pytest.fixture(scope="module", autouse=True)
def drawn_once() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(digits, "draw", cache(digits.draw))
        yield


@pytest.fixture(scope="module")
def drawn() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    return {split: digits.draw(digits.COUNTS[split], digits.SEEDS[split]) for split in idx.SPLITS}


def test_every_machine_draws_the_same_pixels(drawn: dict) -> None:
    assert hashlib.sha256(drawn["train"][0].tobytes()).hexdigest() == TRAINING_IMAGES
    assert hashlib.sha256(drawn["t10k"][0].tobytes()).hexdigest() == TEST_IMAGES


def test_files(tmp_path: Path) -> None:
    assert digits.write(tmp_path) == digits.FILES
    for file in digits.FILES:
        content = (tmp_path / file.name).read_bytes()
        assert (len(content), hashlib.sha256(content).hexdigest()) == (file.size, file.sha256)
    for split, count in (("train", 6000), ("t10k", 1000)):
        images, labels = (
            gzip.decompress((tmp_path / f"{split}-{kind}.gz").read_bytes()) for kind in (idx.IMAGES, idx.LABELS)
        )
        assert images[:16] == struct.pack(">IIII", 0x0803, count, 28, 28)
        assert labels[:8] == struct.pack(">II", 0x0801, count)
        assert (len(images), len(labels)) == (16 + count * 28 * 28, 8 + count)


def test_other_bytes_than_published_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(digits.SEEDS, "t10k", 3)
    with pytest.raises(ModakError, match="differ from the published ones"):
        digits.write(tmp_path)


def test_name_says_that_it_is_not_mnist() -> None:
    assert "not MNIST" in digits.NAME


def test_each_digit_comes_equally_often(drawn: dict) -> None:
    for split, (images, labels) in drawn.items():
        count = digits.COUNTS[split]
        assert images.shape == (count, 28, 28)
        assert images.dtype == labels.dtype == np.uint8
        assert np.bincount(labels).tolist() == [count // 10] * 10


def test_labels_are_shuffled(drawn: dict) -> None:
    _, labels = drawn["train"]
    assert np.bincount(labels[::10], minlength=10).min() > 30  # every tenth image is a fair sample


def test_no_image_comes_twice(drawn: dict) -> None:
    images = np.concatenate([images for images, _ in drawn.values()])
    assert len({image.tobytes() for image in images}) == len(images)


def test_every_image_is_ink_on_an_empty_ground(drawn: dict) -> None:
    images, _ = drawn["train"]
    ink = (images > 127).mean(axis=(1, 2))
    assert ink.min() > 0.02
    assert ink.max() < 0.45
    assert images.max() == 255
    assert np.median(images) == 0


def test_digits_differ(drawn: dict) -> None:
    """The nearest mean image tells far more digits apart than chance, and far fewer than a network does."""
    images, labels = drawn["train"]
    means = np.stack([images[labels == digit].mean(axis=0).ravel() for digit in range(10)])
    test_images, test_labels = drawn["t10k"]
    distances = ((test_images.reshape(-1, 1, 784).astype(np.float64) - means) ** 2).sum(axis=2)
    accuracy = (distances.argmin(axis=1) == test_labels).mean()
    assert 0.6 < accuracy < 0.9


def test_smaller_sets_draw_too() -> None:
    images, labels = digits.draw(20, seed=5)
    assert sorted(labels.tolist()) == sorted(list(range(10)) * 2)
    assert images.any(axis=(1, 2)).all()
