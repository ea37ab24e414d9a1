"""The first step's gradients of the MNIST-CNN in float64, by numpy alone: what every framework is held against.

It runs inside the container of the training, beside the scripts, and needs Python (2.7 as well) and numpy only.
"""

from __future__ import absolute_import, division, print_function

import common
import numpy as np
from dataset import batches


def check(arguments, data, recorder, gradients):
    """Compares a framework's gradients of the first step, without dropout, and tells the recorder.

    Args:
        arguments: of the command line.
        data: a common.Data.
        recorder: a Recorder.
        gradients: takes images (batch, 28, 28) and labels (batch), both of numpy, and returns the gradients of the mean
            loss: kernel and bias of each of the four layers, in the shapes of common.WEIGHTS.
    """
    first = batches(len(data.train_images), arguments.batch_size, arguments.seed, 0)[0]
    images, labels = data.train_images[first], data.train_labels[first]
    expected = exact_gradients(list(common.initial_weights(arguments.seed)), images, labels)
    recorder.gradients_checked(largest_error(gradients(images, labels), expected))


def largest_error(gradients, expected):
    """Returns the largest norm of a tensor's difference, relative to the norm of what is expected."""
    norm = np.linalg.norm
    pairs = [(np.asarray(one, np.float64), other) for one, other in zip(gradients, expected)]
    return max(float(norm((one - other).ravel()) / norm(other.ravel())) for one, other in pairs)


def exact_gradients(weights, images, labels):
    """Returns kernel and bias gradients of the four layers (HWIO and IO) in float64; biases are zero, as at the start.

    Args:
        weights: the four kernels, in the shapes of common.WEIGHTS.
        images: (batch, 28, 28).
        labels: (batch).
    """
    kernel1, kernel2, dense1, dense2 = (kernel.astype(np.float64) for kernel in weights)
    kernel1, kernel2 = kernel1.reshape(9, 32), kernel2.reshape(288, 64)

    x0 = _patches(images.astype(np.float64)[..., None])
    x1 = np.maximum(np.tensordot(x0, kernel1, 1), 0)
    x1_patches = _patches(x1)
    x2 = np.maximum(np.tensordot(x1_patches, kernel2, 1), 0)
    windows = _windows(x2)
    chosen = windows.argmax(axis=3)
    x3 = windows.max(axis=3).reshape(len(images), -1)
    x4 = np.maximum(x3.dot(dense1), 0)

    d_scores = _softmax(x4.dot(dense2))
    d_scores[np.arange(len(labels)), labels] -= 1
    d_scores /= len(labels)
    d4 = d_scores.dot(dense2.T) * (x4 > 0)
    d3 = d4.dot(dense1.T).reshape(len(images), 12, 12, 64)
    d_windows = np.where(chosen[:, :, :, None] == np.arange(4)[:, None], d3[:, :, :, None], 0)
    d2 = _unwindowed(d_windows) * (x2 > 0)
    d1 = _unpatched(np.tensordot(d2, kernel2.T, 1), x1.shape) * (x1 > 0)
    return [
        np.tensordot(x0, d1, ([0, 1, 2], [0, 1, 2])).reshape(common.WEIGHTS[0]),
        d1.sum(axis=(0, 1, 2)),
        np.tensordot(x1_patches, d2, ([0, 1, 2], [0, 1, 2])).reshape(common.WEIGHTS[1]),
        d2.sum(axis=(0, 1, 2)),
        x3.T.dot(d4),
        d4.sum(axis=0),
        x4.T.dot(d_scores),
        d_scores.sum(axis=0),
    ]


def _softmax(scores):
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def _patches(x):
    """Returns what a 3x3 convolution sees of x (batch, rows, columns, channels): (batch, rows - 2, columns - 2, 9C)."""
    rows, columns = x.shape[1] - 2, x.shape[2] - 2
    return np.concatenate([x[:, i : i + rows, j : j + columns] for i in range(3) for j in range(3)], axis=3)


def _unpatched(patches, shape):
    """Adds up the gradients of patches where they overlap; the reverse of _patches."""
    x, (rows, columns) = np.zeros(shape), patches.shape[1:3]
    for number, part in enumerate(np.split(patches, 9, axis=3)):
        i, j = divmod(number, 3)
        x[:, i : i + rows, j : j + columns] += part
    return x


def _windows(x):
    """Returns x (batch, rows, columns, C) as windows of 2x2: (batch, rows / 2, columns / 2, 4, C)."""
    batch, rows, columns, channels = x.shape
    parts = x.reshape(batch, rows // 2, 2, columns // 2, 2, channels).transpose(0, 1, 3, 2, 4, 5)
    return parts.reshape(batch, rows // 2, columns // 2, 4, channels)


def _unwindowed(windows):
    batch, rows, columns, _, channels = windows.shape
    parts = windows.reshape(batch, rows, columns, 2, 2, channels).transpose(0, 1, 3, 2, 4, 5)
    return parts.reshape(batch, 2 * rows, 2 * columns, channels)
