"""The Job that a plan is under Kubernetes: what it asks for, what it refuses, and the script that runs in its Pod."""

from __future__ import annotations

import json
import os
import re
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modak_ansible.model.application import Checkpoint
from modak_ansible.model.job_options import JobDependency, JobOptions
from modak_ansible.model.plan import PlannedJob
from modak_ansible.model.target import Pods, Scheduler
from modak_ansible.schedulers.directives import CannotExpress
from modak_ansible.schedulers.kubernetes.directives import kubernetes_directives
from modak_ansible.schedulers.script import ScriptParts, render_script

PODS = Pods(mount_path="/shared", persistent_volume_claim="shared")
PARTS = ScriptParts(
    image="registry.example/team/images:abc",
    python="/opt/venv/bin/python",
    script="train.py",
    container_runtime="kubernetes",
    pods=PODS,
    runtime=True,
)


def job(**changes):
    values = {
        "scheduler": Scheduler.KUBERNETES, "name": "example", "nodes": 1, "processes_per_node": 1,
        "cores_per_process": 4, "threads": 4, "walltime": 5400, "environment": {}, "script": "",
    }  # fmt: skip
    return PlannedJob(**{**values, **changes})


def manifest(gpu_request="", pods=PODS, image="registry.example/torch:1", *, is_one=False, **changes):
    return json.loads("\n".join(kubernetes_directives(job(**changes), gpu_request, pods, image, is_one=is_one)))


def pod(*arguments, **changes):
    return manifest(*arguments, **changes)["spec"]["template"]["spec"]


def test_a_pod_has_the_cores_the_memory_and_the_accelerators_of_the_job():
    wanted = pod("amd.com/gpu=2", processes_per_node=2, memory=8 * 10**9, accelerators=2)["containers"][0]["resources"]
    assert wanted["limits"] == wanted["requests"] == {"cpu": "8", "memory": "7630Mi", "amd.com/gpu": "2"}
    assert pod(cores_per_process=None)["containers"][0]["resources"] == {}
    each = pod(options=JobOptions(minimum_memory_per_processor=2**30), processes_per_node=2)["containers"][0][
        "resources"
    ]
    assert each["requests"]["memory"] == "8192Mi"


@pytest.mark.parametrize(
    ("gpu_request", "keys"),
    [("", []), ("nvidia.com/gpu=2", ["nvidia.com/gpu"]), ("nvidia.com/mig-1g.5gb=1", ["nvidia.com/mig-1g.5gb", "nvidia.com/gpu"])],
)  # fmt: skip
def test_nodes_that_are_kept_for_accelerators_are_not_closed_to_who_asks_for_them(gpu_request, keys):
    wanted = [{"key": key, "operator": "Exists", "effect": "NoSchedule"} for key in keys]
    assert pod(gpu_request).get("tolerations", []) == wanted


@given(st.integers(1, 2**50), st.integers(1, 4096), st.integers(1, 64))
def test_quantities_are_those_of_kubernetes_and_at_least_what_is_asked_for(memory, cores, processes):
    wanted = pod(memory=memory, cores_per_process=cores, processes_per_node=processes)["containers"][0]["resources"]
    number = re.fullmatch(r"(\d+)Mi", wanted["limits"]["memory"])
    assert memory <= int(number[1]) * 2**20 < memory + 2**20
    assert int(wanted["limits"]["cpu"]) == cores * processes


def test_a_job_fails_with_its_pod_and_ends_long_after_its_wall_times():
    assert manifest()["spec"]["backoffLimit"] == 0
    assert pod()["restartPolicy"] == "Never"
    assert pod()["activeDeadlineSeconds"] == 5400 + 1800
    assert pod(checkpoint=Checkpoint(requeue=2))["activeDeadlineSeconds"] == 3 * 5400 + 1800


def test_ranks_on_several_nodes_are_pods_with_numbers_which_fail_together():
    asked = manifest(nodes=3, is_one=True, processes_per_node=2)["spec"]
    assert (asked["completionMode"], asked["completions"], asked["parallelism"]) == ("Indexed", 3, 3)
    assert asked["backoffLimit"] == 0
    assert asked["template"]["spec"]["activeDeadlineSeconds"] == 5400 + 3600, "the last may come late"
    assert asked["template"]["spec"]["containers"][0]["resources"]["limits"]["cpu"] == "8", "of each of them"
    named = JobOptions(request_specific_nodes=("a",))
    with pytest.raises(CannotExpress, match="to one named node"):
        manifest(nodes=3, is_one=True, options=named)
    assert not {"completions", "completionMode"} & {*manifest(is_one=True)["spec"]}


def test_its_volume_is_a_claim_or_a_folder_of_every_node():
    claim, _ = pod()["volumes"]
    assert claim == {"name": "workspace", "persistentVolumeClaim": {"claimName": "shared"}}
    folder, _ = pod(pods=Pods(mount_path="/shared", host_path="/lustre/team"))["volumes"]
    assert folder == {"name": "workspace", "hostPath": {"path": "/lustre/team"}}


def test_a_queue_is_kueues_which_lets_it_begin():
    asked = manifest(partition="batch")
    assert asked["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "batch"
    assert asked["spec"]["suspend"] is True
    assert "suspend" not in manifest()["spec"]


@pytest.mark.parametrize(
    ("changes", "about", "words"),
    [
        ({"nodes": 2}, "resources.nodes", "only ranks of a training can be in several Pods"),
        ({"partition": "Big_Queue"}, "job_options.queue", "not a name for a Kubernetes object"),
        ({"options": JobOptions(qos="high")}, "job_options.qos", "Kubernetes has no qos"),
        (
            {"options": JobOptions(request_specific_nodes=("a", "b"))},
            "job_options.request_specific_nodes",
            "to one named node",
        ),
        (
            {"options": JobOptions(job_dependency=(JobDependency(kind="afterok", jobs=("1",)),))},
            "job_options.job_dependency",
            "Kubernetes has no job_dependency",
        ),
        ({"gpu_request": "--gres=gpu:2"}, "host", "not a Kubernetes resource"),
        (
            {"pods": Pods(mount_path="/shared", host_path="/x", image_pull_secrets=("A b",))},
            "image_pull_secrets",
            "not a name",
        ),
        ({"name": "a\nreboot"}, "job_options.job_name", "cannot be written"),
    ],
)
def test_what_kubernetes_cannot_be_told_is_refused(changes, about, words):
    with pytest.raises(CannotExpress, match=words) as refused:
        manifest(**changes)
    assert refused.value.about == about


def test_the_pod_has_the_image_and_the_script_begins_no_container():
    text = render_script(job(), PARTS)
    head = [line.removeprefix("#KUBERNETES ") for line in text.splitlines() if line.startswith("#KUBERNETES ")]
    container = json.loads("\n".join(head))["spec"]["template"]["spec"]["containers"][0]
    assert container["image"] == "registry.example/team/images:abc"
    assert "apptainer" not in text
    assert "podman" not in text
    assert "/opt/venv/bin/python" in text


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_no_path_leaves_the_head_of_the_script(path):
    lines = kubernetes_directives(job(), "", Pods(mount_path=path, host_path=path), path)
    assert not any(letter in line for line in lines for letter in "\n\r\x00")
    assert json.loads("\n".join(lines))["spec"]["template"]["spec"]["containers"][0]["image"] == path


@pytest.mark.component
@pytest.mark.parametrize("code", [0, 3])
def test_its_script_notes_what_became_of_it_under_the_id_that_the_job_has(tmp_path, code):
    deployment = tmp_path / "deployments" / "d"
    (deployment / "code").mkdir(parents=True)
    parts = PARTS._replace(image="x", python="bash", script="train.sh", runtime=False)
    (deployment / "code" / "train.sh").write_text(f"echo trained; exit {code}\n")
    (deployment / "job.sh").write_text(render_script(job(), parts))
    told = {
        "MODAK_JOB_NAME": "d-0",
        "MODAK_JOB_NAMESPACE": "team-a",
        "MODAK_JOB_UID": "8a1f3c52-6d4e-4b11-9b57-0a4de1a2c3d4",
    }
    done = subprocess.run(["bash", "job.sh"], cwd=deployment, env={**os.environ, **told}, check=False)
    assert done.returncode == code
    assert (deployment / "state" / "claim").read_text() == "2317302866.d-0.team-a\n"
    assert (deployment / "state" / "finished").read_text() == f"{code}\n"
    assert (deployment / "output.log").read_text() == "trained\n"
