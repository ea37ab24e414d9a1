"""Turns JPEG files into what the network takes: shorter side resized, square cut from the middle, pixels normalised.

Every epoch sees the same pixels: no random crops and no mirroring, so that all frameworks, runs and epochs do the same
work on the same numbers. Pillow is imported only here. Python 2.7 must read it too.
"""

from __future__ import absolute_import, division, print_function

import io
import struct

import numpy as np
from dataset import DataError

MEAN = np.array([0.485, 0.456, 0.406], np.float32)  # of ImageNet's pixels, red, green, blue, from 0 to 1
DEVIATION = np.array([0.229, 0.224, 0.225], np.float32)
RESIZED, CROPPED = 256, 224  # the shorter side for an image of 224; in proportion for other sizes


def normalise(pixels):
    """Returns bytes (..., 3) as float32 with ImageNet's mean and deviation taken out."""
    return (pixels.astype(np.float32) / np.float32(255) - MEAN) / DEVIATION


def decode(content, image_size, where):
    """Returns an image as bytes (image_size, image_size, 3).

    Args:
        content: the file's bytes.
        where: the file, and the record in it, for messages.

    Raises:
        DataError: Pillow is missing, or cannot read the image as a whole.
    """
    pillow = _pillow()
    try:
        image = pillow.open(io.BytesIO(content)).convert("RGB")
    except (IOError, ValueError, SyntaxError, EOFError, struct.error, pillow.DecompressionBombError) as error:
        raise DataError("%s: not a readable image: %s" % (where, str(error).partition(" <")[0]))
    return np.array(_cut(image, image_size, pillow.BILINEAR), np.uint8)


def _cut(image, image_size, method):
    scale = image_size * RESIZED / CROPPED / min(image.size)
    image = image.resize([max(image_size, int(side * scale + 0.5)) for side in image.size], method)
    left, top = [(side - image_size) // 2 for side in image.size]
    return image.crop((left, top, left + image_size, top + image_size))


def _pillow():
    try:
        from PIL import Image  # noqa: PLC0415 - only who reads JPEG files needs it
    except ImportError:
        raise DataError("reading JPEG files needs Pillow, the Python package pillow, which is not installed here")
    return Image
