"""Measures the peak of matrix products and 3x3 convolutions with JAX, on the CPU or, where there is one, a GPU."""

from __future__ import annotations

import machine  # noqa: F401  isort: skip - first: its import ends what counts as the launch
import os
from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import shapes
from measures import Measures, measuring_parser

TYPES = {"fp32": jnp.float32, "bf16": jnp.bfloat16}
FORMATS = {"contiguous": "NCHW", "channels_last": "NHWC"}


def random(*shape: int, dtype: jnp.dtype) -> jax.Array:
    """Returns normally distributed numbers."""
    return jax.random.normal(jax.random.key(1), shape, dtype)


def product(work: shapes.Product, dtype: jnp.dtype) -> Callable[[], object]:
    """Returns what multiplies two random matrices."""
    multiply = jax.jit(lambda a, b: jax.lax.dot(a, b, precision=jax.lax.Precision.HIGHEST))
    first, second = random(work.rows, work.inner, dtype=dtype), random(work.inner, work.columns, dtype=dtype)
    return lambda: multiply(first, second).block_until_ready()


def convolution(work: shapes.Convolution, direction: str, dtype: jnp.dtype, memory_format: str) -> Callable[[], object]:
    """Returns what convolves a batch of random images, and for training also computes the gradients."""
    letters = FORMATS[memory_format]
    sizes = {"N": work.batch, "C": work.inputs, "H": work.size, "W": work.size}
    images = random(*(sizes[letter] for letter in letters), dtype=dtype)
    weights = random(shapes.KERNEL, shapes.KERNEL, work.inputs, work.outputs, dtype=dtype)
    padding = [(work.padding, work.padding)] * 2

    def forward(images: jax.Array, weights: jax.Array) -> jax.Array:
        return jax.lax.conv_general_dilated(
            images,
            weights,
            (1, 1),
            padding,
            dimension_numbers=(letters, "HWIO", letters),
            precision=jax.lax.Precision.HIGHEST,
        )

    def training(images: jax.Array, weights: jax.Array) -> tuple[jax.Array, ...]:
        if work.images:
            result, backward = jax.vjp(lambda weights: forward(images, weights), weights)
        else:
            result, backward = jax.vjp(forward, images, weights)
        # The result is handed back as well, or XLA would not compute what the gradients do not need.
        return result, *backward(jnp.ones_like(result))

    compute = jax.jit(forward if direction == "forward" else training)
    return lambda: jax.block_until_ready(compute(images, weights))


def main() -> None:
    """Measures and writes the measures."""
    parser = measuring_parser(__doc__.splitlines()[0], samples=3)
    parser.add_argument("--precision", choices=[*TYPES, "all"], default="fp32", help="default: %(default)s")
    parser.add_argument("--memory-format", choices=["all", *FORMATS], default="all", help="default: %(default)s")
    arguments = parser.parse_args()
    os.environ["NPROC"] = str(arguments.threads)  # read by XLA when the first computation begins
    device = jax.default_backend()
    measures = Measures("matrix_peak", arguments, [("jax", jax.__version__)])
    for precision in shapes.chosen(arguments.precision, TYPES):
        common = (measures, arguments.samples, device != "cpu")
        about = {"precision": precision, "device": device, "threads": arguments.threads}
        dtype = TYPES[precision]
        shapes.measure_products(*common, partial(product, dtype=dtype), matmul="default", **about)
        for memory_format in shapes.chosen(arguments.memory_format, FORMATS):
            compute = partial(convolution, dtype=dtype, memory_format=memory_format)
            shapes.measure_convolutions(*common, compute, memory_format=memory_format, **about)
    measures.finish()


if __name__ == "__main__":
    main()
