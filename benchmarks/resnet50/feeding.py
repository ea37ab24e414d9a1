"""The command line of ResNet50, and its images batch by batch: from memory, or decoded by a thread during the steps.

Python 2.7 must read it too.
"""

from __future__ import absolute_import, division, print_function

import threading
from contextlib import contextmanager

import architecture
import dataset
import numpy as np
import samples
from arguments import give_up, number, parse, training_parser
from decoding import normalise
from recorder import Workload

try:
    from queue import Queue
except ImportError:  # Python 2.7
    from Queue import Queue

WEIGHT_DECAY, SGD_MOMENTUM = 1e-4, 0.9  # torchvision's; the decay counts for all parameters, batch-norm's too
AHEAD = 2  # batches that a stream has ready


def parse_arguments(framework, switches):
    """Reads the command line; `source` then names one of samples.SOURCES.

    Args:
        framework: its name.
        switches: values by the option's name, the first the default; `input` (memory, stream) among them.
    """
    title = "Trains ResNet50 v1.5 with %s." % framework
    parser = training_parser(title, switches, epochs=3, batch_size=8, learning_rate=0.01)
    add = parser.add_argument
    add(
        "--source",
        choices=samples.SOURCES,
        help="what the data is (default: what the folder holds; drawn images where there is no folder)",
    )
    add("--image-size", metavar="N", type=number(int, 64), default=architecture.IMAGE_SIZE, help="default: %(default)s")
    add("--classes", metavar="N", type=number(int, 2), default=architecture.CLASSES, help="default: %(default)s")
    add(
        "--first-label",
        metavar="N",
        type=number(int, 0),
        default=0,
        help="label of the first class in shards; 1 in those that Inception's script wrote (default: %(default)s)",
    )
    add("--test-images", metavar="N", type=number(int, 1), help="default: all, or a tenth of --images")
    arguments = parse(parser, needs_data=False)
    with ending_on_bad_data():
        if arguments.source is None:
            arguments.source = samples.detect(arguments.data) if arguments.data else "synthetic"
        if arguments.source != "synthetic" and not arguments.data:
            raise dataset.DataError("no data: --data or the environment's MODAK_DATASET must name a folder")
    return arguments


def workload(arguments):
    """Returns what the recorder is to know of this training."""
    return Workload("resnet50", "ResNet50", architecture.parameters(arguments.classes))


@contextmanager
def ending_on_bad_data():
    """Ends the script with exit code 2 and one line where what is done inside meets data that cannot be used."""
    try:
        yield
    except dataset.DataError as error:
        give_up(2, str(error))


class Feed(object):
    """The images of one training, to train and to test on."""

    def __init__(self, arguments, place=None):
        """Finds the images, and reads them where --input is memory.

        Args:
            arguments: as parse_arguments returns them.
            place: turns images (count, height, width, 3) of float32 and labels (count) of int64 into the framework's
                arrays; what is held in memory is placed as a whole, so that it lies on the accelerator.
        """
        self.arguments, self.place = arguments, place or (lambda images, labels: (images, labels))
        with ending_on_bad_data():
            self.train, self.test = samples.find(
                arguments.source, arguments.data, arguments.seed, arguments.images, arguments.test_images
            )
            self.dataset = self._description()
            if arguments.switches["input"] == "memory":
                self.placed = [self.place(*self._read(each, range(len(each)))) for each in (self.train, self.test)]

    def training_batches(self, epoch):
        """Gives images and labels of each step of an epoch (from 0), in an order of its own."""
        batch_size, seed = self.arguments.batch_size, self.arguments.seed
        return self._batches(0, self.train, dataset.batches(len(self.train), batch_size, seed, epoch))

    def test_batches(self):
        """Gives images and labels of the test, in order, as many at a time as in training."""
        count, batch_size = len(self.test), self.arguments.batch_size
        numbers = [np.arange(start, min(start + batch_size, count)) for start in range(0, count, batch_size)]
        return self._batches(1, self.test, numbers)

    def _batches(self, split, found, batches):
        if self.arguments.switches["input"] == "memory":
            images, labels = self.placed[split]
            return ((images[numbers], labels[numbers]) for numbers in batches)
        return ahead(self.place(*self._read(found, numbers)) for numbers in batches)

    def _read(self, found, numbers):
        given, pixels, labels = self.arguments, [], []
        for each in numbers:
            image, label = samples.load(
                given.source, found[each], given.seed, given.image_size, given.classes, given.first_label
            )
            pixels.append(image)
            labels.append(label)
        return normalise(np.stack(pixels)), np.array(labels, np.int64)

    def _description(self):
        given = self.arguments
        if given.source == "synthetic":
            return {"name": "synthetic", "label": "drawn, %s x %s" % (given.image_size, given.image_size)}
        return dict(dataset.describe(given.data), source=given.source)


def ahead(made):
    """Gives what a generator makes, made by a thread AHEAD of its use; what it raises is raised here.

    Data that cannot be used ends the script.
    """
    ready, end = Queue(AHEAD), object()

    def make():
        try:
            for each in made:
                ready.put((each, None))
            ready.put((end, None))
        except Exception as error:  # noqa: BLE001 - it is raised again where the batch is wanted
            ready.put((end, error))

    thread = threading.Thread(target=make)
    thread.daemon = True
    thread.start()
    while True:
        each, error = ready.get()
        if error is not None:
            with ending_on_bad_data():
                raise error
        if each is end:
            return
        yield each


class Score(object):
    """Sums up a test: mean cross-entropy and share of right answers, computed from scores by numpy alike for all."""

    def __init__(self):
        self.count, self.loss, self.right = 0, 0.0, 0

    def add(self, scores, labels):
        """Takes scores (images, classes) and labels (images) of a batch, as numpy arrays."""
        scores = scores.astype(np.float64)
        scores -= scores.max(axis=1, keepdims=True)
        own = scores[np.arange(len(labels)), labels]
        self.loss += float((np.log(np.exp(scores).sum(axis=1)) - own).sum())
        self.right += int((scores.argmax(axis=1) == labels).sum())
        self.count += len(labels)

    def result(self):
        """Returns the mean loss and the share of right answers."""
        return self.loss / self.count, self.right / self.count
