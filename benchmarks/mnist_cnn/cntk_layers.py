"""The MNIST-CNN in CNTK 2.7, by its layers, learner and Trainer.

The paper's version; its Python is 2.7.
"""

from __future__ import absolute_import, division, print_function

import os

import common

SWITCHES = {}
ARGUMENTS = common.parse_arguments("CNTK", SWITCHES)
os.environ["OMP_NUM_THREADS"] = str(ARGUMENTS.threads)  # read when CNTK is loaded

import cntk  # noqa: E402
import numpy as np  # noqa: E402
import reference  # noqa: E402
from cntk import layers  # noqa: E402
from dataset import batches  # noqa: E402
from recorder import Recorder  # noqa: E402


def network(dropout, images):
    """Two convolutions and two dense layers; takes images (1, 28, 28), gives scores (10)."""
    model = layers.Sequential(
        [
            layers.Convolution2D((3, 3), 32, activation=cntk.relu, name="convolution1"),
            layers.Convolution2D((3, 3), 64, activation=cntk.relu, name="convolution2"),
            layers.MaxPooling((2, 2), strides=(2, 2)),
            layers.Dropout(0.25 * dropout),
            layers.Dense(128, activation=cntk.relu, name="dense1"),
            layers.Dropout(0.5 * dropout),
            layers.Dense(10, name="dense2"),  # the softmax is part of the loss
        ]
    )
    return model(images)


def weights_of(model):
    """Returns kernel and bias of each of the four layers, in their order."""
    blocks = [getattr(model, name) for name in ("convolution1", "convolution2", "dense1", "dense2")]
    return [parameter for block in blocks for parameter in (block.W, block.b)]


def set_weights(model, seed):
    """Starts from the weights that every framework starts from.

    They come as (rows, columns, inputs, outputs) and for images flattened with the channels last; CNTK keeps
    (outputs, inputs, rows, columns), and (channels, rows, columns, outputs) where a dense layer takes an image.
    """
    convolution1, convolution2, dense1, dense2 = common.initial_weights(seed)
    kernels = (
        convolution1.transpose(3, 2, 0, 1),
        convolution2.transpose(3, 2, 0, 1),
        dense1.reshape(12, 12, 64, 128).transpose(2, 0, 1, 3),
        dense2,
    )
    parameters = weights_of(model)
    for kernel, weight, bias in zip(kernels, parameters[::2], parameters[1::2]):
        weight.value = np.ascontiguousarray(kernel)
        bias.value = np.zeros(bias.shape, np.float32)


def gradients(seed, images, labels):
    """Returns the gradients of a batch, without dropout: kernel and bias of each layer as common.WEIGHTS has them."""
    x, y = cntk.input_variable((1, 28, 28)), cntk.input_variable(10)
    model = network(0, x)
    set_weights(model, seed)
    parameters = weights_of(model)
    loss = cntk.cross_entropy_with_softmax(model, y)
    found = loss.grad({x: images[:, None], y: one_hot(labels)}, wrt=parameters)
    kernel1, bias1, kernel2, bias2, dense1, bias3, dense2, bias4 = (found[p] / len(labels) for p in parameters)
    return [
        kernel1.transpose(2, 3, 1, 0),
        bias1.ravel(),
        kernel2.transpose(2, 3, 1, 0),
        bias2.ravel(),
        dense1.transpose(1, 2, 0, 3).reshape(-1, 128),
        bias3,
        dense2,
        bias4,
    ]


def one_hot(labels):
    """Returns labels (count) as CNTK wants them: (count, 10), a one in each row."""
    return np.eye(10, dtype=np.float32)[labels]


def evaluate(model, x, images, labels):
    """Returns the mean loss and the share of right answers."""
    loss, right = 0.0, 0
    for start in range(0, len(labels), common.EVALUATION_BATCH):
        y = labels[start : start + common.EVALUATION_BATCH]
        scores = model.eval({x: images[start : start + common.EVALUATION_BATCH]}).astype(np.float64)
        scores -= scores.max(axis=1, keepdims=True)
        loss += float(np.sum(np.log(np.exp(scores).sum(axis=1)) - scores[np.arange(len(y)), y]))
        right += int(np.sum(scores.argmax(axis=1) == y))
    return loss / len(labels), right / len(labels)


def main():
    """Trains and measures, as the command line asks."""
    recorder = Recorder(common.WORKLOAD, ARGUMENTS, "CNTK", [("cntk", cntk.__version__)])
    cntk.try_set_default_device(cntk.cpu())
    cntk.cntk_py.set_max_num_cputhreads(ARGUMENTS.threads)
    cntk.cntk_py.set_fixed_random_seed(ARGUMENTS.seed)  # the dropout's

    with recorder.timed("load_data"):
        data = common.load_data(ARGUMENTS)
        images, labels = data.train_images[:, None], one_hot(data.train_labels)

    x, y = cntk.input_variable((1, 28, 28)), cntk.input_variable(10)
    model = network(ARGUMENTS.dropout, x)
    set_weights(model, ARGUMENTS.seed)
    rate = cntk.learning_parameter_schedule(ARGUMENTS.learning_rate)
    options = {"rho": common.RHO, "epsilon": common.EPSILON, "use_mean_gradient": True}
    learner = cntk.adadelta(model.parameters, rate, **options)
    trainer = cntk.Trainer(model, (cntk.cross_entropy_with_softmax(model, y), None), [learner])

    if ARGUMENTS.check_gradients:
        reference.check(ARGUMENTS, data, recorder, lambda some, theirs: gradients(ARGUMENTS.seed, some, theirs))
    common.begin(recorder, data, sum(int(np.prod(parameter.shape)) for parameter in model.parameters))
    for epoch in range(ARGUMENTS.epochs):
        recorder.epoch_begins()
        for batch in batches(len(images), ARGUMENTS.batch_size, ARGUMENTS.seed, epoch):
            trainer.train_minibatch({x: images[batch], y: labels[batch]})
            recorder.step_ends(trainer.previous_minibatch_loss_average, len(batch))
        recorder.evaluation_begins()
        recorder.epoch_ends(*evaluate(model, x, data.test_images[:, None], data.test_labels))


if __name__ == "__main__":
    main()
