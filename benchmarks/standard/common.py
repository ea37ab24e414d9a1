"""What the standard trainings share, whatever their framework: the command line, the drawn data, and what is noted."""

from __future__ import absolute_import, division, print_function

import networks
import numpy as np
from arguments import parse, refuse, training_parser
from dataset import batches
from recorder import Recorder, Workload

DATASET = {"name": "drawn", "label": "drawn numbers"}
MOMENTUM = 0.9
TEST_BATCHES = 2


def parse_arguments(framework, switches):
    """Reads the command line; `network` of the answer is the network that it names."""
    parser = training_parser("Trains a standard network with %s on drawn numbers." % framework, switches, 4, 0, 0.01)
    parser.add_argument("--model", choices=networks.MODELS, default="cnn", help="default: %(default)s")
    parser.add_argument("--size", choices=networks.SIZES, default="small", help="default: %(default)s")
    parser.add_argument(
        "--steps", type=int, default=16, metavar="N", help="of an epoch, where --images is not given (default: 16)"
    )
    arguments = parse(parser, needs_data=False)
    arguments.network = networks.NETWORKS.get("%s-%s" % (arguments.model, arguments.size))
    if arguments.network is None:
        refuse("size", arguments.size, "%s is small or large" % arguments.model)
    arguments.batch_size = arguments.batch_size or arguments.network.batch_size
    arguments.images = arguments.images or max(1, arguments.steps) * arguments.batch_size
    return arguments


def recorder(arguments, framework, versions):
    """Returns the recorder, which knows how large the network is and what it computes."""
    name, cost = arguments.network.name, networks.cost(arguments.network)
    made = Recorder(Workload("standard", "Standard network %s" % name, cost.parameters), arguments, framework, versions)
    made.metrics["network"] = {
        "name": name,
        "gflop_per_image": cost.gflop_per_image,
        "bytes_per_image": cost.bytes_per_image,
        "layers": cost.layers,
    }
    return made


class Data(object):
    """Numbers around 0, labels to learn by heart, and some of them to test with."""

    def __init__(self, arguments, channels_last):
        random = np.random.RandomState(arguments.seed)
        self.arguments = arguments
        self.samples = random.standard_normal((arguments.images,) + arguments.network.shape).astype(np.float32)
        if channels_last and self.samples.ndim == 4:
            self.samples = np.ascontiguousarray(self.samples.transpose(0, 2, 3, 1))
        self.labels = random.randint(0, networks.CLASSES, arguments.images)
        self.test = min(arguments.images, TEST_BATCHES * arguments.batch_size)

    def batches(self, epoch):
        """Returns the numbers of each step's samples."""
        return batches(self.arguments.images, self.arguments.batch_size, self.arguments.seed, epoch)

    def test_batches(self):
        """Yields the slices of the samples that are tested with."""
        size = self.arguments.batch_size
        for start in range(0, self.test, size):
            yield slice(start, min(self.test, start + size))


def begin(made, data, parameters):
    """Tells the recorder that the training begins."""
    made.training_begins(DATASET, data.arguments.images, data.test, int(parameters))


def score(outputs, labels):
    """Returns the mean loss and the share of right answers of some scores."""
    outputs = outputs - outputs.max(axis=1, keepdims=True)
    right = outputs[np.arange(len(labels)), labels]
    loss = np.log(np.exp(outputs).sum(axis=1)) - right
    return float(loss.mean()), float((outputs.argmax(axis=1) == labels).mean())
