"""Jobs on Kubernetes, from submission to their end: kubectl and the cluster are emulated, the script really runs."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from modak_ansible.errors import ModakError
from modak_ansible.model.application import Checkpoint
from modak_ansible.model.plan import PlannedJob
from modak_ansible.model.target import Pods, Scheduler
from modak_ansible.schedulers.base import ActionRefused
from modak_ansible.schedulers.kubernetes.jobs import name_of
from modak_ansible.schedulers.script import Launch, Ranks, ScriptParts, render_script
from modak_ansible.target.core.workspace import Workspace
from modak_ansible.target.jobs.job import Deployment

# A cluster is a folder: each Job is a file there, and beside it those of its Pods have their exit codes when they have ended.
KUBECTL = r"""#!{python}
import json, os, pathlib, signal, subprocess, sys, uuid

SERVER = pathlib.Path(os.environ["SERVER"])
words = [each for each in sys.argv[1:] if not each.startswith("--")]
options = dict(each.partition("=")[::2] for each in sys.argv[1:] if each.startswith("--"))


def fail(text):
    sys.exit(text)


def beside(path, index, what):
    return path.with_name(f"{path.stem}.{index}.{what}")


def pods_of(job):
    return range(job["spec"].get("completions", 1))


def start(job, path):
    spec = job["spec"]["template"]["spec"]["containers"][0]
    for index in pods_of(job):
        told = {"metadata.namespace": "team-a", "metadata.labels['controller-uid']": job["metadata"]["uid"],
                "metadata.name": f"{path.stem}-{index}-x2m9q", "status.podIP": "127.0.0.1"}
        environment = {**os.environ, **{each["name"]: each.get("value") or told[each["valueFrom"]["fieldRef"]["fieldPath"]] for each in spec["env"]}}
        if job["spec"].get("completionMode") == "Indexed":
            environment["JOB_COMPLETION_INDEX"] = str(index)
        end = str(beside(path, index, "exit"))
        command = ["setsid", "bash", "-c", '"${@:2}"; echo $? > "$1.part"; mv "$1.part" "$1"', "pod", end, *spec["command"]]
        pod = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        beside(path, index, "pid").write_text(str(pod.pid))


def code_of(path, index):
    end = beside(path, index, "exit")
    return int(end.read_text()) if end.exists() else None


def end(path, index):
    pid = beside(path, index, "pid")
    if pid.exists() and code_of(path, index) is None:
        try:
            os.killpg(int(pid.read_text()), signal.SIGTERM)
        except ProcessLookupError:
            pass


def shown(path):
    job = json.loads(path.read_text())
    codes = [code_of(path, index) for index in pods_of(job)]
    if any(codes):
        job["status"] = {"conditions": [{"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded"}]}
        for index in pods_of(job):
            end(path, index)
    elif None not in codes:
        job["status"] = {"conditions": [{"type": "Complete", "status": "True"}]}
    return job


def pod_of(job, path, index):
    meta = {**job["spec"]["template"]["metadata"], "name": f"{path.stem}-x2m9q", "uid": job["metadata"]["uid"][::-1].replace("-", "0"),
            "ownerReferences": [{"uid": job["metadata"]["uid"]}], "annotations": {"batch.kubernetes.io/job-completion-index": str(index)}}
    phase, state, code = "Running", {"running": {}}, code_of(path, index)
    if code is not None:
        phase, state = ("Failed" if code else "Succeeded"), {"terminated": {"exitCode": code, "reason": "Error"}}
    return {"kind": "Pod", "metadata": meta, "spec": {"nodeName": f"worker-{index + 1}"},
            "status": {"phase": phase, "containerStatuses": [{"name": "training", "state": state}]}}


if (SERVER / "away").exists():
    fail("The connection to the server cluster.example:6443 was refused - did you specify the right host or port?")
if words[0] == "create":
    job = json.load(sys.stdin)
    path = SERVER / (job["metadata"]["name"] + ".json")
    if path.exists():
        fail('Error from server (AlreadyExists): error when creating "STDIN": jobs.batch "%s" already exists' % path.stem)
    job["metadata"].update(uid=str(uuid.uuid4()), creationTimestamp="2026-03-02T08:00:00Z", namespace="team-a")
    if (SERVER / "old").exists():
        job["spec"].pop("completionMode", None)
    if "--dry-run" not in options:
        path.write_text(json.dumps(job))
        if not job["spec"].get("suspend"):
            start(job, path)
    if (SERVER / "deaf").exists():
        fail("error: unexpected EOF")
    print(json.dumps(job))
elif words[0] == "get" and len(words) == 3:
    print(json.dumps(shown(SERVER / (words[2] + ".json"))))
elif words[0] == "get":
    key, _, value = options.get("--selector", "").partition("=")
    paths = [path for path in sorted(SERVER.glob("*.json")) if not key or json.loads(path.read_text())["metadata"]["labels"].get(key) == value]
    jobs = [shown(path) for path in paths]
    pods = [pod_of(job, path, index) for job, path in zip(jobs, paths) for index in pods_of(job) if beside(path, index, "pid").exists()]
    print(json.dumps({"items": [] if words[1] == "events" else jobs + (pods if "pods" in words[1] else [])}))
elif words[0] == "delete":
    path = SERVER / (words[2] + ".json")
    for index in pods_of(json.loads(path.read_text())):
        end(path, index)
    for each in SERVER.glob(path.stem + ".*"):
        each.unlink()
elif words[0] == "patch":
    path = SERVER / (words[2] + ".json")
    job = json.loads(path.read_text())
    job["spec"].update(json.loads(options["--patch"])["spec"])
    path.write_text(json.dumps(job))
    print(json.dumps(job))
    if not job["spec"]["suspend"]:
        start(job, path)
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
    def program(code, ranks=None, pre=(), **changes):
        made = Deployment(Workspace(str(tmp_path / "w")), NAME, "kubernetes")
        (made.path / "code").mkdir(parents=True, exist_ok=True)
        (made.path / "code" / "train.sh").write_text(code + "\n")
        each = ranks.each if ranks else 1
        job = PlannedJob(
            scheduler=Scheduler.KUBERNETES, name=NAME, nodes=ranks.count // each if ranks else 1, processes_per_node=each,
            cores_per_process=1, threads=1, environment={}, script="", **{"walltime": 60, **changes},
        )  # fmt: skip
        pods = Pods(namespace="team-a", mount_path=str(tmp_path), host_path=str(tmp_path))
        parts = ScriptParts(
            image="x",
            python="bash",
            script="train.sh",
            container_runtime="kubernetes",
            pods=pods,
            pre=pre,
            launch=Launch(ranks=ranks),
        )
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
    with pytest.raises(ModakError, match="it is not known whether the job was submitted"):
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


# --- several Pods

FOUR = Ranks(4, 2, is_local=True)
TOLD = 'echo "$RANK of $WORLD_SIZE, $LOCAL_RANK on $NODE_RANK, at $MASTER_ADDR:$MASTER_PORT"'


def said(made, rank, log="output.log"):
    path = (made.path / "ranks" / str(rank) if rank else made.path) / log
    return path.read_text() if path.exists() else ""


@pytest.mark.component
def test_ranks_of_several_pods_are_told_who_they_are_and_meet_at_the_first(deployment, server):
    made = deployment(TOLD, FOUR)
    made.submit()
    assert str(ended(made).state) == "COMPLETED", said(made, 0, "error.log")
    port = said(made, 0).strip().rpartition(":")[2]
    expected = [f"{rank} of 4, {rank % 2} on {rank // 2}, at 127.0.0.1:{port}\n" for rank in range(4)]
    assert [said(made, rank) for rank in range(4)] == expected
    assert len(jobs(server)) == 1


@pytest.mark.component
@pytest.mark.parametrize("failing", [0, 1, 3])
def test_the_first_rank_that_fails_ends_the_others_and_is_told(deployment, failing):
    made = deployment(f'[ "$RANK" != {failing} ] || {{ sleep 1; exit 3; }}; exec sleep 600', FOUR)
    made.submit()
    situation = ended(made)
    assert (str(situation.state), situation.exit_code) == ("FAILED", 3)
    assert f"rank {failing} on " in situation.explanation
    wait_until(lambda: not processes_of(made))


@pytest.mark.component
def test_a_pod_that_is_killed_ends_the_others(deployment, server):
    made = deployment("echo began; exec sleep 600", FOUR)
    made.submit()
    wait_until(lambda: "began" in said(made, 3))
    os.killpg(int(next(server.glob("*.1.pid")).read_text()), signal.SIGKILL)
    next(server.glob("*.1.pid")).with_suffix(".exit").write_text("137\n")
    situation = ended(made)
    assert str(situation.state) == "FAILED"
    wait_until(lambda: not processes_of(made))


@pytest.mark.component
def test_a_rank_does_not_begin_twice_where_its_pod_is_replaced(deployment, server):
    made = deployment("echo began; exec sleep 600", FOUR)
    made.submit()
    wait_until(lambda: "began" in said(made, 3))
    pid = next(server.glob("*.1.pid"))
    environment = dict(
        each.split("=", 1) for each in Path(f"/proc/{pid.read_text()}/environ").read_text().split("\0") if "=" in each
    )
    os.killpg(int(pid.read_text()), signal.SIGKILL)
    again = subprocess.run(
        ["bash", "job.sh"], cwd=made.path, env=environment, capture_output=True, text=True, timeout=30, check=False
    )
    assert "had begun in" in again.stderr
    assert said(made, 3).count("began") == 1
    situation = ended(made)
    assert (str(situation.state), situation.exit_code) == ("FAILED", 69)


@pytest.mark.component
def test_the_first_pod_waits_for_those_that_know_it(deployment):
    """Those that an earlier first Pod waited for may be gone: a Job that was suspended has all of them made anew."""
    made = deployment(TOLD, FOUR)
    told = {
        "MODAK_JOB_UID": "0" * 8,
        "MODAK_JOB_NAME": "x",
        "MODAK_JOB_NAMESPACE": "y",
        "MODAK_POD_ADDRESS": "127.0.0.1",
    }
    pods = made.path / "state" / "pods" / "0.x.y"
    pods.mkdir(parents=True)
    (pods / "1").write_text("x-0-older\n")

    def pod(index, name):
        environment = {**os.environ, **told, "JOB_COMPLETION_INDEX": str(index), "MODAK_POD": name}
        return subprocess.Popen(["bash", "job.sh"], cwd=made.path, env=environment)

    first = pod(0, "x-0-newer")
    time.sleep(3)
    assert not (made.path / "state" / "claim").exists()
    second = pod(1, "x-1-newer")
    assert [each.wait(30) for each in (first, second)] == [0, 0]
    assert (pods / "1").read_text() == "x-0-newer\n"


@pytest.mark.component
def test_ranks_end_whose_first_pod_is_replaced_and_begin_with_the_other(deployment, server):
    made = deployment('echo "began $(wc -l < ../state/starts)"; exec sleep 600', FOUR, pre=("echo >> ../state/starts",))
    made.submit()
    wait_until(lambda: "began 1" in said(made, 3))
    pid = next(server.glob("*.0.pid"))
    environment = dict(
        each.split("=", 1) for each in Path(f"/proc/{pid.read_text()}/environ").read_text().split("\0") if "=" in each
    )
    os.killpg(int(pid.read_text()), signal.SIGKILL)
    again = subprocess.Popen(
        ["bash", "job.sh"], cwd=made.path, env={**environment, "MODAK_POD": "another"}, start_new_session=True
    )
    wait_until(lambda: "began 2" in said(made, 3) and "began 2" in said(made, 0))
    assert not (made.path / "state" / "failed_rank").exists()
    os.killpg(again.pid, signal.SIGTERM)
    assert again.wait(30) == 143
    made.scheduler.cancel(made.run, made.job_id())
    wait_until(lambda: not processes_of(made))


@pytest.mark.component
def test_pods_go_on_together_after_a_checkpoint(deployment):
    code = """echo "$RANK $(wc -l < ../state/runs)" >> "../all-$RANK"
        if [ "$(wc -l < ../state/runs)" = 1 ]; then : > "$MODAK_CHECKPOINTS/saved"; [ "$RANK" != 3 ] || exit 85; sleep 1; fi"""
    made = deployment(code, FOUR, checkpoint=Checkpoint(every=5, signal_before_wall=20, requeue=1))
    made.submit()
    assert str(ended(made).state) == "COMPLETED", said(made, 0, "error.log")
    for rank in range(4):
        assert (made.path / f"all-{rank}").read_text() == f"{rank} 1\n{rank} 2\n"


@pytest.mark.component
def test_a_job_of_several_pods_that_is_cancelled_leaves_none(deployment, server):
    made = deployment("echo began; exec sleep 600", FOUR)
    job_id, _ = made.submit()
    wait_until(lambda: all("began" in said(made, rank) for rank in range(4)))
    made.begin_to_cancel()
    made.scheduler.cancel(made.run, job_id)
    wait_until(lambda: not processes_of(made))
    assert jobs(server) == []


@pytest.mark.component
def test_a_server_without_indexed_jobs_is_not_given_one(deployment, server):
    (server / "old").touch()
    with pytest.raises(ModakError, match="does not know Indexed Jobs"):
        deployment(TOLD, FOUR).submit()
    assert jobs(server) == []


@pytest.mark.component
def test_a_pod_that_is_not_told_its_number_trains_nothing(deployment):
    made = deployment(TOLD, FOUR)
    told = {"MODAK_JOB_UID": "0" * 8, "MODAK_JOB_NAME": "x", "MODAK_JOB_NAMESPACE": "y"}
    done = subprocess.run(
        ["bash", "job.sh"], cwd=made.path, env={**os.environ, **told}, capture_output=True, text=True, check=False
    )
    assert (done.returncode, said(made, 0)) == (64, "")
    assert "does not tell this Pod which of 2 it is" in done.stderr


@pytest.mark.component
def test_what_the_user_s_lines_export_all_ranks_have(deployment):
    made = deployment('echo "$TOKEN"', FOUR, pre=("export TOKEN=$'a \\'b\\n$c'",))
    made.submit()
    assert str(ended(made).state) == "COMPLETED", said(made, 0, "error.log")
    assert {said(made, rank) for rank in range(4)} == {"a 'b\n$c\n"}


def processes_of(made):
    """What runs in the deployment's folder."""
    found = []
    for each in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if str((each / "cwd").readlink()).startswith(str(made.path.resolve())):
                found.append(each.name)
    return found


def wait_until(holds):
    deadline = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.1)
