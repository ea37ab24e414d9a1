"""ResNet50 in MXNet, by Gluon, imperative unless it is switched on; under Python 2.7 as well as 3."""

from __future__ import absolute_import, division, print_function

import os

import feeding

SWITCHES = {
    "compiler": ("none", "hybridize"),
    "input": ("memory", "stream"),
}
ARGUMENTS = feeding.parse_arguments("MXNet", SWITCHES)
os.environ["OMP_NUM_THREADS"] = str(ARGUMENTS.threads)  # read when MXNet is loaded

import architecture  # noqa: E402
import mxnet as mx  # noqa: E402
import numpy as np  # noqa: E402
from feeding import Feed, Score  # noqa: E402
from mxnet import autograd, gluon, nd  # noqa: E402
from mxnet.gluon import nn  # noqa: E402
from recorder import Recorder  # noqa: E402


def unit(convolution):
    """A convolution without bias and the batch-norm behind it."""
    given = convolution
    padding = (given.kernel - 1) // 2
    both = nn.HybridSequential(prefix=given.name + "_")
    both.add(
        nn.Conv2D(given.outputs, given.kernel, given.stride, padding, use_bias=False, in_channels=given.inputs),
        nn.BatchNorm(momentum=architecture.MOMENTUM, epsilon=architecture.EPSILON, in_channels=given.outputs),
    )
    return both


class Block(gluon.HybridBlock):
    """Three convolutions, and what goes around them; takes and gives (batch, channels, height, width)."""

    def __init__(self, block):
        super(Block, self).__init__(prefix=block.name + "_")
        for role, convolution in architecture.block_convolutions(block).items():
            setattr(self, role, unit(convolution))
        self.has_shortcut = architecture.has_shortcut(block)

    def hybrid_forward(self, F, images):  # noqa: N803 - Gluon's name
        """F is nd or sym."""
        inside = F.relu(self.first(images))
        inside = F.relu(self.middle(inside))
        around = self.shortcut(images) if self.has_shortcut else images
        return F.relu(self.last(inside) + around)


def network(classes):
    """Returns the network: images (batch, 3, height, width) to scores (batch, classes); no softmax."""
    model = nn.HybridSequential(prefix="resnet50_")
    model.add(unit(architecture.STEM), nn.Activation("relu"), nn.MaxPool2D(3, 2, 1))
    model.add(*[Block(block) for block in architecture.blocks()])
    model.add(nn.GlobalAvgPool2D(), nn.Flatten(), nn.Dense(classes, in_units=architecture.FEATURES))
    return model


def set_weights(model, weights):
    """Starts from the weights that every framework starts from."""
    units = [model[0]] + [getattr(each, role) for each in model if isinstance(each, Block) for role in _roles(each)]
    for convolution, both in zip(architecture.convolutions(), units):
        both[0].weight.set_data(nd.array(weights[convolution.name].transpose(3, 2, 0, 1)))
    model[-1].weight.set_data(nd.array(weights["dense"].T))
    model[-1].bias.set_data(nd.array(weights["dense_bias"]))


def _roles(block):
    return ("first", "middle", "last", "shortcut") if block.has_shortcut else ("first", "middle", "last")


def main():
    """Trains and measures, as the command line asks."""
    arguments = ARGUMENTS
    context = mx.gpu() if mx.context.num_gpus() else mx.cpu()
    recorder = Recorder(feeding.workload(arguments), arguments, "MXNet", [("mxnet", mx.__version__)], nd.waitall)

    with recorder.timed("load_data"):
        feed = Feed(arguments)

    def place(images, labels):
        return nd.array(images.transpose(0, 3, 1, 2), context), nd.array(labels, context)

    model = network(arguments.classes)
    model.initialize(ctx=context)
    set_weights(model, architecture.initial_weights(arguments.seed, arguments.classes))
    if arguments.compiler == "hybridize":
        model.hybridize(static_alloc=True)
    optimiser = {
        "learning_rate": arguments.learning_rate,
        "momentum": feeding.SGD_MOMENTUM,
        "wd": feeding.WEIGHT_DECAY,
    }
    trainer = gluon.Trainer(model.collect_params(), "sgd", optimiser)
    cross_entropy = gluon.loss.SoftmaxCrossEntropyLoss()

    if arguments.check_gradients:
        print("the gradients are not compared: the scripts of PyTorch and JAX do that")
    trainable = [each for each in model.collect_params().values() if each.grad_req != "null"]
    parameters = sum(int(np.prod(each.shape)) for each in trainable)
    recorder.training_begins(feed.dataset, len(feed.train), len(feed.test), parameters)
    for epoch in range(arguments.epochs):
        recorder.epoch_begins()
        for images, labels in feed.training_batches(epoch):
            placed, expected = place(images, labels)
            with autograd.record():
                loss = cross_entropy(model(placed), expected)
            loss.backward()
            trainer.step(len(labels))
            recorder.step_ends(loss.mean().asscalar(), len(labels))
        recorder.evaluation_begins()
        test = Score()
        for images, labels in feed.test_batches():
            test.add(model(place(images, labels)[0]).asnumpy(), labels)
        recorder.epoch_ends(*test.result())


if __name__ == "__main__":
    main()
