"""Where the images come from: drawn ones, JPEG files in class folders, TFRecord or WebDataset shards.

Each source gives two lists of samples, to train and to test on; `load` turns one into pixels and a label. Python 2.7
must read it too.
"""

from __future__ import absolute_import, division, print_function

import os
import re

import imagefolder
import numpy as np
import tfrecord
import webdataset
from dataset import DataError
from decoding import decode

SOURCES = ("synthetic", "folder", "tfrecord", "webdataset")
SYNTHETIC_IMAGES = 80
HELD_OUT = 10  # a data set without a test split of its own gives every tenth image
_SPLITS = (("train",), ("val", "validation", "test"))
_TFRECORD = re.compile(r"tfrecord|-\d{5}-of-\d{5}$")


def detect(folder):
    """Says which source a folder is.

    Raises:
        DataError: there is no such folder, or no images that are known here.
    """
    if not os.path.isdir(folder):
        raise DataError("%s: no such folder" % folder)
    for source in ("webdataset", "tfrecord"):
        if any(shards(folder, source)):
            return source
    if imagefolder.subfolders(folder):
        return "folder"
    raise DataError("%s: no images: neither folders of JPEG files, nor TFRecord or WebDataset shards" % folder)


def shards(folder, source):
    """Returns the files to train on and those to test on: by how their name, or that of their folder, begins."""
    found = [[], []]
    for inside in [""] + [name for name in imagefolder.subfolders(folder) if _split(name) is not None]:
        for name in sorted(os.listdir(os.path.join(folder, inside))):
            path = os.path.join(folder, inside, name)
            is_shard = name.endswith(".tar") if source == "webdataset" else _TFRECORD.search(name)
            if is_shard and os.path.isfile(path):
                found[_split(inside or name) or 0].append(path)
    return found


def _split(name):
    return next((number for number, starts in enumerate(_SPLITS) if name.lower().startswith(starts)), None)


def find(source, folder, seed, images=None, test_images=None):
    """Returns the samples to train and to test on, not yet read.

    Class folders are shuffled by the seed, so that the first ones are of many classes; shards are taken as they come.

    Args:
        source: one of SOURCES.
        folder: with the data; not used by drawn images.
        seed: of the drawing or the shuffling.
        images: how many to train on at most; None for all.
        test_images: how many to test on; None for all, or a tenth of `images` where that is given.

    Raises:
        DataError: there are none, or the data is damaged.
    """
    if test_images is None and (images or source == "synthetic"):
        test_images = max(1, (images or SYNTHETIC_IMAGES) // HELD_OUT)
    if source == "synthetic":
        return [
            [(split, n) for n in range(count)] for split, count in enumerate((images or SYNTHETIC_IMAGES, test_images))
        ]
    both = _found_in_folders(folder, seed) if source == "folder" else _found_in_shards(folder, source, images)
    train, test = both
    if train and not test:
        test, train = train[HELD_OUT - 1 :: HELD_OUT], [each for n, each in enumerate(train) if (n + 1) % HELD_OUT]
    if not train or not test:
        counts = (folder, len(train), len(test))
        raise DataError("%s: too few images: %s to train on, %s to test on" % counts)
    return train[:images], test[:test_images]


def _found_in_folders(folder, seed):
    inside = imagefolder.subfolders(folder)
    splits = [next((name for name in inside if name.lower() in starts), None) for starts in _SPLITS]
    if splits[0] is None:
        splits = ["", None]
    classes = imagefolder.subfolders(os.path.join(folder, splits[0]))
    both = [imagefolder.index(os.path.join(folder, name), classes) if name is not None else [] for name in splits]
    return [[found[number] for number in np.random.RandomState(seed).permutation(len(found))] for found in both]


def _found_in_shards(folder, source, images):
    both = shards(folder, source)
    if both[0] and not both[1] and images:
        images += images // (HELD_OUT - 1) + HELD_OUT  # some of them are held out
    return [_indexed(paths, source, images) for paths in both]


def _indexed(paths, source, limit):
    found = []
    for path in paths:
        left = limit and limit - len(found)
        if left == 0:
            break
        if source == "tfrecord":
            found += [(path, offset, n) for n, offset in enumerate(tfrecord.index(path, left), 1)]
        else:
            found += [(path, n) + sample[1:] for n, sample in enumerate(webdataset.index(path, left), 1)]
    return found


def load(source, sample, seed, image_size, classes, first_label=0):
    """Returns a sample's pixels, bytes (image_size, image_size, 3), and its label from 0.

    Raises:
        DataError: the sample is damaged, or its label is out of range; it names the file and the record.
    """
    if source == "synthetic":
        return draw(sample, seed, image_size, classes)
    where = sample[0] if source == "folder" else "%s: record %s" % (sample[0], sample[2 if source == "tfrecord" else 1])
    if source == "folder":
        content, label = _content(sample[0]), sample[1]
    elif source == "tfrecord":
        content, label = tfrecord.read(*sample)
        label -= first_label
    else:
        path, number, offset, size, label = sample
        content = webdataset.read(path, offset, size, number)
        label -= first_label
    if not 0 <= label < classes:
        last = classes - 1 + (first_label if source != "folder" else 0)
        bounds = (where, label + last - classes + 1, last - classes + 1, last)
        raise DataError("%s: label %s is out of range; labels are %s to %s" % bounds)
    return decode(content, image_size, where), label


def _content(path):
    try:
        with open(path, "rb") as file:
            return file.read()
    except IOError as error:
        raise DataError("%s: unreadable: %s" % (path, error.strerror))


def draw(sample, seed, image_size, classes):
    """Draws the image of a split and a number: noise in its label's colour, so that there is something to learn."""
    random = np.random.RandomState((seed,) + sample)
    label = int(random.randint(classes))
    noise = np.frombuffer(random.bytes(3 * image_size**2), np.uint8).reshape(image_size, image_size, 3)
    colour = np.array([37 * label % 256, 101 * label % 256, 211 * label % 256], np.uint8)
    return noise // 2 + colour // 2, label
