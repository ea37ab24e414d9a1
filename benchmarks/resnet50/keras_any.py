"""ResNet50 in Keras 3, on TensorFlow, PyTorch or JAX: whichever KERAS_BACKEND names, TensorFlow otherwise."""

import os

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")  # warnings and errors, without the greeting

import importlib

import architecture
import feeding
import keras
import keras_network
from arguments import refuse
from feeding import Feed, Score
from recorder import Recorder

SWITCHES = {
    "compiler": ("default", "none", "xla", "inductor"),
    "precision": ("fp32", "bf16"),
    "input": ("memory", "stream"),
}
COMPILERS = {"tensorflow": ("none", "xla"), "torch": ("none", "inductor"), "jax": ("xla", "none")}  # usual one first
TITLES = {"tensorflow": "TensorFlow", "torch": "PyTorch", "jax": "JAX"}


class DecayedSGD(keras.optimizers.SGD):
    """SGD whose weight decay is part of the gradient, as the other frameworks have it; Keras's own acts beside it."""

    def update_step(self, gradient, variable, learning_rate):
        """Updates a variable."""
        super().update_step(gradient + feeding.WEIGHT_DECAY * variable, variable, learning_rate)


def apply_switches(arguments, backend):
    """Sets what counts for the whole process; refuses what this backend has not got."""
    given = arguments.switches
    if given["compiler"] == "default":
        given["compiler"] = COMPILERS[backend][0]
    if given["compiler"] not in COMPILERS[backend]:
        refuse("compiler", given["compiler"], "Keras on %s has no such compiler" % TITLES[backend])
    if given["precision"] == "bf16":
        keras.mixed_precision.set_global_policy("mixed_bfloat16")
    if backend == "tensorflow":
        tensorflow = importlib.import_module("tensorflow")
        tensorflow.config.threading.set_intra_op_parallelism_threads(arguments.threads)
        tensorflow.config.threading.set_inter_op_parallelism_threads(1)  # the layers follow one another
    elif backend == "torch":
        importlib.import_module("torch").set_num_threads(arguments.threads)
    else:
        os.environ["NPROC"] = str(arguments.threads)  # read by XLA when the first computation begins


def main():
    """Trains and measures, as the command line asks."""
    arguments = feeding.parse_arguments("Keras", SWITCHES)
    backend = keras.backend.backend()
    versions = [("keras", keras.__version__), (backend, importlib.import_module(backend).__version__)]
    recorder = Recorder(feeding.workload(arguments), arguments, "Keras on " + TITLES[backend], versions)
    apply_switches(arguments, backend)

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
