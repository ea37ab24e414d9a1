"""Sources are tried in order, and each refusal is told."""

from __future__ import annotations

import json

import pytest

from modak_ansible.errors import ModakError
from modak_ansible.stages.dataset import data_of, ensure_dataset

KNOWN = {"label": "here", "files": 4, "size": 17}


class Target:
    """Answers as modak_dataset does, for a target that reaches no network."""

    def __init__(self, folder):
        self.folder = folder / "part"
        self.wanted = folder / "wanted.json"
        self.sent, self.manifest = [], {}
        self.is_unreached = True
        self.folder.mkdir(parents=True)

    def __call__(self, name, *, action, **arguments):
        answer = {"dataset": None, "folder": str(self.folder), "wanted": str(self.wanted), "taken": 0}
        done = {"state": "done", "step": "", "seconds": 0}
        if action == "commit":
            files = sorted(path for path in self.folder.rglob("*") if path.is_file())
            self.sent = [path.relative_to(self.folder).as_posix() for path in files]
            self.manifest = json.loads(self.wanted.read_text())
            return {**answer, "dataset": KNOWN, "status": done}
        status = {"state": "failed", "step": "", "seconds": 0, "message": "https://a/x.gz: no route", "hint": ""}
        return {**answer, "status": {**status, "is_unreached": self.is_unreached}}


def url(address, **more):
    files = [{"name": "x.gz", "size": 1, "sha256": "0"}]
    return {"kind": "url", "label": "", "location": address, "files": files, **more}


@pytest.mark.component
def test_the_default_serves_where_no_address_does(make_stage, tmp_path):
    target = Target(tmp_path / "data")
    stage, said = make_stage(target)
    stage.plan["dataset"]["sources"].insert(0, url("https://a/"))
    outcome = ensure_dataset(stage)
    assert outcome.changed
    assert outcome.data["refusals"] == ["https://a/x.gz: no route"]
    assert len(target.sent) == 4
    assert stage.record.read()["data"] == KNOWN["label"]  # by which status knows whether its prediction holds
    assert [file["name"] for file in target.manifest["files"]] == [*target.sent[2:], *target.sent[:2]]
    assert any("these are not MNIST" in line for line in said)


@pytest.mark.component
def test_every_refusal_is_told_where_no_source_is_left(make_stage, tmp_path):
    stage, _ = make_stage(Target(tmp_path / "data"))
    none = {"kind": "folder", "label": "", "location": "/none", "files": []}
    stage.plan["dataset"]["sources"] = [url("https://a/"), none]
    with pytest.raises(
        ModakError,
        match=r"no source has the dataset mnist: .*https://a/x\.gz: no route; there is no file or folder /none",
    ):
        ensure_dataset(stage)


def test_what_is_there_is_not_brought_again(make_stage):
    stage, _ = make_stage(lambda name, **arguments: {"dataset": KNOWN})
    outcome = ensure_dataset(stage)
    assert (outcome.changed, outcome.message) == (False, "here, 17 B in 4 files")


def test_several_are_looked_at(make_stage):
    looked = []
    stage, _ = make_stage(lambda name, *, dataset, **more: looked.append(dataset["name"]) or {"dataset": KNOWN})
    stage.plan["more_datasets"] = [{**stage.plan["dataset"], "name": "other"}]
    outcome = ensure_dataset(stage)
    assert (looked, outcome.message) == (["mnist", "other"], "here, 17 B in 4 files; here, 17 B in 4 files")


def test_what_another_deploy_brings_meanwhile_is_not_sent_again(make_stage, tmp_path):
    target, looks = Target(tmp_path / "data"), iter([None, KNOWN])
    stage, _ = make_stage(
        lambda name, *, action, **arguments: (
            {**target(name, action=action), "dataset": next(looks)}
            if action == "look"
            else target(name, action=action, **arguments)
        )
    )
    ensure_dataset(stage)
    assert target.sent == []


@pytest.mark.component
@pytest.mark.parametrize("is_cut", [False, True])
def test_what_was_fetched_here_goes_when_it_has_been_sent_and_stays_for_the_next_try(
    make_stage, tmp_path, monkeypatch, is_cut
):
    def fetch(files, location, folder, say, access=None):
        (folder / "x.gz").write_text("x")
        if is_cut:
            raise ModakError("the network is down")

    monkeypatch.setattr("modak_ansible.target.datasets.fetch.fetch_all", fetch)
    monkeypatch.setattr("modak_ansible.stages.dataset._Carrier.is_local", False)
    target = Target(tmp_path / "data")
    stage, _ = make_stage(target)
    stage.plan["dataset"]["sources"] = [url("https://a/")]
    downloads = stage.folder.parent.parent / "downloads"
    if is_cut:
        with pytest.raises(ModakError, match="the network is down"):
            ensure_dataset(stage)
        assert [path.name for path in downloads.glob("*/*")] == ["x.gz"]
    else:
        ensure_dataset(stage)
        assert target.sent == ["x.gz"]
        assert [path for path in downloads.iterdir() if path.is_dir()] == []


@pytest.mark.component
def test_what_failed_there_though_it_was_reached_is_not_fetched_here(make_stage, tmp_path, monkeypatch):
    monkeypatch.setattr("modak_ansible.target.datasets.fetch.fetch_all", None)
    monkeypatch.setattr("modak_ansible.stages.dataset._Carrier.is_local", False)
    target = Target(tmp_path / "data")
    target.is_unreached = False
    stage, said = make_stage(target)
    stage.plan["dataset"]["sources"] = [url("https://a/")]
    with pytest.raises(ModakError, match="no route"):
        ensure_dataset(stage)
    assert not any("fetching it from here" in line for line in said)


def test_check_mode_brings_nothing(make_stage):
    stage, _ = make_stage(lambda name, **arguments: {"dataset": None}, check=True)
    outcome = ensure_dataset(stage)
    assert (outcome.changed, outcome.message) == (True, "would transfer mnist")


def of_folder(blueprint, folder):
    """Has a blueprint read a folder."""
    folder.mkdir()
    (folder / "deep").mkdir()
    for name in ("a", "deep/b"):
        (folder / name).write_text(name)
    blueprint.replace("name: mnist\n        source: [ digits ]", "name: mine\n        source: [ data ]")


@pytest.mark.component
def test_a_folder_is_sent_as_it_is(make_stage, blueprint, tmp_path):
    of_folder(blueprint, blueprint.path / "data")
    target = Target(tmp_path / "target")
    stage, _ = make_stage(target)
    ensure_dataset(stage)
    assert target.sent == ["a", "deep/b"]


@pytest.mark.component
def test_any_name_is_sent(make_stage, blueprint, tmp_path):
    folder = "my: 'photos' \"of\" $HOME"
    names = sorted(
        ["a b", 'it\'s "q"', "#x", ";y", "-n", "--delete", "a:b/c d", "[x]*?", "é", "$(touch x)", "back\\slash", " "]
    )
    (blueprint.path / folder).mkdir()
    for name in names:
        (blueprint.path / folder / name).parent.mkdir(exist_ok=True)
        (blueprint.path / folder / name).write_text(name)
    source = json.dumps(folder, ensure_ascii=False)
    blueprint.replace("name: mnist\n        source: [ digits ]", f"name: mine\n        source: [ {source} ]")
    target = Target(tmp_path / "target")
    stage, _ = make_stage(target)
    ensure_dataset(stage)
    assert sorted(target.sent) == names
    assert sorted(file["name"] for file in target.manifest["files"]) == names


@pytest.mark.component
def test_what_changed_since_the_plan_is_named_and_not_sent(make_stage, blueprint, tmp_path):
    of_folder(blueprint, blueprint.path / "data")
    target = Target(tmp_path / "target")
    stage, _ = make_stage(target)
    (blueprint.path / "data" / "deep" / "b").write_text("changed")
    with pytest.raises(ModakError, match="data: deep/b has changed since the plan was made"):
        ensure_dataset(stage)
    (blueprint.path / "data" / "deep" / "b").unlink()
    with pytest.raises(ModakError, match="data: deep/b is not there any more"):
        ensure_dataset(stage)
    assert not target.wanted.exists()


@pytest.mark.component
def test_what_changes_while_it_is_sent_is_told(make_stage, blueprint, tmp_path):
    of_folder(blueprint, blueprint.path / "data")
    target = Target(tmp_path / "target")

    def answers(name, *, action, **arguments):
        if action == "commit":
            (blueprint.path / "data" / "a").write_text("another state")
        return target(name, action=action, **arguments)

    stage, said = make_stage(answers)
    ensure_dataset(stage)
    assert any("data changed while it was sent" in line for line in said)


def test_points_of_a_sweep_that_read_it_in_two_forms_each_have_it(make_stage):
    """Whether an image pays depends on the epochs; what the folder and its image hold has one digest."""
    plan = make_stage(None)[0].plan
    packed = {**plan, "dataset": {**plan["dataset"], "pack": "squashfs"}}
    assert data_of(plan) != data_of(packed) == data_of(dict(packed))
