"""The MNIST-CNN in MXNet 1.6, by Gluon: its layers, autograd and a Trainer, imperative unless it is switched on.

The paper's version; its Python is 2.7.
"""

from __future__ import absolute_import, division, print_function

import os

import common

SWITCHES = {"compiler": ("none", "hybridize")}
ARGUMENTS = common.parse_arguments("MXNet", SWITCHES)
os.environ["OMP_NUM_THREADS"] = str(ARGUMENTS.threads)  # read when MXNet is loaded

import mxnet as mx  # noqa: E402
import numpy as np  # noqa: E402
import reference  # noqa: E402
from dataset import batches  # noqa: E402
from mxnet import autograd, gluon, nd  # noqa: E402
from recorder import Recorder  # noqa: E402


@mx.optimizer.register
class PublishedAdadelta(mx.optimizer.AdaDelta):
    """Adadelta with a learning rate: MXNet's own takes none, which is the published 1.0."""

    def update(self, index, weight, grad, state):
        """Takes a step of one tensor."""
        self._update_count(index)
        gradient_sum, delta_sum = state
        grad *= self.rescale_grad
        gradient_sum[:] *= self.rho
        gradient_sum[:] += (1 - self.rho) * grad * grad
        delta = nd.sqrt(delta_sum + self.epsilon) / nd.sqrt(gradient_sum + self.epsilon) * grad
        delta_sum[:] *= self.rho
        delta_sum[:] += (1 - self.rho) * delta * delta
        weight[:] -= delta if self.lr == 1 else self.lr * delta


def network(dropout):
    """Two convolutions and two dense layers; takes images (batch, 1, 28, 28), gives scores (batch, 10)."""
    model = gluon.nn.HybridSequential()
    model.add(
        gluon.nn.Conv2D(32, 3, in_channels=1, activation="relu"),
        gluon.nn.Conv2D(64, 3, in_channels=32, activation="relu"),
        gluon.nn.MaxPool2D(2),
        gluon.nn.Dropout(0.25 * dropout),
        gluon.nn.Flatten(),
        gluon.nn.Dense(128, in_units=12 * 12 * 64, activation="relu"),
        gluon.nn.Dropout(0.5 * dropout),
        gluon.nn.Dense(10, in_units=128),  # the softmax is part of the loss
    )
    model.initialize()
    return model


def layers(model):
    """Returns the four layers that have weights."""
    return [layer for layer in model if isinstance(layer, (gluon.nn.Conv2D, gluon.nn.Dense))]


def set_weights(model, seed):
    """Starts from the weights that every framework starts from.

    They come as (rows, columns, inputs, outputs) and for images flattened with the channels last; MXNet keeps
    (outputs, inputs, rows, columns) and flattens with the channels first. Biases are zero already.
    """
    convolution1, convolution2, dense1, dense2 = common.initial_weights(seed)
    kernels = (
        convolution1.transpose(3, 2, 0, 1),
        convolution2.transpose(3, 2, 0, 1),
        dense1.reshape(12, 12, 64, 128).transpose(3, 2, 0, 1).reshape(128, -1),
        dense2.T,
    )
    for layer, kernel in zip(layers(model), kernels):
        layer.weight.set_data(nd.array(kernel))


def gradients_of(model):
    """Returns the gradients in the order and the shapes of common.WEIGHTS, each followed by its bias's."""
    convolution1, convolution2, dense1, dense2 = (layer.weight.grad().asnumpy() for layer in layers(model))
    kernels = (
        convolution1.transpose(2, 3, 1, 0),
        convolution2.transpose(2, 3, 1, 0),
        dense1.reshape(128, 64, 12, 12).transpose(2, 3, 1, 0).reshape(-1, 128),
        dense2.T,
    )
    pairs = zip(kernels, (layer.bias.grad().asnumpy() for layer in layers(model)))
    return [tensor for pair in pairs for tensor in pair]


def gradients(model, loss_of, images, labels):
    """Returns the gradients of a batch of numpy arrays, without dropout."""
    with autograd.record(train_mode=False):
        loss = loss_of(model(nd.array(images[:, None])), nd.array(labels)).mean()
    loss.backward()
    return gradients_of(model)


def evaluate(model, loss_of, images, labels):
    """Returns the mean loss and the share of right answers."""
    loss, right = 0.0, 0
    for start in range(0, len(labels), common.EVALUATION_BATCH):
        x, y = images[start : start + common.EVALUATION_BATCH], labels[start : start + common.EVALUATION_BATCH]
        scores = model(x)
        loss += float(loss_of(scores, y).sum().asscalar())
        right += int((scores.argmax(axis=1) == y).sum().asscalar())
    return loss / len(labels), right / len(labels)


def count_parameters(model):
    """Returns the number of trainable parameters."""
    return sum(int(np.prod(p.shape)) for p in model.collect_params().values() if p.grad_req != "null")


def main():
    """Trains and measures, as the command line asks."""
    versions = [("mxnet", mx.__version__)]
    recorder = Recorder(common.WORKLOAD, ARGUMENTS, "MXNet", versions, synchronise=nd.waitall)
    mx.random.seed(ARGUMENTS.seed % 2**31)  # the dropout's

    with recorder.timed("load_data"):
        data = common.load_data(ARGUMENTS)
        images, labels = nd.array(data.train_images[:, None]), nd.array(data.train_labels)
        test_images, test_labels = nd.array(data.test_images[:, None]), nd.array(data.test_labels)
        nd.waitall()

    model, loss_of = network(ARGUMENTS.dropout), gluon.loss.SoftmaxCrossEntropyLoss()
    set_weights(model, ARGUMENTS.seed)
    if ARGUMENTS.compiler == "hybridize":
        model.hybridize(static_alloc=True, static_shape=True)
        loss_of.hybridize(static_alloc=True, static_shape=True)
    adadelta = PublishedAdadelta(rho=common.RHO, epsilon=common.EPSILON, learning_rate=ARGUMENTS.learning_rate)
    trainer = gluon.Trainer(model.collect_params(), adadelta)

    if ARGUMENTS.check_gradients:
        reference.check(ARGUMENTS, data, recorder, lambda x, y: gradients(model, loss_of, x, y))
    common.begin(recorder, data, count_parameters(model))
    for epoch in range(ARGUMENTS.epochs):
        recorder.epoch_begins()
        for batch in batches(len(images), ARGUMENTS.batch_size, ARGUMENTS.seed, epoch):
            x, y = images[batch], labels[batch]
            with autograd.record():
                loss = loss_of(model(x), y).mean()
            loss.backward()
            trainer.step(1)  # the loss is a mean already
            recorder.step_ends(loss.asscalar(), len(batch))
        recorder.evaluation_begins()
        recorder.epoch_ends(*evaluate(model, loss_of, test_images, test_labels))


if __name__ == "__main__":
    main()
