"""The testbed role, on this machine: a cluster comes up, does a cluster's work, survives accidents and goes away."""

import json
import os
import re
import shlex
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
PLAYBOOK = [str(Path(sys.executable).parent / "ansible-playbook"), "-i", "localhost,", "playbooks/testbed.yml"]
AS_ROOT = [] if os.geteuid() == 0 else ["sudo", "-n"]
NO_ROOT = bool(AS_ROOT) and subprocess.run([*AS_ROOT, "true"], check=False, capture_output=True).returncode != 0


def run(command: list[str], **options) -> subprocess.CompletedProcess:
    return subprocess.run(command, text=True, capture_output=True, check=False, **options)


pytestmark = [
    pytest.mark.testbed,
    pytest.mark.skipif(NO_ROOT, reason="a testbed needs root, or sudo that asks for no password; there is neither"),
]


@dataclass
class Testbed:
    name: str
    directory: Path
    took: float = 0.0  # seconds, to come up from nothing

    __test__ = False

    def play(self, state: str, *options: str, **variables: str) -> subprocess.CompletedProcess:
        given = {"testbed_state": state, "testbed_name": self.name, "testbed_directory": str(self.directory)}
        command = [
            *PLAYBOOK,
            *options,
            "-e",
            json.dumps(given | {f"testbed_{key}": value for key, value in variables.items()}),
        ]
        environment = os.environ | {"ANSIBLE_NOCOLOR": "1"}
        return run(command, cwd=PROJECT, env=environment)

    def up(self, **variables: str) -> int:
        """Bring it up; the number of tasks that changed something."""
        return changed(self.play("up", **variables))

    def down(self) -> int:
        return changed(self.play("down"))

    def ssh(self, command: str) -> str:
        config = str(self.directory / "ssh_config")
        done = run(["ssh", "-F", config, "testbed", command])
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def submit(self, options: str, script: str) -> str:
        return self.ssh(f"sbatch --parsable {options} --wrap {shlex.quote(script)}")

    def ended(self, job: str, patience: float = 60, meanwhile: str = "") -> str:
        """State and exit code of a job, once it has ended; until then a command is run again and again."""
        deadline = time.monotonic() + patience
        while time.monotonic() < deadline:
            state = self.ssh(f"sacct --jobs {job} --allocations --noheader --parsable2 --format state,exitcode")
            if state and not re.match("PENDING|RUNNING|COMPLETING", state):
                return state
            if meanwhile:
                self.ssh(meanwhile)
            time.sleep(1)
        pytest.fail(f"job {job} is {state} after {patience} s")

    @property
    def state(self) -> dict:
        return json.loads((self.directory / "state.json").read_text())

    @property
    def root(self) -> str:
        return f"/var/lib/modak/testbed/{self.name}"

    def leftovers(self) -> str:
        """Processes, mounts and control groups that belong to this testbed."""
        search = f"""
            grep -lsF upperdir={self.root}/ /proc/[0-9]*/mountinfo
            grep -F {self.root}/ /proc/mounts
            find /sys/fs/cgroup -type d -name testbed-{self.name} 2>/dev/null
            true"""
        return run([*AS_ROOT, "sh", "-c", search]).stdout


def changed(done: subprocess.CompletedProcess) -> int:
    assert done.returncode == 0, done.stdout + done.stderr
    return int(re.search(r"changed=(\d+)", done.stdout)[1])


def is_free(address: str, port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((address, port)) != 0


def make(name: str, directory: Path) -> Iterator[Testbed]:
    """A testbed to be, removed with everything it kept when the tests are over."""
    testbed = Testbed(f"{name}-{os.getpid()}", directory)
    yield testbed
    purged = testbed.play("purged")
    assert purged.returncode == 0, purged.stdout
    assert not directory.exists()
    assert not Path(testbed.root).exists()
    assert testbed.leftovers() == ""


@pytest.fixture(scope="module")
def testbed(tmp_path_factory):
    for made in make("first", tmp_path_factory.mktemp("first") / "testbed"):
        began = time.monotonic()
        made.up()
        made.took = time.monotonic() - began
        yield made


@pytest.fixture(scope="module")
def timeout_job(testbed):
    """Submitted early, because Slurm takes a minute and more to notice. It holds one of the nodes until then."""
    return testbed.submit("--time 1", "sleep 300")


@pytest.fixture
def other(tmp_path):
    yield from make("second", tmp_path / "testbed")


def test_two_nodes_with_scratch_of_their_own(testbed):
    script = "hostname; hostname >/scratch/$(hostname); ls /scratch"
    assert sorted(testbed.ssh(f"srun --nodes 2 sh -c {shlex.quote(script)}").split()) == sorted(
        ["node01", "node02"] * 2
    )
    assert testbed.ssh("ls /scratch") == ""


def test_second_up_changes_nothing(testbed):
    before = testbed.state
    started = time.monotonic()
    assert testbed.up() == 0
    assert time.monotonic() - started < max(10, testbed.took)
    assert testbed.state == before


def test_user_logs_in_with_host_key_checked(testbed, timeout_job):
    configuration = (testbed.directory / "ssh_config").read_text()
    assert "StrictHostKeyChecking yes" in configuration
    assert testbed.ssh("hostname; whoami").split() == ["frontend", "modak"]
    assert "/usr/sbin" in testbed.ssh("echo $PATH")

    known_hosts = testbed.directory / "known_hosts"
    right = known_hosts.read_text()
    known_hosts.write_text(right[:-10] + "AAAAAAAAA\n")
    try:
        with pytest.raises(AssertionError, match=r"verification failed|IDENTIFICATION HAS CHANGED"):
            testbed.ssh("true")
    finally:
        known_hosts.write_text(right)


def test_job_that_succeeds(testbed):
    assert testbed.ended(testbed.submit("", "hostname")) == "COMPLETED|0:0"


def test_job_that_fails_keeps_its_exit_code(testbed):
    assert testbed.ended(testbed.submit("", "exit 3")) == "FAILED|3:0"


def test_cancelled_job(testbed):
    job = testbed.submit("", "sleep 300")
    testbed.ssh(f"scancel {job}")
    assert testbed.ended(job).startswith("CANCELLED")


def test_job_beyond_its_memory(testbed):
    hog = "import time\nkept = []\nfor _ in range(50):\n    kept.append(bytearray(20 << 20))\n    time.sleep(0.1)\n"
    job = testbed.submit("--mem 100 --output hog.out", f"python3 -c {shlex.quote(hog)}")
    if "task/cgroup" in testbed.ssh("scontrol show config | grep TaskPlugin"):
        assert testbed.ended(job) == "OUT_OF_MEMORY|0:125"
    else:
        assert testbed.ended(job) == "FAILED|0:9"
        assert "exceeded memory limit" in testbed.ssh("cat hog.out")


def test_node_has_the_cores_it_promises(testbed):
    assert testbed.ssh("srun nproc") == "1"


def test_torque_commands(testbed):
    testbed.ssh("printf '#!/bin/sh\\n#PBS -l walltime=00:02:00\\nexit 4\\n' >torque.sh")
    job = testbed.ssh("qsub torque.sh")
    assert testbed.ended(job) == "FAILED|4:0"


def test_apptainer_can_map_users(testbed):
    assert "apptainer" in testbed.ssh("apptainer --version")
    assert testbed.ssh("unshare --user --map-auto --map-root-user id --user") == "0"


def test_two_testbeds_at_the_same_time(testbed, other):
    assert changed(other.play("up", "--check")) > 0
    assert not other.directory.exists()

    assert other.up() > 0
    assert other.state["address"] != testbed.state["address"]
    for one in (testbed, other):
        assert one.ssh("srun hostname").startswith("node")
        assert one.ssh("scontrol show config | grep ClusterName").split()[-1] == one.name.replace("-", "_")

    state = other.state
    assert other.leftovers() != ""
    assert changed(other.play("down", "--check")) > 0
    assert other.state == state
    assert other.down() > 0
    assert other.leftovers() == ""
    assert is_free(state["address"], state["port"])
    assert not (other.directory / "state.json").exists()
    assert other.down() == 0
    assert testbed.ssh("hostname") == "frontend"


def test_failed_start_names_the_step_and_cleans_up(other):
    done = other.play("up", slurm_extra="NoSuchParameter=1")
    assert done.returncode != 0
    assert "Step that failed: Start slurmctld" in done.stdout
    assert "unrecognized key: NoSuchParameter" in done.stdout
    assert other.leftovers() == ""
    assert not list(other.directory.glob("*.json")) + list(other.directory.glob("ssh_config"))


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("network", "192.0.2", "no usable addresses for the testbed in 192.0.2"),
        ("name", "No Name", "testbed_name is lower-case letters, digits and hyphens"),
    ],
)
def test_bad_variables(tmp_path, variable, value, message):
    done = Testbed("unused", tmp_path / "testbed").play("up", **{variable: value})
    assert done.returncode != 0
    assert message in done.stdout
    assert not (tmp_path / "testbed").exists()


def test_another_size_is_refused_while_it_runs(testbed):
    done = testbed.play("up", nodes="3")
    assert done.returncode != 0
    assert "take it down first" in done.stdout


def test_job_beyond_its_time(testbed, timeout_job):
    assert testbed.ended(timeout_job, patience=150).startswith("TIMEOUT")


def test_job_that_runs_when_the_testbed_goes_down_is_lost(testbed):
    job = testbed.submit("--no-requeue", "sleep 300")
    while testbed.ssh(f"squeue --noheader --jobs {job} --format %T") != "RUNNING":
        time.sleep(0.2)
    assert testbed.down() > 0
    assert testbed.up() > 0
    assert testbed.ended(job) == "NODE_FAIL|1:0"


def test_start_after_a_crash_keeps_what_was_there(testbed):
    testbed.ssh("echo mine >kept")
    job = testbed.submit("", "exit 5")
    assert testbed.ended(job) == "FAILED|5:0"

    subprocess.run([*AS_ROOT, "kill", "-KILL", str(testbed.state["pid"])], check=True)
    assert testbed.up() > 0
    assert testbed.ssh("cat kept") == "mine"
    # Where slurmctld had not yet saved the job's end, it queues the job again, and a requeued job would wait two minutes.
    hurry = f"scontrol update jobid={job} starttime=now > /dev/null 2>&1 || true"
    assert testbed.ended(job, patience=240, meanwhile=hurry) == "FAILED|5:0"
    assert testbed.ended(testbed.submit("", "true")) == "COMPLETED|0:0"
