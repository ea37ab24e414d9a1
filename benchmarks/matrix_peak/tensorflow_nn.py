"""Measures the peak of matrix products and 3x3 convolutions with TensorFlow, on the CPU or, where there is one, a GPU.

Images lie with the channels last: TensorFlow's own order, and the only one whose gradients it computes on a CPU.
"""

from __future__ import annotations

import machine  # noqa: F401  isort: skip - first: its import ends what counts as the launch
from collections.abc import Callable
from functools import partial

import shapes
import tensorflow as tf
from measures import Measures, measuring_parser

TYPES = {"fp32": tf.float32, "bf16": tf.bfloat16}


def random(*shape: int, dtype: tf.DType) -> tf.Tensor:
    """Returns normally distributed numbers."""
    return tf.cast(tf.random.normal(shape, seed=1), dtype)


def product(work: shapes.Product, dtype: tf.DType) -> Callable[[], object]:
    """Returns what multiplies two random matrices."""
    first, second = random(work.rows, work.inner, dtype=dtype), random(work.inner, work.columns, dtype=dtype)

    def compute() -> float:
        return tf.linalg.matmul(first, second)[0, 0].numpy()  # fetching a number waits for a GPU

    return compute


def convolution(work: shapes.Convolution, direction: str, dtype: tf.DType) -> Callable[[], object]:
    """Returns what convolves a batch of random images, and for training also computes the gradients."""
    images = random(work.batch, work.size, work.size, work.inputs, dtype=dtype)
    weights = random(shapes.KERNEL, shapes.KERNEL, work.inputs, work.outputs, dtype=dtype)
    padding = "SAME" if work.padding else "VALID"

    def forward() -> float:
        return tf.nn.conv2d(images, weights, 1, padding)[0, 0, 0, 0].numpy()

    def training() -> float:
        wanted = [weights] if work.images else [weights, images]
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(wanted)
            result = tf.nn.conv2d(images, weights, 1, padding)
        gradients = tape.gradient(result, wanted)
        return tf.add_n([each[0, 0, 0, 0] for each in gradients]).numpy()

    return forward if direction == "forward" else training


def main() -> None:
    """Measures and writes the measures."""
    parser = measuring_parser(__doc__.splitlines()[0], samples=5)
    parser.add_argument("--precision", choices=["all", *TYPES], default="all", help="default: %(default)s")
    arguments = parser.parse_args()
    tf.config.threading.set_intra_op_parallelism_threads(arguments.threads)
    tf.config.threading.set_inter_op_parallelism_threads(1)  # one operation after the other
    tf.config.experimental.enable_tensor_float_32_execution(False)
    device = "cuda" if tf.config.list_physical_devices("GPU") else "cpu"
    measures = Measures("matrix_peak", arguments, [("tensorflow", tf.__version__)])
    for precision in shapes.chosen(arguments.precision, TYPES):
        common = (measures, arguments.samples, device != "cpu")
        about = {"precision": precision, "device": device, "threads": arguments.threads}
        dtype = TYPES[precision]
        shapes.measure_products(*common, partial(product, dtype=dtype), matmul="default", **about)
        shapes.measure_convolutions(*common, partial(convolution, dtype=dtype), memory_format="channels_last", **about)
    measures.finish()


if __name__ == "__main__":
    main()
