"""Sources are tried in order, and each refusal is told."""

from __future__ import annotations

import pytest

from modak_ansible.errors import ModakError
from modak_ansible.stages.dataset import ensure_dataset

KNOWN = {"label": "here", "files": [{"size": 1}]}


class Target:
    """Answers as modak_dataset does, for a target that reaches no network."""

    def __init__(self, folder):
        self.folder = folder
        self.sent = []

    def __call__(self, name, *, action, **arguments):
        if action == "prepare":
            self.folder.mkdir(exist_ok=True)
            return {"folder": str(self.folder)}
        if action == "commit":
            self.sent = sorted(path.name for path in self.folder.iterdir())
            return {"dataset": KNOWN}
        status = {"state": "failed", "step": "", "seconds": 0, "message": "https://a/x.gz: no route", "hint": ""}
        return {"dataset": None, "status": status}


def url(address):
    return {"kind": "url", "location": address, "files": [{"name": "x.gz", "size": 1, "sha256": "0"}]}


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
    assert any("these are not MNIST" in line for line in said)


def test_every_refusal_is_told_where_no_source_is_left(make_stage, tmp_path):
    stage, _ = make_stage(Target(tmp_path / "data"))
    stage.plan["dataset"]["sources"] = [url("https://a/"), {**url("https://b/"), "kind": "folder", "location": "/none"}]
    with pytest.raises(
        ModakError, match=r"no source has the dataset mnist: .*https://a/x\.gz: no route; /none/x\.gz is not there"
    ):
        ensure_dataset(stage)


def test_what_is_there_is_not_brought_again(make_stage):
    stage, _ = make_stage(lambda name, **arguments: {"dataset": KNOWN})
    assert not ensure_dataset(stage).changed


def test_what_another_deploy_brings_meanwhile_is_not_sent_again(make_stage, tmp_path):
    target, looks = Target(tmp_path / "data"), iter([None, KNOWN])
    stage, _ = make_stage(
        lambda name, *, action, **arguments: (
            {"dataset": next(looks)} if action == "look" else target(name, action=action, **arguments)
        )
    )
    ensure_dataset(stage)
    assert target.sent == []


def test_check_mode_brings_nothing(make_stage):
    stage, _ = make_stage(lambda name, **arguments: {"dataset": None}, check=True)
    outcome = ensure_dataset(stage)
    assert (outcome.changed, outcome.message) == (True, "would bring mnist")
