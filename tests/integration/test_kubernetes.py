"""Jobs on Kubernetes' own API server, controllers and scheduler; its node has a kubelet of the tests', and Podman."""

from __future__ import annotations

import json
import os
import signal
import time

import pytest
from cluster import wait_for
from control_plane.kubelet import name_of
from kubernetes_cluster import NAMESPACE, SECRET, OnKubernetes, kubernetes  # noqa: F401 - the last a fixture
from podman_host import host  # noqa: F401 - a fixture

pytestmark = pytest.mark.thorough

TRAINED = """\
import json, os
json.dump({"loss": 0.25}, open(os.environ["MODAK_METRICS"], "w"))
print("trained")
"""
LONG = "import time\nprint('began', flush=True)\ntime.sleep(600)\n"
# What is seen from inside of a Pod.
SEEN = """\
import os, pathlib, socket, sys
print(sys.executable, pathlib.Path("/run/.containerenv").exists(), os.getuid(), pathlib.Path.home(), os.environ["MINE"])
print(socket.gethostname(), *sorted(each.name for each in pathlib.Path("/home/modak").iterdir()), *socket.if_nameindex())
pathlib.Path("/dev/shm/large").write_bytes(bytes(100_000_000))
pathlib.Path("model").write_text("made")
"""


@pytest.fixture
def cluster(kubernetes):  # noqa: F811
    return kubernetes


@pytest.fixture
def project(tmp_path, cluster):
    made = OnKubernetes(tmp_path / "project", cluster)
    yield made
    cluster.node.cordon(closed=False)
    made.clear()
    cluster.servers.kubectl("delete", "jobs", "--all", f"--namespace={NAMESPACE}", "--wait=false")
    wait_for(lambda: not cluster.names("jobs") and not cluster.names("pods") and not made.containers())


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


def test_it_runs_in_a_container_of_the_pulled_image(project, cluster):
    """As the user who submits it, on the volume of a claim, and with nothing else of the node's."""
    cluster.create_claim(project.name, project.volume)
    del project.target["properties"]["host_path"]
    project.target["properties"]["persistent_volume_claim"] = project.name
    project.training |= {"environment": {"MINE": "two words"}, "outputs": ["model"]}
    project.script(SEEN)
    done = project.deploy()
    assert done.returncode == 0, done.stdout + done.stderr
    seen, around = (project.folder / "results" / "output.log").read_text().splitlines()
    assert seen == "/opt/venv/bin/python True 2000 /tmp two words"
    (pod,) = cluster.objects("pods")
    assert around == f"{pod['metadata']['name']} volume-{project.name} (1, 'lo')"
    assert pod["spec"]["containers"][0]["image"].startswith(f"{cluster.registry.host}/team/images:")
    assert (project.folder / "results" / "code" / "model").read_text() == "made"


def test_what_runs_is_gone_with_its_deployment(project, cluster):
    project.script(LONG)
    begun = project.start()
    project.wait_for_output("began")
    undone = project.undeploy()
    assert undone.returncode == 0, undone.stderr
    begun.communicate(timeout=60)
    wait_for(lambda: not cluster.names("jobs") and not cluster.names("pods") and not project.containers(), 45)


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
    project.wait_for_output("began")
    done = project.modak("cancel", project.deployment)
    assert done.returncode == 0, done.stdout + done.stderr
    begun.communicate(timeout=60)
    wait_for(lambda: not cluster.names("jobs") and not cluster.names("pods") and not project.containers(), 45)
    assert project.record["job"]["state"] == "CANCELLED"


def test_a_controller_that_is_killed_makes_no_second_job(project, cluster):
    project.script("import time\ntime.sleep(5)\nprint('trained')\n")
    begun = project.start()
    wait_for(lambda: cluster.names("jobs"), every=0.1)
    os.killpg(begun.pid, signal.SIGKILL)
    begun.communicate()
    there = cluster.objects("jobs")[0]["metadata"]["uid"]
    done = project.deploy()
    assert done.returncode == 0, done.stdout + done.stderr
    assert [each["metadata"]["uid"] for each in cluster.objects("jobs")] == [there]


def test_why_it_waits_is_told_in_the_cluster_s_words(project, cluster):
    cluster.node.cordon(closed=True)
    project.script(TRAINED)
    begun = project.start()
    wait_for(lambda: "Unschedulable: 0/1 nodes are available" in project.modak("status", "--json").stdout)
    held = project.modak("hold", project.deployment)
    assert held.returncode != 0 and "before 1.21 it cannot suspend one" in " ".join((held.stdout + held.stderr).split())
    cluster.node.cordon(closed=False)
    said, _ = begun.communicate(timeout=120)
    assert begun.returncode == 0, said


def test_an_image_that_is_not_there_is_told_and_waits_until_it_is_cancelled(project, cluster):
    project.image = {"source": f"{cluster.images}:absent"}
    begun = project.start()
    wait_for(lambda: "manifest unknown" in status_of(project)["reason"])
    assert status_of(project)["state"] == "QUEUED"
    assert status_of(project)["reason"].split(":")[0] in ("ErrImagePull", "ImagePullBackOff")
    done = project.modak("cancel", project.deployment)
    assert done.returncode == 0, done.stdout + done.stderr
    begun.communicate(timeout=60)
    wait_for(lambda: not cluster.names("jobs") and not cluster.names("pods") and not project.containers(), 45)


def test_an_image_that_wants_a_login_is_pulled_once_its_secret_is_there(project, cluster):
    cluster.host.ssh("podman rmi --all --force > /dev/null")  # another Pod has pulled it
    cluster.servers.kubectl("delete", "secret", SECRET, f"--namespace={NAMESPACE}")
    project.script(TRAINED)
    begun = project.start()
    try:
        wait_for(lambda: "authentication required" in status_of(project)["reason"])
    finally:
        cluster.create_secret()
    said, _ = begun.communicate(timeout=180)
    assert begun.returncode == 0, said


def test_an_image_without_a_shell_does_not_begin(project, cluster):
    login = f"podman login --cert-dir ~/.certificates --username alice --password-stdin {cluster.registry.host}"
    name = f"{cluster.registry.host}/team/empty:1"
    cluster.host.ssh(
        f"echo secretword | {login} > /dev/null; tar -c --files-from=/dev/null | podman import --quiet - {name} > /dev/null; "
        f"podman push --quiet --cert-dir ~/.certificates {name}; podman logout --all > /dev/null"
    )
    project.image = {"source": f"docker://{name}"}
    assert project.deploy().returncode != 0
    job = project.record["job"]
    assert job["state"] == "BOOT_FAIL", job
    assert "StartError" in job["reason"] and "bash" in job["reason"], job


def test_a_container_that_is_killed_is_told_by_its_signal(project, cluster):
    project.script(LONG)
    begun = project.start()
    project.wait_for_output("began")
    (pod,) = cluster.objects("pods")
    cluster.podman.kill(name_of(pod))
    said, _ = begun.communicate(timeout=120)
    assert begun.returncode != 0, said
    (pod,) = cluster.objects("pods")
    ended = pod["status"]["containerStatuses"][0]["state"]["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (137, "Error")
    assert (project.record["job"]["state"], project.record["job"]["signal"]) == ("FAILED", 9)


def test_who_may_not_is_told_by_check_and_by_deploy(project, cluster):
    checked = project.modak("check", str(project.write()))
    assert checked.returncode == 0, checked.stdout + checked.stderr
    project.by("bob")
    refused = project.modak("check", str(project.write()))
    assert refused.returncode != 0 and "forbidden" in refused.stdout + refused.stderr
    done = project.deploy()
    assert done.returncode != 0 and "forbidden" in done.stdout + done.stderr
    assert cluster.names("jobs") == []


def status_of(project) -> dict:
    rows = json.loads(project.modak("status", "--json").stdout or "[]")
    return {"state": "", "reason": "", **(rows[0] if rows else {})}


def test_ranks_in_several_pods_are_refused_where_the_server_has_no_indexed_jobs(project, cluster):
    project.training["resources"] = {"nodes": 2}
    project.training["distributed_training"] = True
    project.script(TRAINED)
    checked = project.modak("check", str(project.write()))
    said = " ".join((checked.stdout + checked.stderr).split())
    assert checked.returncode != 0 and "the API server does not know Indexed Jobs" in said, said
    done = project.deploy()
    said = " ".join((done.stdout + done.stderr).split())
    assert done.returncode != 0 and "the API server does not know Indexed Jobs" in said, said
    assert cluster.names("jobs") == [] and cluster.names("pods") == []


@pytest.mark.parametrize("silence", ["it hangs", "it is not there"])
def test_a_server_that_is_away_for_a_while_is_not_the_end_of_a_job(project, cluster, silence):
    project.script("import time\nprint('began', flush=True)\ntime.sleep(8)\nprint('trained')\n")
    begun = project.start()
    project.wait_for_output("began")
    with cluster.servers.without_api(hangs=silence == "it hangs"):
        time.sleep(5)
    said, _ = begun.communicate(timeout=120)
    assert begun.returncode == 0, said
    assert len(cluster.names("jobs")) == 1
