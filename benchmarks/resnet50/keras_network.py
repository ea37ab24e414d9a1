"""ResNet50 of Keras layers, for Keras 3 and the tf.keras of TensorFlow 1.14 and 2.1; Python 2.7 must read it too."""

from __future__ import absolute_import, division, print_function

import architecture
import numpy as np


def network(keras, image_size, classes):
    """Returns the model: images (batch, image_size, image_size, 3) to scores (batch, classes); no softmax.

    Args:
        keras: the module, keras or tf.keras.
        image_size: pixels.
        classes: how many.
    """
    layers = keras.layers
    images = keras.Input((image_size, image_size, 3))
    inside = layers.ReLU()(_unit(layers, images, architecture.STEM))
    # The padding's zeros stand for torchvision's minus infinity: behind a ReLU, nothing is below zero.
    inside = layers.MaxPooling2D(3, 2)(layers.ZeroPadding2D(1)(inside))
    for block in architecture.blocks():
        inside = _block(layers, inside, block)
    inside = layers.GlobalAveragePooling2D()(inside)
    # float32 whatever the layers before compute in: the softmax of the loss wants it.
    scores = layers.Dense(classes, name="dense", dtype="float32")(inside)
    return keras.Model(images, scores)


def _block(layers, images, block):
    convolutions = architecture.block_convolutions(block)
    inside = layers.ReLU()(_unit(layers, images, convolutions["first"]))
    inside = layers.ReLU()(_unit(layers, inside, convolutions["middle"]))
    inside = _unit(layers, inside, convolutions["last"])
    around = _unit(layers, images, convolutions["shortcut"]) if "shortcut" in convolutions else images
    return layers.ReLU()(layers.Add()([inside, around]))


def _unit(layers, images, convolution):
    """A convolution without bias and the batch-norm behind it; padded alike on all sides, as strides shift `same`."""
    given = convolution
    if given.kernel > 1:
        images = layers.ZeroPadding2D((given.kernel - 1) // 2)(images)
    images = layers.Conv2D(given.outputs, given.kernel, given.stride, use_bias=False, name=given.name)(images)
    norm = layers.BatchNormalization(
        momentum=architecture.MOMENTUM, epsilon=architecture.EPSILON, name=given.name + "_norm"
    )
    return norm(images)


def set_weights(model, weights):
    """Starts from the weights that every framework starts from."""
    for convolution in architecture.convolutions():
        model.get_layer(convolution.name).set_weights([weights[convolution.name]])
    model.get_layer("dense").set_weights([weights["dense"], weights["dense_bias"]])


def train(model, feed, recorder, epochs, score):
    """Trains step by step, testing after every epoch.

    Args:
        model: compiled, without metrics.
        feed: the images.
        recorder: whose training has begun.
        epochs: how many.
        score: makes what sums up a test.
    """
    for epoch in range(epochs):
        recorder.epoch_begins()
        for images, labels in feed.training_batches(epoch):
            model.reset_metrics()  # Keras 3 gives the mean loss since the last one
            recorder.step_ends(model.train_on_batch(images, labels), len(labels))
        recorder.evaluation_begins()
        test = score()
        for images, labels in feed.test_batches():
            test.add(np.asarray(model.predict_on_batch(images)), labels)
        recorder.epoch_ends(*test.result())
