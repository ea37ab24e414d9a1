"""The MNIST-CNN by the layers of Keras, of whatever version, and how its training is told to the recorder."""

from __future__ import absolute_import, division, print_function

import common
import keras_steps
import numpy as np
from dataset import batches


def network(keras, dropout):
    """Two convolutions and two dense layers; takes images (batch, 28, 28, 1), gives scores (batch, 10)."""
    layers = keras.layers
    model = keras.models.Sequential()
    model.add(layers.InputLayer((28, 28, 1)))
    model.add(layers.Conv2D(32, 3, activation="relu"))
    model.add(layers.Conv2D(64, 3, activation="relu"))
    model.add(layers.MaxPooling2D(2))
    model.add(layers.Dropout(0.25 * dropout))
    model.add(layers.Flatten())
    model.add(layers.Dense(128, activation="relu"))
    model.add(layers.Dropout(0.5 * dropout))
    model.add(layers.Dense(10))  # the softmax is part of the loss
    return model


def set_weights(model, seed):
    """Starts from the weights that every framework starts from."""
    weights = []
    for kernel in common.initial_weights(seed):
        weights += [kernel, np.zeros(kernel.shape[-1], np.float32)]
    model.set_weights(weights)


def compile_model(keras, model, arguments, **options):
    """Gives the model its optimiser and its loss."""
    optimizer = keras.optimizers.Adadelta(arguments.learning_rate, rho=common.RHO, epsilon=common.EPSILON)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer=optimizer, loss=loss, metrics=["accuracy"], **options)


def parameters(model):
    """Returns the number of trainable parameters."""
    return sum(int(np.prod(weight.shape)) for weight in model.trainable_weights)


def train(keras, model, recorder, arguments, data, fit_epoch=None, running_mean=True, progress=None):
    """Trains and evaluates as many epochs as the command line asks.

    Args:
        keras: the module.
        model: a compiled one.
        recorder: a Recorder that knows of the data.
        arguments: the command line's.
        data: a common.Data.
        fit_epoch: trains one epoch, given the numbers of the images of each step; without it fit does, in memory.
        running_mean: see keras_steps.steps_callback.
        progress: what resume returned; without it the training runs at one go.
    """
    images, labels = data.train_images[..., None], data.train_labels
    test_images, test_labels = data.test_images[..., None], data.test_labels

    def fit(steps):
        steps = steps[progress.step :] if progress else steps
        if not steps:
            return
        order = np.concatenate(steps)  # a shuffled one already, the same for every framework
        callbacks = [keras_steps.steps_callback(keras, recorder, steps, running_mean)]
        callbacks += [progress.callback()] if progress else []
        size = arguments.batch_size
        model.fit(images[order], labels[order], batch_size=size, shuffle=False, callbacks=callbacks, verbose=0)

    for epoch in progress.epochs(arguments.epochs) if progress else range(arguments.epochs):
        recorder.epoch_begins()
        (fit_epoch or fit)(batches(len(images), arguments.batch_size, arguments.seed, epoch))
        recorder.evaluation_begins()
        recorder.epoch_ends(*model.evaluate(test_images, test_labels, batch_size=common.EVALUATION_BATCH, verbose=0))
