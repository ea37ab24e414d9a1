"""Jobs on Kubernetes' own API server, Job controller and scheduler; its node runs a Pod's command without a container."""

from __future__ import annotations

import json
import os
import signal
import time

import pytest
from cluster import Project, Testbed, modak, wait_for
from control_plane.kubelet import Kubelet
from control_plane.programs import programs
from control_plane.servers import NAMESPACE, ControlPlane

pytestmark = pytest.mark.thorough

IMAGE = "docker://registry.example/team/tiny@sha256:" + "5a" * 32
TRAINED = """\
import json, os
json.dump({"loss": 0.25}, open(os.environ["MODAK_METRICS"], "w"))
print("trained")
"""
LONG = "import time\nprint('began', flush=True)\ntime.sleep(600)\n"


class Cluster:
    """The servers and their one node."""

    def __init__(self) -> None:
        self.servers = ControlPlane(programs())
        try:
            self.node = Kubelet(self.servers)
        except BaseException:
            self.servers.stop()
            raise

    def stop(self) -> None:
        self.node.stop()
        self.servers.stop()

    def listed(self, kind: str) -> list[dict]:
        shown = self.servers.kubectl("get", kind, f"--namespace={NAMESPACE}", "--output=json")
        assert shown.returncode == 0, shown.stderr
        return json.loads(shown.stdout)["items"]

    def names(self, kind: str) -> list[str]:
        return [each["metadata"]["name"] for each in self.listed(kind)]


class OnKubernetes(Project):
    def __init__(self, path, cluster: Cluster) -> None:
        super().__init__(path, Testbed(path.with_name("no-testbed")))
        self.cluster = cluster
        volume = path.with_name("volume")
        volume.mkdir()
        self.target = {
            "type": "modak.nodes.Kubernetes",
            "properties": {
                "workspace": str(volume / "modak"), "mount_path": str(volume), "host_path": str(volume),
                "namespace": NAMESPACE,
            },
            "capabilities": {"processor": {"properties": {"cores": 1, "memory": "1 GB"}}},
        }  # fmt: skip
        self.image = {"source": IMAGE}
        self.training = {"framework": "python", "script": "train/train.py", "walltime": "00:05:00"}
        self.environment["PATH"] = f"{cluster.servers.programs}:{os.environ['PATH']}"
        self.by("alice")

    def by(self, user: str) -> None:
        self.environment["KUBECONFIG"] = str(self.cluster.servers.kubeconfig(user))

    def modak(self, *words: str):
        return modak(*words, cwd=self.path, **self.environment)

    def printed(self) -> str:
        log = self.path.with_name("volume") / "modak" / "deployments" / self.deployment / "output.log"
        return log.read_text() if log.exists() else ""


@pytest.fixture(scope="module")
def cluster():
    made = Cluster()
    yield made
    made.stop()


@pytest.fixture
def project(tmp_path, cluster):
    made = OnKubernetes(tmp_path / "project", cluster)
    yield made
    made.by("alice")
    cluster.node.pulls = True
    cluster.node.cordon(closed=False)
    cluster.servers.kubectl("delete", "jobs", "--all", f"--namespace={NAMESPACE}", "--wait=false")
    wait_for(lambda: not cluster.names("jobs") and not cluster.names("pods"))


def test_it_runs_to_results_once(project, cluster):
    project.script(TRAINED)
    done = project.deploy("--json")
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout)["job"]["state"] == "COMPLETED"
    assert project.record["metrics"]["numbers"] == {"loss": 0.25}
    again = project.deploy("--json")
    assert json.loads(again.stdout)["changed"] == 0, again.stderr
    assert len(cluster.names("jobs")) == 1
    undone = project.undeploy()
    assert undone.returncode == 0, undone.stderr
    assert len(cluster.names("jobs")) == 1, "one that has ended is there for those who look"
    again = project.deploy()
    assert again.returncode == 0, again.stdout + again.stderr
    first, second = sorted(cluster.names("jobs"))
    assert second == f"{first}-2", "what is deployed anew is another one"


def test_what_runs_is_gone_with_its_deployment(project, cluster):
    project.script(LONG)
    begun = project.start()
    wait_for(lambda: "began" in project.printed())
    undone = project.undeploy()
    assert undone.returncode == 0, undone.stderr
    begun.communicate(timeout=60)
    wait_for(lambda: not cluster.names("jobs") and not cluster.names("pods"), 30)


def test_its_exit_code_is_told_and_another_attempt_is_another_job(project, cluster):
    project.script("raise SystemExit(3)\n")
    assert project.deploy().returncode != 0
    job = project.record["job"]
    assert (job["state"], job["exit_code"]) == ("FAILED", 3)
    project.modak("resume", project.deployment)
    first, second = sorted(cluster.names("jobs"))
    assert second == f"{first}-2"


def test_what_is_cancelled_while_it_runs_leaves_nothing(project, cluster):
    project.script(LONG)
    begun = project.start()
    wait_for(lambda: "began" in project.printed())
    done = project.modak("cancel", project.deployment)
    assert done.returncode == 0, done.stdout + done.stderr
    begun.communicate(timeout=60)
    wait_for(lambda: not cluster.names("jobs") and not cluster.names("pods"), 30)
    assert project.record["job"]["state"] == "CANCELLED"


def test_a_controller_that_is_killed_makes_no_second_job(project, cluster):
    project.script("import time\ntime.sleep(5)\nprint('trained')\n")
    begun = project.start()
    wait_for(lambda: cluster.names("jobs"), every=0.1)
    os.killpg(begun.pid, signal.SIGKILL)
    begun.communicate()
    there = cluster.listed("jobs")[0]["metadata"]["uid"]
    done = project.deploy()
    assert done.returncode == 0, done.stdout + done.stderr
    assert [each["metadata"]["uid"] for each in cluster.listed("jobs")] == [there]


def test_why_it_waits_is_told_in_the_cluster_s_words(project, cluster):
    cluster.node.cordon(closed=True)
    project.script(TRAINED)
    begun = project.start()
    wait_for(lambda: "Unschedulable: 0/1 nodes are available" in project.modak("status", "--json").stdout)
    held = project.modak("hold", project.deployment)
    assert held.returncode != 0 and "before 1.21 it suspends none" in " ".join((held.stdout + held.stderr).split())
    cluster.node.cordon(closed=False)
    said, _ = begun.communicate(timeout=120)
    assert begun.returncode == 0, said


def test_an_image_that_cannot_be_pulled_is_told(project, cluster):
    cluster.node.pulls = False
    begun = project.start()
    wait_for(lambda: "ImagePullBackOff: Back-off pulling image" in project.modak("status", "--json").stdout)
    cluster.node.pulls = True
    said, _ = begun.communicate(timeout=120)
    assert begun.returncode == 0, said


def test_who_may_not_is_told_by_check_and_by_deploy(project, cluster):
    checked = project.modak("check", str(project.write()))
    assert checked.returncode == 0, checked.stdout + checked.stderr
    project.by("bob")
    refused = project.modak("check", str(project.write()))
    assert refused.returncode != 0 and "forbidden" in refused.stdout + refused.stderr
    done = project.deploy()
    assert done.returncode != 0 and "forbidden" in done.stdout + done.stderr
    assert cluster.names("jobs") == []


def test_ranks_in_several_pods_are_refused_where_the_server_has_no_indexed_jobs(project, cluster):
    project.training["resources"] = {"nodes": 2}
    project.training["distributed_training"] = True
    project.script(TRAINED)
    checked = project.modak("check", str(project.write()))
    said = " ".join((checked.stdout + checked.stderr).split())
    assert checked.returncode != 0 and "the API server knows no Indexed Jobs" in said, said
    done = project.deploy()
    said = " ".join((done.stdout + done.stderr).split())
    assert done.returncode != 0 and "the API server knows no Indexed Jobs" in said, said
    assert cluster.names("jobs") == [] and cluster.names("pods") == []


@pytest.mark.parametrize("silence", ["it hangs", "it is not there"])
def test_a_server_that_is_away_for_a_while_is_not_the_end_of_a_job(project, cluster, silence):
    project.script("import time\nprint('began', flush=True)\ntime.sleep(8)\nprint('trained')\n")
    begun = project.start()
    wait_for(lambda: "began" in project.printed())
    with cluster.servers.without_api(hangs=silence == "it hangs"):
        time.sleep(5)
    said, _ = begun.communicate(timeout=120)
    assert begun.returncode == 0, said
    assert len(cluster.names("jobs")) == 1
