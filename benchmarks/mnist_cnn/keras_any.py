"""The MNIST-CNN in Keras 3, by fit, on the backend that KERAS_BACKEND names."""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")  # warnings and errors, without the greeting

import importlib

import common
import keras
import keras_backend
import keras_model
from arguments import give_up, refuse
from recorder import Recorder

SWITCHES = {
    "compiler": ("default", "none", "xla", "inductor"),
    "precision": ("fp32", "bf16"),
}
BACKEND = keras.backend.backend()
COMPILER = {"tensorflow": "xla", "jax": "xla", "torch": "inductor"}


def configure(arguments):
    """Sets what holds for the whole process, before the backend begins to compute."""
    if BACKEND not in COMPILER:
        give_up(2, "KERAS_BACKEND %s: this training knows %s" % (BACKEND, ", ".join(sorted(COMPILER))))
    if arguments.compiler not in ("default", "none", COMPILER[BACKEND]):
        refuse("compiler", arguments.compiler, "Keras on %s has not got it" % BACKEND)
    backend = importlib.import_module(BACKEND)
    keras_backend.set_threads(BACKEND, arguments.threads)
    if arguments.precision == "bf16":
        keras.config.set_dtype_policy("mixed_bfloat16")
    keras.utils.set_random_seed(arguments.seed)  # the dropout's
    return [("keras", keras.__version__), (BACKEND, backend.__version__)]


def main():
    """Trains and measures, as the command line asks."""
    arguments = common.parse_arguments("Keras", SWITCHES)
    recorder = Recorder(common.WORKLOAD, arguments, "Keras", configure(arguments))

    with recorder.timed("load_data"):
        data = common.load_data(arguments)

    model = keras_model.network(keras, arguments.dropout)
    keras_model.set_weights(model, arguments.seed)
    compiles = "auto" if arguments.compiler == "default" else arguments.compiler != "none"
    keras_model.compile_model(keras, model, arguments, jit_compile=compiles)
    arguments.switches["compiler"] = COMPILER[BACKEND] if model.jit_compile else "none"  # as Keras resolved it

    if arguments.check_gradients:
        print("the gradients are not compared: Keras gives none that is the same on every backend")
    common.begin(recorder, data, keras_model.parameters(model))
    keras_model.train(keras, model, recorder, arguments, data)


if __name__ == "__main__":
    main()
