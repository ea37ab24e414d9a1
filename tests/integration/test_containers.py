"""A container host, from its image to its results: Podman of a user without further rights, behind an sshd of its own.

The host is the box with Podman installed, in a name space where control groups are of version 1 alone: crun starts
nothing where both versions are, as on many machines that tests run on.
"""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator

import pytest
from cluster import Project, modak, wait_for

pytestmark = pytest.mark.thorough

PORT = 2319
CONFIG = "/run/container-host"
# The user's own limits cannot be raised here, and no control group is there to be had.
CONFIGURATION = """\
[containers]
cgroups = "disabled"
pids_limit = 0
default_ulimits = ["nofile=1024:4096", "nproc=4096:4096"]
"""
INSTALL = "DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends podman crun catatonit"
# The name space ends with its first process, and with it all that runs on the host.
HOST = f"""
umount -l /sys/fs/cgroup/unified 2> /dev/null
mount --make-rshared /
mkdir -p /dev/mqueue && mount -t mqueue mqueue /dev/mqueue
mount -t tmpfs -o mode=1777 tmpfs /tmp
sed -e '/^ListenAddress/s/:[0-9]*$/:{PORT}/' /etc/ssh/sshd_config > {CONFIG}
exec /usr/sbin/sshd -D -f {CONFIG} -o PidFile={CONFIG}.pid
"""


class ContainerHost(Project):
    """A project whose target is that host."""

    def podman(self, words: str) -> str:
        return self.testbed.ssh(f"podman {words} 2> /dev/null")

    def containers(self) -> list[str]:
        return self.podman("ps --all --quiet").split()

    def image_files(self) -> list[str]:
        name = self.target["properties"].get("workspace", "modak")
        return self.testbed.ssh(f"ls {name}/images/*.tar").split()


@pytest.fixture(scope="module")
def host(testbed, tmp_path_factory) -> Iterator[object]:
    """The testbed, as it is reached by the host's sshd."""
    testbed.root(f"command -v podman > /dev/null || {{ {INSTALL} || {{ apt-get update -qq && {INSTALL}; }}; }} >&2")
    testbed.root(
        f"mkdir -p /etc/containers/containers.conf.d; cat > /etc/containers/containers.conf.d/tests.conf <<'E'\n{CONFIGURATION}E"
    )
    sshd = testbed.root_process(
        f"exec unshare --mount --pid --fork --kill-child --mount-proc bash -c '{HOST.replace(chr(39), chr(34))}'"
    )
    own = tmp_path_factory.mktemp("host") / "testbed"
    shutil.copytree(testbed.folder, own)
    state, config = testbed.state, (own / "ssh_config").read_text()
    config = config.replace(f"Port {state['port']}", f"Port {PORT}")
    (own / "ssh_config").write_text(f"{config}  HostKeyAlias [{state['address']}]:{state['port']}\n")
    reached = type(testbed)(own)
    try:
        wait_for(lambda: reached_it(reached))
        yield reached
    finally:
        # no signal to who entered the box reaches it: what it left would be found by the next module's tests
        testbed.root(f"pkill -KILL -f '^sshd: /usr/sbin/sshd -D -f {CONFIG} ' || true")
        sshd.wait()


def reached_it(testbed) -> bool:
    try:
        return testbed.ssh("echo there") == "there"
    except AssertionError:
        return False


@pytest.fixture
def project(host, tmp_path) -> Iterator[ContainerHost]:
    made = ContainerHost(tmp_path / "project", host)
    made.target = {
        "type": "modak.nodes.ContainerHost",
        "attributes": {"public_address": "testbed"},
        "properties": {"workspace": "on-a-container-host"},
        "capabilities": {"processor": {"properties": {"cores": 1}}},
    }
    made.training = {"framework": "python", "script": "train/train.py", "walltime": "00:05:00"}
    yield made
    made.clear()


def test_a_training_runs_in_a_container_of_its_layers(project):
    project.script(
        "import os, pathlib, sys\n"
        "print(sys.executable, os.environ['MODAK_METRICS'], pathlib.Path('/run/.containerenv').exists(), os.environ['MINE'])\n"
        "pathlib.Path('model').write_text('made')\n"
    )
    project.training |= {"environment": {"MINE": "two words"}, "outputs": ["model"], "requirements_txt": ["six"]}
    done = project.deploy()
    assert done.returncode == 0, done.stdout + done.stderr
    results = project.folder / "results"
    assert (results / "output.log").read_text().split()[0] == "/opt/venv/bin/python"
    assert (results / "output.log").read_text().endswith("True two words\n")
    assert (results / "code" / "model").read_text() == "made"
    assert len(project.image_files()) >= 3
    wait_for(lambda: not project.containers())
    again = project.deploy()
    assert again.returncode == 0
    assert "this plan was carried out before" in again.stdout


def test_a_job_that_is_killed_leaves_no_container(project):
    project.script("import time\nprint('began', flush=True)\ntime.sleep(600)\n")
    process = project.start()
    project.wait_for_output("began")
    assert len(project.containers()) == 1
    pid = project.testbed.ssh(f"cat {project.remote}/state/claim").partition(".")[0]
    project.testbed.ssh(f"kill -KILL -- -{pid}")
    said = process.communicate(timeout=120)[0]
    assert process.returncode != 0, said
    assert project.record["job"]["state"] == "LOST", said
    wait_for(lambda: not project.containers())


def test_a_job_that_is_cancelled_leaves_no_container(project):
    project.script("import time\nprint('began', flush=True)\ntime.sleep(600)\n")
    process = project.start()
    project.wait_for_output("began")
    done = modak("cancel", project.deployment, cwd=project.path, **project.environment)
    assert done.returncode == 0, done.stderr
    process.communicate(timeout=120)
    assert project.record["job"]["state"] == "CANCELLED"
    wait_for(lambda: not project.containers())


def test_a_controller_that_is_killed_is_gone_on_with(project):
    project.script("import time\nprint('began', flush=True)\ntime.sleep(20)\nprint('ended')\n")
    project.training["requirements_txt"] = [f"six!=0.{os.getpid()}"]  # a layer of its own
    states = f"{project.target['properties']['workspace']}/images/*.status.json"
    building = lambda: "building requirements" in project.testbed.ssh(f"cat {states} 2> /dev/null || true")  # noqa: E731
    for reached in (lambda: wait_for(building, 300), lambda: project.wait_for_output("began")):
        process = project.start()
        reached()
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    done = project.deploy()
    assert done.returncode == 0, done.stdout + done.stderr
    assert (project.folder / "results" / "output.log").read_text() == "began\nended\n"
    wait_for(lambda: not project.containers())
