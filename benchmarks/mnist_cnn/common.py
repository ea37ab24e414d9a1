"""What the MNIST-CNN trainings share, whatever the framework: options, data and first weights.

It runs inside the container of the training, beside the scripts, and needs Python (2.7 as well) and numpy only.
"""

from __future__ import absolute_import, division, print_function

import gzip
import math
import os
import zlib
from collections import namedtuple
from functools import reduce
from operator import mul

import arguments as command_line
import numpy as np
from arguments import give_up
from dataset import DataError, describe
from recorder import Workload

PARAMETERS = 1199882  # what the paper counts in this network
WORKLOAD = Workload("mnist_cnn", "MNIST-CNN", PARAMETERS)
WEIGHTS = ((3, 3, 1, 32), (3, 3, 32, 64), (12 * 12 * 64, 128), (128, 10))  # of each layer: (pixels,) inputs, outputs
RHO, EPSILON = 0.95, 1e-6  # Adadelta as published (arXiv:1212.5701); the frameworks' own defaults differ
EVALUATION_BATCH = 250  # images; larger ones cost memory (280 MB more at 1000) and gain nothing
HELD_OUT = 10  # a data set without a test split of its own gives every tenth image

# Images (count, 28, 28) as float32 from 0 to 1, labels (count) from 0 to 9, and what dataset.json says of them.
Data = namedtuple("Data", "train_images train_labels test_images test_labels dataset")


def parse_arguments(framework, switches):
    """Reads the command line, which is the same for every framework but for its switches."""
    description = "Trains the MNIST-CNN of {:,} parameters with {} by Adadelta.".format(PARAMETERS, framework)
    return command_line.parse(command_line.training_parser(description, switches))


def load_data(arguments):
    """Reads the data set; ends the script with exit code 2 and one line where that cannot be done."""
    try:
        return read_dataset(arguments.data, arguments.images)
    except DataError as error:
        give_up(2, str(error))


def begin(recorder, data, parameters):
    """Tells the recorder what is trained on."""
    recorder.training_begins(data.dataset, len(data.train_images), len(data.test_images), parameters)


def read_dataset(folder, limit=None):
    """Reads the training and the test images; a folder with only one of the two gives every tenth to the test."""
    folder = str(folder)
    if not os.path.isdir(folder):
        raise DataError("%s: no such folder" % folder)
    train, test = read_split(folder, "train"), read_split(folder, "t10k")
    if train and test:
        (images, labels), (test_images, test_labels) = train, test
    elif train or test:
        images, labels = train or test
        held_out = np.arange(len(images)) % HELD_OUT == HELD_OUT - 1
        test_images, test_labels = images[held_out], labels[held_out]
        images, labels = images[~held_out], labels[~held_out]
    else:
        raise DataError("%s: no data set in IDX form (train-images-idx3-ubyte and so on, plain or .gz)" % folder)
    if not len(images) or not len(test_images):
        counts = (folder, len(images), len(test_images))
        raise DataError("%s: too few images: %s to train on, %s to test on" % counts)
    return Data(_scaled(images[:limit]), labels[:limit], _scaled(test_images), test_labels, describe(folder))


def read_split(folder, split):
    """Returns the images (count, 28, 28) and the labels (count) of `train` or `t10k`; None if the folder has none."""
    images_path = _find(folder, split + "-images-idx3-ubyte")
    labels_path = _find(folder, split + "-labels-idx1-ubyte")
    if images_path is None and labels_path is None:
        return None
    if images_path is None or labels_path is None:
        missing = "images" if images_path is None else "labels"
        raise DataError("%s: the %s that belong to it are missing" % (images_path or labels_path, missing))
    images, labels = read_idx(images_path), read_idx(labels_path)
    if images.shape[1:] != (28, 28):
        raise DataError("%s: its shape is %s; images must be 28 x 28" % (images_path, images.shape))
    if labels.shape != images.shape[:1]:
        raise DataError("%s: its shape is %s, for %s images" % (labels_path, labels.shape, len(images)))
    if labels.max(initial=0) > 9:
        raise DataError("%s: label %s is out of range; labels are 0 to 9" % (labels_path, labels.max()))
    return images, labels.astype(np.int64)


def read_idx(path):
    """Returns the bytes of an IDX file in the shape of its header: big-endian 0x0000080N, then N lengths."""
    path = str(path)
    try:
        with (gzip.open if path.endswith(".gz") else open)(path, "rb") as file:
            content = file.read()
    except (IOError, OSError, EOFError, zlib.error) as error:
        raise DataError("%s: unreadable, damaged or truncated: %s" % (path, error))
    dimensions = bytearray(content[3:4])[0] if len(content) > 3 else 0
    header = 4 + 4 * dimensions
    if content[:3] != b"\0\0\x08" or not dimensions or len(content) < header:
        raise DataError("%s: not an IDX file of unsigned bytes, or truncated" % path)
    shape = np.frombuffer(content, ">u4", dimensions, 4).tolist()
    length = len(content) - header
    if length != reduce(mul, shape):
        message = "%s: %s bytes where its header states %s: truncated or damaged"
        raise DataError(message % (path, length, [int(n) for n in shape]))
    return np.frombuffer(content, np.uint8, offset=header).reshape(shape)


def _find(folder, name):
    paths = [os.path.join(folder, name), os.path.join(folder, name + ".gz")]
    return next((path for path in paths if os.path.isfile(path)), None)


def _scaled(images):
    return images.astype(np.float32) / np.float32(255)


def initial_weights(seed):
    """Draws the weights of the four layers, Glorot uniform as float32, in the shapes of WEIGHTS; biases start at zero.

    Source: Glorot and Bengio 2010, equation 16, where a convolution has its inputs and outputs once a pixel.
    """
    random = np.random.RandomState(seed)
    for shape in WEIGHTS:
        pixels, inputs, outputs = shape[:-2], shape[-2], shape[-1]
        limit = math.sqrt(6 / (reduce(mul, pixels, 1) * (inputs + outputs)))
        yield random.uniform(-limit, limit, shape).astype(np.float32)
