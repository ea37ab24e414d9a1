"""What Keras's backends want before they begin to compute: compiler, number format and threads."""

from __future__ import absolute_import, division, print_function

import importlib
import os

import keras
from arguments import refuse

COMPILERS = {"tensorflow": ("none", "xla"), "torch": ("none", "inductor"), "jax": ("xla", "none")}  # usual one first
TITLES = {"tensorflow": "TensorFlow", "torch": "PyTorch", "jax": "JAX"}


def apply_switches(arguments, backend):
    """Sets what holds for the whole process; refuses what this backend has not got."""
    given = arguments.switches
    if given["compiler"] == "default":
        given["compiler"] = COMPILERS[backend][0]
    if given["compiler"] not in COMPILERS[backend]:
        refuse("compiler", given["compiler"], "Keras on %s has no such compiler" % TITLES[backend])
    if given["precision"] == "bf16":
        keras.mixed_precision.set_global_policy("mixed_bfloat16")
    set_threads(backend, arguments.threads)


def set_threads(backend, threads):
    """Lets a backend compute with so many threads."""
    if backend == "tensorflow":
        tensorflow = importlib.import_module("tensorflow")
        tensorflow.config.threading.set_intra_op_parallelism_threads(threads)
        tensorflow.config.threading.set_inter_op_parallelism_threads(1)  # the layers follow one another
    elif backend == "torch":
        importlib.import_module("torch").set_num_threads(threads)
    else:
        os.environ["NPROC"] = str(threads)  # XLA's for processors; it is read with the first computation
