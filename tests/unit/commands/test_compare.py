"""modak compare: trainings held against each other."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from modak_ansible.commands.compare import compare as compare_command
from modak_ansible.commands.compare import sixel
from modak_ansible.commands.compare import text as compare_text
from modak_ansible.commands.compare.braille import Canvas
from modak_ansible.commands.compare.picture import draw
from modak_ansible.commands.status.table import lines_of, points_of
from modak_ansible.deployment.comparison import compare
from modak_ansible.errors import TargetUnreachable, UsageError
from modak_ansible.store.deployment import DeploymentStore
from modak_ansible.store.record import DeploymentRecord


@pytest.fixture
def sweep(tmp_path):
    """Three points of a sweep: by val_loss the second is best, and the last one's is no number from its beginning on."""

    def made(name, lr, losses, state="COMPLETED"):
        folder = tmp_path / name
        (folder / "results").mkdir(parents=True)
        lines = [{"step": step * 10, "val_loss": loss, "accuracy": step / 10} for step, loss in enumerate(losses, 1)]
        (folder / "results/metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        (folder / "results/manifest.json").write_text('{"files": [{"path": "metrics.jsonl", "size": 1, "sha256": ""}]}')
        arguments = [["lr", lr], ["epochs", "3"], ["amp", True]]
        plan = {
            "digest": "d",
            "training": f"t:lr={lr}",
            "application": {"arguments": arguments},
            "target": {"name": "x"},
        }
        (folder / "plan.json").write_text(json.dumps(plan))
        job = {"state": state, "job_id": "7", "started": 100.0, "ended": 160.0}
        (folder / "state.json").write_text(json.dumps({"job": job}))
        return DeploymentStore(folder)

    return [made("a", "0.1", [3, 2.5]), made("b", "0.01", [3, 1, 2]), made("c", "0.5", [float("nan")] * 2)]


def test_the_best_comes_first_with_what_differs(sweep):
    found = compare(sweep)
    assert (found.by, found.rising, found.differs) == ("val_loss", False, ("lr",))
    assert [run.deployment for run in found.runs] == ["b", "a", "c"]
    assert [found.best(run) for run in found.runs] == [(20, 1), (20, 2.5), None]
    assert found.label(found.runs[0]) == "lr=0.01"
    assert found.remarks == ("t:lr=0.5: val_loss has been nan since step 10",)
    assert [run.deployment for run in compare(sweep, "accuracy").runs] == ["b", "a", "c"]
    assert [run.deployment for run in compare(sweep, "val_loss", rising=True).runs][-1] == "c"


def test_curves_by_step_and_by_epoch_share_no_axis(sweep, tmp_path):
    """Epoch 3 is not step 3: the axis is what most have, and the table says the place of the others with its unit."""
    (sweep[0].results / "metrics.jsonl").write_text('{"epoch": 1, "val_loss": 3}\n{"epoch": 2, "val_loss": 0.5}\n')
    found = compare(sweep)
    assert (found.axis, [run.deployment for _, run, _ in found.drawn()]) == ("step", ["b", "c"])
    assert "val_loss by step is drawn, and the curves of 1 that have it by epoch are not" in found.remarks
    assert [run.deployment for run in found.runs] == ["a", "b", "c"]
    heading, first, second, _ = compare_text.table(found)
    assert "at step" in heading and "epoch 2" in first and "epoch" not in second
    below = "\n".join(text.plain for text in compare_text.curves(found, 80))
    assert "by step; 1 not drawn" in below
    draw(found, tmp_path / "curves.svg")


def test_a_wrong_name_says_which_there_are(sweep, tmp_path):
    with pytest.raises(UsageError, match="has a number acuracy\n  did you mean accuracy"):
        compare(sweep, "acuracy")
    with pytest.raises(UsageError, match="valid: accuracy, val_loss"):
        compare(sweep, "zzzzzz")
    with pytest.raises(UsageError, match="no numbers are known for none\n  a script gives them"):
        compare([DeploymentStore(tmp_path / "none")])


def test_what_is_not_here_is_brought_and_a_target_that_is_away_hides_nothing(sweep):
    asked = []
    (sweep[0].folder / "state.json").write_text('{"job": {"state": "RUNNING", "job_id": "7"}}')
    compare(sweep, fetch=lambda *stores: asked.extend(stores))
    assert asked == [sweep[0]]
    job = {"state": "COMPLETED", "job_id": "7", "attempt": 2}
    for brought, expected in (("", [sweep[0]]), ("7 1 1", [sweep[0]]), ("7 2 1", [])):
        (sweep[0].folder / "state.json").write_text(json.dumps({"job": job, "brought": brought}))
        asked.clear()
        compare(sweep, fetch=lambda *stores: asked.extend(stores))
        assert asked == expected
    (sweep[0].folder / "state.json").write_text('{"job": {"state": "RUNNING", "job_id": "7"}}')

    def away(*stores):
        raise TargetUnreachable("x does not answer")

    found = compare(sweep, fetch=away)
    assert found.remarks[0] == "what is on the target could not be fetched: x does not answer"
    assert len(found.runs) == 3


def test_numbers_that_are_too_large_to_be_brought_are_told(sweep):
    DeploymentRecord(sweep[0].folder).update(
        left={"count": 2, "size": 1 << 30, "names": ["logs/metrics.jsonl", "model.pt"]}
    )
    remark, _ = compare(sweep).remarks
    name = sweep[0].name
    assert remark.endswith(
        f"logs/metrics.jsonl stays on the target: modak results {name} --also logs/metrics.jsonl fetches it"
    )


def test_a_training_without_a_history_is_compared_by_what_its_summary_has(sweep):
    (sweep[0].folder / "results/metrics.jsonl").unlink()
    record = {"job": {"state": "COMPLETED"}, "metrics": {"accuracy": 0.9, "numbers": {"val_loss": 0.5}}}
    (sweep[0].folder / "state.json").write_text(json.dumps(record))
    assert compare(sweep).runs[0].deployment == "a"
    assert "not drawn" in compare_text.curves(compare(sweep), 80)[-1].plain


def test_the_table_is_no_wider_than_the_terminal(sweep):
    found = compare(sweep)
    assert compare_text.table(found) == [
        "    lr    best val_loss  at step  last  time  accuracy",
        "a*  0.01              1       20     2  1:00       0.3",
        "b   0.1             2.5       20   2.5  1:00       0.2",
        "c   0.5               -            nan  1:00       0.2",
    ]
    for width in (20, 40, 50, 80, 160):
        assert all(len(line) <= width for line in compare_text.table(found, width))
    assert "accuracy" not in compare_text.table(found, 50)[0]
    for width in (40, 80, 160):
        assert all(len(line.plain) <= width for line in compare_text.curves(found, width))


def test_what_has_no_room_gives_way_and_the_number_that_is_compared_by_stays(sweep):
    """Trainings with nothing in common have more arguments than a terminal has columns."""
    for number, store in enumerate(sweep):
        plan = json.loads((store.folder / "plan.json").read_text())
        plan["application"]["arguments"] = [[f"option-{number}-{each}" + "x" * 30, "1"] for each in range(3)]
        (store.folder / "plan.json").write_text(json.dumps(plan))
    found = compare(sweep)
    heading, best, *_ = compare_text.table(found, 80)
    assert heading.split()[-5:] == ["best", "val_loss", "at", "step", "last"]
    assert "deployment" in heading
    assert best.split()[-4:] == ["b", "1", "20", "2"]
    assert "option-0-0" in compare_text.table(found, 400)[0]
    assert "deployment" not in compare_text.table(found, 400)[0]


def test_of_very_many_a_terminal_shows_those_that_went_best(sweep, tmp_path, monkeypatch, capsys):
    one = json.loads((sweep[0].folder / "plan.json").read_text())
    stores = []
    for number in range(60):
        store = DeploymentStore(shutil.copytree(sweep[number % 3].folder, tmp_path / f"copy-{number}"))
        one["application"]["arguments"] = [["seed", str(number)]]
        (store.folder / "plan.json").write_text(json.dumps(one))
        stores.append(store)
    monkeypatch.setattr("modak_ansible.store.deployments.find_all", lambda *_: stores)
    monkeypatch.setenv("FORCE_COLOR", "1")
    compare_command.command(["mine"], offline=True)
    shown = capsys.readouterr()
    assert "20 more" in shown.out
    assert "val_loss by step" in shown.out
    assert shown.err.count("note: ") == 6
    assert "note: 15 more" in shown.err
    monkeypatch.delenv("FORCE_COLOR")
    compare_command.command(["mine"], offline=True)
    assert len(capsys.readouterr().out.splitlines()) == 61


def test_csv_and_json_have_all(sweep):
    found = compare(sweep)
    rows = list(csv.DictReader(io.StringIO(compare_text.as_csv(found))))
    assert "joules" not in rows[0]
    assert [row["val_loss best"] for row in rows] == ["1.0", "2.5", ""]
    whole = json.loads(compare_text.as_json(found))
    assert (whole["best"], whole["better"], whole["runs"][0]["curve"]) == ("b", "lowest", [[10, 3], [20, 1], [30, 2]])
    assert whole["runs"][2]["numbers"]["val_loss"] == {"best": None, "at": None, "last": None}


def test_energy_is_a_column_where_somebody_counted_it(sweep):
    record = json.loads((sweep[1].folder / "state.json").read_text())
    energy = {"joules": 12345.6, "seconds": 60.0, "source": "RAPL"}
    (sweep[1].folder / "state.json").write_text(json.dumps({**record, "energy": energy}))
    found = compare(sweep)
    assert [line.split()[-2] for line in compare_text.table(found)] == ["energy", "kJ", "-", "-"]
    assert compare_text.table(found)[1].endswith("1:00  12.3 kJ       0.3")
    rows = list(csv.DictReader(io.StringIO(compare_text.as_csv(found))))
    assert [row["joules"] for row in rows] == ["12345.6", "", ""]
    assert [run["joules"] for run in json.loads(compare_text.as_json(found))["runs"]] == [12345.6, None, None]


@pytest.mark.parametrize("name", ["curves.svg", "curves.PNG", "curves.pdf"])
def test_a_picture(sweep, tmp_path, name):
    draw(compare(sweep), tmp_path / name)
    first = (tmp_path / name).read_bytes()
    if name.endswith("svg"):
        draw(compare(sweep), tmp_path / name)
        assert (tmp_path / name).read_bytes() == first
    assert len(first) > 5000
    with pytest.raises(UsageError, match="the name must end in .svg, .png, .pdf"):
        draw(compare(sweep), tmp_path / "curves.doc")


@pytest.mark.parametrize(("name", "values"), [("loss", [1e308, -1e308, 2]), (r"loss $\frac$", [1, 2])])
def test_a_picture_of_odd_numbers_and_names(sweep, tmp_path, name, values):
    lines = [json.dumps({"step": step, name: value}) + "\n" for step, value in enumerate(values)]
    (sweep[0].folder / "results/metrics.jsonl").write_text("".join(lines))
    draw(compare(sweep, name), tmp_path / "curves.png")


def test_a_name_that_is_no_pictures_is_told_before_anything_is_fetched(monkeypatch):
    monkeypatch.setattr("modak_ansible.store.deployments.find_all", lambda *_: pytest.fail("they are looked for"))
    with pytest.raises(UsageError, match="curves.doc is not a picture"):
        compare_command.command(["mine"], plot=Path("curves.doc"))


def test_a_terminal_that_shows_sixels_gets_the_picture(sweep, monkeypatch, capsys):
    monkeypatch.setattr("modak_ansible.store.deployments.find_all", lambda *_: sweep)
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setattr(sixel, "is_shown", lambda: True)
    monkeypatch.setattr(sixel, "pixels_across", lambda columns: columns * 9)
    compare_command.command(["mine"], offline=True)
    out = capsys.readouterr().out
    assert re.search('\x1bP0;1q"1;1;720;400#', out)
    assert max(out) < "\u2800"  # nothing is drawn twice
    monkeypatch.setattr(sixel, "is_shown", lambda: False)
    compare_command.command(["mine"], offline=True)
    assert "\x1bP" not in capsys.readouterr().out


def test_letters_go_on():
    assert [compare_text.letter(place) for place in (0, 25, 26, 27, 52)] == ["a", "z", "aa", "ab", "ba"]


@example([(0, 0), (5e-324, 5e-324)])  # half of the least number is none
@given(st.lists(st.tuples(st.floats(allow_nan=False, allow_infinity=False), st.floats()), min_size=1, max_size=9))
def test_any_points_are_drawn_within_the_canvas(points):
    places, values = [each[0] for each in points], [each[1] for each in points if abs(each[1]) < float("inf")]
    canvas = Canvas(10, 4, (min(places), max(places)), (min(values, default=0), max(values, default=0)))
    canvas.line(sorted(points), 0)
    rows = list(canvas.rows())
    assert [len(row) for row in rows] == [10] * 4
    assert set(canvas._dots) <= {(column, row) for column in range(10) for row in range(4)}


def test_a_status_tells_the_points_of_a_sweep_apart():
    names = ["t:lr=0.1,batch=64", "t:lr=0.2,batch=64", "other", "u:seed=1", "u:seed=2"]
    assert points_of(names) == ["lr=0.1", "lr=0.2", "", "seed=1", "seed=2"]
    rows = [
        {"deployment": f"d-{index}", "state": "NONE", "explanation": "", "training": name}
        for index, name in enumerate(names)
    ]
    assert lines_of(rows)[0].split() == ["deployment", "point"]
    assert lines_of(rows)[1].split() == ["d-0", "lr=0.1"]
