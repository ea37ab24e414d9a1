"""What trainings left on the other hosts of a target: found there by the same rules, and by what the first host needs."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest
from workspaces import BASE, DATA, DAY, DEPLOYMENT, OTHER, TOP, dataset, deploy, image, old

from modak_ansible.errors import ModakError
from modak_ansible.target.core.workspace import Workspace
from modak_ansible.target.garbage import garbage, hosts
from modak_ansible.target.garbage.garbage import Garbage
from modak_ansible.target.garbage.hosts import run_there

SSH = """#!/bin/sh
for last; do :; done
case $* in
    *gone*) echo "ssh: connect to host gone port 22: No route to host" >&2; exit 255 ;;
esac
echo "Welcome to this site"
cd / && exec env -i PATH=/usr/bin:/bin sh -c "$last"
"""


@pytest.fixture
def workspace(tmp_path):
    made = Workspace(str(tmp_path / "w"))
    made.create()
    return made


@pytest.fixture
def there(workspace):
    """Has another host in the place of the first one, whose workspace has the same path; gives what is asked of it."""

    def go(older_than=DAY, **more):
        needs = Garbage(workspace, older_than).needs()
        workspace.path.rename(workspace.path.with_name("first"))
        workspace.create()
        given = {"workspace": str(workspace.path), "older_than": older_than, "mark": ".seen-none", "remove": False}
        return {**given, "needs": needs._asdict(), "only": [], **more}

    return go


@pytest.fixture
def ssh(tmp_path, monkeypatch):
    tool = tmp_path / "tools/ssh"
    tool.parent.mkdir()
    tool.write_text(SSH)
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tool.parent}:{os.environ['PATH']}")


def brought(workspace, digest, days=30):
    """An image as rsync brings it: with the date that it has where it comes from, and nothing beside it."""
    path = workspace.images / f"{digest}.sif"
    path.write_bytes(b"x" * 100)
    return old(path, days)


def brought_deployment(workspace, name=DEPLOYMENT, days=30):
    folder = workspace.deployments / name
    (folder / "state").mkdir(parents=True)
    (folder / "state/brought").touch()
    (folder / "code").mkdir()
    return old(folder, days)


def test_what_the_first_hosts_deployments_use_stays_and_what_they_do_not_goes(workspace, there, monkeypatch):
    deploy(workspace)
    image(workspace, TOP)
    asked = there()
    for digest in (TOP, OTHER):
        brought(workspace, digest)
    dataset(workspace)
    told = hosts.answer(asked)
    assert {each["path"]: each["keep"] for each in told["kept"]} == {
        f"{workspace.images}/{TOP}.sif": f"used by {DEPLOYMENT}",
        f"{workspace.images}/{OTHER}.sif": "used lately",  # it came a moment ago
        f"{workspace.datasets}/{DATA}": f"used by {DEPLOYMENT}",
    }
    told = hosts.answer({**asked, "older_than": 0, "remove": True, "only": [f"{workspace.images}/{OTHER}.sif"]})
    assert [each["path"] for each in told["removed"]] == [f"{workspace.images}/{OTHER}.sif"]
    assert not (workspace.images / f"{OTHER}.sif").exists()
    assert (workspace.images / f"{TOP}.sif").exists()


def test_what_that_host_uses_itself_stays_too(workspace, there):
    asked = there(0)
    deploy(workspace)
    brought(workspace, BASE)
    brought(workspace, OTHER)
    told = hosts.answer({**asked, "remove": True})
    assert [each["name"] for each in told["removed"]] == [OTHER[:12]]
    assert [each["keep"] for each in told["kept"]] == [f"used by {DEPLOYMENT}"]


def test_where_nobody_knows_what_the_first_host_uses_all_stays(workspace, there):
    (deploy(workspace) / "plan.json").unlink()
    (workspace.deployments / DEPLOYMENT / "job.sh").unlink()
    asked = there(0)
    brought(workspace, TOP)
    assert "it is not known what" in hosts.answer({**asked, "remove": True})["kept"][0]["keep"]


def test_a_deployment_that_its_host_could_not_remove_goes_when_nothing_of_it_runs(workspace, there, monkeypatch):
    asked = {**there(0), "remove": True}
    over = brought_deployment(workspace)
    begins = brought_deployment(workspace, "begins-0123456789ab", days=0.01)
    brought(workspace, TOP)
    told = hosts.answer(asked)
    assert [(each["kind"], each["name"]) for each in told["removed"]] == [("deployment", DEPLOYMENT)]
    assert not over.exists()
    assert [each["keep"] for each in told["kept"]] == [f"it is not known what {begins} uses"]
    old(begins)
    with monkeypatch.context() as busy:
        busy.setattr(garbage, "is_at_work", lambda *_: True)
        assert hosts.answer(asked)["removed"] == []
    assert {each["kind"] for each in hosts.answer(asked)["removed"]} == {"deployment", "image"}


def test_one_of_the_first_host_that_has_just_begun_needs_what_that_knows_and_no_more(workspace, there):
    deploy(workspace)
    asked = {**there(0), "remove": True}
    brought_deployment(workspace, days=0)
    for digest in (TOP, OTHER):
        brought(workspace, digest)
    assert [each["name"] for each in hosts.answer(asked)["removed"]] == [OTHER[:12]]


def test_what_a_killed_rsync_left_of_an_image_goes(workspace, there):
    half = workspace.images / f".{BASE}.sif.aB3dE6"
    asked = {**there(0), "remove": True}
    half.touch()
    assert [each["kind"] for each in hosts.answer(asked)["removed"]] == ["unfinished"]
    assert not half.exists()


@pytest.mark.component
@pytest.mark.parametrize("words", [["sleep", "60"], ["bash", "-c", "read -r _; : FOLDER/state/rank.sh"]])
def test_who_is_at_work_is_known_by_words_or_environment(workspace, words):
    folder = brought_deployment(workspace)
    before = garbage.is_at_work(workspace, folder)
    words = [word.replace("FOLDER", str(folder)) for word in words]
    environment = {"PATH": os.environ["PATH"], "MODAK_METRICS": f"{folder}/ranks/1/metrics.json"}
    process = subprocess.Popen(words, stdin=subprocess.PIPE, env=environment if words[0] == "sleep" else None)
    try:
        while not Path(f"/proc/{process.pid}/environ").read_bytes():
            pass  # Popen returns when exec closes its pipe, a moment before the kernel has the new words and environment
        assert (before, garbage.is_at_work(workspace, folder)) == (False, True)
        assert not garbage.is_at_work(workspace, workspace.deployments / "another-0123456789ab")
    finally:
        process.kill()
        process.communicate()


@pytest.mark.component
def test_hosts_that_share_the_workspace_were_looked_at_already(workspace, ssh):
    image(workspace, TOP)
    (shown,) = Garbage(workspace, DAY).survey()
    assert hosts.collect(workspace, ["two", "gone"], DAY) == (
        [], [], [], ["the host gone cannot be queried: ssh: connect to host gone port 22: No route to host"],
    )  # fmt: skip
    assert shown.paths[0].exists()
    assert not list(workspace.path.glob(".modak-seen-*"))


@pytest.mark.component
def test_the_sources_of_what_is_asked_travel_with_it(workspace, there, ssh, monkeypatch):
    monkeypatch.delitem(sys.modules, "modak_ansible.schedulers.rendered", raising=False)
    asked = there(0)
    brought(workspace, OTHER)
    told = run_there("two", hosts.answer, {**asked, "remove": True})
    assert [each["name"] for each in told["removed"]] == [OTHER[:12]]
    assert not (workspace.images / f"{OTHER}.sif").exists()
    with pytest.raises(ModakError, match="the host two cannot be queried: KeyError: 'workspace'"):
        run_there("two", hosts.answer, {})


@pytest.mark.component
@pytest.mark.parametrize("host", ["two", "2001:db8::2"])
def test_what_is_told_of_hosts_has_their_names(workspace, ssh, monkeypatch, host):
    monkeypatch.setattr(hosts, "run_there", lambda host, function, asked: function({**asked, "mark": ".no"}))
    image(workspace, TOP)
    monkeypatch.setattr(hosts, "Uses", lambda workspace: SimpleNamespace(lock=nullcontext))  # it is the same one here
    found = hosts.collect(workspace, [host], DAY)
    assert (found.garbage[0]["name"], found.garbage[0]["path"]) == (
        f"pytorch ({TOP[:12]}) on {host}", f"{host}:{workspace.images}/{TOP}.sif",
    )  # fmt: skip
    assert hosts.collect(workspace, [host], DAY, remove=True, only=["/elsewhere"]).removed == []
    (removed,) = hosts.collect(workspace, [host], DAY, remove=True, only=[found.garbage[0]["path"]]).removed
    assert removed["path"] == found.garbage[0]["path"]
