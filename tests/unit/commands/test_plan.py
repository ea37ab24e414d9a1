"""A plan for people: a table that is readable in 80 columns, and the whole story behind it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from golden import assert_golden
from measured import Measured
from planned_once import planned_once

from modak_ansible.catalogue import load_catalogue
from modak_ansible.commands import main
from modak_ansible.commands.plan.explanation import plan_story, plan_texts
from modak_ansible.commands.plan.facts import clock, factor, predicted
from modak_ansible.commands.plan.output import write_output
from modak_ansible.commands.plan.table import plan_table, trainings_table
from modak_ansible.model.measured.prediction import Interval
from modak_ansible.model.plan import Choice, Rejected
from modak_ansible.performance.doubts import STRANGER
from modak_ansible.planning.plan import make_plan
from modak_ansible.planning.service import request_of
from modak_ansible.reading.blueprint.reader import Inputs

# a new entry of the catalogue is no other table
ENTRIES = ("pytorch-2.13-cpu", "pytorch-2.13-cpu-opt", "pytorch-2.13-cuda", "pytorch-1.4-pip", "pytorch-1.4-hub")


@pytest.fixture
def made(blueprint):
    (blueprint.path / "train" / "train.py").write_text("import modak_runtime\n")
    request = request_of(blueprint.service, Inputs())
    model = Measured(
        allocator_tcmalloc=1.3, precision_bf16=1.8, compiler_inductor=0.81, unknown=("huge_pages_transparent",)
    )
    catalogue = load_catalogue()
    few = tuple(entry for entry in catalogue.entries if entry.name in ENTRIES)
    return make_plan(request, catalogue.model_copy(update={"entries": few}), model=model)


def settled(text):
    """Without digests and sizes of files, which change with every recipe."""
    return re.sub(r"\b[0-9a-f]{12}\b", "0" * 12, text)


@pytest.mark.parametrize("width", [80, 120])
def test_the_table(made, width):
    text = plan_table(made, width)
    assert_golden(f"plans/table-{width}.txt", settled(text) + "\n")
    too_long = [line for line in text.splitlines() if len(line) > width]
    assert not too_long


def test_a_narrow_terminal_does_not_break_it(made):
    assert plan_table(made, 20) == plan_table(made, 60)


def test_the_whole_story(made):
    text = plan_story(made, 100, "a test's model, which knows what the test says")
    assert_golden("plans/story.txt", settled(text) + "\n")
    for choice in made.choices:
        assert all(f"not {rejected.value}" in " ".join(text.split()) for rejected in choice.rejected)


def test_the_texts_hold_definitions_and_script(made):
    text = plan_texts(made)
    assert "Definition of debian-bookworm" in text
    assert "    #SBATCH --time" in text


def test_without_a_model_nothing_is_predicted(blueprint):
    text = plan_table(make_plan(request_of(blueprint.service, Inputs())), 80)
    assert "predicted   not known: nothing similar was measured" in text
    assert "candidates" not in text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.04, "0.0 s"), (9.94, "9.9 s"), (9.96, "10 s"), (99.4, "99 s"), (250, "4:10"), (7500, "2:05:00")],
)
def test_durations_are_short(seconds, text):
    assert clock(seconds) == text


def test_a_factor_has_its_interval():
    assert factor(Interval(middle=1.294, low=1.2, high=1.4)) == "1.29x (1.20 to 1.40)"


def test_alternatives_with_the_same_reason_are_told_once(made):
    rejected = tuple(Rejected(value=f"entry-{number}", reason=f"reason {number % 2}") for number in range(4))
    choice = Choice(name="image", value="taken", reason="it fits", rejected=rejected)
    lines = plan_table(made.model_copy(update={"choices": (choice,)}), 120)
    assert "entry-0, entry-2: reason 0 | entry-1, entry-3: reason 1" in lines


def test_all_plans_of_a_sweep_are_one_list(blueprint, capsys, monkeypatch):
    text = "          batch-size: 128\n"
    blueprint.replace(text, f"{text}        sweep: {{ epochs: [ 1, 2 ] }}\n")
    monkeypatch.setattr("sys.argv", ["modak", "plan", str(blueprint.path), "--json"])
    assert main._run() == 0
    plans = json.loads(capsys.readouterr().out)
    assert [plan["training"] for plan in plans] == ["training:epochs=1", "training:epochs=2"]
    monkeypatch.setattr("sys.argv", ["modak", "plan", str(blueprint.path), "--json", "--training", "training:epochs=2"])
    assert main._run() == 0
    assert json.loads(capsys.readouterr().out) == plans[1]


def unknown(plan):
    """A plan of which no time is known, though the model has numbers."""
    found = [
        candidate.model_copy(update={"prediction": candidate.prediction.model_copy(update={"known": False})})
        for candidate in plan.candidates
    ]
    return plan.model_copy(update={"candidates": tuple(found)})


def test_a_time_that_is_not_known_is_no_number(made):
    plan = unknown(made)
    for text in (plan_table(plan, 80), plan_story(plan, 80, "a model")):
        assert "relied" not in text
        for candidate in plan.candidates:
            assert clock(candidate.prediction.seconds.middle) not in text
    assert "candidates" not in plan_table(plan, 80)


def test_where_no_time_is_known_nobody_reads_how_wide_its_interval_is(made):
    def doubtful(candidate):
        doubts = (f"measured on others, not on this: {STRANGER}", "the work does not give its samples")
        return candidate.model_copy(update={"prediction": candidate.prediction.model_copy(update={"doubts": doubts})})

    plan = unknown(made.model_copy(update={"candidates": tuple(map(doubtful, made.candidates))}))
    assert predicted(plan) == "not known: the work does not give its samples"


def test_core_hours_of_all_are_those_that_are_known(made):
    text = trainings_table([unknown(made), unknown(made)], 80)
    assert "how long they take is not known; --training NAME" in text
    assert "core-hours" not in text
    hours = next(candidate.prediction.core_hours for candidate in made.candidates if candidate.chosen)
    assert f"{hours:.2g} core-hours are predicted, as far as they are known: of 1 of 2;" in trainings_table(
        [made, unknown(made)], 80
    )
    assert f"{2 * hours:.2g} core-hours are predicted;" in trainings_table([made, made], 80)


def test_a_doubt_that_all_candidates_share_is_told_once(made):
    def doubtful(candidate, *more):
        prediction = candidate.prediction.model_copy(update={"doubts": ("the moon is full", *more)})
        return candidate.model_copy(update={"prediction": prediction})

    first, *others = made.candidates
    plan = made.model_copy(update={"candidates": (doubtful(first, "it is late"), *map(doubtful, others))})
    lines = plan_story(plan, 120, "a model").splitlines()
    assert [line.count("the moon is full") for line in lines if "moon" in line] == [1]
    [own] = [line for line in lines if "it is late" in line]
    assert first.entry in own or own.startswith("    ")
    rows = lines[lines.index("") :]
    assert sum(row.startswith(f"  {first.entry}, ") for row in rows) == len(plan.candidates)


def test_a_reason_that_options_of_several_kinds_share_is_told_once(made):
    choices = [
        Choice(name=name, value="a", stock="a", reason="", rejected=(Rejected(value="b", reason="no line calls it"),))
        for name in ("compiler", "memory_format")
    ]
    text = plan_table(made.model_copy(update={"choices": tuple(choices)}), 120)
    assert "several     compiler b, memory format b: no line calls it" in text
    assert text.count("no line calls it") == 1


def test_files_of_a_script_are_one_line(made):
    text = plan_story(made, 120, "a model")
    assert [line for line in text.splitlines() if line.startswith("  code ")] == [
        "  code     train, 1 file -> modak/deployments/*/code"
    ]


def test_what_counts_a_format_and_is_not_installed_is_named(made, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    source = made.dataset.sources[0].model_copy(update={"kind": "folder"})
    dataset = made.dataset.model_copy(update={"format": "hdf5", "sources": (source,)})
    application = made.application.model_copy(
        update={"work": made.application.work.model_copy(update={"samples": None})}
    )
    text = plan_table(made.model_copy(update={"dataset": dataset, "application": application}), 200)
    told = "not known: the number of samples, because h5py, which counts hdf5, is not installed where modak runs"
    assert told in " ".join(text.split())


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"pack": "shards"}, "; packed into tar shards"),
        ({"pack": "squashfs"}, "; packed into one squashfs image"),
        ({"staging": "by-node"}, "; each node copies the shards that its ranks read to its scratch"),
        (
            {"format": "parquet", "damaged": "b.parquet"},
            "the number of samples, because b.parquet is damaged or not parquet",
        ),
    ],
)
def test_what_becomes_of_the_data(made, changes, told):
    application = made.application.model_copy(
        update={"work": made.application.work.model_copy(update={"samples": None})}
    )
    dataset = made.dataset.model_copy(update=changes)
    text = plan_table(made.model_copy(update={"dataset": dataset, "application": application}), 200)
    assert told in " ".join(text.split())


@pytest.mark.parametrize("place", [".", "link", "new/deep"])
def test_a_plan_s_files_go_where_they_are_wanted(blueprint, tmp_path, monkeypatch, place):
    """An empty folder may be the current one, a link to another, or where a disk is mounted."""
    (tmp_path / "here" / "empty").mkdir(parents=True)
    (tmp_path / "here" / "link").symlink_to("empty")
    monkeypatch.chdir(tmp_path / "here" / ("empty" if place == "." else ""))
    plan = planned_once(blueprint.service).plan
    paths = write_output(plan, Path(place))
    assert {path.name for path in Path(place).iterdir()} == {path.name for path in paths} >= {"job.sh", "plan.json"}
    assert write_output(plan, Path(place)) == paths
    assert {path.name for path in (tmp_path / "here").iterdir()} <= {"empty", "link", "new"}
