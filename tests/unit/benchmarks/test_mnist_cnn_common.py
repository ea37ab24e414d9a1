"""What the MNIST-CNN scripts share: arguments, data, order and first weights."""

import gzip
import json
import math
import struct
from pathlib import Path

import common
import dataset
import numpy as np
import pytest

LABELS = np.arange(20, dtype=np.uint8) % 10
IMAGES = np.stack([np.full((28, 28), number, np.uint8) for number in range(20)])  # image n is of colour n


def write_split(folder: Path, split: str, images: np.ndarray, labels: np.ndarray, ending: str = "") -> None:
    for kind, values in (("images-idx3-ubyte", images), ("labels-idx1-ubyte", labels)):
        content = struct.pack(f">I{values.ndim}I", 0x0800 | values.ndim, *values.shape) + values.tobytes()
        (folder / f"{split}-{kind}{ending}").write_bytes(gzip.compress(content, mtime=0) if ending else content)


def colours(images: np.ndarray) -> list[int]:
    return [round(float(image[0, 0]) * 255) for image in images]


@pytest.mark.parametrize("ending", ["", ".gz"])
def test_training_and_test_images_of_their_own(tmp_path: Path, ending: str) -> None:
    write_split(tmp_path, "train", IMAGES, LABELS, ending)
    write_split(tmp_path, "t10k", IMAGES[:3], LABELS[:3], ending)
    data = common.read_dataset(tmp_path)
    assert colours(data.train_images) == list(range(20))
    assert colours(data.test_images) == [0, 1, 2]
    assert data.train_labels.tolist() == LABELS.tolist()
    assert data.test_labels.tolist() == [0, 1, 2]
    assert data.train_images.shape == (20, 28, 28)
    assert (data.train_images.dtype, data.train_labels.dtype) == (np.float32, np.int64)


@pytest.mark.parametrize("split", ["train", "t10k"])
def test_every_tenth_image_of_a_single_split_is_tested(tmp_path: Path, split: str) -> None:
    write_split(tmp_path, split, IMAGES, LABELS)
    data = common.read_dataset(tmp_path)
    assert colours(data.test_images) == [9, 19]
    assert data.test_labels.tolist() == [9, 9]
    assert colours(data.train_images) == [n for n in range(20) if n % 10 != 9]


def test_pixels_go_from_0_to_1(tmp_path: Path) -> None:
    images = IMAGES.copy()
    images[0] = 255
    write_split(tmp_path, "train", images, LABELS)
    data = common.read_dataset(tmp_path)
    assert data.train_images.max() == 1
    assert data.train_images[1].max() == np.float32(1) / np.float32(255)


def test_limit_takes_the_first_training_images(tmp_path: Path) -> None:
    write_split(tmp_path, "train", IMAGES, LABELS)
    data = common.read_dataset(tmp_path, limit=5)
    assert colours(data.train_images) == [0, 1, 2, 3, 4]
    assert len(data.train_labels) == 5
    assert len(data.test_images) == 2


def test_description(tmp_path: Path) -> None:
    write_split(tmp_path, "train", IMAGES, LABELS)
    assert common.read_dataset(tmp_path).dataset == {"name": tmp_path.name}
    description = {"name": "digits", "label": "digits (drawn, not MNIST)", "source": "drawn"}
    (tmp_path / "dataset.json").write_text(json.dumps(description))
    assert common.read_dataset(tmp_path).dataset == description


@pytest.mark.parametrize("content", ["{", "[]", '"digits"'])
def test_description_that_is_none(tmp_path: Path, content: str) -> None:
    write_split(tmp_path, "train", IMAGES, LABELS)
    (tmp_path / "dataset.json").write_text(content)
    with pytest.raises(common.DataError, match=r"dataset\.json"):
        common.read_dataset(tmp_path)


@pytest.mark.parametrize(
    ("images", "labels", "message"),
    [
        (IMAGES[:, :27], LABELS, "images must be 28 x 28"),
        (LABELS, LABELS, "images must be 28 x 28"),
        (IMAGES, LABELS[:19], "for 20 images"),
        (IMAGES, IMAGES, "for 20 images"),
        (IMAGES, LABELS + 1, "label 10 is out of range"),
        (IMAGES[:0], LABELS[:0], "too few images"),
        (IMAGES[:9], LABELS[:9], "too few images: 9 to train on, 0 to test on"),
    ],
)
def test_data_that_does_not_fit_the_network(
    tmp_path: Path, images: np.ndarray, labels: np.ndarray, message: str
) -> None:
    write_split(tmp_path, "train", images, labels)
    with pytest.raises(common.DataError, match=message):
        common.read_dataset(tmp_path)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("labels", b"", "not an IDX file"),
        ("labels", bytes.fromhex("00000801 0000"), "not an IDX file of unsigned bytes, or truncated"),
        ("labels", bytes.fromhex("00000d01 00000001 3f800000"), "not an IDX file"),
        ("labels", bytes.fromhex("00000801 00000003 0700"), "2 bytes where its header states [3]"),
        ("labels", bytes.fromhex("00000801 00000001 0700"), "2 bytes where its header states [1]"),
        ("labels.gz", bytes.fromhex("00000801 00000001 07"), "unreadable, damaged or truncated"),
        ("labels.gz", gzip.compress(bytes(1000), mtime=0)[:-9], "unreadable, damaged or truncated"),
        ("labels.gz", gzip.compress(bytes(1000), mtime=0)[:14] + b"\xff" * 20, "unreadable, damaged or truncated"),
    ],
)
def test_damaged_files(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(common.DataError) as raised:
        common.read_idx(tmp_path / name)
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


def test_folder_without_data(tmp_path: Path) -> None:
    with pytest.raises(common.DataError, match="no data set in IDX form"):
        common.read_dataset(tmp_path)
    with pytest.raises(common.DataError, match="no such folder"):
        common.read_dataset(tmp_path / "nowhere")


@pytest.mark.parametrize(("kind", "missing"), [("images-idx3", "images"), ("labels-idx1", "labels")])
def test_images_without_labels_and_labels_without_images(tmp_path: Path, kind: str, missing: str) -> None:
    write_split(tmp_path, "train", IMAGES, LABELS)
    (tmp_path / f"train-{kind}-ubyte").unlink()
    with pytest.raises(common.DataError, match=f"the {missing} that belong to it are missing"):
        common.read_dataset(tmp_path)


def test_each_epoch_sees_every_image_once_in_an_order_of_its_own() -> None:
    first, second = dataset.batches(300, 128, seed=1, epoch=0), dataset.batches(300, 128, seed=1, epoch=1)
    assert [len(batch) for batch in first] == [128, 128, 44]
    assert sorted(np.concatenate(first).tolist()) == list(range(300))
    assert np.concatenate(first).tolist() != np.concatenate(second).tolist()


def test_order_is_the_same_in_every_version_of_numpy() -> None:
    order = np.concatenate(dataset.batches(10, 4, seed=1, epoch=0))
    assert order.tolist() == [2, 9, 8, 3, 6, 7, 1, 4, 0, 5]


def test_first_weights_are_glorot_uniform() -> None:
    weights = list(common.initial_weights(seed=1))
    assert [kernel.shape for kernel in weights] == list(common.WEIGHTS)
    assert {kernel.dtype for kernel in weights} == {np.dtype(np.float32)}
    for kernel, (inputs, outputs) in zip(weights, [(9, 288), (288, 576), (9216, 128), (128, 10)], strict=True):
        limit = math.sqrt(6 / (inputs + outputs))
        assert 0.95 * limit < np.abs(kernel).max() <= np.float32(limit)
        assert abs(kernel.mean()) < 0.15 * limit
    biases = sum(kernel.shape[-1] for kernel in weights)
    assert sum(kernel.size for kernel in weights) + biases == common.PARAMETERS


def test_first_weights_follow_the_seed() -> None:
    first, again, other = (next(common.initial_weights(seed)) for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


@pytest.fixture
def command_line(monkeypatch: pytest.MonkeyPatch):
    for name in ("MODAK_DATASET", "MODAK_METRICS", "OMP_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    return lambda *words: monkeypatch.setattr("sys.argv", ["pytorch.py", *words])


def test_defaults_are_the_papers(command_line) -> None:
    command_line("--data", "mnist")
    arguments = common.parse_arguments("PyTorch", {})
    assert (arguments.epochs, arguments.batch_size, arguments.learning_rate, arguments.dropout) == (12, 128, 1.0, 1.0)
    assert (arguments.metrics, arguments.images) == ("metrics.json", None)
    assert arguments.threads >= 1


@pytest.mark.parametrize(("threads", "expected"), [("3", 3), ("4,2", 4)])
def test_the_environment_speaks_where_the_command_line_does_not(
    command_line, monkeypatch: pytest.MonkeyPatch, threads: str, expected: int
) -> None:
    monkeypatch.setenv("MODAK_DATASET", "/scratch/mnist")
    monkeypatch.setenv("MODAK_METRICS", "/home/metrics.json")
    monkeypatch.setenv("OMP_NUM_THREADS", threads)
    command_line()
    arguments = common.parse_arguments("PyTorch", {})
    assert (arguments.data, arguments.metrics) == ("/scratch/mnist", "/home/metrics.json")
    assert arguments.threads == expected
    command_line("--data", "here", "--threads", "7")
    arguments = common.parse_arguments("PyTorch", {})
    assert (arguments.data, arguments.threads) == ("here", 7)


@pytest.mark.parametrize("threads", ["", "0", "many", "-1"])
def test_without_a_number_of_threads_the_cores_count(
    command_line, monkeypatch: pytest.MonkeyPatch, threads: str
) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 5, 6})
    monkeypatch.setenv("OMP_NUM_THREADS", threads)
    command_line("--data", "mnist")
    assert common.parse_arguments("PyTorch", {}).threads == 3


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "--data or the environment's MODAK_DATASET must name a folder"),
        (("--data", "mnist", "--epochs", "0"), "--epochs: 0 is out of range: at least 1"),
        (("--data", "mnist", "--epochs", "two"), "--epochs: invalid int value: 'two'"),
        (("--data", "mnist", "--batch-size", "-1"), "--batch-size: -1 is out of range"),
        (("--data", "mnist", "--dropout", "1.5"), "--dropout: 1.5 is out of range: from 0 to 1"),
        (("--data", "mnist", "--learning-rate", "nan"), "--learning-rate: nan is out of range"),
        (("--data", "mnist", "--learning-rate", "inf"), "--learning-rate: inf is out of range"),
        (("--data", "mnist", "--seed", "4294967296"), "--seed: 4294967296 is out of range"),
    ],
)
def test_impossible_arguments(command_line, capsys: pytest.CaptureFixture[str], words: tuple, message: str) -> None:
    command_line(*words)
    with pytest.raises(SystemExit) as raised:
        common.parse_arguments("PyTorch", {})
    assert raised.value.code == 2
    assert message in capsys.readouterr().err


def test_unusable_data_ends_the_script_with_one_line(
    command_line, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    command_line("--data", str(tmp_path / "nowhere"))
    with pytest.raises(SystemExit) as raised:
        common.load_data(common.parse_arguments("PyTorch", {}))
    assert raised.value.code == 2
    assert capsys.readouterr().err == f"error: {tmp_path}/nowhere: no such folder\n"
