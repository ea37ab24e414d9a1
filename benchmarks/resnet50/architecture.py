"""ResNet50 v1.5 as numbers: its layers, how many parameters and operations they have, and their first weights.

v1.5: the 3x3 convolution of a block carries the block's stride, as in torchvision. The same for every framework;
needs numpy only, and runs under Python 2.7 as well as 3.
"""

from __future__ import absolute_import, division, print_function

from collections import OrderedDict, namedtuple

import numpy as np

STAGES = ((3, 64, 1), (4, 128, 2), (6, 256, 2), (3, 512, 2))  # blocks, width, stride of the first block
EXPANSION = 4  # a block has so many times its width as outputs
FEATURES = 512 * EXPANSION  # what the dense layer takes
CLASSES, IMAGE_SIZE = 1000, 224  # ImageNet's
EPSILON, MOMENTUM = 1e-5, 0.9  # batch-norm: added to the variance; share of the old running statistics

Convolution = namedtuple("Convolution", "name kernel stride inputs outputs")
Block = namedtuple("Block", "name inputs width outputs stride")

STEM = Convolution("stem", 7, 2, 3, 64)  # a 3x3 max-pooling of stride 2 follows


def blocks():
    """Returns the sixteen blocks in order."""
    found, inputs = [], STEM.outputs
    for stage, (count, width, stride) in enumerate(STAGES, 1):
        for number in range(1, count + 1):
            name = "stage%s_block%s" % (stage, number)
            found.append(Block(name, inputs, width, width * EXPANSION, stride if number == 1 else 1))
            inputs = width * EXPANSION
    return found


def has_shortcut(block):
    """Says whether the block's input must be brought into the shape of its output by a convolution."""
    return block.stride != 1 or block.inputs != block.outputs


def block_convolutions(block):
    """Returns a block's convolutions by role: first, middle, last and, where there is one, shortcut."""
    found = OrderedDict()
    for role, kernel, stride, inputs, outputs in (
        ("first", 1, 1, block.inputs, block.width),
        ("middle", 3, block.stride, block.width, block.width),
        ("last", 1, 1, block.width, block.outputs),
        ("shortcut", 1, block.stride, block.inputs, block.outputs),
    ):
        if role != "shortcut" or has_shortcut(block):
            found[role] = Convolution(block.name + "_" + role, kernel, stride, inputs, outputs)
    return found


def convolutions():
    """Returns all 53 convolutions; each is followed by a batch-norm of its outputs and has no bias."""
    return [STEM] + [each for block in blocks() for each in block_convolutions(block).values()]


def parameters(classes=CLASSES):
    """Returns the number of trainable parameters; 25,557,032 for 1,000 classes."""
    convolutional = sum(each.kernel**2 * each.inputs * each.outputs + 2 * each.outputs for each in convolutions())
    return convolutional + FEATURES * classes + classes


def multiplications(image_size=IMAGE_SIZE, classes=CLASSES):
    """Returns the multiply-adds of one image's forward pass by layer, convolutions and the dense layer alone.

    What the others do (batch-norm, ReLU, pooling, sums) is under one percent of it and left out.
    """
    counts = OrderedDict()

    def count(each, side):
        side = -(-side // each.stride)  # of the output: the padding is (kernel - 1) / 2, so rounded up
        counts[each.name] = side**2 * each.kernel**2 * each.inputs * each.outputs
        return side

    side = -(-count(STEM, image_size) // 2)
    for block in blocks():
        inside = side
        for role, each in block_convolutions(block).items():
            if role == "shortcut":
                count(each, side)
            else:
                inside = count(each, inside)
        side = inside
    counts["dense"] = FEATURES * classes
    return counts


def step_gflop(image_size=IMAGE_SIZE, classes=CLASSES):
    """Returns the GFLOP of a training step for each image, with 2 FLOP a multiply-add.

    Once forward, once each for the gradients of inputs and of weights; the stem's input, the image, needs none.
    """
    counts = multiplications(image_size, classes)
    return 2 * (3 * sum(counts.values()) - counts[STEM.name]) / 1e9


def initial_weights(seed, classes=CLASSES):
    """Draws the first weights as float32, by name: kernels (height, width, inputs, outputs), `dense` and `dense_bias`.

    Convolutions: normal, He et al. 2015 by fan-out (deviation sqrt(2 / (outputs * pixels))). Dense: uniform within
    1 / sqrt(inputs), its bias too, as torchvision's model starts. Batch-norm starts at scale 1 and shift 0, and so is
    not drawn. RandomState because its stream is the same in every version of numpy.
    """
    random = np.random.RandomState(seed)
    weights = OrderedDict()
    for each in convolutions():
        deviation = np.sqrt(2.0 / (each.outputs * each.kernel**2))
        shape = (each.kernel, each.kernel, each.inputs, each.outputs)
        weights[each.name] = random.normal(0, deviation, shape).astype(np.float32)
    limit = 1 / np.sqrt(FEATURES)
    weights["dense"] = random.uniform(-limit, limit, (FEATURES, classes)).astype(np.float32)
    weights["dense_bias"] = random.uniform(-limit, limit, classes).astype(np.float32)
    return weights
