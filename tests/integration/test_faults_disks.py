"""Disks that get full in the middle of a deployment, on the target and here."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from contextlib import contextmanager

import pytest
from cluster import modak, run
from daemons import comes_to, end_of
from disks import Disk, QuotaDisk, disk, full_scratch, hung_disk
from faults import finishes, nothing_is_left, results_are_whole
from test_faults_cluster import BEFORE_THE_JOB
from test_secrets import Registry, environment, with_site

pytestmark = pytest.mark.testbed

# Trains on, and writes nothing itself; what acts in its process does.
TRAINS = """\
import os, time, torch
print('epoch 1', flush=True)
while not os.path.exists('/tmp/full-' + os.environ['NAME']):
    time.sleep(0.1)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.rand(64, 4)), batch_size=2)
for (batch,) in data:
    optimizer.zero_grad()
    model(batch).sum().backward()
    optimizer.step()
"""
WRITES = """\
import os, time
begin = int(open('checkpoint').read()) if os.path.exists('checkpoint') else 1
for epoch in range(begin, 4):
    print('epoch', epoch, flush=True)
    while epoch == 2 and not os.path.exists('/tmp/full-' + os.environ['NAME']):
        time.sleep(0.1)
    with open('weights.part', 'wb') as file:
        file.write(os.urandom(1 << 20))
    os.replace('weights.part', 'weights')
    with open('checkpoint.part', 'w') as file:
        file.write(str(epoch + 1))
    os.replace('checkpoint.part', 'checkpoint')
"""


@pytest.fixture(params=[Disk, QuotaDisk], ids=["disk", "quota"])
def on_disk(project, request):
    """A project whose workspace is on a disk of its own; its image lies elsewhere."""
    path = project.plan()["image"]["path"]
    testbed = project.testbed
    if testbed.ssh(f"ls modak/{path} 2> /dev/null || echo none") == "none":
        assert project.deploy().returncode == 0  # makes it
        forget(project)
    with disk(testbed, kind=request.param) as made:
        project.image = {"source": f"/home/modak/modak/{path}", "python": "python"}
        project.target["properties"]["workspace"] = f"{made.path}/modak"
        project.training["environment"] = {"NAME": project.name}
        project.disk = made
        try:
            yield project
        finally:
            forget(project)
            testbed.ssh(f"rm -f /tmp/full-{project.name}")


def forget(project):
    """Undeploys all, and leaves the project nothing to look for where the disk was."""
    project.undeploy()
    shutil.rmtree(project.path / ".modak" / "deployments", ignore_errors=True)


def data_of(project, tmp_path, megabytes):
    """A dataset of random bytes."""
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "train-images-idx3-ubyte").write_bytes(os.urandom(megabytes * 10**6))
    project.dataset = {"name": f"own-{project.name}", "source": [str(tmp_path / "data")]}


@pytest.mark.thorough
def test_a_node_whose_scratch_is_full_reads_the_shared_data(project, tmp_path):
    data_of(project, tmp_path, 4)
    project.script("import os\nprint('read from', os.environ['MODAK_DATASET'])\n")
    with full_scratch(project.testbed):
        done = project.deploy()
    assert done.returncode == 0, done.stdout + done.stderr
    assert "the data could not be copied to /scratch; it is read from " in done.stdout
    path = project.plan()["dataset"]["path"]
    assert f"read from /home/modak/modak/{path}" in done.stdout
    assert "No space left on device" in (project.folder / "results" / "error.log").read_text()
    finishes(project)
    project.testbed.ssh(f"rm -rf modak/{path}*")


@pytest.mark.thorough
def test_the_disk_gets_full_while_data_is_staged(on_disk, tmp_path):
    data_of(on_disk, tmp_path, 240)  # on a quick machine 60 MB are there before the disk is full
    filling = on_disk.disk.fill_at("datasets/.*.part/*")
    done = on_disk.deploy()
    assert done.returncode == 1, done.stdout
    assert filling.wait(10) == 0
    assert f"{on_disk.disk.lack} on the target, at {on_disk.disk.path}/modak/datasets/.own-" in done.stderr
    assert "make room there, and run the same command again: the transfer continues" in done.stderr
    assert on_disk.testbed.ssh(f"ls {on_disk.disk.path}/modak/datasets | grep -v lock || true") == ""
    on_disk.disk.clear()
    finishes(on_disk)


@pytest.mark.thorough
def test_the_disk_gets_full_before_the_job_is_staged(on_disk):
    process = on_disk.start()
    said = comes_to(process, BEFORE_THE_JOB)
    on_disk.disk.fill()
    said += end_of(process)
    assert process.returncode == 1, said
    assert on_disk.disk.lack in said or on_disk.disk.error in said
    assert "make room there" in said
    assert on_disk.disk.path in said
    again = on_disk.deploy()
    assert again.returncode == 1
    assert on_disk.disk.refusal in again.stderr
    on_disk.disk.clear()
    finishes(on_disk)


def fills_at(on_disk, script, line):
    """How a deployment ends, and what it says, whose disk is full from a line of its script's on."""
    process = on_disk.script(script).start()
    said = comes_to(process, line)
    on_disk.disk.fill()
    on_disk.testbed.ssh(f"touch /tmp/full-{on_disk.name}")
    said += end_of(process)
    return process.returncode, said


def test_a_training_on_a_full_disk_ends_well_where_it_writes_nothing_itself(on_disk):
    code, said = fills_at(on_disk, TRAINS, "epoch 1")
    assert code == 0, said
    assert "is completed" in said
    on_disk.disk.clear()
    finishes(on_disk)


@pytest.mark.thorough
def test_a_training_that_finds_no_room_fails_with_the_reason_and_goes_on_later(on_disk):
    code, said = fills_at(on_disk, WRITES, "epoch 2")
    assert code == 5, said
    assert "ended as FAILED, exit code 1" in said
    assert f"{on_disk.disk.lack} at {on_disk.remote}" in said
    assert (on_disk.folder / "results" / "output.log").read_text() == "epoch 1\nepoch 2\n"
    on_disk.disk.clear()
    resumed = modak("resume", on_disk.path, cwd=on_disk.path, **on_disk.environment)
    assert resumed.returncode == 0, resumed.stdout + resumed.stderr
    assert (on_disk.folder / "results" / "output.log").read_text() == "epoch 2\nepoch 3\n"
    results_are_whole(on_disk)
    nothing_is_left(on_disk)
    assert len(on_disk.jobs()) == 2


@pytest.mark.thorough
def test_results_are_fetched_from_where_there_is_no_room(on_disk):
    on_disk.script("import os, time\nopen('weights', 'wb').write(os.urandom(2_000_000))\ntime.sleep(2)\n")
    on_disk.training["outputs"] = ["weights"]
    filling = on_disk.disk.fill_at("deployments/*/code/weights")
    done = on_disk.deploy()
    assert filling.wait(10) == 0
    assert done.returncode == 0, done.stdout + done.stderr
    assert (on_disk.folder / "results" / "code" / "weights").stat().st_size == 2_000_000
    on_disk.disk.clear()
    finishes(on_disk)


@contextmanager
def small_folder(path, megabytes):
    """A small file system of a test's own on this machine; gives a function that makes it larger."""
    sudo = [] if os.geteuid() == 0 else ["sudo", "-n"]
    path.mkdir()
    options = f"size={megabytes}m,uid={os.getuid()},gid={os.getgid()},mode=700"
    assert run(*sudo, "mount", "-t", "tmpfs", "-o", options, "here", path).returncode == 0
    try:
        yield lambda size: run(*sudo, "mount", "-o", f"remount,size={size}", path)
    finally:
        assert run(*sudo, "umount", "-l", path).returncode == 0


@pytest.mark.thorough
def test_the_disk_here_is_full_when_results_are_fetched(project):
    project.script("import os\nopen('weights', 'wb').write(os.urandom(20_000_000))\n")
    project.training["outputs"] = ["weights"]
    with small_folder(project.path / ".modak" / "deployments", 10) as resize:
        done = project.deploy()
        assert done.returncode == 1, done.stdout
        assert f"the disk is full on this machine, at {project.folder}/.results.part" in done.stderr
        assert not (project.folder / "results" / "code" / "weights").exists()
        resize("100m")
        finishes(project)
        assert (project.folder / "results" / "code" / "weights").stat().st_size == 20_000_000


@pytest.mark.thorough
def test_the_disk_here_is_full_while_a_job_is_watched(project):
    process = project.script("import time\nprint('epoch 1', flush=True)\ntime.sleep(15)\nprint('done')\n")
    with small_folder(project.path / ".modak" / "deployments", 10) as resize:
        process = project.start()
        said = comes_to(process, "epoch 1")
        used = int(
            subprocess.check_output(["df", "--output=used", "-B1", project.path / ".modak" / "deployments"]).split()[-1]
        )
        assert resize(used).returncode == 0
        said += end_of(process)
        assert process.returncode == 1, said
        assert "on this machine, " in said
        assert "No space left on device" in said or "disk is full" in said
        assert "Unexpected failure" not in said
        full = project.deploy()
        assert full.returncode == 1
        assert "No space left on device" in full.stderr or "disk is full" in full.stderr, full.stderr
        assert "Traceback" not in full.stderr
        resize("100m")
        finishes(project)


@pytest.mark.thorough
@pytest.mark.parametrize("pattern", ["datasets/.*.part", "deployments/*/output.log"], ids=["staging", "watching"])
def test_sixty_seconds_of_a_file_system_that_hangs(project, tmp_path, pattern):
    """The workspace's file system answers nobody: neither modak, nor the job that reads and writes there."""
    path = project.plan()["image"]["path"]
    data_of(project, tmp_path, 20)
    project.script(
        "import os, time\n"
        "for epoch in range(1, 11):\n"
        "    print('epoch', epoch, flush=True)\n"
        "    open('weights', 'w').write(str(epoch))\n"
        "    time.sleep(1)\n"
    )
    project.image = {"source": f"/home/modak/modak/{path}", "python": "python"}
    with hung_disk(project.testbed) as made:
        project.target["properties"]["workspace"] = f"{made.path}/modak"
        hanging = made.hang_at(pattern, 60)
        began = time.monotonic()
        done = project.deploy()
        assert hanging.wait(5) == 0, "it did not hang as long as the deployment went on"
        assert done.returncode == 0, done.stdout + done.stderr
        assert time.monotonic() - began > 60
        assert (project.folder / "results" / "output.log").read_text() == "".join(f"epoch {n}\n" for n in range(1, 11))
        finishes(project)
        forget(project)


@pytest.mark.thorough
@pytest.mark.parametrize("kind", [Disk, QuotaDisk], ids=["disk", "quota"])
def test_the_disk_gets_full_while_an_image_is_made(project, kind):
    """An image of a few megabytes from a registry of the test's own; the log of the build is on the full disk, too."""
    secret = f"planted-{os.urandom(9).hex()}"
    registry = Registry(project.testbed, secret)
    try:
        with disk(project.testbed, 6500, kind) as made:
            with_site(project, registry)
            project.image = {"source": f"docker://{registry.host}/small:1", "python": "/usr/bin/python"}
            project.environment.update(environment(registry, secret))
            project.target["properties"]["workspace"] = f"{made.path}/modak"
            filling = made.fill_at("images/.*.part")
            done = project.deploy()
            assert done.returncode == 1, done.stdout
            assert filling.wait(10) == 0
            assert made.lack in done.stderr
            assert "make room" in done.stderr
            assert project.testbed.ssh(f"ls {made.path}/modak/images | grep sif || true") == ""
            made.clear()
            again = project.deploy()
            assert again.returncode == 0, again.stdout + again.stderr
            assert (project.folder / "results" / "output.log").read_text() == "trained\n"
            forget(project)
    finally:
        registry.end()
