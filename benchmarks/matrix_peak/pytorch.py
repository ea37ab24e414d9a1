"""Measures the peak of matrix products and 3x3 convolutions with PyTorch, on the CPU or, where there is one, a GPU."""

from __future__ import annotations

import machine  # noqa: F401  isort: skip - first: its import ends what counts as the launch
import argparse
from collections.abc import Callable

import shapes
import torch
from arguments import give_up
from measures import Measures, measuring_parser

TYPES = {"fp32": torch.float32, "tf32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
FORMATS = {"contiguous": torch.contiguous_format, "channels_last": torch.channels_last}
CHECKED = 256  # rows and columns of the product whose error is measured


def set_up(precision: str, matmul: str = "default") -> None:
    """Sets the global switches of PyTorch.

    PyTorch takes oneDNN for fp32 products only when it is allowed bf16 inside; whether the processor then really
    computes in bf16 is seen in the measured error.
    """
    torch.backends.mkldnn.matmul.fp32_precision = "bf16" if matmul == "onednn" else "ieee"
    torch.backends.cuda.matmul.fp32_precision = "tf32" if precision == "tf32" else "ieee"
    torch.backends.cudnn.conv.fp32_precision = "tf32" if precision == "tf32" else "ieee"


def synchronised(compute: Callable[[], object], device: str) -> Callable[[], object]:
    """Returns the computation with the wait for a GPU, which otherwise has only been asked for it."""

    def compute_and_wait() -> None:
        compute()
        torch.cuda.synchronize()

    return compute if device == "cpu" else compute_and_wait


def relative_error(dtype: torch.dtype, device: str) -> float:
    """Returns the error of a product of random matrices against float64, relative to the largest element."""
    generator = torch.Generator().manual_seed(1)
    first, second = (torch.randn(CHECKED, CHECKED, dtype=torch.float64, generator=generator).to(dtype) for _ in "ab")
    exact = first.double() @ second.double()
    computed = (first.to(device) @ second.to(device)).cpu().double()
    return float((computed - exact).abs().max() / exact.abs().max())


def product(work: shapes.Product, dtype: torch.dtype, device: str) -> Callable[[], object]:
    """Returns what multiplies two random matrices."""
    first = torch.randn(work.rows, work.inner, device=device).to(dtype)
    second = torch.randn(work.inner, work.columns, device=device).to(dtype)
    result = torch.empty(work.rows, work.columns, dtype=dtype, device=device)
    return lambda: torch.mm(first, second, out=result)


def convolution(
    work: shapes.Convolution, direction: str, dtype: torch.dtype, memory_format: torch.memory_format, device: str
) -> Callable[[], object]:
    """Returns what convolves a batch of random images, and for training also computes the gradients."""
    images = torch.randn(work.batch, work.inputs, work.size, work.size, device=device).to(dtype)
    layer = torch.nn.Conv2d(work.inputs, work.outputs, shapes.KERNEL, padding=work.padding, bias=False, device=device)
    layer = layer.to(dtype).to(memory_format=memory_format)
    images = images.contiguous(memory_format=memory_format).requires_grad_(direction == "training" and not work.images)
    if direction == "forward":

        def compute() -> None:
            with torch.no_grad():
                layer(images)
    else:
        gradient = torch.ones_like(layer(images))
        wanted = [layer.weight] if work.images else [layer.weight, images]

        def compute() -> None:
            torch.autograd.grad(layer(images), wanted, gradient)

    return compute


def measure_products(measures: Measures, arguments: argparse.Namespace, precision: str, device: str) -> None:
    """Measures all products, with each library that PyTorch can be made to take."""
    libraries = ("default", "onednn") if device == "cpu" and precision == "fp32" else ("default",)
    if arguments.matmul == "onednn" and "onednn" not in libraries:
        return
    for matmul in shapes.chosen(arguments.matmul, libraries):
        set_up(precision, matmul)
        about = {"precision": precision, "matmul": matmul, "device": device, "threads": arguments.threads}
        about["relative_error"] = float(f"{relative_error(TYPES[precision], device):.3g}")

        def compute(work: shapes.Product) -> Callable[[], object]:
            return synchronised(product(work, TYPES[precision], device), device)

        shapes.measure_products(measures, arguments.samples, device != "cpu", compute, **about)


def measure_convolutions(measures: Measures, arguments: argparse.Namespace, precision: str, device: str) -> None:
    """Measures all convolutions in each memory format, forward alone and with the gradients."""
    set_up(precision)
    for memory_format in shapes.chosen(arguments.memory_format, FORMATS):
        about = {"memory_format": memory_format, "precision": precision, "device": device, "threads": arguments.threads}
        form = FORMATS[memory_format]

        def compute(work: shapes.Convolution, direction: str, form: torch.memory_format = form) -> Callable[[], object]:
            return synchronised(convolution(work, direction, TYPES[precision], form, device), device)

        shapes.measure_convolutions(measures, arguments.samples, device != "cpu", compute, **about)


def main() -> None:
    """Measures and writes the measures."""
    parser = measuring_parser(__doc__.splitlines()[0], samples=5)
    parser.add_argument("--precision", choices=["all", *TYPES], default="all", help="default: %(default)s")
    parser.add_argument("--matmul", choices=["all", "default", "onednn"], default="all", help="default: %(default)s")
    parser.add_argument("--memory-format", choices=["all", *FORMATS], default="all", help="default: %(default)s")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    if arguments.matmul == "onednn" and device != "cpu":
        give_up(2, "--matmul onednn: oneDNN computes on the CPU, and this process has a GPU")
    measures = Measures("matrix_peak", arguments, [("torch", torch.__version__)])
    known = ("fp32", "bf16") if device == "cpu" else tuple(TYPES)
    for precision in shapes.chosen(arguments.precision, known):
        measure_products(measures, arguments, precision, device)
        measure_convolutions(measures, arguments, precision, device)
    measures.finish()


if __name__ == "__main__":
    main()
