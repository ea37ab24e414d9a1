"""What the papers found, as their texts say it; a ratio stands here only where a text states one.

The figures themselves give no numbers that could be read off, so bars without a stated ratio have no mark of the
paper's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

VERSIONS = {"tensorflow": ("1.14", "2.1"), "pytorch": ("1.4",), "mxnet": ("1.6",), "cntk": ("2.7",)}
FULL_EPOCH = {"mnist_cnn": 60_000}
FULL_EPOCHS = {"mnist_cnn": 12, "resnet50": 3}

FIGURES = {"stock-images": "Fig. 3", "own-builds": "Fig. 4", "compilers": "Fig. 5"}  # by the first word of a group

STOCK = ("hub", "pip")
OWN = ("opt-build",)


@dataclass(frozen=True)
class Build:
    """Which variants are meant; what is empty may be anything."""

    framework: str = ""
    version: str = ""  # "today": any but the paper's
    origins: tuple[str, ...] = ()
    compilers: tuple[str, ...] = ("none",)
    container: bool | None = None


@dataclass(frozen=True)
class Claim:
    """Between which bounds a ratio of speeds lies when a finding holds."""

    above: float | None = None
    below: float | None = None
    reading: str = ""  # of words that give no number


@dataclass(frozen=True)
class Pair:
    """What is held against what."""

    baseline: Build
    other: Build


@dataclass(frozen=True)
class Finding:
    """A sentence of a paper that can be measured again."""

    name: str
    title: str
    source: str
    said: str
    claim: Claim
    pairs: tuple[Pair, ...]
    workload: str = "mnist_cnn"  # empty: any
    accelerated: bool | None = False  # None: with or without
    ratio: float | None = None  # as stated: speed of the other by speed of the baseline
    note: str = ""
    quantity: Literal["speed", "import"] = "speed"


def figure_of(group: str) -> str:
    """The group of FIGURES that a suite's group belongs to, as ``compilers-1.14`` to ``compilers``; or none."""
    return next((each for each in FIGURES if group == each or group.startswith(f"{each}-")), "")


FASTER = Claim(above=1.0)
SLOWER = Claim(below=1.0)
ALIKE = Claim(above=0.8, below=1.25, reading="alike is read as within a quarter: 0.8 to 1.25")
TF_114 = Build("tensorflow", "1.14", STOCK)
TF_21 = Build("tensorflow", "2.1", STOCK)
TF_TODAY = Build("tensorflow", "today", STOCK)
TORCH = Build("pytorch", "1.4", STOCK)
TORCH_TODAY = Build("pytorch", "today", STOCK)


def _own(framework: str, paper: str) -> tuple[Pair, ...]:
    return tuple(Pair(Build(framework, version, STOCK), Build(framework, version, OWN)) for version in (paper, "today"))


def _compiled(framework: str, versions: tuple[str, ...], compilers: tuple[str, ...]) -> tuple[Pair, ...]:
    return tuple(
        Pair(Build(framework, version), Build(framework, version, compilers=compilers)) for version in versions
    )


FINDINGS = (
    Finding(
        "tensorflow-2.1",
        "TensorFlow 2.1 is faster than 1.14",
        "Fig. 3",
        "“a nearly 54% improvement over TensorFlow 1.14”",
        FASTER,
        (Pair(TF_114, TF_21), Pair(TF_114, TF_TODAY)),
        ratio=1.54,
        note="54 % is read as 1.54 times the speed; as 54 % less time it would be 2.17 times",
    ),
    Finding(
        "alike",
        "PyTorch 1.4 and MXNet 1.6 are about as fast as TensorFlow 1.14",
        "Fig. 3",
        "“perform similarly across the board”; no number",
        ALIKE,
        (Pair(TF_114, TORCH), Pair(TF_114, Build("mxnet", "1.6", STOCK)), Pair(TF_TODAY, TORCH_TODAY)),
    ),
    Finding(
        "cntk",
        "CNTK is far slower than the others",
        "Fig. 3",
        "“a far outlier”; no number",
        Claim(below=0.5, reading="far slower is read as less than half the speed of TensorFlow 1.14"),
        (Pair(TF_114, Build("cntk", "2.7", STOCK)),),
    ),
    Finding(
        "own-pytorch",
        "An own build makes PyTorch faster",
        "Fig. 4, left",
        "“a substantial 17% speedup”",
        FASTER,
        _own("pytorch", "1.4"),
        ratio=1.17,
    ),
    Finding(
        "own-tensorflow",
        "An own build makes TensorFlow a little faster",
        "Fig. 4, left",
        "“little improvement (4%)”",
        FASTER,
        _own("tensorflow", "2.1"),
        ratio=1.04,
    ),
    Finding(
        "own-gpu",
        "An own build makes ResNet50 on a GPU a little faster",
        "Fig. 4, right",
        "“a slight 2% performance improvement”",
        FASTER,
        (*_own("tensorflow", "2.1"), *_own("pytorch", "1.4")),
        workload="resnet50",
        accelerated=True,
        ratio=1.02,
    ),
    Finding(
        "xla-cpu",
        "XLA slows TensorFlow down on a CPU",
        "Fig. 5, left",
        "“the 30% performance degradation seen on the CPU”",
        SLOWER,
        _compiled("tensorflow", ("2.1", "1.14", "today"), ("xla",)),
        ratio=0.7,
    ),
    Finding(
        "ngraph",
        "nGraph makes TensorFlow 1.14 faster on a CPU",
        "Fig. 5, left",
        "“shows speedup with a 30% improvement”",
        FASTER,
        _compiled("tensorflow", ("1.14",), ("ngraph",)),
        ratio=1.3,
    ),
    Finding(
        "compiler-gpu",
        "A graph compiler makes ResNet50 on a GPU faster",
        "Fig. 5, right",
        "XLA with TensorFlow 2.1: “improved by 9%”",
        FASTER,
        (
            *_compiled("tensorflow", ("2.1", "today"), ("xla",)),
            *_compiled("pytorch", ("today",), ("inductor",)),
        ),
        workload="resnet50",
        accelerated=True,
        ratio=1.09,
    ),
    Finding(
        "container",
        "A container trains no slower than the machine's own Python",
        "Summit paper",
        "“no noticeable negative performance impact”; no number",
        Claim(above=0.95, reading="no noticeable impact is read as more than 0.95 times the speed"),
        (Pair(Build(container=False), Build(container=True)),),
        workload="",
        accelerated=None,
    ),
    Finding(
        "import",
        "A container loads Python and the framework faster",
        "Summit paper",
        "“faster Python loading times”; no number",
        FASTER,
        (Pair(Build(container=False), Build(container=True)),),
        workload="",
        accelerated=None,
        quantity="import",
    ),
)
