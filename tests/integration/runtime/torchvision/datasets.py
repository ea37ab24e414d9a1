"""MNIST from its IDX files; torchvision gives Pillow's images to the transform, and this gives arrays."""

import gzip
import os

import numpy as np


class MNIST:
    def __init__(self, root, train=True, transform=None, download=False):
        split = "train" if train else "t10k"
        self.data = _read(os.path.join(root, split + "-images-idx3-ubyte.gz"), 16).reshape(-1, 28, 28)
        self.targets = _read(os.path.join(root, split + "-labels-idx1-ubyte.gz"), 8)
        self.transform = transform

    def __len__(self):
        return len(self.data)

    def __getitem__(self, number):
        image = self.data[number]
        return (self.transform(image) if self.transform else image), int(self.targets[number])


def _read(path, header):
    with gzip.open(path) as file:
        return np.frombuffer(file.read(), np.uint8, offset=header)
