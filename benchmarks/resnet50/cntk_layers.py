"""ResNet50 in CNTK 2.7, by its layers, learner and Trainer.

The paper's version; its Python is 2.7.
"""

from __future__ import absolute_import, division, print_function

import math
import os

import feeding
from arguments import refuse

SWITCHES = {"input": ("memory", "stream")}
SMALLEST = 96  # pixels; below it the last convolutions' kernels are larger than what they get
ARGUMENTS = feeding.parse_arguments("CNTK", SWITCHES)
if ARGUMENTS.image_size < SMALLEST:
    refuse("image_size", ARGUMENTS.image_size, "CNTK has no kernels larger than the image: at least %s" % SMALLEST)
os.environ["OMP_NUM_THREADS"] = str(ARGUMENTS.threads)  # read when CNTK is loaded

import architecture  # noqa: E402
import cntk  # noqa: E402
import numpy as np  # noqa: E402
from cntk import layers  # noqa: E402
from feeding import Feed, Score  # noqa: E402
from recorder import Recorder  # noqa: E402


def network(images, weights):
    """Returns the scores (classes) of images (3, height, width); the softmax is part of the loss.

    Args:
        images: the input.
        weights: what every framework starts from.
    """
    # CNTK keeps running statistics by a time constant, counted in images.
    constant = -ARGUMENTS.batch_size / math.log(architecture.MOMENTUM)

    def unit(values, convolution):
        given = convolution
        kernel = cntk.parameter(init=np.ascontiguousarray(weights[given.name].transpose(3, 2, 0, 1)))
        strides, padding = (given.inputs, given.stride, given.stride), [False, True, True]
        values = cntk.convolution(kernel, values, strides=strides, auto_padding=padding)
        norm = layers.BatchNormalization(map_rank=1, normalization_time_constant=constant, epsilon=architecture.EPSILON)
        return norm(values)

    inside = layers.MaxPooling((3, 3), strides=(2, 2), pad=True)(cntk.relu(unit(images, architecture.STEM)))
    for block in architecture.blocks():
        convolutions = architecture.block_convolutions(block)
        around = unit(inside, convolutions["shortcut"]) if "shortcut" in convolutions else inside
        inside = cntk.relu(unit(inside, convolutions["first"]))
        inside = cntk.relu(unit(inside, convolutions["middle"]))
        inside = cntk.relu(unit(inside, convolutions["last"]) + around)
    inside = cntk.reshape(layers.GlobalAveragePooling()(inside), (architecture.FEATURES,))
    dense, bias = (cntk.parameter(init=weights[name]) for name in ("dense", "dense_bias"))
    return cntk.times(inside, dense) + bias


def main():
    """Trains and measures, as the command line asks."""
    recorder = Recorder(feeding.workload(ARGUMENTS), ARGUMENTS, "CNTK", [("cntk", cntk.__version__)])
    cntk.try_set_default_device(cntk.cpu())
    cntk.cntk_py.set_max_num_cputhreads(ARGUMENTS.threads)

    def place(images, labels):
        return np.ascontiguousarray(images.transpose(0, 3, 1, 2)), labels

    with recorder.timed("load_data"):
        feed = Feed(ARGUMENTS, place)

    size, classes = ARGUMENTS.image_size, ARGUMENTS.classes
    images, expected = cntk.input_variable((3, size, size)), cntk.input_variable(classes)
    model = network(images, architecture.initial_weights(ARGUMENTS.seed, classes))
    learner = cntk.momentum_sgd(
        model.parameters,
        cntk.learning_parameter_schedule(ARGUMENTS.learning_rate),
        cntk.momentum_schedule(feeding.SGD_MOMENTUM),
        unit_gain=False,
        l2_regularization_weight=feeding.WEIGHT_DECAY,
        use_mean_gradient=True,
    )
    trainer = cntk.Trainer(model, (cntk.cross_entropy_with_softmax(model, expected), None), [learner])

    if ARGUMENTS.check_gradients:
        print("the gradients are not compared: the scripts of PyTorch and JAX do that")
    trainable = sum(int(np.prod(parameter.shape)) for parameter in model.parameters)
    recorder.training_begins(feed.dataset, len(feed.train), len(feed.test), trainable)
    for epoch in range(ARGUMENTS.epochs):
        recorder.epoch_begins()
        for batch, labels in feed.training_batches(epoch):
            trainer.train_minibatch({images: batch, expected: np.eye(classes, dtype=np.float32)[labels]})
            recorder.step_ends(trainer.previous_minibatch_loss_average, len(labels))
        recorder.evaluation_begins()
        test = Score()
        for batch, labels in feed.test_batches():
            test.add(model.eval({images: batch}), labels)
        recorder.epoch_ends(*test.result())


if __name__ == "__main__":
    main()
