"""Removing what nobody uses, on a real cluster that several projects share, while others deploy."""

from __future__ import annotations

import json
import time
import uuid

import pytest
from cluster import ROOT, SCRIPTS, Project, modak, run

pytestmark = [pytest.mark.testbed, pytest.mark.thorough]

OLD = "0" * 64


@pytest.fixture
def workspace(testbed):
    """A workspace of its own: that of the testbed belongs to other tests."""
    name = f"modak-gc-{uuid.uuid4().hex[:8]}"
    testbed.ssh(f"mkdir -p -m 700 {name}/images {name}/datasets {name}/deployments")
    yield name
    testbed.ssh(f"rm -rf {name}")


def project_in(path, testbed, workspace):
    """A project whose images are those of the testbed, by hard links: nothing is built again."""
    project = Project(path, testbed)
    project.target["properties"]["workspace"] = workspace
    for layer in project.plan()["image"]["layers"]:
        files = layer["path"].replace(".sif", ".*f")
        testbed.ssh(f"cp -nl modak/{files} {workspace}/images/")
        testbed.ssh(f"cp -n modak/{layer['path'].replace('.sif', '.json')} {workspace}/images/")
    return project


def gc(project, *options):
    done = modak("gc", *options, "--json", cwd=project.path)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)["targets"][0]


def test_what_a_colleague_uses_stays_and_what_nobody_uses_goes(tmp_path, testbed, workspace):
    mine = project_in(tmp_path / "mine", testbed, workspace)
    theirs = project_in(tmp_path / "theirs", testbed, workspace)
    theirs.dataset = {"name": "mnist", "source": ["digits"]}
    for each in (mine, theirs):
        done = each.deploy()
        assert done.returncode == 0, done.stderr
    testbed.ssh(
        f'cd {workspace} && echo x > images/{OLD}.sif && echo \'{{"name": "old"}}\' > images/{OLD}.json'
        f" && mkdir images/.{OLD}.part && touch images/.{OLD}.lock deployments/.gone-0123456789ab.lock"
        " && touch -d '30 days ago' images/* images/.0* deployments/.gone*"
    )
    before = testbed.ssh(f"find {workspace} | sort")
    shown = gc(mine, "--dry-run")
    assert {each["kind"] for each in shown["garbage"]} == {"image", "lock", "reservation"}
    assert testbed.ssh(f"find {workspace} | sort") == before

    assert mine.undeploy().returncode == 0
    removed = gc(mine, "--yes", "--older-than", "0s")["removed"]
    assert [each["name"] for each in removed if each["kind"] == "image"] == [f"old ({OLD[:12]})"]
    assert testbed.ssh(f"find {workspace} -name '*0000*' -o -name '.gone*'") == ""
    kept = testbed.ssh(f"ls {workspace}/images {workspace}/datasets")
    assert theirs.plan()["image"]["digest"] in kept
    assert "mnist-" in kept

    assert theirs.undeploy().returncode == 0
    gc(theirs, "--yes", "--older-than", "0s")
    assert testbed.ssh(f"ls -A {workspace}/images {workspace}/datasets/ {workspace}/deployments").split() == [
        f"{workspace}/datasets/:", f"{workspace}/deployments:", f"{workspace}/images:"
    ]  # fmt: skip


def test_collecting_all_the_time_does_no_harm_to_a_deployment(tmp_path, testbed, workspace):
    """A layer is built, data is sent and a job staged while everything that is not in use goes at once."""
    project = project_in(tmp_path / "project", testbed, workspace)
    project.training["requirements_txt"] = ["six==1.16.0"]
    project.dataset = {"name": "mnist", "source": ["digits"]}
    project.script("import os, six\nassert os.listdir(os.environ['MODAK_DATASET'])\nprint(six.__version__)\n")
    deploying = project.start()
    collected = 0
    while deploying.poll() is None:
        done = modak("gc", project.path, "--yes", "--older-than", "0s", cwd=project.path)
        assert done.returncode == 0, done.stdout + done.stderr
        collected += 1
        time.sleep(2)
    said = deploying.communicate()[0]
    assert deploying.returncode == 0, said
    assert collected > 1
    assert project.record["job"]["state"] == "COMPLETED"
    assert len(project.jobs()) == 1
    project.undeploy()


def test_the_playbook_only_looks_in_check_mode(tmp_path, testbed, workspace):
    project = project_in(tmp_path / "project", testbed, workspace)
    testbed.ssh(f"cd {workspace} && echo x > images/{OLD}.sif && touch -d '30 days ago' images/{OLD}.sif")
    playbook = [SCRIPTS / "ansible-playbook", ROOT / "playbooks" / "gc.yml", "-e", f"blueprint={project.write()}"]
    for options, left in (["--check"], f"{workspace}/images/{OLD}.sif"), ([], ""):
        done = run(*playbook, *options, ANSIBLE_CONFIG=str(ROOT / "ansible.cfg"))
        assert done.returncode == 0, done.stdout + done.stderr
        assert testbed.ssh(f"ls {workspace}/images/{OLD}.sif 2> /dev/null || true") == left
