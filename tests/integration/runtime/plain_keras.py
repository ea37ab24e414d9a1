"""A training as people write them with Keras: nothing of modak's. It says the loss of every epoch, with all digits."""

import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"

import gzip

import keras
import numpy as np


def read(name, header, shape):
    with gzip.open("../data/" + name) as file:
        return np.frombuffer(file.read(), np.uint8, offset=header).reshape(shape)


images = read("train-images-idx3-ubyte.gz", 16, (-1, 28, 28, 1)).astype("float32") / 255
labels = read("train-labels-idx1-ubyte.gz", 8, (-1,))
keras.utils.set_random_seed(1)
layers = keras.layers
model = keras.Sequential(
    [layers.Input((28, 28, 1)), layers.Conv2D(8, 3, activation="relu"), layers.Flatten(), layers.Dense(10)]
)
model.compile(optimizer="sgd", loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))
history = model.fit(images, labels, batch_size=64, epochs=2, verbose=0)
for loss in history.history["loss"]:
    print(f"Loss: {loss!r}")
