"""What trainings made of the machine: GFLOP/s achieved against measured peaks, and the roofline of the two."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from modak_ansible.measuring.report.charts import Chart, Roofline, Table, number, spread
from modak_ansible.measuring.report.infrastructure import Sample
from modak_ansible.measuring.report.runs import Comparison, Variant, speed
from modak_ansible.measuring.report.trainings import ROUNDS, slug, training_bar
from modak_ansible.measuring.statistics import summary

_FLOAT = 4  # bytes of a number in single precision
_LAYERS = ((3, 64, 1), (4, 128, 2), (6, 256, 2), (3, 512, 2))  # of ResNet50: blocks, width, stride of the first
# a layer's output: written, read by the next layer, read again backwards; its gradient written and read
_ACTIVATION_CROSSINGS = 5
# a parameter: read forwards and backwards, its gradient written and read, itself read and written; then the optimiser's
# state, read and written: two numbers for Adadelta, one for SGD with momentum
_PARAMETER_CROSSINGS = {"mnist_cnn": 10, "resnet50": 8}
TRAFFIC = (
    "The intensity is computed, not measured: every layer's output crosses the memory five times (written, read by the "
    "next layer, read backwards, its gradient written and read) and every parameter six times and once more each way "
    "for each number of the optimiser's state; a convolution counts as one layer with its activation, batch-norm as "
    "another. Work is counted as of direct convolutions, whatever computes them: Winograd's take fewer products, and "
    "may stand above the roof."
)


def achieved_chart(
    members: Sequence[Comparison], gflop_per_image: float, peaks: Mapping[str, float], precision: str
) -> Chart | None:
    """GFLOP/s of every variant of one workload, machine and precision: images per second times the work of an image.

    A variant that several groups have is shown as the first of them measured it. None where none has the precision.

    Args:
        gflop_per_image: of a step, forwards and backwards.
        peaks: GFLOP/s in that precision, by what gave them.
    """
    comparison = members[0]
    variants: dict[str, Variant] = {}
    for variant in (variant for member in members for variant in member.measured):
        if precision_of(variant) == precision:
            variants.setdefault(variant.label, variant)
    if not variants:
        return None
    bars = []
    for variant in variants.values():
        bar = training_bar(variant, speed)
        low, high = (None if bound is None else bound * gflop_per_image for bound in (bar.low, bar.high))
        bars.append(replace(bar, value=bar.value * gflop_per_image, low=low, high=high))
    bars.sort(key=lambda bar: -bar.value)
    rows = tuple(
        (
            bar.label,
            f"{number(bar.value)} ({spread(bar)})",
            *(f"{100 * bar.value / value:.0f} %" for value in peaks.values()),
        )
        for bar in bars
    )
    return Chart(
        name=slug(f"achieved {comparison.workload} {precision} {comparison.target} {comparison.accelerator}"),
        title=f"{comparison.workload} in {precision}: achieved against measured peaks",
        unit="GFLOP/s",
        bars=tuple(bars),
        interval=ROUNDS,
        table=Table(("Variant", "GFLOP/s (least to most, n)", *(f"of {name}" for name in peaks)), rows),
        caption=f"{comparison.machine}. {gflop_per_image:.3g} GFLOP for each image, forwards and backwards.",
        lines=tuple(peaks.items()),
    )


def roofline(
    comparisons: Iterable[Comparison], work: Mapping[str, float], samples: Iterable[Sample]
) -> Roofline | None:
    """The roofline of one machine with single-precision variants of each workload: the slowest, the fastest, and the
    one that the fastest is held against.

    None where the peaks or the bandwidth were not measured, or no workload whose traffic is known.
    """
    all_comparisons = list(comparisons)
    all_samples = list(samples)
    peaks = best(all_samples, ("sgemm", "convolution"), "fp32")
    bandwidth = best(all_samples, ("triad",), "")
    points = tuple(point for workload in sorted(work) for point in _points(all_comparisons, workload, work[workload]))
    if not peaks or not bandwidth or not points:
        return None
    name, peak = max(peaks.items(), key=lambda item: item[1])
    return Roofline(
        name=slug(f"roofline {all_comparisons[0].target} {all_comparisons[0].accelerator}"),
        title=f"Roofline of {all_comparisons[0].machine}",
        peak=peak,
        peak_name=name,
        bandwidth=max(bandwidth.values()),
        points=points,
        caption=TRAFFIC,
    )


def precision_of(variant: Variant) -> str:
    return dict(variant.settings).get("precision", "fp32")


def of_machine(samples: Iterable[Sample], processor: str, accelerator: str) -> list[Sample]:
    """What was measured of one machine's accelerator, or of its processor where it has none."""
    return [
        sample
        for sample in samples
        if (sample.record.target.processor, sample.record.target.accelerator) == (processor, accelerator)
        and (sample.measure.about.get("device", "cpu") == "cpu") == (not accelerator)
    ]


def best(samples: Iterable[Sample], names: tuple[str, ...], precision: str) -> dict[str, float]:
    """The largest median of each measure, of those in one precision; what says no precision counts for all."""
    medians: dict[str, float] = {}
    for sample in samples:
        if sample.measure.name in names and sample.measure.about.get("precision", precision) == precision:
            value = summary(sample.measure.samples).median
            medians[sample.measure.name] = max(value, medians.get(sample.measure.name, 0.0))
    return medians


def bytes_per_image(workload: str, batch_size: int) -> float | None:
    """One image's share of what a training step moves to and from the memory, layer by layer.

    None where the workload's layers are not known.
    """
    if workload == "mnist_cnn":
        activations, parameters = 28 * 28 + 32 * 26**2 + 64 * 24**2 + 64 * 12**2 + 128 + 10, 1_199_882
    elif workload == "resnet50":
        activations, parameters = _resnet50_activations(), 25_557_032
    else:
        return None
    per_step = _PARAMETER_CROSSINGS[workload] * parameters / batch_size
    return _FLOAT * (_ACTIVATION_CROSSINGS * activations + per_step)


def _resnet50_activations() -> int:
    """Numbers that an image of 224 x 224 becomes, layer by layer; batch-norm doubles what the convolutions give."""
    side, convolved = 56, 64 * 112**2
    for blocks, width, stride in _LAYERS:
        for block in range(blocks):
            convolved += width * side**2
            side //= stride if block == 0 else 1
            convolved += (width + 4 * width * (2 if block == 0 else 1)) * side**2
    return 3 * 224**2 + 2 * convolved + 64 * 56**2 + 2048 + 1000


def _points(comparisons: list[Comparison], workload: str, gflop_per_image: float) -> list[tuple[str, float, float]]:
    rates: dict[Variant, float] = {}
    held_against: dict[Variant, Variant] = {}
    for comparison in comparisons:
        if comparison.workload != workload:
            continue
        singles = [variant for variant in comparison.measured if precision_of(variant) == "fp32"]
        for single in singles:
            rates[single] = summary(single.by_block(speed).values()).median
            held_against[single] = singles[0]
    if not rates:
        return []
    slowest, fastest = (end(rates, key=lambda variant: rates[variant]) for end in (min, max))
    # two groups may have one variant: what the fastest is held against is its own group's
    ends = {variant.label: variant for variant in (slowest, held_against[fastest], fastest)}
    return [
        (f"{workload}: {end.label}", flop_per_byte, rates[end] * gflop_per_image)
        for end in ends.values()
        if (flop_per_byte := _flop_per_byte(end, workload, gflop_per_image))
    ]


def _flop_per_byte(variant: Variant, workload: str, gflop_per_image: float) -> float | None:
    traffic = bytes_per_image(workload, variant.trainings[0].batch_size)
    return gflop_per_image * 1e9 / traffic if traffic else None
