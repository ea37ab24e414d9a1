"""Where ResNet50's images come from, and what data that cannot be used leads to."""

import builtins
import io
from pathlib import Path

import decoding
import numpy as np
import pytest
import samples
from dataset import DataError
from resnet50_files import JPEG, example, record, write_tar
from resnet50_files import samples as tar_samples


@pytest.fixture
def undecoded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pillow is no dependency of the tests: what is to be decoded is given back as it is."""
    monkeypatch.setattr(samples, "decode", lambda content, size, where: content)


def write_folder(folder: Path, counts: dict[str, int]) -> None:
    for name, count in counts.items():
        (folder / name).mkdir(parents=True)
        for number in range(count):
            (folder / name / f"{number}.JPEG").write_bytes(JPEG + f"{name} {number}".encode())
        (folder / name / "notes.txt").write_text("no image")


def load(source: str, sample: tuple, classes: int = 10, first_label: int = 0) -> tuple:
    return samples.load(source, sample, seed=1, image_size=64, classes=classes, first_label=first_label)


def test_drawn_images_follow_seed_and_number() -> None:
    train, test = samples.find("synthetic", None, seed=1)
    assert (len(train), len(test)) == (80, 8)
    image, label = load("synthetic", train[3])
    again, other = load("synthetic", train[3])[0], load("synthetic", test[3])[0]
    assert np.array_equal(image, again)
    assert not np.array_equal(image, other)
    assert (image.shape, image.dtype, 0 <= label < 10) == ((64, 64, 3), np.uint8, True)
    assert samples.find("synthetic", None, seed=1, images=5, test_images=2) == [train[:5], test[:2]]


def test_drawn_images_are_the_same_in_every_version_of_numpy() -> None:
    image, label = load("synthetic", (0, 0))
    assert (label, image[0, 0].tolist(), int(image.sum())) == (8, [22, 66, 153], 1256299)


def test_class_folders_with_a_test_split(tmp_path: Path, undecoded: None) -> None:
    write_folder(tmp_path / "train", {"n02": 4, "n01": 3})
    write_folder(tmp_path / "val", {"n02": 2})
    assert samples.detect(str(tmp_path)) == "folder"
    train, test = samples.find("folder", str(tmp_path), seed=1)
    assert sorted(load("folder", each) for each in train) == sorted(
        [(JPEG + f"n01 {n}".encode(), 0) for n in range(3)] + [(JPEG + f"n02 {n}".encode(), 1) for n in range(4)]
    )
    assert [label for _, label in (load("folder", each) for each in test)] == [1, 1]
    assert samples.find("folder", str(tmp_path), seed=1, images=2)[0] == train[:2]
    assert samples.find("folder", str(tmp_path), seed=2)[0] != train


def test_class_folders_alone_give_every_tenth(tmp_path: Path) -> None:
    write_folder(tmp_path, {"cat": 11, "dog": 10})
    train, test = samples.find("folder", str(tmp_path), seed=1)
    assert (len(train), len(test)) == (19, 2)
    assert not set(train) & set(test)


def test_a_class_that_only_the_test_has(tmp_path: Path) -> None:
    write_folder(tmp_path / "train", {"cat": 1})
    write_folder(tmp_path / "val", {"dog": 1})
    with pytest.raises(DataError, match=r"val/dog: the training images have no class of this name"):
        samples.find("folder", str(tmp_path), seed=1)


@pytest.mark.parametrize("names", [("train-0.tar", "val-0.tar"), ("train/a.tar", "validation/b.tar")])
def test_webdataset_shards(tmp_path: Path, names: tuple[str, str], undecoded: None) -> None:
    for name, labels in zip(names, ([1, 2, 3], [4]), strict=True):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        write_tar(tmp_path / name, tar_samples(labels))
    assert samples.detect(str(tmp_path)) == "webdataset"
    train, test = samples.find("webdataset", str(tmp_path), seed=1)
    assert [load("webdataset", each)[1] for each in train + test] == [1, 2, 3, 4]
    assert load("webdataset", train[2])[0] == JPEG + bytes([2])
    assert len(samples.find("webdataset", str(tmp_path), seed=1, images=2)[0]) == 2


def test_tfrecord_shards_without_a_test_split(tmp_path: Path, undecoded: None) -> None:
    for shard in range(3):
        content = b"".join(record(example(label=10 * shard + n)) for n in range(10))
        (tmp_path / f"train-0000{shard}-of-00003").write_bytes(content)
    assert samples.detect(str(tmp_path)) == "tfrecord"
    train, test = samples.find("tfrecord", str(tmp_path), seed=1)
    assert [load("tfrecord", each, classes=30)[1] for each in test] == [9, 19, 29]
    assert len(train) == 27
    few, tests = samples.find("tfrecord", str(tmp_path), seed=1, images=12)
    assert few == train[:12]
    assert tests == test[:1]


def test_labels_that_begin_with_1(tmp_path: Path, undecoded: None) -> None:
    (tmp_path / "train-0.tfrecord").write_bytes(record(example(label=10)))
    sample = (str(tmp_path / "train-0.tfrecord"), 0, 1)
    assert load("tfrecord", sample, first_label=1)[1] == 9
    with pytest.raises(DataError, match=r"train-0\.tfrecord: record 1: label 10 is out of range; labels are 0 to 9"):
        load("tfrecord", sample)
    with pytest.raises(DataError, match=r"label 10 is out of range; labels are 1 to 9"):
        load("tfrecord", sample, classes=9, first_label=1)


def test_folders_without_images(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="nowhere: no such folder"):
        samples.detect(str(tmp_path / "nowhere"))
    with pytest.raises(DataError, match="no images: neither folders of JPEG files"):
        samples.detect(str(tmp_path))
    (tmp_path / "cat").mkdir()
    with pytest.raises(DataError, match="too few images: 0 to train on, 0 to test on"):
        samples.find("folder", str(tmp_path), seed=1)


def test_without_pillow(monkeypatch: pytest.MonkeyPatch) -> None:
    imported = builtins.__import__

    def refuse(name: str, *rest: object) -> object:
        if name == "PIL":
            raise ImportError
        return imported(name, *rest)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(DataError, match="needs Pillow, the Python package pillow"):
        decoding.decode(JPEG, 64, "a.jpg")


def test_normalised_pixels() -> None:
    pixels = np.array([[[0, 0, 0], [255, 255, 255]]], np.uint8)
    black, white = decoding.normalise(pixels)[0]
    assert black.tolist() == pytest.approx([-2.1179, -2.0357, -1.8044], abs=1e-4)
    assert white.tolist() == pytest.approx([2.2489, 2.4286, 2.64], abs=1e-4)


def test_the_middle_is_cut_out() -> None:
    image = pytest.importorskip("PIL.Image")
    pixels = np.zeros((300, 600, 3), np.uint8)
    pixels[:, 150:450] = 200
    file = io.BytesIO()
    image.fromarray(pixels).save(file, "JPEG")
    decoded = decoding.decode(file.getvalue(), 224, "a.jpg")
    assert (decoded.shape, decoded.dtype) == ((224, 224, 3), np.uint8)
    assert decoded.min() > 190
    with pytest.raises(DataError, match=r"a\.jpg: not a readable image"):
        decoding.decode(file.getvalue()[:-500], 224, "a.jpg")
    grey = io.BytesIO()
    image.fromarray(pixels[..., 0]).convert("CMYK").save(grey, "JPEG")
    assert decoding.decode(grey.getvalue(), 64, "b.jpg").shape == (64, 64, 3)


def test_what_is_no_image() -> None:
    pytest.importorskip("PIL.Image")
    with pytest.raises(DataError, match=r"a\.tar: record 3: not a readable image") as raised:
        decoding.decode(JPEG, 224, "a.tar: record 3")
    assert "\n" not in str(raised.value)
