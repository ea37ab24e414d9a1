"""Peaks, work and the bytes that a step must move."""

from __future__ import annotations

from dataclasses import replace

import pytest
from synthetic_records import measured, rounds, whole_table

from modak_ansible.measuring.report.drawing import drawn
from modak_ansible.measuring.report.infrastructure import measures
from modak_ansible.measuring.report.roofline import achieved_chart, best, bytes_per_image, of_machine, roofline
from modak_ansible.measuring.report.runs import Run, comparisons
from modak_ansible.measuring.report.sections import sections
from modak_ansible.model.measured.record import RecordedTarget

RUNS = [Run(each, "a file") for each in whole_table()]
FOUND = [comparison for comparison in comparisons(RUNS) if not comparison.accelerator]
WORK = {"mnist_cnn": 0.0716, "resnet50": 24.3}


def test_the_best_of_single_precision_is_the_peak():
    samples = measures([*RUNS, Run(measured("a", "sgemm", "GFLOP/s", [900.0], precision="bf16"), "")])
    assert best(samples, ("sgemm", "convolution"), "fp32") == {"sgemm": 428.0, "convolution": 516.5}


def test_work_achieved_is_images_times_their_work():
    made = achieved_chart([each for each in FOUND if each.workload == "resnet50"], 24.3, {"sgemm": 428.0}, "fp32")
    assert [bar.label for bar in made.bars] == ["pytorch-2.13-cpu memory_format=channels_last", "pytorch-2.13-cpu"]
    assert made.bars[1].value == pytest.approx(24.3 * 7.0)
    assert made.table.rows[1][2] == "40 %"


def test_what_computes_in_bf16_is_held_against_bf16_s_peak():
    runs = [
        *RUNS,
        *(
            Run(each, "")
            for each in rounds("pytorch-2.13-cpu", 40, "resnet50", settings={"precision": "bf16"}, workload="resnet50")
        ),
        Run(measured("a", "sgemm", "GFLOP/s", [900.0], precision="bf16"), ""),
    ]
    found = [comparison for comparison in comparisons(runs) if not comparison.accelerator]
    made = {
        figure.name: figure
        for part in sections(runs, found, WORK)
        for figure in part.figures
        if "achieved" in figure.name
    }
    peaks = {name: dict(each.lines) for name, each in made.items()}
    assert peaks["achieved-resnet50-bf16-synthetic-cluster"] == {"sgemm": 900.0}
    assert peaks["achieved-resnet50-fp32-synthetic-cluster"] == {"sgemm": 428.0, "convolution": 516.5}
    for name, each in made.items():
        assert all(("precision=bf16" in bar.label) == ("bf16" in name) for bar in each.bars)


def test_a_point_above_the_roof_is_told_in_the_figure(tmp_path):
    roof = roofline(FOUND, WORK, measures(RUNS))
    assert roof.above == []
    label, x, _ = roof.points[0]
    above = replace(roof, points=(*roof.points, (label, x, 1.1 * roof.peak)))
    assert above.above == [len(above.points)]
    shown = " ".join(text.get_text() for axes in drawn(above).axes for text in axes.texts)
    assert f"Above the roof: {len(above.points)}." in shown
    assert "direct convolutions" in shown


def test_no_name_of_a_peak_lies_on_a_line():
    chart = achieved_chart(
        [each for each in FOUND if each.workload == "resnet50"], 24.3, {"a": 99.0, "b": 100.0}, "fp32"
    )
    figure = drawn(chart)
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [
        "measured peak, a: 99.0 GFLOP/s", "measured peak, b: 100 GFLOP/s",
    ]  # fmt: skip
    assert not any(text.get_text() in "ab" for axes in figure.axes for text in axes.texts)


def test_the_bytes_of_the_small_network_are_its_layers_and_parameters():
    """By hand: 68,634 numbers of an image five times, 1,199,882 parameters ten times a batch, four bytes each."""
    by_hand = 4 * (5 * (784 + 21_632 + 36_864 + 9_216 + 138) + 10 * 1_199_882 / 128)
    assert bytes_per_image("mnist_cnn", 128) == pytest.approx(by_hand)
    assert bytes_per_image("unknown", 1) is None


def test_resnet50_has_the_layers_that_it_is_known_for():
    """Its 53 convolutions give 11,113,984 numbers of an image (v1.5), which batch-norm doubles."""
    activations = (bytes_per_image("resnet50", 1) / 4 - 8 * 25_557_032) / 5
    assert activations == 3 * 224**2 + 2 * 11_113_984 + 64 * 56**2 + 2048 + 1000


def test_points_lie_below_the_roof_and_on_the_plane():
    roof = roofline(FOUND, WORK, measures(RUNS))
    assert roof.ridge == pytest.approx(516.5 / 40.1)
    assert all(rate < min(roof.peak, intensity * roof.bandwidth) for _, intensity, rate in roof.points)
    (axes,) = drawn(roof).axes
    for _, intensity, rate in roof.points:
        assert axes.get_xlim()[0] < intensity < axes.get_xlim()[1]
        assert axes.get_ylim()[0] < rate < axes.get_ylim()[1]


def test_an_accelerator_is_not_held_against_the_memory_of_its_host():
    target = RUNS[0].record.target.model_dump() | {"accelerator": "GPU"}
    several = [
        measured("a", name, unit, [1.0], **about).model_copy(update={"target": RecordedTarget.model_validate(target)})
        for name, unit, about in (("triad", "GB/s", {}), ("sgemm", "GFLOP/s", {"device": "cuda"}))
    ]
    samples = measures([Run(each, "") for each in several])
    assert [sample.measure.name for sample in of_machine(samples, target["processor"], "GPU")] == ["sgemm"]
    assert of_machine(samples, target["processor"], "") == []


def test_a_variant_of_two_groups_is_one_point():
    stock = next(each for each in whole_table() if each.workload == "resnet50")
    again = rounds(stock.entry, 5.0, "a-slow-evening", workload="resnet50")
    roof = roofline([*comparisons([Run(each, "") for each in again]), *FOUND], WORK, measures(RUNS))
    labels = [label for label, _, _ in roof.points]
    assert len(labels) == len(set(labels))


def test_without_bandwidth_or_peaks_there_is_no_roofline():
    assert roofline(FOUND, WORK, []) is None
    assert roofline(FOUND, {}, measures(RUNS)) is None
