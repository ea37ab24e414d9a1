"""ResNet50 in JAX, without a library of layers."""

import os
from functools import partial

import architecture
import feeding
import jax
import jax.numpy as jnp
import numpy as np
from arguments import refuse
from feeding import Feed, Score
from jax_network import Network, first_state, gradient_error
from recorder import Recorder

SWITCHES = {
    "memory_format": ("channels_last", "contiguous"),
    "compiler": ("xla", "none"),
    "precision": ("fp32", "tf32", "bf16"),
    "input": ("memory", "stream"),
}


def apply_switches(arguments):
    """Sets what counts for the whole process; refuses what this machine has not got."""
    os.environ["NPROC"] = str(arguments.threads)  # read by XLA when the first computation begins
    on_gpu = jax.default_backend() == "gpu"
    if arguments.precision == "tf32" and not on_gpu:
        refuse("precision", "tf32", "an NVIDIA GPU computes so, and there is none")
    # Left alone, JAX computes float32 products in TF32 on a GPU.
    names = {"fp32": "highest", "tf32": "tensorfloat32", "bf16": "default"}
    jax.config.update("jax_default_matmul_precision", names[arguments.precision])
    return on_gpu


def main():
    """Trains and measures, as the command line asks."""
    arguments = feeding.parse_arguments("JAX", SWITCHES)
    on_gpu = apply_switches(arguments)
    channels_last = arguments.memory_format == "channels_last"
    recorder = Recorder(feeding.workload(arguments), arguments, "JAX", [("jax", jax.__version__)], deferred=on_gpu)

    def place(images, labels):
        images = images if channels_last else np.ascontiguousarray(images.transpose(0, 3, 1, 2))
        return jnp.asarray(images), jnp.asarray(labels, jnp.int32)

    with recorder.timed("load_data"):
        feed = Feed(arguments, place)

    state = first_state(architecture.initial_weights(arguments.seed, arguments.classes))
    network = Network(channels_last, jnp.bfloat16 if arguments.precision == "bf16" else jnp.float32)
    if arguments.check_gradients:
        recorder.gradients_checked(gradient_error(network, state, *next(iter(feed.training_batches(0)))))
    step, scores = partial(network.step, learning_rate=arguments.learning_rate), partial(network.scores, training=False)
    if arguments.compiler == "xla":
        step, scores = jax.jit(step, donate_argnums=0), jax.jit(scores)

    trainable = sum(weights.size for weights in jax.tree.leaves(state[0]))
    recorder.training_begins(feed.dataset, len(feed.train), len(feed.test), trainable)
    for epoch in range(arguments.epochs):
        recorder.epoch_begins()
        for images, labels in feed.training_batches(epoch):
            state, loss = step(state, images, labels)
            recorder.step_ends(loss, len(labels))
        jax.block_until_ready(state)
        recorder.evaluation_begins()
        test = Score()
        for images, labels in feed.test_batches():
            test.add(np.asarray(scores(state[0], state[2], images)[0], np.float32), np.asarray(labels))
        recorder.epoch_ends(*test.result())


if __name__ == "__main__":
    main()
