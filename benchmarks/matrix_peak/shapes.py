"""What is computed for the peaks, the same with every framework: shapes, FLOP, and the loop that measures them.

A multiply-add counts as two FLOP. A training of a convolution is its forward pass and the gradients of its weights
and its input, each as much work as the first; the images themselves need no gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

import machine
from arguments import give_up
from measures import Measures, timed

SAMPLE_SECONDS = 0.08  # of computing in a sample, so that the clock does not matter
REPEATS = 1000  # at most, for shapes that take no time
# Seconds of a call that is too slow to be measured as often: a number format that a processor lacks may be emulated, a
# hundred times as slow (bf16 with AVX2 alone: 0.3 GFLOP/s, 3 minutes for a product of 3072).
LONGEST = 3.0
KERNEL = 3
DIRECTIONS = ("forward", "training")


@dataclass(frozen=True)
class Product:
    """A matrix of rows x inner times one of inner x columns."""

    rows: int
    inner: int
    columns: int

    def __str__(self) -> str:
        return f"{self.rows}x{self.inner}x{self.columns}"

    @property
    def gflop(self) -> float:
        return 2e-9 * self.rows * self.inner * self.columns


@dataclass(frozen=True)
class Convolution:
    """A 3x3 convolution of step 1 over a batch of square images; padding 1 keeps their size, 0 takes 2 off."""

    batch: int
    inputs: int
    outputs: int
    size: int
    padding: int
    images: bool = False  # the input is the images, which need no gradient

    def __str__(self) -> str:
        return f"{self.batch}x{self.inputs}x{self.size}x{self.size} to {self.outputs}"

    def gflop(self, direction: str) -> float:
        """Returns the work of one direction, forward or training."""
        passes = 1 if direction == "forward" else 2 if self.images else 3
        size = self.size + 2 * self.padding - KERNEL + 1
        return 2e-9 * passes * self.batch * self.inputs * self.outputs * KERNEL**2 * size**2


def products(accelerator: bool) -> list[Product]:
    """Square ones, and the large dense layer of the MNIST-CNN: forward, and the gradient of its weights."""
    sizes = (4096, 8192, 16384) if accelerator else (1024, 2048, 3072)
    return [*(Product(size, size, size) for size in sizes), Product(128, 9216, 128), Product(9216, 128, 128)]


def convolutions(accelerator: bool) -> list[Convolution]:
    """Two layers of a ResNet50 and the two of the MNIST-CNN."""
    batch = 256 if accelerator else 8
    return [
        Convolution(batch, 64, 64, 56, 1),
        Convolution(batch, 256, 256, 14, 1),
        Convolution(128, 1, 32, 28, 0, images=True),
        Convolution(128, 32, 64, 26, 0),
    ]


def rates(compute: Callable[[], object], gflop: float, samples: int) -> list[float]:
    """Returns the GFLOP/s of each sample; a sample is as many calls as it takes for the clock not to matter.

    Slow calls have fewer samples; one that takes longer than LONGEST is its only sample.
    """
    seconds = []
    for _ in range(2):  # the first one compiles, or fetches memory
        started = machine.clock()
        compute()
        seconds.append(max(machine.clock() - started, 1e-6))
        if seconds[-1] > LONGEST:
            return [gflop / seconds[-1]]
    repeats = int(SAMPLE_SECONDS / seconds[-1])
    wanted = min(samples, max(1, int(2 * LONGEST / seconds[-1])))
    return [gflop / each for each in timed(compute, wanted, min(max(repeats, 1), REPEATS))]


def chosen(asked: str, known: Iterable[str]) -> list[str]:
    """Returns the values of a switch that are measured; ends the script when this machine has not got the one asked."""
    known = list(known)
    if asked != "all" and asked not in known:
        give_up(2, f"{asked}: not on this machine, which has {', '.join(known)}")
    return known if asked == "all" else [asked]


def measure_products(
    measures: Measures,
    samples: int,
    accelerator: bool,
    product: Callable[[Product], Callable[[], object]],
    **about: Any,
) -> None:
    """Measures all products.

    Args:
        measures: takes them.
        samples: of each.
        accelerator: whether they are computed on one.
        product: returns what computes a product.
        about: what tells them from others, such as the precision.
    """
    known: list[float] = []
    for work in products(accelerator):
        about["shape"] = str(work)
        _measure(measures, "sgemm", work.gflop, partial(product, work), samples, known, **about)


def measure_convolutions(
    measures: Measures,
    samples: int,
    accelerator: bool,
    convolution: Callable[[Convolution, str], Callable[[], object]],
    **about: Any,
) -> None:
    """Measures all convolutions, forward alone and with the gradients; arguments as of measure_products."""
    known: list[float] = []
    for direction in DIRECTIONS:
        for work in convolutions(accelerator):
            about.update(shape=str(work), direction=direction)
            made = partial(convolution, work, direction)
            _measure(measures, "convolution", work.gflop(direction), made, samples, known, **about)


def _measure(
    measures: Measures,
    name: str,
    gflop: float,
    made: Callable[[], Callable[[], object]],
    samples: int,
    known: list[float],
    **about: Any,
) -> None:
    """Adds one measure, but for that of work which would take too long by the fastest that is known; extends these."""
    if known and gflop / max(known) > LONGEST:
        return
    speed = rates(made(), gflop, samples)
    known += speed
    measures.add(name, speed, **about)
