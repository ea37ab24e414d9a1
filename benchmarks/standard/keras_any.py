"""A standard network in Keras 3, by fit from arrays; on TensorFlow, or on what KERAS_BACKEND names: PyTorch or JAX."""

import os

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")  # warnings and errors, without the greeting

import importlib

import common
import keras
import keras_backend
import keras_steps
import numpy as np
from arguments import give_up, refuse

SWITCHES = {
    "compiler": ("default", "none", "xla", "inductor"),
    "precision": ("fp32", "bf16"),
    "step_loop": ("plain", "whole"),
}


def network(given):
    """Returns the model of a network of networks.py; images come with the channels last."""
    shape = given.shape
    inputs = keras.Input(shape[1:] + shape[:1] if len(shape) == 3 else shape)
    inside = inputs
    for number, layer in enumerate(given.layers, 1):
        last = number == len(given.layers)
        inside = _behind(layer, shape, inside, "float32" if last else None)
        shape = common.networks.after(layer, shape)[0]
    return keras.Model(inputs, inside)


def _behind(layer, shape, inside, dtype):
    layers, kind = keras.layers, layer[0]
    if kind == "dense":
        return layers.Dense(layer[1], dtype=dtype)(inside)
    if kind == "conv":
        _, outputs, kernel, stride, groups = layer
        if groups > 1:
            return layers.DepthwiseConv2D(kernel, stride, "same")(inside)
        return layers.Conv2D(outputs, kernel, stride, "same")(inside)
    if kind == "attention":
        width = shape[1]
        normed = layers.LayerNormalization()(inside)
        mixed = layers.MultiHeadAttention(layer[1], width // layer[1])(normed, normed)
        return layers.Add()([inside, mixed])
    if kind == "feed":
        inner = layers.Dense(layer[1], "relu")(layers.LayerNormalization()(inside))
        return layers.Add()([inside, layers.Dense(shape[1])(inner)])
    if kind == "average":
        return (layers.GlobalAveragePooling2D if len(shape) == 3 else layers.GlobalAveragePooling1D)()(inside)
    simple = {
        "norm": layers.BatchNormalization,
        "relu": layers.ReLU,
        "pool": layers.MaxPooling2D,
        "flatten": layers.Flatten,
    }
    if kind not in simple:
        give_up(2, "the network has a layer %s, which only pytorch.py has" % kind)
    return simple[kind]()(inside)


def epochs_of(arguments, backend, model, data, recorder):
    """Returns what trains an epoch, given the numbers of each step's samples: fit, or a step of our own."""
    if arguments.switches["step_loop"] == "whole":
        if backend != "tensorflow":
            refuse("step_loop", "whole", "it is TensorFlow's")
        tf = importlib.import_module("tensorflow")
        step = keras_steps.own_step(tf, model, data.samples, data.labels, arguments.switches["compiler"])

        def run_steps(steps):
            for numbers in steps:
                recorder.step_ends(step(tf.constant(numbers)), len(numbers))

        return run_steps

    def fit(steps):
        order = np.concatenate(steps)  # a shuffled one already, the same for every framework
        model.fit(
            data.samples[order],
            data.labels[order],
            batch_size=arguments.batch_size,
            shuffle=False,
            callbacks=[keras_steps.steps_callback(keras, recorder, steps)],
            verbose=0,
        )

    return fit


def main():
    """Trains and measures, as the command line asks."""
    arguments = common.parse_arguments("Keras", SWITCHES)
    backend = keras.backend.backend()
    versions = [("keras", keras.__version__), (backend, importlib.import_module(backend).__version__)]
    recorder = common.recorder(arguments, "Keras on " + keras_backend.TITLES[backend], versions)
    keras_backend.apply_switches(arguments, backend)
    keras.utils.set_random_seed(arguments.seed)
    with recorder.timed("load_data"):
        data = common.Data(arguments, channels_last=True)
    model = network(arguments.network)
    model.compile(
        optimizer=keras.optimizers.SGD(arguments.learning_rate, common.MOMENTUM),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        jit_compile=arguments.switches["compiler"] != "none",
    )
    common.begin(recorder, data, sum(each.numpy().size for each in model.trainable_weights))
    train_epoch = epochs_of(arguments, backend, model, data, recorder)
    for epoch in range(arguments.epochs):
        recorder.epoch_begins()
        train_epoch(data.batches(epoch))
        recorder.evaluation_begins()
        outputs = [np.asarray(model.predict_on_batch(data.samples[each])) for each in data.test_batches()]
        recorder.epoch_ends(*common.score(np.concatenate(outputs), data.labels[: data.test]))


if __name__ == "__main__":
    main()
