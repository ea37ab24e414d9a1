"""Charts of measures: what tells bars apart is said, and units are ones that people read."""

from __future__ import annotations

import pytest
from synthetic_records import measured, record, rounds, training

from modak_ansible.measuring.report.infrastructure import measure_charts, measures
from modak_ansible.measuring.report.runs import Run


def chart(*records):
    (made,) = measure_charts(measures([Run(record, "a file") for record in records]))
    return made


def test_bars_are_told_apart_by_what_differs_and_by_nothing_else():
    made = chart(
        measured("a", "write", "MB/s", [1.0], storage="home", megabytes=512, until="fsync"),
        measured("a", "write", "MB/s", [2.0], storage="scratch", megabytes=512, until="fsync"),
    )
    assert [bar.label for bar in made.bars] == ["home", "scratch"]
    assert made.caption.endswith("megabytes 512, until fsync, a")


def test_machines_are_never_pooled_though_their_targets_have_one_name():
    one = measured("a", "triad", "GB/s", [20.0, 22.0], threads=1)
    other = one.model_copy(update={"target": one.target.model_copy(update={"processor": "Another Processor"})})
    other = other.model_copy(update={"measures": measured("a", "triad", "GB/s", [14.0], threads=1).measures})
    made = chart(one, other)
    assert [(bar.label, bar.value) for bar in made.bars] == [(one.target.processor, 21.0), ("Another Processor", 14.0)]


def test_numbers_that_were_measured_on_the_way_tell_nothing_apart():
    made = chart(
        measured("a", "sgemm", "GFLOP/s", [1.0, 3.0], relative_error=1e-7),
        measured("a", "sgemm", "GFLOP/s", [2.0], relative_error=2e-7),
    )
    (bar,) = made.bars
    assert (bar.value, bar.low, bar.high, bar.n) == (2, 1, 3, 3)
    assert made.table.rows[0][3] == "3 in 2 runs"


@pytest.mark.parametrize(("seconds", "unit", "value"), [(2.0, "s", 2.0), (0.02, "ms", 20.0), (2e-5, "µs", 20.0)])
def test_short_times_are_milliseconds_or_microseconds(seconds, unit, value):
    made = chart(measured("a", "latency", "s", [seconds]))
    assert (made.unit, made.bars[0].value, made.more_is_better) == (unit, pytest.approx(value), False)


def test_native_and_container_are_called_so():
    made = chart(
        measured("a", "import", "s", [2.0], container=1).model_copy(update={"settings": {}}),
        measured("a", "import", "s", [3.0], container=0).model_copy(update={"settings": {"container": "native"}}),
    )
    assert [bar.label for bar in made.bars] == ["in a container", "natively"]


def test_what_a_training_measured_on_the_side_is_not_told_apart_by_its_switches():
    several = [
        record(
            "a",
            training=training(100.0),
            settings={"precision": value},
            measures=[{"name": "launch", "unit": "s", "samples": [1.5]}],
        )
        for value in ("fp32", "bf16")
    ]
    assert [bar.n for bar in chart(*several).bars] == [2]


def test_disturbed_runs_do_not_count():
    assert measures([Run(measured("a", "write", "MB/s", [1.0]).model_copy(update={"outcome": "disturbed"}), "")]) == []


def test_an_image_is_told_by_what_built_it_and_its_size_and_not_by_its_digest():
    digest = "a" * 64
    image = {"digest": digest, "definition_digest": "", "base": "", "container": True}
    made = chart(
        *rounds("pytorch-2.13-cpu", 100, "any", image=image),
        measured("tensorflow-2.21-cpu", "container_start", "s", [0.1, 0.2], image=digest, megabytes=573.6),
        measured("tensorflow-2.21-cpu", "container_start", "s", [0.1, 0.2], image="f" * 64, megabytes=126.3),
    )
    assert [bar.label for bar in made.bars] == ["image pytorch-2.13-cpu of 574 MB", "image 126 MB"]
