"""What was predicted of a plan against what its job measured."""

from __future__ import annotations

import errno

import pytest
from matplotlib.figure import Figure
from measured import Measured

from modak_ansible.commands.compare.prediction import RECORDS, compared, draw
from modak_ansible.errors import ModakError, UsageError
from modak_ansible.model.measured.record import Record, RecordedTarget, Steps
from modak_ansible.planning.plan import make_plan
from modak_ansible.planning.service import request_of
from modak_ansible.reading.blueprint.reader import Inputs


@pytest.fixture
def plan(blueprint):
    return make_plan(request_of(blueprint.service, Inputs()), model=Measured())


def record(of, **fields):
    said = {
        "plan": of.digest,
        "outcome": "measured",
        "steps": Steps(count=10, all_seconds=90.0, total_seconds=97.0),
        **fields,
    }
    return Record(
        date="2026-11-21T17:00:00Z", suite="jobs", suite_digest="", group="training", variant="training", round=1,
        position=1, workload="", entry=of.image.entry, framework="pytorch", version="2.13.0", origin="pip",
        target=RecordedTarget(name="c", scheduler="slurm", hostname="n", processor="p", architecture="x86_64"), **said,
    )  # fmt: skip


def test_parts_that_both_have_are_compared(plan):
    rows = {name: (predicted.middle, measured) for name, predicted, measured in compared(plan, record(plan))}
    assert rows == {"training": (100.0, 90.0), "whole": (100.0, 97.0)}


def test_a_job_that_trained_with_fewer_samples_is_compared_with_as_many(plan, tmp_path):
    """As where drawn digits take MNIST's place: what is predicted for each sample is kept, and the picture says so."""
    planned = plan.application.work.samples
    steps = Steps(count=10, all_seconds=9.0, total_seconds=17.0, samples=planned // 10)
    rows = {name: (predicted, measured) for name, predicted, measured in compared(plan, record(plan, steps=steps))}
    assert [rows["training"][0].middle, rows["whole"][0].middle] == pytest.approx([10.0, 10.0])
    assert rows["whole"][0].low < 10.0 < rows["whole"][0].high
    path = tmp_path / RECORDS
    path.parent.mkdir()
    path.write_text(record(plan, steps=steps).model_dump_json(by_alias=True) + "\n")
    shown = draw(plan, tmp_path, tmp_path / "picture.svg")
    assert shown[-1] == f"predictions are for the {planned // 10:,} samples that the job had; {planned:,} were planned"


class Starts(Measured):
    """It knows how a program starts, and not what it trains."""

    def predict(self, question):
        start = super().predict(question)
        doubts = ("what a step computes is not known",)
        return start.model_copy(update={"parts": {"start": start.seconds}, "known": False, "doubts": doubts})


def test_what_the_plan_calls_not_known_is_not_shown_as_predicted(blueprint, tmp_path):
    """The start alone is no whole run."""
    plan = make_plan(request_of(blueprint.service, Inputs()), model=Starts())
    steps = Steps(count=10, all_seconds=90.0, total_seconds=97.0, first_seconds=1.0, to_first_step_seconds=6.0)
    assert [name for name, _, _ in compared(plan, record(plan, steps=steps))] == ["start"]
    path = tmp_path / RECORDS
    path.parent.mkdir()
    path.write_text(record(plan, steps=steps).model_dump_json(by_alias=True) + "\n")
    shown = draw(plan, tmp_path, tmp_path / "picture.svg")
    assert shown == [
        "start: 5 s measured, 100 s (90 to 110) predicted",
        "the whole run: not known: what a step computes is not known",
    ]


@pytest.mark.parametrize("name", ["picture.png", "picture.svg"])
def test_a_picture_is_drawn_of_the_newest_record(plan, tmp_path, name):
    path = tmp_path / RECORDS
    path.parent.mkdir()
    lines = [record(plan, steps=Steps(count=1, total_seconds=1.0)), record(plan), record(plan, plan="another")]
    path.write_text("".join(line.model_dump_json(by_alias=True) + "\n" for line in lines))
    shown = draw(plan, tmp_path, tmp_path / name)
    assert "whole: 97 s measured, 100 s (90 to 110) predicted" in shown
    assert (tmp_path / name).stat().st_size > 1000


def test_before_the_job_has_ended_there_is_nothing_to_draw(plan, tmp_path):
    with pytest.raises(ModakError, match="no job of this plan has ended yet"):
        draw(plan, tmp_path, tmp_path / "picture.png")
    path = tmp_path / RECORDS
    path.parent.mkdir()
    failed = record(plan, outcome="failed", reason="nothing of it was measured", steps=None)
    path.write_text(failed.model_dump_json(by_alias=True) + "\n")
    with pytest.raises(ModakError, match="no job of this plan was measured") as caught:
        draw(plan, tmp_path, tmp_path / "picture.png")
    assert caught.value.hint == "nothing of it was measured"


def test_a_damaged_record_is_told_with_its_line(plan, tmp_path):
    path = tmp_path / RECORDS
    path.parent.mkdir()
    path.write_text("{\n")
    with pytest.raises(ModakError, match="jobs.jsonl:1:1"):
        try:
            draw(plan, tmp_path, tmp_path / "picture.png")
        except ModakError as error:
            raise ModakError(str(error)) from error


def test_a_name_that_is_no_picture(plan, tmp_path):
    path = tmp_path / RECORDS
    path.parent.mkdir()
    path.write_text(record(plan).model_dump_json(by_alias=True) + "\n")
    for name in ("picture.text", "picture", "."):
        with pytest.raises(
            UsageError,
            match=f"{name} is not a picture format that can be drawn\n  the name must end in .svg, .png, .pdf",
        ):
            draw(plan, tmp_path, tmp_path / name)


def test_a_folder_that_is_not_there_is_told_as_such(plan, tmp_path):
    """And not a name of ours, nor an ending that is good."""
    path = tmp_path / RECORDS
    path.parent.mkdir()
    path.write_text(record(plan).model_dump_json(by_alias=True) + "\n")
    place = tmp_path / "missing" / "picture.png"
    with pytest.raises(ModakError) as told:
        draw(plan, tmp_path, place)
    assert str(told.value) == f"{place} cannot be written: No such file or directory\n  give an existing folder"
    (tmp_path / "missing").touch()
    with pytest.raises(ModakError, match="Not a directory"):
        draw(plan, tmp_path, place)


def test_a_picture_that_cannot_be_finished_leaves_the_one_before(plan, tmp_path, monkeypatch):
    path = tmp_path / RECORDS
    path.parent.mkdir()
    path.write_text(record(plan).model_dump_json(by_alias=True) + "\n")
    (tmp_path / "picture.png").write_text("before")

    def full(_figure, file, **_options):
        file.write_text("half of it")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Figure, "savefig", full)
    with pytest.raises(ModakError, match="No space left on device"):
        draw(plan, tmp_path, tmp_path / "picture.png")
    assert {each.name for each in tmp_path.iterdir() if each.is_file()} == {"picture.png"}
    assert (tmp_path / "picture.png").read_text() == "before"
