"""Drawn digits in MNIST's form, for a machine that has no MNIST and no way to fetch it.

Each image is one of a few outlines of its digit, bent, slanted, shifted and drawn with a pen of random width. They look
like handwriting and take a convolutional network to tell apart well, but they are not MNIST: accuracies on them say
nothing about accuracies on it, and the name says so wherever it is shown.

Everything is integer arithmetic on a frozen random stream, so that every machine draws the same bytes. Positions are
in 1/64 of a pixel, factors in 1/1024; right shifts divide, rounding down.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from modak_ansible.catalogue import idx
from modak_ansible.errors import Location, ModakError

NAME = "digits (drawn, not MNIST)"
SIZE = 28  # rows and columns of an image, in pixels
COUNTS = {"train": 6000, "t10k": 1000}  # images
SEEDS = {"train": 1, "t10k": 2}

Integers = NDArray[np.int64]
Points = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class File:
    """A file of the data set: its size in bytes and its SHA-256 digest in hexadecimal."""

    name: str
    size: int
    sha256: str


# What write() writes, known without drawing it.
FILES = (
    File("train-images-idx3-ubyte.gz", 4704394, "e1c95facde3d8a13b7fbc58e74d73519acc26f1f387576d5372b0ec39be24b7f"),
    File("train-labels-idx1-ubyte.gz", 6031, "ff8666e624aaff5c76089b8a97a52e7cb030a8457ca41bb43df11e770c98a3da"),
    File("t10k-images-idx3-ubyte.gz", 784094, "24822d68a8b5efecb56d6e7be1799bb6924817be178dbbdf7318556bbbf60aea"),
    File("t10k-labels-idx1-ubyte.gz", 1031, "c98b8c80190ecf1e37c11e40f35f31b0fbc52cc33169ca813d73ef6a736cbc7f"),
)

_PIXEL = 64
_ONE = 1024
_CENTRE = SIZE * _PIXEL // 2
_UNIT = 20 * _PIXEL * _ONE // 100  # the digits are 20 pixels high, like MNIST's, and their points in hundredths of it
_BEND = 18 * _UNIT // _ONE  # how far a control point may be off its place, along x or y
_THINNEST, _THICKEST = 38, 100  # half the width of the pen
_NARROW = 60  # in 1/1024: how much narrower than drawn below the digits are on average
# How much a digit may be turned, slanted, widened, heightened (1/1024), shifted right and down (1/64 pixel).
_HAND = np.array((220, 300, 180, 120, 2 * _PIXEL, 2 * _PIXEL), np.int64)
_POINTS = 24  # room for the control points of any way of writing a digit

# The strokes of each digit, in one or more ways of writing it, as the control points of a smooth curve: x from left to
# right and y from top to bottom, in hundredths of the digit's height. A point given twice is a corner.
GLYPHS: dict[int, tuple[tuple[Points, ...], ...]] = {
    0: (
        (((52, 2), (22, 4), (16, 50), (24, 98), (56, 100), (82, 90), (84, 40), (74, 2), (48, 2)),),
        (((60, 4), (30, 10), (22, 60), (34, 98), (60, 96), (76, 60), (72, 10), (44, 0), (36, 14)),),
    ),
    1: (
        (((52, 2), (50, 50), (48, 98)),),
        (((30, 26), (52, 4), (52, 4), (51, 50), (50, 98)),),
        (((32, 22), (50, 4), (50, 4), (50, 98)), ((28, 97), (72, 97))),
    ),
    2: (
        (((18, 28), (26, 2), (60, -2), (84, 22), (66, 54), (40, 76), (18, 96), (18, 96), (50, 95), (84, 96)),),
        (((20, 22), (36, 0), (76, 4), (74, 40), (48, 76), (16, 102), (14, 76), (40, 80), (64, 98), (88, 88)),),
    ),
    3: (
        (((18, 16), (34, 0), (70, 0), (82, 24), (64, 46), (40, 47), (40, 47), (74, 48), (88, 74), (66, 102), (34, 100),
          (14, 84)),),
        (((20, 5), (50, 4), (78, 4), (78, 4), (60, 22), (42, 40), (42, 40), (76, 44), (86, 74), (64, 100), (32, 100),
          (16, 86)),),
    ),
    4: (
        (((30, 4), (24, 32), (16, 58), (16, 58), (50, 57), (86, 56)), ((66, 24), (64, 60), (60, 98))),
        (((64, 98), (65, 50), (66, 2), (66, 2), (38, 36), (12, 66), (12, 66), (50, 66), (88, 66)),),
    ),
    5: (
        (((78, 4), (54, 4), (30, 4), (30, 4), (27, 24), (24, 44), (24, 44), (52, 30), (86, 46), (82, 84), (56, 102),
          (32, 100), (16, 88)),),
        (((32, 6), (28, 26), (26, 46), (26, 46), (66, 36), (84, 66), (70, 100), (36, 100), (18, 88)),
         ((31, 6), (54, 5), (82, 2))),
    ),
    6: (
        (((70, 2), (46, 10), (18, 50), (18, 92), (46, 104), (82, 92), (78, 56), (46, 48), (22, 72)),),
        (((56, 2), (34, 30), (22, 70), (36, 102), (70, 100), (82, 72), (56, 54), (34, 66), (30, 84)),),
    ),
    7: (
        (((16, 8), (48, 7), (80, 6), (80, 6), (62, 44), (44, 98)),),
        (((16, 6), (50, 8), (82, 4), (82, 4), (50, 50), (46, 98)), ((32, 52), (54, 50), (76, 50))),
        (((20, 22), (20, 6), (20, 6), (50, 8), (80, 6), (80, 6), (58, 40), (40, 98)),),
    ),
    8: (
        (((74, 16), (56, -2), (28, 2), (22, 28), (50, 46), (80, 64), (78, 96), (50, 104), (22, 94), (22, 66), (52, 46),
          (78, 28), (72, 10)),),
        (((50, 46), (22, 36), (26, 2), (52, -2), (78, 6), (76, 38), (50, 46), (18, 58), (18, 96), (50, 104), (82, 94),
          (82, 58), (48, 45)),),
    ),
    9: (
        (((76, 22), (56, -4), (22, 2), (18, 44), (50, 56), (76, 36), (77, 16), (77, 16), (74, 60), (68, 98)),),
        (((74, 20), (54, -2), (22, 8), (24, 46), (52, 52), (74, 32), (75, 14), (75, 14), (80, 60), (66, 100),
          (28, 96)),),
    ),
}  # fmt: skip


def draw(count: int, seed: int) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Returns images (count, 28, 28), white (255) on black, and their labels (count), each digit equally often."""
    random = np.random.RandomState(seed)  # its stream is frozen; those of the newer generators are not
    labels = _shuffled(np.arange(count, dtype=np.int64) % len(GLYPHS), random)
    ways = random.randint(0, 6, count, dtype=np.int64)  # 6: a multiple of every digit's number of ways
    hands = random.randint(-_ONE, _ONE + 1, (count, 7), dtype=np.int64)
    # The sum of two: small bends are more frequent than large ones.
    bends = random.randint(-_ONE // 2, _ONE // 2 + 1, (2, count, _POINTS, 2), dtype=np.int64).sum(axis=0)
    images = np.zeros((count, SIZE, SIZE), np.uint8)
    for digit, glyphs in GLYPHS.items():
        for way, glyph in enumerate(glyphs):
            chosen = np.flatnonzero((labels == digit) & (ways % len(glyphs) == way))
            # half the width of each image's pen, in 1/64 pixel
            pens = _THINNEST + ((hands[chosen][:, 6] + _ONE) * (_THICKEST - _THINNEST) >> 11)
            images[chosen] = _ink(_segments(glyph, hands[chosen], bends[chosen]), pens)
    return images, labels.astype(np.uint8)


def write(folder: Path) -> tuple[File, ...]:
    """Writes the four files into a folder that exists, and returns FILES: the same on every machine."""
    written = []
    for split in idx.SPLITS:
        for kind, values in zip((idx.IMAGES, idx.LABELS), draw(COUNTS[split], SEEDS[split]), strict=True):
            path = folder / f"{split}-{kind}.gz"
            idx.write(path, values)
            content = path.read_bytes()
            written.append(File(path.name, len(content), hashlib.sha256(content).hexdigest()))
    if tuple(written) != FILES:
        raise ModakError(
            f"the digits drawn with numpy {np.__version__} differ from the published ones",
            location=Location(str(folder)),
            hint="numpy's frozen random stream has changed: use another version of numpy",
        )
    return FILES


def _shuffled(values: Integers, random: np.random.RandomState) -> Integers:
    keys = random.randint(0, 2**40, len(values), dtype=np.int64)
    return values[np.argsort(keys, kind="stable")]


def _segments(glyph: tuple[Points, ...], hands: Integers, bends: Integers) -> Integers:
    """Returns the straight pieces of all strokes (images, pieces, 2 ends, 2 coordinates), in 1/64 pixel."""
    numbers: dict[tuple[int, int], int] = {}
    pieces = []
    for stroke in glyph:
        # A point that comes twice is bent once, so that corners stay corners and joints joined.
        bent = [_bend(point, bends[:, numbers.setdefault(point, len(numbers))]) for point in stroke]
        curve = _smooth(_smooth(_place(np.stack(bent, axis=1), hands)))
        pieces.append(np.stack([curve[:, :-1], curve[:, 1:]], axis=2))
    return np.concatenate(pieces, axis=1)


def _bend(point: tuple[int, int], bends: Integers) -> Integers:
    """Returns a control point as each image has it (images, 2), about the digit's middle, in 1/64 pixel."""
    middle = 50
    return ((np.array(point, np.int64) - middle) * _UNIT + bends * _BEND) >> 10


def _place(points: Integers, hands: Integers) -> Integers:
    """Turns, slants, stretches and shifts points (images, points, 2), by image."""
    turn, slant, widen, heighten, right, down = (hands[:, :6] * _HAND >> 10).T[:, :, None]
    x, y = points[..., 0], points[..., 1]
    return np.stack(
        [
            (((_ONE - _NARROW + widen) * x - (turn + slant) * y) >> 10) + right + _CENTRE,
            ((turn * x + (_ONE + heighten) * y) >> 10) + down + _CENTRE,
        ],
        axis=-1,
    )


def _smooth(points: Integers) -> Integers:
    """Cuts the corners of curves (images, points, 2) but not their ends: Chaikin's way to a quadratic B-spline."""
    before, after = points[:, :-1], points[:, 1:]
    cut = np.stack([3 * before + after, before + 3 * after], axis=2) >> 2
    smooth = cut.reshape(len(points), 2 * before.shape[1], 2)
    smooth[:, 0], smooth[:, -1] = points[:, 0], points[:, -1]
    return smooth


def _ink(segments: Integers, pen: Integers) -> NDArray[np.uint8]:
    """Returns the images (images, 28, 28) that a pen leaves along the pieces, with edges one pixel soft."""
    furthest = (_THICKEST + _PIXEL) ** 2
    nearest = np.full((len(segments), SIZE, SIZE), furthest, np.int32)
    for piece in range(segments.shape[1]):
        np.minimum(nearest, _squared_distance(segments[:, piece, 0], segments[:, piece, 1]), out=nearest)
    roots = np.array([math.isqrt(square) for square in range(furthest + 1)], np.int32)
    depth = pen.astype(np.int32)[:, None, None] + _PIXEL // 2 - roots[nearest]
    ink: NDArray[np.int32] = np.clip(depth * 255 // _PIXEL, 0, 255)
    return ink.astype(np.uint8)


def _squared_distance(start: Integers, end: Integers) -> NDArray[np.int32]:
    """Returns the squared distance of every pixel's centre to a piece from start to end (images, 2), by image."""
    step = end - start
    lengths = np.array([math.isqrt(square << 20) for square in (step**2).sum(axis=1).tolist()], np.int64)
    direction = np.where(lengths[:, None] > 0, (step << 20) // np.maximum(lengths, 1)[:, None], (_ONE, 0))
    centres = np.arange(SIZE, dtype=np.int64) * _PIXEL + _PIXEL // 2
    x, y = centres - start[:, :1], centres - start[:, 1:]
    along = _rows_and_columns(y * direction[:, 1:], x * direction[:, :1])
    across = _rows_and_columns(y * direction[:, :1], -x * direction[:, 1:])
    along -= np.clip(along, 0, (lengths >> 10).astype(np.int32)[:, None, None])
    return along * along + across * across


def _rows_and_columns(rows: Integers, columns: Integers) -> NDArray[np.int32]:
    """Returns the sums (images, rows, columns) of what is known by row and by column, 1024 times too large."""
    return (rows >> 10).astype(np.int32)[:, :, None] + (columns >> 10).astype(np.int32)[:, None, :]
