"""What the MNIST-CNN trainings share, whatever the framework: arguments, data, order and first weights.

It runs inside the container of the training, beside the scripts, and needs Python and numpy only.
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import os
import sys
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

PARAMETERS = 1_199_882  # what the paper counts in this network
WEIGHTS = ((3, 3, 1, 32), (3, 3, 32, 64), (12 * 12 * 64, 128), (128, 10))  # of each layer: (pixels,) inputs, outputs
RHO, EPSILON = 0.95, 1e-6  # Adadelta as published (arXiv:1212.5701); the frameworks' own defaults differ
EVALUATION_BATCH = 250  # images; larger ones cost memory (280 MB more at 1000) and gain nothing
HELD_OUT = 10  # a data set without a test split of its own gives every tenth image


class DataError(Exception):
    """The folder does not hold data that this network can learn from."""


def give_up(code: int, message: str) -> NoReturn:
    """Ends the script with one line instead of a traceback."""
    sys.stderr.write(f"error: {message}\n")
    sys.exit(code)


def parse_arguments(framework: str) -> argparse.Namespace:
    """Reads the command line, which is the same for every framework."""
    parser = argparse.ArgumentParser(description=f"Trains the MNIST-CNN of {PARAMETERS:,} parameters with {framework}.")
    add = parser.add_argument
    add(
        "--data",
        metavar="DIR",
        default=os.environ.get("MODAK_DATASET"),
        help="images and labels in MNIST's IDX form, plain or .gz (default: the folder that $MODAK_DATASET names)",
    )
    add("--epochs", metavar="N", type=_number(int, 1), default=12, help="default: %(default)s")
    add("--batch-size", metavar="N", type=_number(int, 1), default=128, help="images a step (default: %(default)s)")
    add(
        "--seed",
        metavar="N",
        type=_number(int, 0, 2**32 - 1),
        default=1,
        help="of the first weights, the order of the images and the dropout (default: %(default)s)",
    )
    add("--learning-rate", metavar="X", type=_number(float, 0), default=1.0, help="Adadelta's (default: %(default)s)")
    add(
        "--dropout",
        metavar="X",
        type=_number(float, 0, 1),
        default=1.0,
        help="factor on both dropout rates, 0.25 and 0.5; 0 where runs are compared number by number (default: 1)",
    )
    add(
        "--metrics",
        metavar="FILE",
        type=Path,
        default=os.environ.get("MODAK_METRICS", "metrics.json"),
        help="what was measured, written after every epoch (default: $MODAK_METRICS, or metrics.json)",
    )
    add("--limit", metavar="N", type=_number(int, 1), help="train on the first N images only (default: all)")
    add(
        "--threads",
        metavar="N",
        type=_number(int, 1),
        default=_threads(),
        help="threads that compute (default: $OMP_NUM_THREADS, or the cores that the process may use; now %(default)s)",
    )
    arguments = parser.parse_args()
    if not arguments.data:
        give_up(2, "no data: --data or the environment's MODAK_DATASET must name a folder")
    return arguments


def _number(kind: Callable[[str], float], lowest: float, highest: float = math.inf) -> Callable[[str], float]:
    def convert(text: str) -> float:
        number = kind(text)
        if not (lowest <= number <= highest and math.isfinite(number)):
            bound = f"at least {lowest}" if highest == math.inf else f"from {lowest} to {highest}"
            raise argparse.ArgumentTypeError(f"{text} is out of range: {bound}")
        return number

    convert.__name__ = kind.__name__  # argparse names the kind in its messages
    return convert


def _threads() -> int:
    first = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    if first.isdecimal() and int(first):
        return int(first)
    return len(os.sched_getaffinity(0))


@dataclass
class Data:
    """Images (count, 28, 28) as float32 from 0 to 1, labels (count) from 0 to 9, and what dataset.json says of them."""

    train_images: np.ndarray
    train_labels: np.ndarray
    test_images: np.ndarray
    test_labels: np.ndarray
    dataset: dict[str, Any]


def load_data(arguments: argparse.Namespace) -> Data:
    """Reads the data set; ends the script with exit code 2 and one line where that cannot be done."""
    try:
        return read_dataset(Path(arguments.data), arguments.limit)
    except DataError as error:
        give_up(2, str(error))


def read_dataset(folder: Path, limit: int | None = None) -> Data:
    """Reads the training and the test images; a folder with only one of the two gives every tenth to the test."""
    if not folder.is_dir():
        raise DataError(f"{folder}: no such folder")
    train, test = read_split(folder, "train"), read_split(folder, "t10k")
    if train and test:
        (images, labels), (test_images, test_labels) = train, test
    elif only := train or test:
        images, labels = only
        held_out = np.arange(len(images)) % HELD_OUT == HELD_OUT - 1
        test_images, test_labels = images[held_out], labels[held_out]
        images, labels = images[~held_out], labels[~held_out]
    else:
        raise DataError(f"{folder}: no data set in IDX form (train-images-idx3-ubyte and so on, plain or .gz)")
    if not len(images) or not len(test_images):
        raise DataError(f"{folder}: too few images: {len(images)} to train on, {len(test_images)} to test on")
    return Data(_scaled(images[:limit]), labels[:limit], _scaled(test_images), test_labels, _description(folder))


def read_split(folder: Path, split: str) -> tuple[np.ndarray, np.ndarray] | None:
    """Returns the images (count, 28, 28) and the labels (count) of `train` or `t10k`, if the folder has them."""
    images_path = _find(folder, f"{split}-images-idx3-ubyte")
    labels_path = _find(folder, f"{split}-labels-idx1-ubyte")
    if images_path is None and labels_path is None:
        return None
    if images_path is None or labels_path is None:
        missing = "images" if images_path is None else "labels"
        raise DataError(f"{images_path or labels_path}: the {missing} that belong to it are missing")
    images, labels = read_idx(images_path), read_idx(labels_path)
    if images.shape[1:] != (28, 28):
        raise DataError(f"{images_path}: its shape is {images.shape}; images must be 28 x 28")
    if labels.shape != images.shape[:1]:
        raise DataError(f"{labels_path}: its shape is {labels.shape}, for {len(images)} images")
    if labels.max(initial=0) > 9:
        raise DataError(f"{labels_path}: label {labels.max()} is out of range; labels are 0 to 9")
    return images, labels.astype(np.int64)


def read_idx(path: Path) -> np.ndarray:
    """Returns the bytes of an IDX file in the shape of its header: big-endian 0x0000080N, then N lengths."""
    try:
        content = path.read_bytes()
        if path.suffix == ".gz":
            content = gzip.decompress(content)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path}: unreadable, damaged or truncated: {error}") from error
    dimensions = content[3] if len(content) > 3 else 0
    header = 4 + 4 * dimensions
    if content[:3] != b"\0\0\x08" or not dimensions or len(content) < header:
        raise DataError(f"{path}: not an IDX file of unsigned bytes, or truncated")
    shape = np.frombuffer(content, ">u4", dimensions, 4).tolist()
    if len(content) - header != math.prod(shape):
        raise DataError(f"{path}: {len(content) - header} bytes where its header states {shape}: truncated or damaged")
    return np.frombuffer(content, np.uint8, offset=header).reshape(shape)


def _find(folder: Path, name: str) -> Path | None:
    return next((path for path in (folder / name, folder / f"{name}.gz") if path.is_file()), None)


def _scaled(images: np.ndarray) -> np.ndarray:
    return images.astype(np.float32) / np.float32(255)


def _description(folder: Path) -> dict[str, Any]:
    """Returns what the staging left in dataset.json; without it, only the folder's name is known."""
    path = folder / "dataset.json"
    if not path.exists():
        return {"name": folder.resolve().name}
    try:
        description = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: not readable as JSON: {error}") from error
    if not isinstance(description, dict):
        raise DataError(f"{path}: not a JSON object")
    return description


def batches(count: int, batch_size: int, seed: int, epoch: int) -> list[np.ndarray]:
    """Returns the numbers of the images of each step of an epoch, shuffled; the last batch may be a smaller one.

    RandomState because its stream is the same in every version of numpy, and images differ in that.
    """
    order = np.random.RandomState((seed, epoch)).permutation(count)
    return [order[start : start + batch_size] for start in range(0, count, batch_size)]


def initial_weights(seed: int) -> Iterator[np.ndarray]:
    """Draws the weights of the four layers, Glorot uniform as float32, in the shapes of WEIGHTS; biases start at zero.

    Source: Glorot and Bengio 2010, equation 16, where a convolution has its inputs and outputs once a pixel.
    """
    random = np.random.RandomState(seed)
    for shape in WEIGHTS:
        *pixels, inputs, outputs = shape
        limit = math.sqrt(6 / (math.prod(pixels) * (inputs + outputs)))
        yield random.uniform(-limit, limit, shape).astype(np.float32)
