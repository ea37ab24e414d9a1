"""Finds JPEG files in ImageNet's layout: a folder for each class in train/ and in val/, or class folders alone.

Python 2.7 must read it too.
"""

from __future__ import absolute_import, division, print_function

import os

from dataset import DataError

ENDINGS = (".jpg", ".jpeg")


def subfolders(folder):
    """Returns the names of the folders in a folder, in order."""
    return sorted(name for name in os.listdir(folder) if os.path.isdir(os.path.join(folder, name)))


def index(folder, classes):
    """Returns the files below the class folders of a folder as (path, number of the class), in order.

    Args:
        folder: holds the class folders.
        classes: the names of all classes; a class's number is its place among them.

    Raises:
        DataError: a class folder is of no such class.
    """
    numbers = {name: number for number, name in enumerate(classes)}
    found = []
    for name in subfolders(folder):
        inside = os.path.join(folder, name)
        if name not in numbers:
            raise DataError("%s: the training images have no class of this name" % inside)
        files = [each for each in sorted(os.listdir(inside)) if each.lower().endswith(ENDINGS)]
        found += [(os.path.join(inside, each), numbers[name]) for each in files]
    return found
