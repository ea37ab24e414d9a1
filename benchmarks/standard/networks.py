"""The standard networks as lists of layers, and what they compute: parameters, GFLOP and bytes, before anything is run.

A layer is its kind and its numbers. A shape is (width,) for vectors, (length, width) for sequences and (channels, rows,
columns) for images; the batch is not in it.
"""

from __future__ import absolute_import, division, print_function

from collections import namedtuple

CLASSES = 10
FLOAT = 4  # bytes

Network = namedtuple("Network", "name shape layers batch_size")
Cost = namedtuple("Cost", "parameters forward_flop gflop_per_image bytes_per_image layers")


def _mlp(width, depth):
    return [layer for _ in range(depth) for layer in (("dense", width), ("relu",))] + [("dense", CLASSES)]


def _plain(widths, norm):
    layers = []
    for stage in widths:
        for width in stage:
            layers += [("conv", width, 3, 1, 1)] + ([("norm",)] if norm else []) + [("relu",)]
        layers.append(("pool",))
    return layers


def _depthwise(widths):
    layers = [("conv", widths[0], 3, 2, 1), ("norm",), ("relu",)]
    for number, after in enumerate(widths[1:]):
        before = widths[number]
        stride = 2 if after > before else 1
        layers += [("conv", before, 3, stride, before), ("norm",), ("relu",), ("conv", after, 1, 1, 1), ("norm",)]
        layers.append(("relu",))
    return layers + [("average",), ("dense", CLASSES)]


def _transformer(heads, width, depth):
    return [layer for _ in range(depth) for layer in (("attention", heads), ("feed", 4 * width))] + [
        ("average",),
        ("dense", CLASSES),
    ]


def _first(width):
    return [("conv", width, 3, 1, 1), ("norm",), ("relu",)]


def _residual(stages):
    layers = _first(stages[0][0])
    for stage, (width, blocks) in enumerate(stages):
        layers += [("residual", width, 2 if stage and not number else 1) for number in range(blocks)]
    return layers + [("average",), ("dense", CLASSES)]


def _unet(width, depth):
    return _first(width) + [("unet", width, depth), ("average",), ("dense", CLASSES)]


NETWORKS = {
    (each.name): each
    for each in (
        Network("mlp-tiny", (64,), _mlp(256, 2), 64),
        Network("mlp-small", (256,), _mlp(512, 3), 128),
        Network("mlp-medium", (1024,), _mlp(2048, 3), 128),
        Network("mlp-large", (512,), _mlp(1024, 6), 256),
        Network(
            "cnn-tiny", (1, 28, 28), _plain([(16,), (32,)], True) + [("flatten",), ("dense", 64), ("relu",),
            ("dense", CLASSES)], 64,
        ),
        Network(
            "cnn-small", (3, 32, 32), _plain([(32, 32), (64,)], True) + [("flatten",), ("dense", 128), ("relu",),
            ("dense", CLASSES)], 32,
        ),
        Network(
            "cnn-medium", (3, 32, 32), _plain([(64, 64), (128, 128), (256,)], True) + [("flatten",), ("dense", 256),
            ("relu",), ("dense", CLASSES)], 32,
        ),
        Network(
            "cnn-large", (3, 64, 64), _plain([(64,), (128, 128), (256, 256)], True) + [("flatten",), ("dense", 256),
            ("relu",), ("dense", CLASSES)], 16,
        ),
        Network(
            "vgg-tiny", (1, 28, 28), _plain([(16,), (32,)], False) + [("flatten",), ("dense", 128), ("relu",),
            ("dense", CLASSES)], 64,
        ),
        Network(
            "vgg-small", (3, 48, 48), _plain([(32,), (64,), (128, 128)], False) + [("flatten",), ("dense", 512),
            ("relu",), ("dense", CLASSES)], 16,
        ),
        Network(
            "vgg-medium", (3, 64, 64), _plain([(64,), (128,), (256, 256), (512, 512)], False) + [("flatten",),
            ("dense", 2048), ("relu",), ("dense", CLASSES)], 16,
        ),
        Network(
            "vgg-large", (3, 96, 96), _plain([(64,), (128,), (256, 256)], False) + [("flatten",), ("dense", 1024),
            ("relu",), ("dense", CLASSES)], 8,
        ),
        Network("depthwise-tiny", (3, 32, 32), _depthwise((8, 16, 16, 32)), 64),
        Network("depthwise-small", (3, 64, 64), _depthwise((16, 32, 32, 64, 64, 128)), 32),
        Network("depthwise-medium", (3, 96, 96), _depthwise((32, 64, 64, 128, 128, 256, 256, 512)), 16),
        Network("depthwise-large", (3, 128, 128), _depthwise((32, 64, 128, 128, 256, 256, 512, 512, 512)), 16),
        Network("transformer-tiny", (16, 64), _transformer(2, 64, 2), 64),
        Network("transformer-small", (32, 128), _transformer(4, 128, 2), 32),
        Network("transformer-medium", (64, 256), _transformer(4, 256, 4), 16),
        Network("transformer-large", (128, 384), _transformer(6, 384, 6), 8),
        Network("residual-small", (3, 32, 32), _residual([(16, 3), (32, 3), (64, 3)]), 32),
        Network("residual-large", (3, 48, 48), _residual([(64, 1), (128, 2), (256, 1)]), 16),
        Network("unet-small", (3, 48, 48), _unet(8, 3), 8),
        Network("unet-large", (3, 96, 96), _unet(32, 4), 4),
        Network("audio-small", (512, 1), [("sound", 32, 9, 4)] + [("sound", 32, 3, 1)] * 3 + [("average",),
            ("dense", CLASSES)], 32),
        Network("audio-large", (4096, 1), [("sound", 128, 9, 4)] + [("sound", 128, 3, 1)] * 5 + [("average",),
            ("dense", CLASSES)], 8),
        Network("lstm-small", (32, 64), [("dense", 128), ("lstm", 128), ("average",), ("dense", CLASSES)], 32),
        Network("lstm-large", (64, 128), [("dense", 384)] + [("lstm", 384)] * 2 + [("average",),
            ("dense", CLASSES)], 32),
        Network("mixer-small", (3, 32, 32), [("patches", 128, 4)] + [("mix",)] * 3 + [("average",),
            ("dense", CLASSES)], 32),
        Network("mixer-large", (3, 64, 64), [("patches", 384, 8)] + [("mix",)] * 6 + [("average",),
            ("dense", CLASSES)], 16),
        Network("tables-small", (8,), [("tables", 2000, 16)] + _mlp(64, 2), 256),
        Network("tables-large", (26,), [("tables", 20000, 32)] + _mlp(512, 2), 256),
    )
}  # fmt: skip
MODELS = (
    "mlp", "cnn", "vgg", "depthwise", "transformer", "residual", "unet", "audio", "lstm", "mixer", "tables",
)  # fmt: skip
SIZES = ("tiny", "small", "medium", "large")


def cost(network):
    """Returns what a training step of one sample computes.

    A multiply-add is 2 FLOP. Backwards costs twice what forwards does, but for the first layer, whose input needs no
    gradient. Only products count: what relu, norm and pool do is lost in them.
    """
    shape, parameters, forward, first, layers = network.shape, 0, 0, None, 0
    for layer in network.layers:
        shape, own, flop = after(layer, shape)
        parameters += own
        forward += flop
        layers += bool(flop)
        if first is None and own:
            first = flop
    return Cost(parameters, forward, (3 * forward - first) / 1e9, FLOAT * _numbers(network.shape), layers)


def after(layer, shape):
    """Returns the shape behind a layer, its trainable parameters, and its FLOP forwards."""
    kind = layer[0]
    if kind == "dense":
        inputs, outputs = shape[-1], layer[1]
        return shape[:-1] + (outputs,), inputs * outputs + outputs, 2 * inputs * outputs * _numbers(shape[:-1])
    if kind == "conv":
        _, outputs, kernel, stride, groups = layer
        size = tuple((each + stride - 1) // stride for each in shape[1:])
        weights = kernel * kernel * (shape[0] // groups) * outputs
        return (outputs,) + size, weights + outputs, 2 * weights * _numbers(size)
    if kind == "norm":
        return shape, 2 * shape[0], 0
    if kind == "pool":
        return (shape[0],) + tuple(each // 2 for each in shape[1:]), 0, 0
    if kind == "flatten":
        return (_numbers(shape),), 0, 0
    if kind == "average":
        return (shape[0],) if len(shape) == 3 else (shape[1],), 0, 0
    if kind == "attention":
        length, width = shape
        # a norm; query, key, value and the projection behind; each query with each key, and the sum of the values
        return shape, 2 * width + 4 * (width * width + width), 8 * length * width * width + 4 * length * length * width
    if kind == "feed":
        length, width = shape
        inner = layer[1]
        return shape, 2 * width + 2 * width * inner + inner + width, 4 * length * width * inner
    return _after_a_block(layer, shape) or (shape, 0, 0)


def _after_a_block(layer, shape):
    """Returns the same of a block that is made of several layers; None of what is none."""
    kind = layer[0]
    if kind == "residual":
        return _in_turn(residual_parts(shape[0], layer[1], layer[2]), shape)
    if kind == "unet":
        _, width, depth = layer
        parameters = flop = 0
        (before, rows, columns), sizes = shape, []
        for number in range(depth):
            sizes.append((width << number, rows >> number, columns >> number))
            own = _in_turn(_pair(width << number), (before,) + sizes[-1][1:])
            parameters, flop, before = parameters + own[1], flop + own[2], width << number
        for outputs, rows, columns in reversed(sizes[:-1]):
            wide = before * outputs * 4  # a transposed convolution of 2 by 2
            own = _in_turn(_pair(outputs), (2 * outputs, rows, columns))
            parameters += wide + outputs + own[1]
            flop += 2 * wide * (rows // 2) * (columns // 2) + own[2]
            before = outputs
        return (width,) + shape[1:], parameters, flop
    if kind == "sound":
        _, outputs, kernel, stride = layer
        length, weights = (shape[0] - 1) // stride + 1, kernel * shape[1] * outputs
        return (length, outputs), weights + 3 * outputs, 2 * weights * length
    if kind == "lstm":
        length, width = shape
        weights = 4 * layer[1] * (width + layer[1])
        return (length, layer[1]), weights + 8 * layer[1], 2 * weights * length
    if kind == "patches":
        _, width, size = layer
        places, weights = (shape[1] // size) * (shape[2] // size), size * size * shape[0] * width
        return (places, width), weights + width, 2 * weights * places
    if kind == "mix":
        places, width = shape
        along, across = 4 * places * places, 8 * width * width
        return shape, along + 3 * places + across + 9 * width, 2 * along * width + 2 * across * places
    if kind == "tables":
        _, rows, width = layer
        return (shape[0] * width,), shape[0] * rows * width, 0
    return None


def residual_parts(inputs, outputs, stride):
    """Returns the layers of a residual block, of which the last is the way around where sizes change."""
    parts = [("conv", outputs, 3, stride, 1), ("norm",), ("relu",), ("conv", outputs, 3, 1, 1), ("norm",)]
    return parts + ([("around", outputs, stride)] if stride > 1 or inputs != outputs else [])


def _pair(outputs):
    return [("conv", outputs, 3, 1, 1), ("norm",), ("relu",), ("conv", outputs, 3, 1, 1), ("norm",), ("relu",)]


def _in_turn(layers, shape):
    """Returns the shape behind layers, and the sums of their parameters and FLOP."""
    first, parameters, flop = shape, 0, 0
    for layer in layers:
        if layer[0] == "around":
            _, own, more = after(("conv", layer[1], 1, layer[2], 1), first)
        else:
            shape, own, more = after(layer, shape)
        parameters, flop = parameters + own, flop + more
    return shape, parameters, flop


def _numbers(shape):
    product = 1
    for each in shape:
        product *= each
    return product
