"""The MNIST-CNN in plain JAX: functions of arrays, one training step that XLA compiles as a whole.

Not named jax.py, because then `import jax` would find this file.
"""

import os
from functools import partial

import common
import jax
import reference
from arguments import refuse
from dataset import batches
from jax import lax
from jax import numpy as jnp
from recorder import Recorder

SWITCHES = {
    "compiler": ("xla", "none"),
    "memory_format": ("channels_last", "contiguous"),
    "precision": ("fp32", "tf32", "bf16"),
}
MULTIPLIED = {"fp32": "float32", "tf32": "tensorfloat32", "bf16": "bfloat16"}
LAYOUTS = {"channels_last": ("NHWC", "HWIO", "NHWC"), "contiguous": ("NCHW", "HWIO", "NCHW")}
POOLED = {"channels_last": (1, 2, 2, 1), "contiguous": (1, 1, 2, 2)}


class Training:
    """The functions of a training, as the switches want them; what they change is passed in and out."""

    def __init__(self, arguments):
        self.arguments = arguments
        self.layout, self.pooled = LAYOUTS[arguments.memory_format], POOLED[arguments.memory_format]
        self.dtype = jnp.bfloat16 if arguments.precision == "bf16" else jnp.float32

    def scores(self, weights, images, key=None):
        """Returns the scores (batch, 10) of images (batch, 28, 28); without a key there is no dropout."""
        (kernel1, bias1), (kernel2, bias2), dense1, dense2 = jax.tree.map(lambda w: w.astype(self.dtype), weights)
        channel = self.layout[0].index("C")
        x = jnp.expand_dims(images, channel).astype(self.dtype)
        for kernel, bias in ((kernel1, bias1), (kernel2, bias2)):
            x = lax.conv_general_dilated(x, kernel, (1, 1), "VALID", dimension_numbers=self.layout)
            x = jax.nn.relu(x + jnp.expand_dims(bias, tuple(sorted({0, 1, 2, 3} - {channel}))))
        x = lax.reduce_window(x, -jnp.inf, lax.max, self.pooled, self.pooled, "VALID")
        x = self.dropout(jnp.moveaxis(x, channel, 3).reshape(len(images), -1), 0.25, key)
        x = jax.nn.relu(x @ dense1[0] + dense1[1])
        x = self.dropout(x, 0.5, None if key is None else jax.random.fold_in(key, 1))
        return (x @ dense2[0] + dense2[1]).astype(jnp.float32)

    def dropout(self, x, rate, key):
        """Sets a share of x to zero and scales the rest up."""
        rate *= self.arguments.dropout
        if key is None or not rate:
            return x
        return jnp.where(jax.random.bernoulli(key, 1 - rate, x.shape), x / (1 - rate), 0)

    def loss(self, weights, images, labels, key=None):
        """Returns the mean loss of a batch."""
        return losses(self.scores(weights, images, key), labels).mean()

    def step(self, state, images, labels, numbers, key):
        """Learns from the images of these numbers by Adadelta; returns the new state and their mean loss."""
        weights, gradient_sums, delta_sums = state
        loss, gradients = jax.value_and_grad(self.loss)(weights, images[numbers], labels[numbers], key)
        mean = partial(jax.tree.map, lambda before, now: common.RHO * before + (1 - common.RHO) * now * now)
        gradient_sums = mean(gradient_sums, gradients)
        deltas = jax.tree.map(
            lambda d, g, gradient: jnp.sqrt(d + common.EPSILON) / jnp.sqrt(g + common.EPSILON) * gradient,
            delta_sums,
            gradient_sums,
            gradients,
        )
        delta_sums = mean(delta_sums, deltas)
        weights = jax.tree.map(lambda w, delta: w - self.arguments.learning_rate * delta, weights, deltas)
        return (weights, gradient_sums, delta_sums), loss

    def test(self, weights, images, labels):
        """Returns the sum of the losses and the number of right answers."""
        scores = self.scores(weights, images)
        return losses(scores, labels).sum(), (scores.argmax(axis=1) == labels).sum()


def losses(scores, labels):
    """Returns the cross-entropy of each image."""
    return -jnp.take_along_axis(jax.nn.log_softmax(scores), labels[:, None], axis=1)[:, 0]


def first_state(seed):
    """Returns the weights that every framework starts from, and Adadelta's sums."""
    weights = [(jnp.asarray(w), jnp.zeros(w.shape[-1], jnp.float32)) for w in common.initial_weights(seed)]
    return weights, jax.tree.map(jnp.zeros_like, weights), jax.tree.map(jnp.zeros_like, weights)


def evaluate(test, weights, images, labels):
    """Returns the mean loss and the share of right answers."""
    loss, right, size = 0.0, 0, common.EVALUATION_BATCH
    for start in range(0, len(labels), size):
        sums = test(weights, images[start : start + size], labels[start : start + size])
        loss, right = loss + float(sums[0]), right + int(sums[1])
    return loss / len(labels), right / len(labels)


def configure(arguments):
    """Sets what holds for the whole process; returns whether there is an accelerator."""
    os.environ["NPROC"] = str(arguments.threads)  # XLA's for processors; it is read with the first computation
    gpu = jax.default_backend() != "cpu"
    if arguments.precision == "tf32" and not gpu:
        refuse("precision", "tf32", "it needs an NVIDIA GPU")
    jax.config.update("jax_default_matmul_precision", MULTIPLIED[arguments.precision])
    jax.config.update("jax_disable_jit", arguments.compiler == "none")
    return gpu


def main():
    """Trains and measures, as the command line asks."""
    arguments = common.parse_arguments("JAX", SWITCHES)
    gpu = configure(arguments)
    state = None
    recorder = Recorder(
        common.WORKLOAD, arguments, "JAX", [("jax", jax.__version__)], lambda: jax.block_until_ready(state), gpu
    )

    with recorder.timed("load_data"):
        data = common.load_data(arguments)
        images, labels, test_images, test_labels = map(jnp.asarray, data[:4])

    state, training = first_state(arguments.seed), Training(arguments)
    if arguments.check_gradients:
        gradient = jax.jit(jax.grad(training.loss))
        reference.check(arguments, data, recorder, lambda x, y: jax.tree.leaves(gradient(state[0], x, y)))
    step, test = jax.jit(training.step, donate_argnums=0), jax.jit(training.test)
    key, count = jax.random.key(arguments.seed), 0
    common.begin(recorder, data, sum(leaf.size for leaf in jax.tree.leaves(state[0])))
    for epoch in range(arguments.epochs):
        recorder.epoch_begins()
        for batch in batches(len(images), arguments.batch_size, arguments.seed, epoch):
            state, loss = step(state, images, labels, batch, jax.random.fold_in(key, count))
            count += 1
            recorder.step_ends(loss, len(batch))
        recorder.evaluation_begins()
        recorder.epoch_ends(*evaluate(test, state[0], test_images, test_labels))


if __name__ == "__main__":
    main()
