"""ResNet50 in Keras 3, on TensorFlow, PyTorch or JAX: whichever KERAS_BACKEND names, TensorFlow otherwise."""

import os

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")  # warnings and errors, without the greeting

import importlib

import architecture
import feeding
import keras
import keras_backend
import keras_network
from feeding import Feed, Score
from recorder import Recorder

SWITCHES = {
    "compiler": ("default", "none", "xla", "inductor"),
    "precision": ("fp32", "bf16"),
    "input": ("memory", "stream"),
}


class DecayedSGD(keras.optimizers.SGD):
    """SGD whose weight decay is part of the gradient, as the other frameworks have it; Keras's own acts beside it."""

    def update_step(self, gradient, variable, learning_rate):
        """Updates a variable."""
        super().update_step(gradient + feeding.WEIGHT_DECAY * variable, variable, learning_rate)


def main():
    """Trains and measures, as the command line asks."""
    arguments = feeding.parse_arguments("Keras", SWITCHES)
    backend = keras.backend.backend()
    versions = [("keras", keras.__version__), (backend, importlib.import_module(backend).__version__)]
    recorder = Recorder(feeding.workload(arguments), arguments, "Keras on " + keras_backend.TITLES[backend], versions)
    keras_backend.apply_switches(arguments, backend)

    with recorder.timed("load_data"):
        feed = Feed(arguments)

    model = keras_network.network(keras, arguments.image_size, arguments.classes)
    keras_network.set_weights(model, architecture.initial_weights(arguments.seed, arguments.classes))
    model.compile(
        optimizer=DecayedSGD(arguments.learning_rate, feeding.SGD_MOMENTUM),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        jit_compile=arguments.switches["compiler"] != "none",
    )
    if arguments.check_gradients:
        print("the gradients are not compared: Keras gives none that is the same on every backend")
    trainable = sum(weight.numpy().size for weight in model.trainable_weights)
    recorder.training_begins(feed.dataset, len(feed.train), len(feed.test), trainable)
    keras_network.train(model, feed, recorder, arguments.epochs, Score)


if __name__ == "__main__":
    main()
