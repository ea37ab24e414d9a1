"""A machine of a cloud, from its making to its end: moto's EC2, and an sshd of the box at the address that it invents.

Whatever is killed on the way, there is one machine at a time, and none in the end.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from cluster import MODAK, ROOT, Project, wait_for

SCRIPTS = Path(sys.executable).parent
CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "nobody", "AWS_SECRET_ACCESS_KEY": "nothing", "AWS_DEFAULT_REGION": "eu-central-1",
    "AWS_EC2_METADATA_DISABLED": "true",
}  # fmt: skip


class Cloud(Project):
    """A project whose target is a machine of that cloud, in its network."""

    machines_wanted = 0  # of a cluster

    def __init__(self, path: Path, testbed) -> None:
        super().__init__(path, testbed)
        self.cloud = path.with_name("ec2")
        self.cloud.mkdir()
        workspace = self.name
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path / "id"], check=True)
        self.target = {
            "type": "modak.nodes.CloudHost",
            "properties": {
                "provider": "aws", "flavor": "t3.micro", "username": "modak", "identity_file": "id", "ssh_from": ["198.51.100.0/24"],
                "price_per_hour": 0.34, "currency": "EUR", "container_runtime": "none", "workspace": workspace,
            },
            "capabilities": {
                "processor": {"properties": {"cores": 1}},
                "os": {"properties": {"distribution": "ubuntu", "version": "16.04"}},
            },
        }  # fmt: skip
        if self.machines_wanted:
            self.target["type"] = "modak.nodes.CloudCluster"
            self.target["properties"]["machines"] = self.machines_wanted
        self.training = {"framework": "python", "script": "train/train.py", "walltime": "00:05:00"}
        self.environment |= CREDENTIALS | {"AWS_ENDPOINT_URL_EC2": "http://127.0.0.1:5001"}
        network = ["unshare", "--net", "bash", "-c", "ip link set lo up; echo up; exec sleep infinity"]
        self.network = subprocess.Popen(network, stdout=subprocess.PIPE)
        assert self.network.stdout.read(3) == b"up\n"
        enter = ["bash", ROOT / "roles/testbed/files/enter-box.sh", testbed.state["root"]]
        script = Path(__file__).with_name("emulated_ec2.py")
        self.server = self.inside(
            [sys.executable, script, self.cloud, workspace, *enter], env={**os.environ, **CREDENTIALS}
        )

    def inside(self, command, **options) -> subprocess.Popen:
        """Begins a command in the network."""
        entered = ["nsenter", f"--net=/proc/{self.network.pid}/ns/net", *map(str, command)]
        return subprocess.Popen(entered, text=True, start_new_session=True, **options)

    def modak(self, *words) -> subprocess.Popen:
        self.write()
        return self.inside(
            [MODAK, *words], cwd=self.path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            env={**os.environ, "COLUMNS": "200", **self.environment},
        )  # fmt: skip

    def done(self, *words) -> str:
        """What a command says that ends well."""
        process = self.modak(*words)
        try:
            said = process.communicate(timeout=300)[0]
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # all that could still write
            said = process.communicate()[0]
        assert process.returncode == 0, said
        return said

    def killed(self, *words, after: str) -> None:
        """A command that is killed when the provider has done something, and it has not heard of that."""
        (self.cloud / "hang").write_text(after)
        process = self.modak(*words)
        wait_for((self.cloud / "hung").exists)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        (self.cloud / "hung").unlink()

    def asked(self, script: str) -> str:
        """What a script prints that asks the provider itself."""
        begin = "import boto3; e = boto3.client('ec2', endpoint_url='http://127.0.0.1:5000');"
        begin += "all = [i for r in e.describe_instances()['Reservations'] for i in r['Instances']];"
        environment = {**os.environ, **CREDENTIALS}
        asked = self.inside([sys.executable, "-c", begin + script], stdout=subprocess.PIPE, env=environment)
        return asked.communicate(timeout=60)[0]

    @property
    def machines(self) -> list[str]:
        """The states of all machines that ever were."""
        return json.loads(self.asked("import json; print(json.dumps([i['State']['Name'] for i in all]))"))

    def clear(self) -> None:
        self.server.terminate()
        self.server.wait(30)
        self.network.kill()
        self.network.wait()


def _having(kind, folder, testbed):
    if os.geteuid() != 0:
        pytest.skip("a network of one's own needs root")
    made = kind(folder / "project", testbed)
    try:
        wait_for((made.cloud / "up").exists)
        yield made
    finally:
        made.clear()


@pytest.fixture
def cloud(tmp_path, testbed):
    yield from _having(Cloud, tmp_path, testbed)


def test_a_machine_is_made_used_and_ended(cloud):
    cloud.script("print('trained there')\n")
    said = cloud.done("deploy", ".")
    assert "machine" in said
    assert (cloud.folder / "results" / "output.log").read_text() == "trained there\n"
    again = cloud.done("deploy", ".")
    assert "Nothing had to be built, staged or submitted" in again, again
    assert cloud.machines == ["running"]
    (row,) = json.loads(cloud.done("status", "--json"))
    assert row["state"] == "COMPLETED"
    assert "EUR at 0.34 an hour" in row["machine"]
    cloud.done("undeploy", cloud.deployment)
    assert cloud.machines == ["terminated"]


@pytest.mark.thorough
def test_every_stage_is_killed_once(cloud):
    """Before anything is made, when the machine was asked for, while it works, and while it ends."""
    cloud.script("import time\nprint('begins', flush=True)\ntime.sleep(5)\n")
    cloud.killed("deploy", ".", after="CreateSecurityGroup")
    cloud.killed("deploy", ".", after="RunInstances")
    assert cloud.machines == ["running"]
    process = cloud.modak("deploy", ".")
    for line in process.stdout:
        if "begins" in line:
            break
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    cloud.done("deploy", ".")
    assert (cloud.folder / "results" / "output.log").read_text() == "begins\n"
    assert cloud.machines == ["running"]
    assert "used by" in cloud.done("gc", "--dry-run")
    cloud.killed("undeploy", cloud.deployment, after="TerminateInstances")
    cloud.done("undeploy", cloud.deployment)
    assert cloud.machines == ["terminated"]
    cloud.done("deploy", ".")
    assert cloud.machines == ["terminated", "running"], "another one, for a deployment that begins anew"
    cloud.done("undeploy", cloud.deployment)


@pytest.mark.thorough
def test_one_that_was_taken_away_is_made_anew(cloud):
    """As by its own timer, or a spot machine by its provider, in the middle of its job."""
    cloud.script("import time\nprint('begins', flush=True)\ntime.sleep(20)\n")
    cloud.done("deploy", ".", "--detach")
    cloud.asked("e.terminate_instances(InstanceIds=[i['InstanceId'] for i in all])")
    cloud.done("deploy", ".")
    assert cloud.machines == ["terminated", "running"]
    assert (cloud.folder / "results" / "output.log").read_text() == "begins\n"
    cloud.done("undeploy", cloud.deployment)
    assert cloud.machines == ["terminated", "terminated"]


class Cluster(Cloud):
    """A project whose target is a cluster of two of them, that have sudo, and Slurm's packages, and one home folder."""

    machines_wanted = 2

    def in_host(self, command: str, number: int = 1) -> str:
        """What a command prints there, as the user who deploys."""
        config = self.folder / "ssh_config"
        name = self.plan()["target"]["address"] + (f".{number}" if number > 1 else "")
        asked = self.inside(["ssh", "-F", config, name, command], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        said, error = asked.communicate(timeout=60)
        assert asked.returncode == 0, error
        return said.strip()


@pytest.fixture
def cluster(tmp_path, testbed):
    yield from _having(Cluster, tmp_path, testbed)


def test_machines_become_a_cluster_that_computes_on_all_of_them(cluster):
    """munge, slurmctld and slurmd are set up by the role, from the packages that are there; the home folder is one."""
    cluster.script("import socket\nprint('trained on', socket.gethostname())\n")
    cluster.done("deploy", ".")
    names = {cluster.in_host("hostname", number) for number in (1, 2)}
    assert len(names) == 2
    log = (cluster.folder / "results" / "output.log").read_text()
    assert log.removeprefix("trained on ").strip() in names
    assert {*cluster.in_host("srun -N2 hostname").split()} == names
    idle = {f"{each} idle" for each in names}  # soon: srun has ended, and a node may still be completing
    wait_for(lambda: {*cluster.in_host("sinfo --noheader --Node --format '%N %T'").splitlines()} == idle)
    starts = [cluster.in_host("sudo grep -c 'slurmd started' /var/log/slurm/slurmd.log", number) for number in (1, 2)]
    assert starts == ["1", "1"], "nothing was started to be restarted at once"
    keys = {cluster.in_host("sudo sha256sum /etc/munge/munge.key", number) for number in (1, 2)}
    assert len(keys) == 1
    files = [path for path in cluster.path.rglob("*") if path.is_file() and not path.is_symlink()]
    key = cluster.in_host("sudo cat /etc/munge/munge.key")
    assert len(key) > 100
    assert not [path for path in files if key.encode() in path.read_bytes()]
    again = cluster.done("deploy", ".")
    assert "Nothing had to be built, staged or submitted" in again, again
    assert cluster.machines == ["running"] * 2
    (row,) = json.loads(cluster.done("status", "--json"))
    assert row["machine"].count("i-") == 2
    assert "EUR at 0.68 an hour" in row["machine"]
    assert cluster.done("gc", "--dry-run").count("an hour, used by") == 2
    cluster.done("undeploy", cluster.deployment)
    assert cluster.machines == ["terminated"] * 2


@pytest.mark.thorough
def test_every_stage_of_a_cluster_is_killed_once(cluster):
    """When a host was asked for, before the other; while Slurm is set up; when they were ended, and nobody heard of it."""
    cluster.script("import time\nprint('begins', flush=True)\ntime.sleep(5)\n")
    cluster.killed("deploy", ".", after="RunInstances")
    assert cluster.machines == ["running"]
    process = cluster.modak("deploy", ".")
    for line in process.stdout:
        if "* machine" in line:
            break
    wait_for(lambda: "slurm.conf" in cluster.in_host("ls /etc/slurm"), every=0.1)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert cluster.machines == ["running"] * 2
    cluster.done("deploy", ".")
    assert (cluster.folder / "results" / "output.log").read_text() == "begins\n"
    cluster.asked("e.terminate_instances(InstanceIds=[all[1]['InstanceId']])")
    cluster.script("print('trained again')\n")
    cluster.done("deploy", ".")
    assert cluster.machines == ["running", "terminated", "running"], "what is missing is made up for, and joins"
    assert len(cluster.in_host("srun -N2 hostname").split()) == 2
    cluster.done("undeploy", cluster.deployment)
    assert cluster.machines.count("running") == 2, "the first deployment is still there"
    others = [
        folder.name
        for folder in (cluster.path / ".modak" / "deployments").iterdir()
        if folder.name != cluster.deployment
    ]
    cluster.killed("undeploy", *others, after="TerminateInstances")
    cluster.done("undeploy", *others)
    assert cluster.machines == ["terminated"] * 3
