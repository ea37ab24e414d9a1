"""Files of deployments that somebody has changed, or that another version wrote: no traceback, and nothing else is hidden."""

from __future__ import annotations

import copy
import json

import pytest

from modak_ansible.commands.jobs.log_start import LogStart
from modak_ansible.commands.jobs.log_text import of_stages, state_of
from modak_ansible.commands.status.table import lines_of
from modak_ansible.deployment.comparison import compare
from modak_ansible.deployment.searches.search_store import shown
from modak_ansible.deployment.status import StatusEntry, rows_of
from modak_ansible.errors import UsageError
from modak_ansible.store.deployment import DeploymentStore
from modak_ansible.store.deployments import find_deployments

PLAN = {
    "digest": "d", "training": "t", "application": {"arguments": [["lr", "1"]]}, "target": {"name": "x"},
    "choices": [{"name": "amp", "value": "on"}], "job": {"scheduler": "slurm", "script": ""},
}  # fmt: skip
STATE = {
    "job": {"state": "COMPLETED", "job_id": "7", "nodes": "n1", "started": 100.0, "ended": 160.0},
    "stage": "results", "stages": {"job": {"state": "done", "worked": {"seconds": 1.0}}}, "data": "cifar", "undeployed": None,
    "metrics": {"epochs": 3, "accuracy": 0.9, "loss": 0.1, "numbers": {"f1": 0.5}}, "results": "there",
    "progress": {"step": 3, "loss": 0.3, "numbers": {"f1": 0.5}, "remarks": ["x"]}, "trial": {"search": "s", "pruned": ""},
    "energy": {"joules": 3.0, "seconds": 2.0, "source": "rapl"}, "left": {"count": 1, "size": 3, "names": ["metrics.csv"]},
    "forecasts": [{"run": "7 1 1", "when": "while it waited", "said": 1.0, "starts": 2.0, "machine": "slurm x"}],
}  # fmt: skip
MANIFEST = {"files": [{"path": "metrics.jsonl", "size": 1, "sha256": ""}]}
SEARCH = {
    "training": "t", "trials": 3, "objective": "val_loss", "rising": False, "state": "stopped", "states": {"complete": 1},
    "running": [], "best": {"training": "t", "deployment": "a", "value": 0.3},
}  # fmt: skip
WHOLE = {"plan.json": PLAN, "state.json": STATE, "results/manifest.json": MANIFEST, "search.json": SEARCH}


def places(value, place=()):
    yield place
    for key, each in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from places(each, (*place, key))


def changed(value, place, new):
    if not place:
        return new
    value = copy.deepcopy(value)
    inner = value
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = new
    return value


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """Two deployments, trials of a search; the writer of one file of the first, and their stores."""
    project = tmp_path / "project"
    monkeypatch.chdir(tmp_path)
    folders = [project / ".modak/deployments" / name for name in ("a", "b")]
    search = project / ".modak/searches/s"
    search.mkdir(parents=True)

    def write(name, text):
        folder = search if name == "search.json" else folders[0]
        (folder / name).write_text(text)

    for folder in folders:
        (folder / "results").mkdir(parents=True)
        (folder / "results/metrics.jsonl").write_text('{"step": 1, "val_loss": 0.5}\n')
        for name in ("plan.json", "state.json", "results/manifest.json"):
            (folder / name).write_text(json.dumps(WHOLE[name]))
    write("search.json", json.dumps(SEARCH))
    monkeypatch.chdir(project)
    return write, lambda: [DeploymentStore(folder) for folder in folders]


@pytest.mark.parametrize("name", list(WHOLE))
def test_a_value_of_another_type_ends_nothing_and_hides_no_other(kept, name):
    write, stores = kept
    for place in places(WHOLE[name]):
        for wrong in (None, "x", [3], {"other": 1}, float("inf"), 1e30):
            write(name, json.dumps(changed(WHOLE[name], place, wrong)))
            rows = rows_of([StatusEntry(store) for store in stores()])
            assert {row["deployment"] for row in rows} == {"a", "b"}, (place, wrong)
            assert lines_of(rows)
            assert json.dumps(rows, allow_nan=False), (place, wrong)
            assert all(state_of(store) for store in stores())
            assert all(shown(row["search"]) for row in rows if "search" in row)
            assert compare(stores(), "val_loss").runs


def test_what_is_left_out_is_said_with_its_file_and_what_writes_it_anew(kept):
    write, stores = kept
    write("state.json", json.dumps({**STATE, "job": {**STATE["job"], "nodes": 3}, "left": 1}))
    row = next(row for row in rows_of([StatusEntry(store) for store in stores()]) if row["deployment"] == "a")
    assert (row["job_id"], row["nodes"], row["loss"]) == ("7", "", 0.1)
    path = stores()[0].folder / "state.json"
    assert f"{path} is damaged: no job.nodes, left is read from it (modak deploy writes it anew)" in row["remarks"]
    for manifest in ("{", '{"files": [1]}'):
        write("results/manifest.json", manifest)
        said = "manifest.json is damaged: no files is read from it (modak results writes it anew)"
        assert any(said in remark for remark in compare(stores()).remarks)


def test_of_the_stage_log_what_has_no_moment_is_left_out(kept):
    write, stores = kept
    moments = ("1e400", "1e30", "-1e400", '"x"', "null", "[1]", "1800000000")
    write("stages.jsonl", "".join(f'{{"time": {each}, "stage": "image", "text": "made"}}\n' for each in moments))
    (line,) = of_stages(stores()[0], LogStart(), follow=False, show=print)
    assert line.endswith("image    made")


def test_a_deployment_whose_plan_is_damaged_is_not_called_unknown(kept):
    write, _ = kept
    write("plan.json", "{")
    with pytest.raises(UsageError, match=r"deployments/a/plan.json cannot be read\n  deploy its blueprint again"):
        find_deployments("a")
    assert [store.name for store in find_deployments("b")] == ["b"]
