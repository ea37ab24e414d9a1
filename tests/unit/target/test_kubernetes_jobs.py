"""Jobs on Kubernetes, from submission to their end: kubectl and the cluster are emulated, the script really runs."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time

import pytest

from modak_ansible.errors import ModakError
from modak_ansible.model.plan import PlannedJob
from modak_ansible.model.target import Pods, Scheduler
from modak_ansible.schedulers.base import ActionRefused
from modak_ansible.schedulers.kubernetes.jobs import name_of
from modak_ansible.schedulers.script import ScriptParts, render_script
from modak_ansible.target.core.workspace import Workspace
from modak_ansible.target.jobs.job import Deployment

# A cluster is a folder: each Job is a file there, and one beside it has its Pod's exit code when that has ended.
KUBECTL = r"""#!{python}
import json, os, pathlib, signal, subprocess, sys, uuid

SERVER = pathlib.Path(os.environ["SERVER"])
words = [each for each in sys.argv[1:] if not each.startswith("--")]
options = dict(each.partition("=")[::2] for each in sys.argv[1:] if each.startswith("--"))


def fail(text):
    sys.exit(text)


def start(job):
    spec = job["spec"]["template"]["spec"]["containers"][0]
    labels = {"controller-uid": job["metadata"]["uid"]}
    told = {"metadata.namespace": "team-a", "metadata.labels['controller-uid']": job["metadata"]["uid"]}
    environment = {**os.environ, **{each["name"]: each.get("value") or told[each["valueFrom"]["fieldRef"]["fieldPath"]] for each in spec["env"]}}
    end = SERVER / (job["metadata"]["name"] + ".exit")
    command = ["setsid", "bash", "-c", '"${@:2}"; echo $? > "$1.part"; mv "$1.part" "$1"', "pod", str(end), *spec["command"]]
    pod = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    end.with_suffix(".pid").write_text(str(pod.pid))


def shown(path):
    job = json.loads(path.read_text())
    if path.with_suffix(".exit").exists():
        kind = "Complete" if path.with_suffix(".exit").read_text() == "0\n" else "Failed"
        job["status"] = {"conditions": [{"type": kind, "status": "True", "reason": "BackoffLimitExceeded"}]}
    return job


def pod_of(job, path):
    meta = {**job["spec"]["template"]["metadata"], "name": job["metadata"]["name"] + "-x2m9q", "uid": job["metadata"]["uid"][::-1].replace("-", "0"),
            "ownerReferences": [{"uid": job["metadata"]["uid"]}]}
    phase, state = "Running", {"running": {}}
    if path.with_suffix(".exit").exists():
        code = int(path.with_suffix(".exit").read_text())
        phase, state = ("Failed" if code else "Succeeded"), {"terminated": {"exitCode": code, "reason": "Error"}}
    return {"kind": "Pod", "metadata": meta, "spec": {"nodeName": "worker-1"},
            "status": {"phase": phase, "containerStatuses": [{"name": "training", "state": state}]}}


if (SERVER / "away").exists():
    fail("The connection to the server cluster.example:6443 was refused - did you specify the right host or port?")
if words[0] == "create":
    job = json.load(sys.stdin)
    path = SERVER / (job["metadata"]["name"] + ".json")
    if path.exists():
        fail('Error from server (AlreadyExists): error when creating "STDIN": jobs.batch "%s" already exists' % path.stem)
    job["metadata"].update(uid=str(uuid.uuid4()), creationTimestamp="2026-03-02T08:00:00Z", namespace="team-a")
    path.write_text(json.dumps(job))
    if not job["spec"].get("suspend"):
        start(job)
    if (SERVER / "deaf").exists():
        fail("error: unexpected EOF")
    print(json.dumps(job))
elif words[0] == "get" and len(words) == 3:
    print(json.dumps(shown(SERVER / (words[2] + ".json"))))
elif words[0] == "get":
    key, _, value = options.get("--selector", "").partition("=")
    paths = [path for path in sorted(SERVER.glob("*.json")) if not key or json.loads(path.read_text())["metadata"]["labels"].get(key) == value]
    jobs = [shown(path) for path in paths]
    pods = [pod_of(job, path) for job, path in zip(jobs, paths) if path.with_suffix(".pid").exists()]
    print(json.dumps({"items": [] if words[1] == "events" else jobs + (pods if "pods" in words[1] else [])}))
elif words[0] == "delete":
    path = SERVER / (words[2] + ".json")
    if path.with_suffix(".pid").exists():
        os.killpg(int(path.with_suffix(".pid").read_text()), signal.SIGTERM)
    for each in SERVER.glob(path.stem + ".*"):
        each.unlink()
elif words[0] == "patch":
    path = SERVER / (words[2] + ".json")
    job = json.loads(path.read_text())
    job["spec"].update(json.loads(options["--patch"])["spec"])
    path.write_text(json.dumps(job))
    print(json.dumps(job))
    if not job["spec"]["suspend"]:
        start(job)
"""
NAME = "train-0123456789ab"


@pytest.fixture
def server(tmp_path, monkeypatch):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "kubectl").write_text(KUBECTL.replace("{python}", sys.executable))
    (tmp_path / "bin" / "kubectl").chmod(0o755)
    made = tmp_path / "server"
    made.mkdir()
    monkeypatch.setenv("SERVER", str(made))
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    return made


@pytest.fixture
def deployment(tmp_path, server):
    def program(code, **changes):
        made = Deployment(Workspace(str(tmp_path / "w")), NAME, "kubernetes")
        (made.path / "code").mkdir(parents=True, exist_ok=True)
        (made.path / "code" / "train.sh").write_text(code + "\n")
        job = PlannedJob(
            scheduler=Scheduler.KUBERNETES, name=NAME, nodes=1, processes_per_node=1, cores_per_process=1,
            threads=1, environment={}, script="", **{"walltime": 60, **changes},
        )  # fmt: skip
        pods = Pods(namespace="team-a", mount_path=str(tmp_path), host_path=str(tmp_path))
        parts = ScriptParts(image="x", python="bash", script="train.sh", container_runtime="kubernetes", pods=pods)
        (made.path / "job.sh").write_text(render_script(job, parts))
        return made

    return program


def ended(deployment):
    deadline = time.monotonic() + 30
    while not (situation := deployment.situation()).is_final and time.monotonic() < deadline:
        time.sleep(0.1)
    return situation


def jobs(server):
    return sorted(path.stem for path in server.glob("*.json"))


@pytest.mark.component
@pytest.mark.parametrize(("code", "state", "exit_code"), [("echo trained", "COMPLETED", 0), ("exit 3", "FAILED", 3)])
def test_a_job_is_submitted_runs_and_ends(deployment, server, code, state, exit_code):
    made = deployment(code)
    job_id, submitted = made.submit()
    assert submitted
    assert made.submit() == (job_id, False), "once is enough"
    assert (str(ended(made).state), ended(made).exit_code) == (state, exit_code)
    assert (made.path / "state" / "claim").read_text() == f"{job_id}\n", "it knows itself by the same id"
    assert jobs(server) == [name_of(str(made.path.resolve()))]


@pytest.mark.component
def test_a_submission_that_nobody_heard_of_is_found_and_not_made_twice(deployment, server):
    made = deployment("sleep 1; echo trained >> ../runs")
    (server / "deaf").touch()
    with pytest.raises(ModakError, match="whether the job was submitted is not known"):
        made.submit()
    (server / "deaf").unlink()
    assert not made.submit()[1]
    assert str(ended(made).state) == "COMPLETED"
    assert (made.path / "runs").read_text() == "trained\n"
    assert len(jobs(server)) == 1


@pytest.mark.component
def test_where_all_notes_are_lost_the_server_itself_refuses_a_second_one(deployment, server):
    made = deployment("echo trained >> ../runs", partition="batch")
    job_id, _ = made.submit()
    shutil.rmtree(made.state)
    made.state.mkdir()
    assert made.submit() == (job_id, True), "the one that is there"
    made.scheduler.release(made.run, job_id)  # as Kueue does it
    assert str(ended(made).state) == "COMPLETED"
    assert (made.path / "runs").read_text() == "trained\n"


@pytest.mark.component
def test_an_attempt_that_is_set_aside_is_another_job(deployment, server):
    made = deployment("exit 3")
    first, _ = made.submit()
    assert str(ended(made).state) == "FAILED"
    assert made.set_aside(first) == 1
    deployment("exit 0")
    second, submitted = made.submit()
    assert (submitted, first != second) == (True, True)
    assert str(ended(made).state) == "COMPLETED"
    name = name_of(str(made.path.resolve()))
    assert jobs(server) == [name, f"{name}-2"]


@pytest.mark.component
def test_a_job_that_is_cancelled_is_gone_with_its_pod(deployment, server):
    made = deployment("echo began; sleep 600")
    job_id, _ = made.submit()
    made.begin_to_cancel()
    made.scheduler.cancel(made.run, job_id)
    assert made.wait_for_end(10)
    assert jobs(server) == []
    assert str(ended(made).state) == "CANCELLED"


@pytest.mark.component
def test_a_server_that_is_away_is_not_the_end_of_a_job(deployment, server):
    made = deployment("sleep 1")
    made.submit()
    (server / "away").touch()
    assert "was refused" in made.situation().explanation
    time.sleep(1.5)
    (server / "away").unlink()
    assert str(ended(made).state) == "COMPLETED"


@pytest.mark.component
def test_nothing_is_submitted_to_a_server_that_is_away(deployment, server):
    made = deployment("exit 0")
    (server / "away").touch()
    with pytest.raises(ModakError, match="Kubernetes does not answer, and the job was not submitted"):
        made.submit()
    (server / "away").unlink()
    assert made.submit()[1]


@pytest.mark.component
def test_a_job_of_a_queue_waits_until_it_is_let_begin(deployment, server):
    made = deployment("echo trained >> ../runs", partition="batch")
    job_id, _ = made.submit()
    assert made.situation().explanation == "Kueue has not admitted it to batch yet"
    with pytest.raises(ActionRefused, match="Kueue decides"):
        made.scheduler.hold(made.run, job_id)
    assert json.loads((server / f"{job_id.split('.')[1]}.json").read_text())["spec"]["suspend"] is True
    made.scheduler.release(made.run, job_id)  # as Kueue does it
    assert str(ended(made).state) == "COMPLETED"
