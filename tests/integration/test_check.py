"""modak check, of the testbed and of targets that are not as they should be."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import time

import pytest
from cluster import MODAK, modak

pytestmark = pytest.mark.testbed


def checked(project, *arguments, code=0):
    done = modak("check", *arguments, "--json", cwd=project.path)
    assert "Traceback" not in done.stdout + done.stderr
    assert done.returncode == code, done.stdout + done.stderr
    found = json.loads(done.stdout)
    assert found["exit_code"] == code
    return {finding["about"]: finding for finding in found["findings"]}


def missing(findings):
    return {name for name, each in findings.items() if each["state"] == "missing"}


def test_the_testbed_without_a_name(project):
    found = checked(project)
    assert missing(found) == set()
    assert found["scheduler"]["seen"].startswith("Slurm 24.11")
    assert found["partitions"]["seen"].startswith("debug (default)")
    assert found["containers"]["seen"].startswith("apptainer version 1.4")
    assert not project.testbed.ssh("ls -d modak/.survey-* 2> /dev/null || true")


def test_a_blueprint_and_a_node(project):
    found = checked(project, project.write(), "--job", "--patience", "300")
    assert missing(found) == set()
    assert found["limits"]["state"] == "ok"
    for name in ("node", "node's home", "node's containers", "node's scratch"):
        assert found[name]["state"] == "ok", found[name]
    assert project.testbed.ssh("squeue --noheader --me --name=modak-survey --states=PENDING,RUNNING") == ""
    assert not project.testbed.ssh("ls -d modak/.survey-* 2> /dev/null || true")


def test_torque(project):
    project.target["type"] = "modak.nodes.Torque"
    found = checked(project, project.write(), "--job", "--patience", "300")
    assert missing(found) == set()
    assert found["scheduler"]["seen"].startswith("Torque") or found["scheduler"]["state"] == "warning"
    assert found["node's home"]["state"] == "ok"


def test_a_host_without_a_scheduler(project):
    project.target["type"] = "modak.nodes.Host"
    project.target["properties"].pop("partitions")
    found = checked(project, project.write())
    assert missing(found) == set()
    assert found["scheduler"]["seen"] == "none is needed"


def test_this_machine(project):
    found = checked(project, "mnist-pytorch-local")
    assert found["ssh"]["seen"] == "this machine needs none"


def test_partitions_that_are_not_what_is_said(project):
    project.target["properties"]["partitions"] = [
        {"name": "debug", "nodes": 5, "cores": 64, "memory": "900 GB", "walltime": "9-00:00:00"},
        {"name": "nosuch"},
    ]
    project.training.update(resources={"nodes": 4}, distributed_training=True)
    done = modak("check", project.write(), cwd=project.path)
    assert done.returncode == 1
    assert "5 nodes, and it has 2; 64 cores a node, and it has 1" in done.stdout
    assert "wall time, and it has 1-00:00:00" in done.stdout
    assert "there is no nosuch" in done.stdout
    assert "4 nodes are asked for, and the partition debug has 2" in done.stdout


def test_no_scheduler(project):
    found = checked(project, "local", "--scheduler", "slurm", code=1)
    if not shutil.which("sbatch"):
        assert "sbatch, squeue, scancel not found" in found["scheduler"]["seen"]
        assert "load the scheduler's module" in found["scheduler"]["todo"]


def test_a_full_disk_and_one_that_runs_nothing(project):
    project.testbed.root("mkdir -p /small-noexec && mount -t tmpfs -o size=100m,mode=1777,noexec small /small-noexec")
    try:
        project.target["properties"].update(workspace="/small-noexec/modak", container_runtime="none")
        found = checked(project, project.write(), code=1)
    finally:
        project.testbed.root("umount /small-noexec")
    assert (
        "MB free): building an image needs 5.0 GB" in found["workspace"]["seen"]
        or "noexec" in found["workspace"]["seen"]
    )


def test_a_workspace_that_cannot_be_written(project):
    project.target["properties"]["workspace"] = "/etc/modak"
    assert checked(project, project.write(), code=1)["workspace"]["seen"].endswith("Permission denied")


@pytest.mark.parametrize(
    ("known_hosts", "words"),
    [("{host} {kind} {key}AAAAAA\n", "has a different host key from the one that is known"), ("", "has a host key that is not known")],
)  # fmt: skip
def test_a_host_key_that_is_not_the_known_one(project, tmp_path, known_hosts, words):
    own = tmp_path / "own-testbed"
    shutil.copytree(project.testbed.folder, own)
    config = own / "ssh_config"
    true_ones = next(line.split()[1].strip('"') for line in config.read_text().splitlines() if "UserKnownHosts" in line)
    host, kind, key = (own / "known_hosts").read_text().split()[:3]
    config.write_text(config.read_text().replace(true_ones, str(own / "known_hosts")))
    (own / "known_hosts").write_text(known_hosts.format(host=host, kind=kind, key=key[:-6]))
    (project.path / ".modak" / "testbed").unlink()
    (project.path / ".modak" / "testbed").symlink_to(own)
    found = checked(project, code=4)
    assert set(found) == {"ssh"}
    assert words in found["ssh"]["seen"]
    assert "key" in found["ssh"]["todo"]


def test_a_user_that_is_refused(project):
    found = checked(project, "root@testbed", code=4)
    assert found["ssh"]["seen"] == "testbed refuses the login"


def test_a_host_that_refuses_and_one_that_is_not_there(project):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    project.target["attributes"]["public_address"] = "127.0.0.1"
    project.target["properties"]["port"] = port
    assert checked(project, project.write(), code=4)["ssh"]["seen"] == "127.0.0.1 refuses the connection"
    assert checked(project, "no-such-host.invalid", code=4)["ssh"]["seen"].endswith("is not the name of a host")


def test_ctrl_c_leaves_no_job_behind(project):
    left = "squeue --noheader --me --name=modak-survey --states=PENDING,RUNNING; ls -d modak/.survey-* 2> /dev/null || true"
    asking = subprocess.Popen(
        [MODAK, "check", "--job"], cwd=project.path, stdout=subprocess.PIPE, start_new_session=True
    )
    deadline = time.monotonic() + 60
    while not project.testbed.ssh(left) and asking.poll() is None and time.monotonic() < deadline:
        time.sleep(0.2)
    os.killpg(asking.pid, signal.SIGINT)
    asking.communicate(timeout=60)
    assert asking.returncode == 130
    deadline = time.monotonic() + 30
    while project.testbed.ssh(left) and time.monotonic() < deadline:
        time.sleep(0.5)
    assert project.testbed.ssh(left) == ""
