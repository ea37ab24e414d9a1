"""The numbers of a training, in whatever files it wrote them."""

from __future__ import annotations

import json
import math
import os
import struct

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from modak_ansible.target.jobs import results as results_module
from modak_ansible.target.jobs.progress import progress_of
from modak_ansible.target.jobs.results import results_of
from modak_ansible.target.metrics import curves as curves_module
from modak_ansible.target.metrics import texts
from modak_ansible.target.metrics.curves import is_rising, read_curves
from modak_ansible.target.metrics.events import framed
from modak_ansible.target.metrics.files import found_in, kind_of
from modak_ansible.target.metrics.points import Remarks


def message(number, data):
    return bytes([number << 3 | 2, len(data)]) + data


def event(step, *values):
    """An event with scalars, as bytes of protobuf; step and lengths below 128."""
    summary = b"".join(message(1, value) for value in values)
    return framed(b"\x09" + struct.pack("<d", 1000.0 + step) + b"\x10" + bytes([step]) + message(5, summary))


def simple(tag, value):
    return message(1, tag.encode()) + b"\x15" + struct.pack("<f", value)


def tensor(tag, dtype, content, shape=b""):
    return message(1, tag.encode()) + message(8, b"\x08" + bytes([dtype]) + message(2, shape) + message(4, content))


EVENTS = [event(step, simple("loss", 1.0 / (step + 1))) for step in range(5)]


def read(folder, text, name="metrics.jsonl", most=0):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_curves(folder, [name], most)


def lines(*points):
    return "".join(json.dumps(point) + "\n" for point in points)


def test_any_numbers_by_step_or_by_epoch(tmp_path):
    found = read(tmp_path, lines({"step": 1, "loss": 2, "val": {"f1": 0.5}}, {"step": 2, "loss": 1.5, "ok": True}))
    assert {name: (curve.by, curve.points) for name, curve in found.by_name.items()} == {
        "loss": ("step", {1: 2, 2: 1.5}), "val.f1": ("step", {1: 0.5}),
    }  # fmt: skip
    assert read(tmp_path, lines({"Epoch": 1, "loss": 2}, {"Epoch": 2, "loss": 1})).by_name["loss"].by == "epoch"
    assert read(tmp_path, lines({"loss": 2}, {"loss": 1})).by_name["loss"].points == {1: 2, 2: 1}


def test_steps_that_begin_anew_in_each_epoch_lose_no_point(tmp_path):
    points = [{"epoch": epoch, "step": step, "loss": 1} for epoch in (1, 2) for step in (1, 2, 3)]
    curve = read(tmp_path, lines(*points)).by_name["loss"]
    assert (curve.by, len(curve.points)) == ("point", 6)


def test_what_was_written_twice_counts_as_it_was_last_and_is_said(tmp_path):
    found = read(tmp_path, lines({"step": 1, "loss": 2}, {"step": 1, "loss": 3}))
    assert found.by_name["loss"].points == {1: 3}
    assert found.remarks == ["loss was written again for 1 place; the last values count"]


@pytest.mark.parametrize("text", ['{"step": 3, "lo', '{"step": 3, "loss": {"a": 7}', "garb", "7", " "])
def test_a_last_line_that_is_being_written_is_no_mistake(tmp_path, text):
    found = read(tmp_path, lines({"step": 1, "loss": 2}) + text)
    assert (found.last, found.remarks) == ({"loss": 2}, [])


@pytest.mark.parametrize("name", ["metrics.json", "metrics.jsonl"])
def test_a_last_object_that_is_whole_needs_no_end_of_its_line(tmp_path, name):
    """Scripts that join their lines write none."""
    found = read(tmp_path, lines({"step": 1, "loss": 2}) + '{"step": 3, "loss": 7}', name)
    assert (found.last, found.remarks) == ({"loss": 7}, [])


def test_a_last_row_without_an_end_may_have_half_a_number(tmp_path):
    assert read(tmp_path, "step,loss\n1,0.5\n2,0.25", "metrics.csv").last == {"loss": 0.5}


def test_a_column_without_a_name_is_the_index_of_pandas(tmp_path):
    assert read(tmp_path, ",step,loss\n0,1,0.5\n1,2,0.25\n", "metrics.csv").last == {"loss": 0.25}


def test_what_is_no_json_is_said_with_its_place_and_hides_nothing(tmp_path):
    found = read(tmp_path, lines({"step": 1, "loss": 2}) + "oops\n[1]\n" + lines({"step": 2, "loss": 1}))
    assert found.last == {"loss": 1}
    assert found.remarks == ["metrics.jsonl:2: is not a JSON object, 2 times"]


@pytest.mark.parametrize("name", ["metrics.jsonl", "metrics.json", "metrics.csv", "x/trainer_state.json"])
def test_a_binary_file_is_said_to_be_one(tmp_path, name):
    found = read(tmp_path, b"\x00\x01\xff" * 100, name)
    assert (found.by_name, found.remarks) == ({}, [f"{name}: is binary, so no numbers are read from it"])


def test_numbers_that_are_none_are_told_and_never_the_best(tmp_path):
    found = read(tmp_path, '{"step": 1, "loss": 0.5}\n{"step": 2, "loss": NaN}\n{"step": 3, "loss": "inf"}\n')
    assert found.by_name["loss"].best(rising=False) == found.by_name["loss"].best(rising=True) == (1, 0.5)
    assert (found.last, found.lost) == ({}, ["loss has been inf since step 2"])


def test_of_a_gigabyte_only_the_end_is_read(tmp_path):
    path = tmp_path / "metrics.jsonl"
    with path.open("wb") as file:
        file.truncate(1 << 30)  # with nothing in it
        file.seek(0, os.SEEK_END)
        file.write(b"\n" + lines({"step": 9, "loss": 1}).encode())
        file.seek(0)
        file.write(lines({"step": 1, "loss": 2}).encode() + b" " * 5000)
    assert read_curves(tmp_path, ["metrics.jsonl"], 1 << 12).last == {"loss": 1}


def test_a_line_without_end_and_a_huge_document_are_left_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(texts, "_LINE", 50)
    found = read(tmp_path, "x" * 200 + "\n" + lines({"step": 2, "loss": 1}))
    assert (found.last, len(found.remarks)) == ({"loss": 1}, 1)
    monkeypatch.setattr(texts, "WHOLE", 10)
    assert "but one JSON document is read only up to" in read(tmp_path, '{"loss": 12345}', "metrics.json").remarks[0]


def test_memory_is_bounded_and_the_best_and_the_last_stay(tmp_path, monkeypatch):
    monkeypatch.setattr(curves_module, "_KEPT", 50)
    points = [{"step": step, "loss": -1 if step == 777 else 1 + step % 7} for step in range(5001)]
    curve = read(tmp_path, lines(*points)).by_name["loss"]
    assert len(curve.points) <= 101
    assert curve.best(rising=False) == (777, -1)
    assert max(curve.points) == 5000


def test_names_are_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(curves_module, "_CURVES", 5)
    found = read(tmp_path, lines({f"n{number}": 1 for number in range(9)}))
    assert len(found.by_name) == 5
    assert found.remarks == ["metrics.jsonl: has more than 5 names; the others are left out, 4 times"]


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ({"loss": 1, "note": "x"}, {"loss": {1: 1}}),
        ([{"epoch": 1, "loss": 2}, {"epoch": 2, "loss": 1}], {"loss": {1: 2, 2: 1}}),
        ({"loss": [3, 2, 1]}, {"loss": {1: 3, 2: 2, 3: 1}}),  # as Keras's History
        ({"log_history": [{"loss": 2, "epoch": 0.5, "step": 10}, {"eval_loss": 1, "epoch": 1, "step": 20}],
          "global_step": 20, "best_metric": None}, {"loss": {10: 2}, "eval_loss": {20: 1}}),
    ],
)  # fmt: skip
@pytest.mark.parametrize("name", ["metrics.json", "out/trainer_state.json"])
def test_forms_of_one_document(tmp_path, document, expected, name):
    found = read(tmp_path, json.dumps(document), name)
    assert {each: curve.points for each, curve in found.by_name.items()} == expected


def test_a_metrics_json_with_an_object_a_line(tmp_path):
    assert read(tmp_path, lines({"step": 1, "loss": 2}, {"step": 2, "loss": 1}), "metrics.json").last == {"loss": 1}


def test_columns_as_lightning_writes_them(tmp_path):
    text = "epoch,step,train_loss,val_loss\n0,9,0.5,\n0,9,,0.4\n1,19,0.3,\n1,19,,0."
    found = read(tmp_path, text, "code/lightning_logs/version_0/metrics.csv")
    assert {name: curve.points for name, curve in found.by_name.items()} == {
        "train_loss": {9: 0.5, 19: 0.3}, "val_loss": {9: 0.4},
    }  # fmt: skip
    assert found.remarks == []


@pytest.mark.parametrize("between", ";\t")
def test_columns_of_other_separators(tmp_path, between):
    assert read(tmp_path, f"step{between}loss\n1{between}0.5\n", "metrics.csv").last == {"loss": 0.5}


@pytest.mark.parametrize(
    "text", ['epoch, loss, "acc"\n1, 0.5, 0.9\n', "# epoch,loss,acc\n1,0.5,0.9\n", "epoch;loss;acc\n1;0,5;0,9\n"]
)
def test_columns_as_scripts_write_them_by_hand(tmp_path, text):
    """With a space behind each comma, with names in a comment, and with the decimals of a German locale."""
    found = read(tmp_path, text, "metrics.csv")
    assert (found.last, found.epoch, found.remarks) == ({"loss": 0.5, "acc": 0.9}, 1, [])


def test_a_cell_that_is_no_csv_hides_nothing_behind_it(tmp_path):
    found = read(tmp_path, "step,loss\n1," + "9" * 200_000 + "\n2,0.5\n", "metrics.csv")
    assert (found.last, found.remarks) == (
        {"loss": 0.5}, ["metrics.csv:2: is not CSV: field larger than field limit (131072)"],
    )  # fmt: skip


@pytest.mark.parametrize("name", ["metrics.json", "metrics.jsonl", "metrics.csv"])
def test_a_mark_of_the_order_of_bytes_is_no_mistake(tmp_path, name):
    text = "step,loss\n1,2\n" if name.endswith("csv") else '{"step": 1, "loss": 2}\n'
    found = read(tmp_path, b"\xef\xbb\xbf" + text.encode(), name)
    assert (found.last, found.remarks) == ({"loss": 2}, [])


@pytest.mark.parametrize("name", ["metrics.json", "metrics.jsonl"])
def test_an_integer_that_no_float_holds_is_infinite(tmp_path, name):
    found = read(tmp_path, '{"loss": -' + "9" * 5000 + ', "accuracy": 0.5}\n', name)
    assert (found.last, found.remarks) == ({"accuracy": 0.5}, [])
    assert found.lost == ["loss has been -inf since point 1"]


def test_scalars_of_tensorboard_of_all_kinds(tmp_path):
    data = event(7, simple("a", 0.5), tensor("b", 1, struct.pack("<f", 2.5)), tensor("c", 2, struct.pack("<d", 3.5)),
                 tensor("d", 9, struct.pack("<q", -4)), tensor("image", 1, b"1234" * 2, b"\x12\x02\x08\x02"))  # fmt: skip
    found = read(tmp_path, data, "events.out.tfevents.1.node")
    assert found.last == {"a": 0.5, "b": 2.5, "c": 3.5, "d": -4}
    assert found.by_name["a"].times == {7: 1007.0}


@pytest.mark.parametrize("cut", range(1, len(EVENTS[-1]), 7))
def test_a_last_event_that_is_not_whole_is_no_mistake(tmp_path, cut):
    found = read(tmp_path, b"".join(EVENTS)[:-cut], "events.out.tfevents.1.node")
    assert (len(found.by_name["loss"].points), found.remarks) == (4, [])


@pytest.mark.parametrize("at", [0, 3, 9, 14, 30])
def test_behind_a_damaged_event_it_goes_on(tmp_path, at):
    data = bytearray(b"".join(EVENTS))
    data[len(EVENTS[0]) + at] ^= 0xFF
    found = read(tmp_path, bytes(data), "events.out.tfevents.1.node")
    assert list(found.by_name["loss"].points) == [0, 2, 3, 4]
    assert "is damaged" in found.remarks[0]


@pytest.mark.parametrize("most", [60, 100, 150])
def test_the_end_of_an_event_file_is_read_from_anywhere(tmp_path, most):
    found = read(tmp_path, b"".join(EVENTS), "events.out.tfevents.1.node", most)
    assert found.last == {"loss": pytest.approx(0.2)}
    assert len(found.by_name["loss"].points) < 5


def test_runs_go_on_from_one_another_and_parts_are_told_apart(tmp_path):
    for version, steps in ((0, (1, 2, 3)), (1, (3, 4)), (10, (5,))):
        rows = "".join(f"0,{step},{version}\n" for step in steps)
        read(tmp_path, "epoch,step,loss\n" + rows, f"code/logs/version_{version}/metrics.csv")
    for part in ("train", "validation"):
        read(tmp_path, b"".join(EVENTS), f"code/tb/{part}/events.out.tfevents.1.node")
    found = read_curves(
        tmp_path, [path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.*") if path.is_file()]
    )
    assert found.by_name["loss"].points == {1: 0, 2: 0, 3: 1, 4: 1, 5: 10}
    assert set(found.by_name) == {"loss", "train/loss", "validation/loss"}


def test_an_attempt_that_begins_anew_takes_the_place_of_the_one_before(tmp_path):
    for name, first in (("attempts/1/metrics.jsonl", 0), ("metrics.jsonl", 2)):
        read(tmp_path, lines(*({"step": step, "loss": first} for step in range(first, 5 - first))), name)
    assert read_curves(tmp_path, ["metrics.jsonl", "attempts/1/metrics.jsonl"]).by_name["loss"].points == {
        0: 0,
        1: 0,
        2: 2,
    }


def test_what_hugging_face_tells_twice_is_told_once(tmp_path):
    history = [{"loss": 1.0 / (step + 1), "step": step} for step in range(5)]
    read(tmp_path, json.dumps({"log_history": history}), "out/checkpoint-4/trainer_state.json")
    read(
        tmp_path,
        b"".join(event(s, simple("train/loss", 1.0 / (s + 1))) for s in range(5)),
        "out/runs/Nov1_h/events.out.tfevents.1.h",
    )
    found = read_curves(tmp_path, ["out/checkpoint-4/trainer_state.json", "out/runs/Nov1_h/events.out.tfevents.1.h"])
    assert list(found.by_name) == ["loss"]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("accuracy", True),
        ("val_loss", False),
        ("eval/f1", True),
        ("score_error", False),
        ("acc_err", False),
        ("preferred_accuracy", True),
        ("scoreErr", False),
        ("valErrAcc", False),
        ("top1_errs", False),
        ("f1Score", True),
        ("incorrect", False),
        ("test_inaccuracy", False),
    ],
)
def test_more_is_better_of_some(name, expected):
    assert is_rising(name) is expected


@pytest.fixture
def deployment(tmp_path):
    """A deployment whose code came with numbers of an earlier run by hand."""
    for name in ("code/metrics.csv", "code/old/events.out.tfevents.1.h", "job.sh"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("step,loss\n1,9\n")
        os.utime(tmp_path / name, (1000, 1000))
    return tmp_path


def test_the_user_s_own_files_are_no_numbers_of_the_job(deployment, tmp_path_factory):
    (deployment / "code/out").mkdir()
    (deployment / "code/out/metrics.csv").write_text("step,loss\n1,2\n")
    os.symlink(tmp_path_factory.mktemp("data"), deployment / "code/data")
    (deployment / "code/data/metrics.csv").write_text("step,loss\n1,3\n")
    assert found_in(deployment) == ["code/out/metrics.csv"]
    assert progress_of(deployment) == {"step": 1, "numbers": {"loss": 2}}
    assert [file["path"] for file in results_of(deployment, [])["files"]] == ["job.sh", "code/out/metrics.csv"]


def test_a_file_that_is_too_large_stays_unless_it_is_asked_for(deployment, monkeypatch):
    (deployment / "code/metrics.jsonl").write_text(lines({"step": 1, "loss": 2}))
    (deployment / "plan.json").write_text("{}")
    os.utime(deployment / "plan.json", (1000, 1000))
    paths = [file["path"] for file in results_of(deployment, [])["files"]]
    assert paths == ["job.sh", "code/metrics.jsonl"]
    assert "metrics.jsonl" not in results_of(deployment, [])["left"]["names"]
    monkeypatch.setattr(results_module, "LARGEST", 5)
    found = results_of(deployment, [])
    assert [file["path"] for file in found["files"]] == ["job.sh"]
    assert "metrics.jsonl" in found["left"]["names"]
    assert results_of(deployment, ["*.jsonl"])["files"][-1]["path"] == "code/metrics.jsonl"


def test_what_is_logged_is_shown_while_it_runs(deployment):
    (deployment / "metrics.jsonl").write_text(
        lines({"step": 5, "epoch": 1.5, "loss": 2, "lr": 1}, {"step": 6, "loss": "nan"})
    )
    assert progress_of(deployment) == {
        "step": 6, "epoch": 1.5, "numbers": {"lr": 1}, "remarks": ["loss has been nan since step 6"],
    }  # fmt: skip


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(["metrics.json", "metrics.jsonl", "metrics.csv", "trainer_state.json", "a.tfevents.b"]),
       st.binary(max_size=300) | st.text(max_size=100).map(str.encode)
       | st.lists(st.dictionaries(st.sampled_from(["step", "epoch", "loss", "history", "epochs"]),
                  st.floats() | st.integers() | st.text(max_size=4) | st.lists(st.floats() | st.none(), max_size=3)), max_size=5).map(lambda each: lines(*each).encode()))  # fmt: skip
def test_whatever_lies_there_is_read_or_refused(tmp_path, name, data):
    for most in (0, 20):
        found = read(tmp_path, data, name, most)
        assert all(math.isfinite(value) for value in found.last.values())
        assert all(isinstance(line, str) for line in [*found.remarks, *found.lost])
        json.dumps(progress_of(tmp_path), allow_nan=False)


def test_kinds():
    assert kind_of("a/events.out.tfevents.1.h") and kind_of("x/metrics.csv")
    assert not kind_of("a/mymetrics.csv")


@pytest.mark.parametrize(("read", "head"), [(texts.lines, ""), (texts.columns, "step,loss\n")])
def test_what_is_written_faster_than_it_is_read_is_read_to_where_it_was(tmp_path, read, head):
    """Whoever followed such a file would not come back before the job has ended."""
    path = tmp_path / "metrics"
    row = '{"step": 1, "loss": 0.5}\n' if read is texts.lines else "1,0.5\n"
    path.write_text(head + row * 10)
    with path.open("rb") as file, path.open("a") as writer:
        points = read(file, 0, Remarks("metrics"))
        for count, _ in enumerate(points, 1):
            writer.write(row * 100)
            writer.flush()
            assert count <= 10
    assert count == 10


def test_of_what_is_very_large_the_end_is_read_and_that_is_said(tmp_path, monkeypatch):
    monkeypatch.setattr(curves_module, "LARGEST", 1 << 10)
    (tmp_path / "metrics.jsonl").write_text("".join(f'{{"step": {each}, "loss": 0.5}}\n' for each in range(1000)))
    curves = read_curves(tmp_path, ["metrics.jsonl"])
    assert curves.remarks == ["metrics.jsonl: has 0 MiB, of which the last 0 are read"]
    assert 10 < len(curves.by_name["loss"].points) < 60
    assert max(curves.by_name["loss"].points) == 999
