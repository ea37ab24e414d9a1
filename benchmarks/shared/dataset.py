"""What trainings share of their data: its description, and the order in which a step takes the images.

It runs in the container of the training, which may be one of the paper's: Python 2.7 must read it too.
"""

from __future__ import absolute_import, division, print_function

import io
import json
import os

import numpy as np


class DataError(Exception):
    """The folder does not hold data that this network can learn from."""


def describe(folder):
    """Returns what the staging left in dataset.json; without it, only the folder's name is known.

    Raises:
        DataError: dataset.json is not a JSON object.
    """
    path = os.path.join(folder, "dataset.json")
    if not os.path.exists(path):
        return {"name": os.path.basename(os.path.realpath(folder))}
    try:
        with io.open(path, encoding="utf-8") as file:
            description = json.load(file)
    except (IOError, ValueError) as error:
        raise DataError("%s: not readable as JSON: %s" % (path, error))
    if not isinstance(description, dict):
        raise DataError("%s: not a JSON object" % path)
    return description


def batches(count, batch_size, seed, epoch):
    """Returns the numbers of the images of each step of an epoch, shuffled; the last batch may be a smaller one.

    RandomState because its stream is the same in every version of numpy, and images differ in that.
    """
    order = np.random.RandomState((seed, epoch)).permutation(count)
    return [order[start : start + batch_size] for start in range(0, count, batch_size)]
