"""What the architectures learn, made offline, and how well somebody who has learnt nothing would do.

Each task is real data that every Debian has, or drawn from a rule that can be learnt: no labels are learnt by heart,
what is tested has not been trained on, and a test loss that is not below the ignorant one is no learning.
"""

from __future__ import annotations

import os
from collections import namedtuple
from pathlib import Path

import numpy as np
from dataset import DataError

LICENSES = Path("/usr/share/common-licenses")  # of Debian's base-files: 280 KB of English prose

# samples and labels to train on and to test with; the number of classes; the test loss of one who knows only how often
# each class comes (in nats, the entropy of the labels); and what the data are.
Task = namedtuple("Task", "samples labels test_samples test_labels classes ignorant_loss description")


def texts(folder=None):
    """The licences by name as bytes; a folder with other text files in its place is taken as it is.

    Raises:
        DataError: there are fewer than two texts of 4 KB.
    """
    folder = Path(folder or os.environ.get("MODAK_DATASET") or LICENSES)
    files = (path for path in sorted(folder.glob("*")) if path.is_file() and not path.is_symlink())
    found = {path.name: text for path in files if len(text := path.read_bytes()) >= 4096}
    if len(found) < 2:
        raise DataError(f"{folder}: it needs two texts of at least 4 KB, and has {len(found)}")
    return found


def next_characters(length, count, seed, folder=None):
    """Windows of a text, each place's label being the character that follows.

    Every tenth block of 2 KB is tested with, so that no window of the test has been seen.

    Args:
        length: characters of a sample.
        count: samples to train on; a quarter as many are tested with, 256 at most.
    """
    whole = np.frombuffer(b"".join(texts(folder).values()), np.uint8)
    known = np.unique(whole)
    codes = np.searchsorted(known, whole)
    block = max(2048, 4 * length)
    blocks = [codes[start : start + block] for start in range(0, len(codes) - block + 1, block)]
    test, train = blocks[9::10], [one for number, one in enumerate(blocks) if number % 10 != 9]
    random = np.random.RandomState(seed)
    samples, labels = _windows(random, train, length, count)
    test_samples, test_labels = _windows(random, test, length, min(256, max(32, count // 4)))
    description = {"name": "licenses", "label": "the licences' texts, character by character"}
    return _task(samples, labels, test_samples, test_labels, len(known), description)


def disorder(length, count, seed, folder=None):
    """Windows of a text; the label is what was done to it: nothing, words or their letters mixed, reversed."""
    plain = next_characters(length, count, seed, folder)
    random = np.random.RandomState(seed)
    labels, test_labels = random.randint(0, 4, len(plain.samples)), random.randint(0, 4, len(plain.test_samples))
    space = np.bincount(plain.samples.ravel()).argmax()  # the most frequent character of any prose

    def mixed(codes, label):
        if label == 0:
            return codes
        if label == 3:
            return codes[::-1]
        words = np.split(codes, np.flatnonzero(codes == space))
        words = random.permutation(np.array(words, object)) if label == 1 else map(random.permutation, words)
        return np.concatenate(list(words))

    samples, test_samples = (
        np.stack([mixed(codes, label) for codes, label in zip(*both)]).astype(np.int64)
        for both in ((plain.samples, labels), (plain.test_samples, test_labels))
    )
    description = {"name": "licenses", "label": "the licences' texts, in order or in one of three disorders"}
    return _task(samples, labels, test_samples, test_labels, plain.classes, description, outputs=4)


def shapes(pixels, count, seed):
    """Drawn images (count, 3, pixels, pixels): stripes, rings, checks or blobs of any size and colour, in noise."""
    random = np.random.RandomState(seed)
    rows, columns = np.mgrid[0:pixels, 0:pixels].astype(np.float32) / pixels

    def draw(label):
        period, angle, x, y = random.uniform(0.1, 0.3), random.uniform(0, np.pi), *random.uniform(0.2, 0.8, 2)
        across, along = columns * np.cos(angle) + rows * np.sin(angle), rows * np.cos(angle) - columns * np.sin(angle)
        distance = np.hypot(columns - x, rows - y)
        pattern = (
            np.sin(2 * np.pi * across / period),
            np.sin(2 * np.pi * distance / period),
            np.sign(np.sin(2 * np.pi * across / period) * np.sin(2 * np.pi * along / period)),
            2 * np.exp(-((distance / period) ** 2)) - 1,
        )[label]
        image = pattern[None] * random.uniform(0.3, 1, (3, 1, 1)) + random.normal(0, 0.3, (3, pixels, pixels))
        return image.astype(np.float32)

    held = min(256, max(32, count // 4))
    labels = random.randint(0, 4, count + held)
    samples = np.stack([draw(label) for label in labels])
    description = {"name": "shapes", "label": "drawn stripes, rings, checks and blobs"}
    return _task(samples[:count], labels[:count], samples[count:], labels[count:], 4, description)


def table(columns, count, seed):
    """Rows of numbers of unlike scales; the class is which of three non-linear sums of a few columns is the largest."""
    random = np.random.RandomState(seed)
    held = min(4096, max(256, count // 4))
    rows = random.standard_normal((count + held, columns)).astype(np.float32)
    a, b, c = rows[:, 0] * rows[:, 1], np.sin(2 * rows[:, 2]) + rows[:, 3], np.abs(rows[:, 4]) - rows[:, 5] ** 2 + 0.5
    labels = np.argmax(np.stack([a, b, c], 1) + random.normal(0, 0.1, (count + held, 3)), 1)
    scaled = rows * np.exp(random.uniform(-2, 2, columns)).astype(np.float32)
    description = {"name": "table", "label": "drawn rows of numbers"}
    return _task(scaled[:count], labels[:count], scaled[count:], labels[count:], 3, description)


def communities(nodes, features, seed):
    """A graph of four communities (a stochastic block model): node features, links, and which nodes are trained on.

    Returns the Task, whose samples are numbers of nodes, and (features, links): float32 (nodes, features) with so much
    noise that a node by itself says little, and int64 (2, links) in both directions, each node linked to itself, too.
    """
    random = np.random.RandomState(seed)
    labels = random.randint(0, 4, nodes)
    centres = random.standard_normal((4, features))
    values = (0.35 * centres[labels] + random.standard_normal((nodes, features))).astype(np.float32)
    sources = np.repeat(np.arange(nodes), 8)
    same = random.uniform(size=len(sources)) < 0.8
    by_label = [np.flatnonzero(labels == label) for label in range(4)]
    inside = np.array([random.choice(by_label[label]) for label in labels[sources]])
    targets = np.where(same, inside, random.randint(0, nodes, len(sources)))
    loops = np.arange(nodes)
    links = np.stack([np.concatenate([sources, targets, loops]), np.concatenate([targets, sources, loops])])
    order = random.permutation(nodes)
    train, test = order[: nodes // 2], order[nodes // 2 :]
    description = {"name": "communities", "label": "a drawn graph of four communities"}
    return _task(train, labels[train], test, labels[test], 4, description), values, links


def _windows(random, parts, length, count):
    """Pieces of so many characters of arrays of codes, and the same pieces one character on."""
    usable = [part for part in parts if len(part) > length]
    if not usable:
        raise DataError(f"no text is longer than {length} characters")
    chosen = random.randint(0, len(usable), count)
    starts = [random.randint(0, len(usable[number]) - length) for number in chosen]
    pieces = np.stack([usable[number][start : start + length + 1] for number, start in zip(chosen, starts)])
    return pieces[:, :-1].astype(np.int64), pieces[:, 1:].astype(np.int64)


def _task(samples, labels, test_samples, test_labels, classes, description, outputs=None):
    """A task, with the test loss of one who has only counted the labels of the training (and each once more)."""
    known = outputs or classes
    counts = np.bincount(labels.ravel(), minlength=known) + 1.0
    ignorant = -np.log(counts / counts.sum())[test_labels.ravel()].mean()
    return Task(samples, labels, test_samples, test_labels, classes, float(ignorant), description)
