"""What a user does with modak deploy, on a real cluster."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shlex
import signal
import time
from pathlib import Path

import pytest
from cluster import MODAK, Project, modak, run, thorough, wait_for

pytestmark = pytest.mark.testbed


def test_the_users_own_script_gets_what_it_asks_for_and_its_outputs_come_back(project):
    project.script(
        "import json, os, sys, helper\n"
        "import torch\n"
        "os.makedirs('out')\n"
        "open('out/model.txt', 'w').write(helper.NAME)\n"
        "json.dump({'arguments': sys.argv[1:], 'note': os.environ['NOTE'], 'threads': torch.get_num_threads(),\n"
        "           'preload': os.environ.get('LD_PRELOAD'), 'maps': 'tcmalloc' in open('/proc/self/maps').read(),\n"
        "           'data': sorted(os.listdir(os.environ['MODAK_DATASET'])), 'where': os.environ['MODAK_DATASET']},\n"
        "          open('seen.json', 'w'))\n"
    )
    project.script("NAME = 'helped'\n", "helper.py")
    odd = "a 'b' \"c\" $(reboot) `id` ; | & > < * ü"
    project.training.update(
        arguments={"epochs": 3, "data": "{dataset}/x", "verbose": True, "quiet": False, "text": odd, "many": [1, 2]},
        environment={"NOTE": odd},
        outputs=["out", "seen.json", "none-*"],
        optimisation={"allocator": "tcmalloc"},
    )
    project.dataset = {"name": "mnist", "source": ["digits"]}
    began = time.monotonic()
    done = project.deploy()
    took = time.monotonic() - began
    assert done.returncode == 0, done.stdout + done.stderr
    assert "no file matches none-*" in done.stdout

    results = project.folder / "results"
    seen = json.loads((results / "code" / "seen.json").read_text())
    where = seen["where"]
    assert where.startswith("/scratch/modak-")
    assert seen["arguments"] == [
        "--epochs", "3", "--data", f"{where}/x", "--verbose", "--text", odd, "--many", "1", "--many", "2",
    ]  # fmt: skip
    assert (seen["note"], seen["threads"], seen["maps"]) == (odd, 1, True)
    assert "dataset.json" in seen["data"]
    assert (results / "code" / "out" / "model.txt").read_text() == "helped"
    for file in json.loads((results / "manifest.json").read_text())["files"]:
        assert hashlib.sha256((results / file["path"]).read_bytes()).hexdigest() == file["sha256"]

    assert project.testbed.ssh(f"ls -d {where} 2> /dev/null || echo gone") == "gone"
    began = time.monotonic()
    again = project.deploy("--json")
    assert time.monotonic() - began < max(30, took)  # seconds, where the machine is not busy with others
    assert json.loads(again.stdout)["changed"] == 0
    assert len(project.jobs()) == 1


def test_a_script_that_fails_tells_its_code_and_its_last_words(project):
    project.script("import sys\nprint('began')\nsys.exit('the data is odd')\n")
    done = project.deploy()
    assert done.returncode == 5
    assert "ended as FAILED, exit code 1" in done.stderr
    assert "| the data is odd" in done.stderr
    assert (project.folder / "results" / "output.log").read_text() == "began\n"
    assert "Traceback" not in done.stderr
    again = project.deploy()
    assert again.returncode == 5
    assert len(project.jobs()) == 1


def test_jobs_that_slurm_ends(project, tmp_path, testbed):
    """Wall time and memory, both at once because Slurm takes half a minute to see the first."""
    slow = Project(tmp_path / "slow", testbed).script("import time\ntime.sleep(600)\n")
    slow.training["walltime"] = "00:01:00"
    big = Project(tmp_path / "big", testbed).script(
        "x = bytearray(10**9)\nfor i in range(0, 10**9, 4096): x[i] = 1\nimport time\ntime.sleep(60)\n"
    )
    big.training["resources"] = {"memory": "200 MB"}
    waiting = [slow.start(), big.start()]
    running = f"squeue --noheader --states=RUNNING --name={slow.deployment} --format=%i"
    wait_for(lambda: testbed.ssh(running), 300)
    testbed.root(f"scontrol update jobid={testbed.ssh(running)} endtime=now+1")  # a minute is the shortest wall
    slow_said, big_said = (process.communicate(timeout=300)[0] for process in waiting)
    assert "ended as TIMEOUT" in slow_said
    assert "it reached its wall time" in slow_said
    assert "ended as OUT_OF_MEMORY" in big_said
    assert "it used more memory than it was given" in big_said
    assert [process.returncode for process in waiting] == [5, 5]
    for each in (slow, big):
        each.clear()


def test_a_job_that_is_cancelled_behind_our_back(project):
    process = project.script("import time\ntime.sleep(600)\n").start()
    wait_for(lambda: project.jobs() and "RUNNING" in project.testbed.ssh("squeue --noheader --format=%T"))
    project.testbed.ssh(f"scancel {project.jobs()[0]}")
    said = process.communicate(timeout=120)[0]
    assert process.returncode == 5
    assert "ended as CANCELLED" in said


def test_a_node_that_dies(project):
    process = project.script("import time\ntime.sleep(600)\n").start()
    wait_for(lambda: project.jobs() and "RUNNING" in project.testbed.ssh("squeue --noheader --format=%T"))
    node = project.testbed.ssh("squeue --noheader --format=%N")
    project.testbed.root(f"scontrol update nodename={node} state=down reason=test")
    try:
        said = process.communicate(timeout=120)[0]
    finally:
        project.testbed.root(f"scontrol update nodename={node} state=resume || true")
    assert "ended as NODE_FAIL" in said
    assert "its node failed" in said


def works_for(pid):
    """The processes of Ansible's that work for a modak command; the SSH connection stays a while for the next one."""
    found = []
    for environment in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            ours = f"MODAK_PID={pid}\0".encode() in environment.read_bytes()
            if ours and b"ansible" in (environment.parent / "cmdline").read_bytes():
                found.append(environment.parent.name)
    return found


@pytest.mark.parametrize("moment", ["submitted", *thorough("running"), "epoch"])
def test_the_controller_may_be_killed_and_run_again(project, moment):
    project.script("import time\nprint('epoch 1', flush=True)\ntime.sleep(8)\nprint('done')\n")
    process = project.start()
    for line in process.stdout:
        if moment in line:
            break
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    done = project.deploy()
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(project.jobs()) == 1
    assert (project.folder / "results" / "output.log").read_text() == "epoch 1\ndone\n"
    wait_for(lambda: not works_for(process.pid))


def test_killed_between_sbatch_and_the_note_of_its_id(project):
    """sbatch takes the job, and everything that waits for it there dies before it comes back: it is asked at once again."""
    deadly = 'if [ "$1" = --parsable ]; then kill -9 $PPID; fi'
    wrapper = f'#!/bin/bash\\n/usr/bin/sbatch.real "$@"\\n{deadly}\\n'
    project.testbed.root(
        f"mv /usr/bin/sbatch /usr/bin/sbatch.real; printf '{wrapper}' > /usr/bin/sbatch; chmod 755 /usr/bin/sbatch"
    )
    try:
        first = project.script("import time\ntime.sleep(3)\n").deploy()
    finally:
        project.testbed.root("mv /usr/bin/sbatch.real /usr/bin/sbatch")
    assert first.returncode == 0, first.stdout + first.stderr
    assert "the connection broke; trying again in 1 s" in first.stdout
    assert "Traceback" not in first.stderr
    wait_for(project.jobs)  # the accounting runs a little behind
    done = project.deploy()
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(project.jobs()) == 1


def test_two_deploys_at_once_make_one_job(project):
    project.script("import time\ntime.sleep(5)\n")
    both = [project.start(), project.start()]
    said = [process.communicate(timeout=120)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0], said
    assert len(project.jobs()) == 1


def test_ctrl_c_leaves_the_job_running_and_says_so(project):
    process = project.script("import time\nprint('epoch 1', flush=True)\ntime.sleep(15)\nprint('done')\n").start()
    said = ""
    for line in process.stdout:
        said += line
        if "epoch 1" in line:
            break
    os.killpg(process.pid, signal.SIGINT)
    said += process.communicate(timeout=60)[0]
    assert process.returncode == 130
    assert works_for(process.pid) == []
    assert f"Job {project.jobs()[0]} continues" in said
    assert "modak undeploy" in said
    assert "Traceback" not in said
    assert project.deploy().returncode == 0
    assert len(project.jobs()) == 1


def test_a_deployment_is_made_again_after_it_was_undone(project):
    project.script("import time\nprint('epoch 1', flush=True)\ntime.sleep(300)\n")
    for _ in range(2):
        assert project.deploy("--detach").returncode == 0
        (row,) = json.loads(modak("status", "--json", cwd=project.path).stdout)
        assert row["state"] in ("QUEUED", "RUNNING")
        assert project.undeploy().returncode == 0
    assert len(project.jobs()) == 2


def test_of_all_that_a_job_writes_at_once_the_last_is_shown(project):
    """Also when it was over before anybody looked; who asks for its log has all of it."""
    project.target.update(type="modak.nodes.Host", properties={})
    project.script(
        "import sys\nfor i in range(20000): print('line', i)\nprint('x' * 600_000)\nsys.stdout.write('last words')\n"
    )
    shown = [line.removeprefix("  job      ") for line in project.deploy().stdout.splitlines()]
    lines = [line for line in shown if line.startswith("line ")]
    assert lines == [f"line {i}" for i in range(20000 - len(lines), 20000)]
    assert any(line.endswith("lines that came at once are in output.log") for line in shown)
    assert "last words" in shown
    followed = modak("logs", "-f", project.path, cwd=project.path).stdout.splitlines()
    assert [line for line in followed if line.startswith("line ")] == [f"line {i}" for i in range(20000)]


def test_logs_end_with_their_reader(project):
    project.script("import time\nfor i in range(600): print('step', i, flush=True); time.sleep(0.5)\n")
    assert project.deploy("--detach").returncode == 0
    began = time.monotonic()
    modak_logs = f"{shlex.quote(str(MODAK))} logs -f {shlex.quote(str(project.path))}"
    run("bash", "-c", f"{modak_logs} | head -n 3", cwd=project.path, timeout=120)
    assert time.monotonic() - began < 60


def test_status_logs_and_undeploy(project):
    project.script("import time\nprint('epoch 1', flush=True)\ntime.sleep(300)\n")
    assert project.deploy("--detach").returncode == 0
    wait_for(lambda: "epoch 1" in modak("logs", project.path, cwd=project.path).stdout)
    (row,) = json.loads(modak("status", "--json", cwd=project.path).stdout)
    assert (row["state"], row["deployment"], row["job_id"]) == ("RUNNING", project.deployment, project.jobs()[0])
    shown = modak("status", cwd=project.path).stdout
    assert "RUNNING" in shown
    undone = project.undeploy()
    assert undone.returncode == 0
    assert f"job {project.jobs()[0]} cancelled, its folder removed" in undone.stdout
    assert "CANCELLED" in project.testbed.ssh(
        f"sacct --noheader --allocations --jobs={project.jobs()[0]} --format=State"
    )
    assert project.testbed.ssh(f"ls -d {project.remote} 2> /dev/null || echo gone") == "gone"
    (row,) = json.loads(modak("status", "--json", cwd=project.path).stdout)
    assert row["state"] == "UNDEPLOYED"
    assert "nothing was deployed" in project.undeploy().stdout


def test_following_the_log(project):
    project.script("import time\nfor i in range(4):\n    print('step', i, flush=True)\n    time.sleep(1)\n")
    assert project.deploy("--detach").returncode == 0
    followed = modak("logs", "-f", project.path, cwd=project.path)
    assert [line for line in followed.stdout.splitlines() if line.startswith("step")] == [f"step {i}" for i in range(4)]


def test_a_plain_host_without_a_scheduler(project):
    project.target.update(type="modak.nodes.Host", properties={})
    project.script("import os\nprint('on', os.uname().nodename)\n")
    done = project.deploy()
    assert done.returncode == 0, done.stdout + done.stderr
    assert (project.folder / "results" / "output.log").read_text() == "on frontend\n"
    project.script("import time\ntime.sleep(60)\n").training["walltime"] = "00:00:03"
    late = project.deploy()
    assert late.returncode == 5
    assert "ended as TIMEOUT" in late.stderr


def test_real_digits_are_learned(project, mnist):
    """9,000 of MNIST's own digits, and more than 97 % of the other 1,000: in epoch 4, and 12 are allowed."""
    inputs = ["--input", f'mnist=["{mnist}"]', "--input", "epochs=5"]
    done = modak("deploy", "mnist-pytorch-slurm", *inputs, "--json", cwd=project.path)
    assert done.returncode == 0, done.stdout + done.stderr
    answer = json.loads(done.stdout)
    metrics = json.loads((project.path / answer["results"] / "metrics.json").read_text())
    assert metrics["parameters"] == 1_199_882
    assert (metrics["training_images"], metrics["test_images"]) == (9000, 1000)
    assert max(epoch["test_accuracy"] for epoch in metrics["epochs"]) > 0.97
