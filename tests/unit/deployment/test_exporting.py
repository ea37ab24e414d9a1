"""modak export: what is written, and that the tools' own readers open it."""

from __future__ import annotations

import json
import math
import os
import struct
import subprocess
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modak_ansible.deployment.exporting import exported as exporting
from modak_ansible.deployment.exporting.exported import TOOLS, export
from modak_ansible.deployment.exporting.mlflow import _names
from modak_ansible.deployment.exporting.wandb import _journal
from modak_ansible.errors import ModakError
from modak_ansible.store.deployment import DeploymentStore
from modak_ansible.target.metrics.curves import read_curves

READERS = Path(__file__).resolve().parents[3] / ".venv-readers" / "bin" / "python"
LINES = [
    {"step": 1, "time": 1000.5, "loss": 2.5, "eval/f1": 0.5},
    {"step": 2, "time": 1001.5, "loss": "nan"},
    {"step": 3, "time": 1002.5, "loss": 0.25},
]


@pytest.fixture
def store(tmp_path):
    folder = tmp_path / "mine-0123456789ab"
    (folder / "results").mkdir(parents=True)
    (folder / "results/metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in LINES))
    (folder / "results/manifest.json").write_text('{"files": [{"path": "metrics.jsonl", "size": 1, "sha256": ""}]}')
    arguments = [["lr", "0.1"], ["note", "a: b\n#"]]
    plan = {"digest": "d" * 64, "name": "mine", "training": "t:lr=0.1", "application": {"arguments": arguments}}
    (folder / "plan.json").write_text(json.dumps(plan))
    job = {"state": "COMPLETED", "job_id": "7", "started": 1000.25, "ended": 1060.0}
    (folder / "state.json").write_text(json.dumps({"job": job}))
    return DeploymentStore(folder)


def contents(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("tool", TOOLS)
def test_twice_gives_the_same_and_what_else_lies_there_stays(store, tmp_path, tool):
    to = tmp_path / "out"
    (to / "other").mkdir(parents=True)
    (to / "other/file").write_text("x")
    assert export(tool, [store], to) == (1, 1)
    before = contents(to)
    assert export(tool, [store], to) == (1, 0)
    assert contents(to) == before
    assert before["other/file"] == b"x"
    assert export(tool, [store], tmp_path / "new") == (1, 1)
    assert contents(tmp_path / "new").items() <= before.items()


@pytest.mark.parametrize("tool", TOOLS)
def test_a_point_may_be_long_and_in_any_letters(store, tmp_path, tool):
    plan = json.loads(store.plan_file.read_text())
    store.plan_file.write_text(json.dumps({**plan, "training": f"t:prompt={'漢字' * 60}"}))
    assert export(tool, [store], tmp_path / "out") == (1, 1)


@pytest.mark.parametrize("tool", TOOLS)
def test_what_goes_wrong_leaves_what_was_there(store, tmp_path, monkeypatch, tool):
    to = tmp_path / "out"
    export(tool, [store], to)
    before = contents(to)
    (store.folder / "results/metrics.jsonl").write_text(json.dumps({"step": 9, "loss": 1}) + "\n")
    write = Path.write_bytes

    def full(self, data):
        write(self, data[: len(data) // 2])
        raise OSError(28, os.strerror(28), str(self))

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(ModakError, match="cannot be written: No space left"):
        export(tool, [store], to)
    assert contents(to) == before
    monkeypatch.undo()
    assert export(tool, [store], to) == (1, 1)
    assert contents(to) != before


def test_a_training_without_a_number_is_left_out(store, tmp_path):
    (store.folder / "results/metrics.jsonl").unlink()
    assert export("mlflow", [store], tmp_path / "out") == (0, 0)
    assert not (tmp_path / "out").exists()


def test_tensorboard_s_events_are_read_again(store, tmp_path):
    export("tensorboard", [store], tmp_path / "out")
    found = read_curves(tmp_path / "out", contents(tmp_path / "out"))
    assert list(found.by_name["loss"].points) == [1, 2, 3]
    assert math.isnan(found.by_name["loss"].points[2])
    assert found.by_name["loss"].times == {1: 1000.5, 2: 1001.5, 3: 1002.5}
    assert found.last == {"loss": 0.25, "eval/f1": 0.5}


def test_mlflow_has_a_file_a_number(store, tmp_path):
    export("mlflow", [store], tmp_path / "out")
    files = {path.partition("/")[2].partition("/")[2]: data for path, data in contents(tmp_path / "out").items()}
    assert files["metrics/loss"] == b"1000500 2.5 1\n1001500 nan 2\n1002500 0.25 3\n"
    assert (files["metrics/eval/f1"], files["params/note"]) == (b"1000500 0.5 1\n", b"a: b\n#")
    assert files["tags/modak.deployment"] == b"mine-0123456789ab"


@given(st.lists(st.text("ab/. ä-", min_size=1, max_size=5), unique=True, max_size=5))
def test_names_of_mlflow_are_files_beside_each_other(keys):
    names = list(_names(dict.fromkeys(keys, "")).values())
    assert len(set(names)) == len(keys)
    for name in names:
        assert not name.startswith("/")
        assert all(part.strip(".") for part in name.split("/"))
        assert not any(other.startswith(f"{name}/") for other in names)


def read_journal(data):
    """The records of a journal; a reader of its own, by LevelDB's description of its log."""
    assert data[:7] == b":W&B\xe1\xbe\x00"
    place, records, part = 7, [], b""
    while place < len(data):
        if 32768 - place % 32768 < 7:
            place += 32768 - place % 32768
            continue
        checksum, length, kind = struct.unpack_from("<IHB", data, place)
        piece = data[place + 7 : place + 7 + length]
        assert zlib.crc32(bytes([kind]) + piece) == checksum
        part += piece
        place += 7 + length
        if kind in (1, 4):
            records.append(part)
            part = b""
    return records


@given(st.lists(st.integers(0, 70000), max_size=6))
def test_a_journal_has_its_records_whole_over_blocks(sizes):
    records = read_journal(_journal(bytes([index]) * size for index, size in enumerate(sizes)))
    assert [record[2:] for record in records] == [bytes([index]) * size for index, size in enumerate(sizes)]


READ = """
import json, os, sys
os.environ["MLFLOW_ALLOW_FILE_STORE"] = "true"
from mlflow.tracking import MlflowClient
client = MlflowClient("file://" + sys.argv[1] + "/mlflow")
experiment, = client.search_experiments()
run, = client.search_runs([experiment.experiment_id])
history = client.get_metric_history(run.info.run_id, "loss")
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.summary import Writer
events = EventAccumulator(sys.argv[1] + "/tensorboard/mine-0123456789ab-lr=0.1")
events.Reload()
writer = Writer(sys.argv[1] + "/own")
for step in range(5):
    writer.add_scalar("val/loss", 1 / (step + 1), step)
writer.close()
import wandb
wandb._assert_is_internal_process = True
from wandb.sdk.internal.datastore import DataStore
from wandb.proto.wandb_internal_pb2 import Record
import glob
store, records = DataStore(), []
store.open_for_scan(glob.glob(sys.argv[1] + "/wandb/offline-run-*/run-*.wandb")[0])
while (data := store.scan_data()) is not None:
    records.append(Record())
    records[-1].ParseFromString(data)
rows = [{item.nested_key[0]: item.value_json for item in each.history.item} for each in records if each.HasField("history")]
print(json.dumps([experiment.name, run.info.run_name, run.info.status, run.data.params,
    [[each.step, each.timestamp, each.value] for each in history],
    [[each.step, each.wall_time, each.value] for each in events.Scalars("loss")],
    [[row["_step"], row.get("loss")] for row in rows], records[1].run.project]))
"""


@pytest.mark.component
@pytest.mark.skipif(
    not READERS.exists(), reason="venv .venv-readers && pip install tensorboard mlflow-skinny wandb==0.19.11"
)
def test_the_tools_own_readers_open_it_and_what_tensorboard_writes_is_read(store, tmp_path):
    for tool in TOOLS:
        export(tool, [store], tmp_path / tool)
    done = subprocess.run([READERS, "-c", READ, tmp_path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    experiment, name, status, params, history, scalars, rows, project = json.loads(done.stdout.splitlines()[-1])
    assert (experiment, name, status) == ("mine", "t:lr=0.1", "FINISHED")
    assert params["lr"] == "0.1"
    assert [point[:2] for point in history] == [[1, 1000500], [2, 1001500], [3, 1002500]]
    assert [point[:2] for point in scalars] == [[1, 1000.5], [2, 1001.5], [3, 1002.5]]
    assert (scalars[0][2], rows[0], rows[1], project) == (2.5, ["1", "2.5"], ["2", '"NaN"'], "mine")
    found = read_curves(tmp_path, [path.relative_to(tmp_path).as_posix() for path in (tmp_path / "own").iterdir()])
    assert found.by_name["val/loss"].points == {step: pytest.approx(1 / (step + 1)) for step in range(5)}
    assert not found.remarks


def test_every_tool_is_there():
    names = {path.stem for path in Path(exporting.__file__).parent.glob("[!_]*.py")}
    assert set(TOOLS) < names
