"""ResNet50 as functions of JAX arrays: forward pass, loss and one step of SGD."""

import architecture
import feeding
import jax
import jax.numpy as jnp
from jax import lax


def first_state(weights):
    """Returns parameters, velocities and running statistics, from the weights that every framework starts from."""
    parameters, statistics = {}, {}
    for each in architecture.convolutions():
        kernel, count = jnp.asarray(weights[each.name]), each.outputs
        parameters[each.name] = {"kernel": kernel, "scale": jnp.ones(count), "shift": jnp.zeros(count)}
        statistics[each.name] = {"mean": jnp.zeros(count), "variance": jnp.ones(count)}
    parameters["dense"] = {"kernel": jnp.asarray(weights["dense"]), "bias": jnp.asarray(weights["dense_bias"])}
    return parameters, jax.tree.map(jnp.zeros_like, parameters), statistics


class Network:
    """The network in one layout and number format; it holds no weights.

    Args:
        channels_last: images are (batch, height, width, channels), otherwise (batch, channels, height, width).
        number: what convolutions and the dense layer compute in; batch-norm and loss at least in float32.
    """

    def __init__(self, channels_last=True, number=jnp.float32):
        self.number = number
        self.layout = ("NHWC", "HWIO", "NHWC") if channels_last else ("NCHW", "HWIO", "NCHW")
        self.pixels = (1, 2) if channels_last else (2, 3)
        self.channels = (1, 1, 1, -1) if channels_last else (1, -1, 1, 1)

    def scores(self, parameters, statistics, images, training):
        """Returns the scores (batch, classes) and the new running statistics."""
        new = {}

        def unit(values, convolution):
            name = convolution.name
            values = self._convolve(values, parameters[name]["kernel"], convolution)
            values, new[name] = self._normalise(values, parameters[name], statistics[name], training)
            return values

        inside = self._pool(jax.nn.relu(unit(images, architecture.STEM)))
        for block in architecture.blocks():
            convolutions = architecture.block_convolutions(block)
            around = unit(inside, convolutions["shortcut"]) if "shortcut" in convolutions else inside
            inside = jax.nn.relu(unit(inside, convolutions["first"]))
            inside = jax.nn.relu(unit(inside, convolutions["middle"]))
            inside = jax.nn.relu(unit(inside, convolutions["last"]) + around)
        inside = inside.mean(self.pixels)
        dense = parameters["dense"]
        return inside @ dense["kernel"].astype(self.number) + dense["bias"].astype(self.number), new

    def loss(self, parameters, statistics, images, labels):
        """Returns the mean cross-entropy of a batch, and the new running statistics."""
        scores, new = self.scores(parameters, statistics, images, training=True)
        logarithms = jax.nn.log_softmax(scores.astype(jnp.promote_types(scores.dtype, jnp.float32)))
        return -jnp.take_along_axis(logarithms, labels[:, None], axis=1).mean(), new

    def step(self, state, images, labels, learning_rate):
        """Returns the state after one step, and the loss before it."""
        parameters, velocities, statistics = state
        (loss, statistics), gradients = jax.value_and_grad(self.loss, has_aux=True)(
            parameters, statistics, images, labels
        )
        velocities = jax.tree.map(
            lambda v, g, p: feeding.SGD_MOMENTUM * v + g + feeding.WEIGHT_DECAY * p, velocities, gradients, parameters
        )
        parameters = jax.tree.map(lambda p, v: p - learning_rate * v, parameters, velocities)
        return (parameters, velocities, statistics), loss

    def _convolve(self, values, kernel, convolution):
        padding = [((convolution.kernel - 1) // 2,) * 2] * 2
        strides = (convolution.stride,) * 2
        kernel = kernel.astype(self.number)
        return lax.conv_general_dilated(
            values.astype(self.number), kernel, strides, padding, dimension_numbers=self.layout
        )

    def _normalise(self, values, own, running, training):
        exact = values.astype(jnp.promote_types(values.dtype, jnp.float32))
        mean, variance = running["mean"], running["variance"]
        if training:
            axes = (0, *self.pixels)
            mean, variance = exact.mean(axes), exact.var(axes)
            count = exact.size // mean.size
            new = {"mean": mean, "variance": variance * (count / max(1, count - 1))}  # the unbiased one, as torchvision
            share = architecture.MOMENTUM
            running = jax.tree.map(lambda old, now: share * old + (1 - share) * now, running, new)
        factor = own["scale"] * lax.rsqrt(variance + architecture.EPSILON)
        normal = (exact - mean.reshape(self.channels)) * factor.reshape(self.channels)
        return (normal + own["shift"].reshape(self.channels)).astype(values.dtype), running

    def _pool(self, values):
        window, strides = [1] * 4, [1] * 4
        padding = [(0, 0)] * 4
        for axis in self.pixels:
            window[axis], strides[axis], padding[axis] = 3, 2, (1, 1)
        return lax.reduce_window(values, -jnp.inf, lax.max, window, strides, padding)


def gradient_error(network, state, images, labels):
    """Returns the largest relative error of a gradient tensor against float64: |difference| / |float64's|.

    The norms are Euclidean; `network` computes as the training does.
    """
    parameters, _, statistics = state
    own = jax.jit(jax.grad(network.loss, has_aux=True))(parameters, statistics, images, labels)[0]
    with jax.enable_x64(True):
        exact = Network(network.layout[0] == "NHWC", jnp.float64)
        doubled = [jax.tree.map(lambda a: a.astype(jnp.float64), each) for each in (parameters, statistics, images)]
        reference = jax.jit(jax.grad(exact.loss, has_aux=True))(*doubled, labels)[0]
        pairs = zip(jax.tree.leaves(own), jax.tree.leaves(reference), strict=True)
        norm = jnp.linalg.norm
        return max(float(norm((one - other).ravel()) / norm(other.ravel())) for one, other in pairs)
