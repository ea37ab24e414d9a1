"""Several trainings in one deploy, on the real testbed: in order, once, and none behind one that failed."""

from __future__ import annotations

import itertools
import json
import os
import signal
import time

import pytest
from cluster import ROOT, SCRIPTS, modak, run

pytestmark = pytest.mark.testbed

# Writes what it was given and what came before; fails as long as the file is there that --unless names.
SCRIPT = """\
import os, sys, time
words = sys.argv[1:]
print("ran with", *words, flush=True)
if "--unless" in words and os.path.exists(words[words.index("--unless") + 1]):
    print("Obstacle: there it is", file=sys.stderr)
    sys.exit(3)
before = {name: text.split(":") for name, text in os.environ.items() if name.startswith("MODAK_AFTER_")}
for name, folders in sorted(before.items()):
    print(name, *(open(folder + "/made.txt").read() for folder in folders))
    assert all(open(folder + "/metrics.json").read() == "{}" for folder in folders)
if "--sleep" in words:
    time.sleep(float(words[words.index("--sleep") + 1]))
open("made.txt", "w").write("+".join(words) or "nothing")
open(os.environ["MODAK_METRICS"], "w").write("{}")
"""
CONFIG = {"ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "ANSIBLE_STDOUT_CALLBACK": "default"}


def playbook(name, project, *options):
    return run(
        SCRIPTS / "ansible-playbook", ROOT / "playbooks" / f"{name}.yml", "-e", f"blueprint={project.path}", *options,
        cwd=ROOT, **CONFIG,
    )  # fmt: skip


@pytest.fixture
def campaign(project):
    """A project whose blueprint has the trainings that a test adds; all of them are removed."""
    project.script(SCRIPT)
    yield project
    assert playbook("undeploy", project).returncode == 0


def add(project, name, *after, **properties):
    project.others[name] = {
        "type": "modak.nodes.Training",
        "properties": {**project.training, **properties},
        "requirements": [{"host": "cluster"}, *({"after": each} for each in after)],
    }


def deploy(project, *options):
    done = project.deploy("--json", *options)
    return done, {training["training"]: training for training in json.loads(done.stdout).get("trainings", [])}


def records(project):
    """The job of every deployment that is known here, by its training."""
    found = {}
    for path in (project.path / ".modak" / "deployments").glob("*/plan.json"):
        plan = json.loads(path.read_text())
        state = path.parent / "state.json"
        job = json.loads(state.read_text()).get("job", {}) if state.exists() else {}
        found[plan["training"]] = {**job, "folder": path.parent}
    return found


def output(record):
    return (record["folder"] / "results" / "output.log").read_text()


@pytest.mark.parametrize("kind", ["Slurm", "Torque"])
def test_preprocess_train_evaluate(campaign, kind):
    """One that fails keeps those behind it from running; when it is mended they follow, and nothing runs twice."""
    campaign.target["type"] = f"modak.nodes.{kind}"
    home = campaign.testbed.ssh("mkdir -p modak && cd modak && pwd")
    obstacle = f"{home}/{campaign.name}-obstacle"
    campaign.testbed.ssh(f"touch {obstacle}")
    campaign.training["arguments"] = {"unless": obstacle}  # the node of the fixture, called training
    add(campaign, "other", arguments={"value": 1})
    add(campaign, "evaluate", "training", "other", arguments={"w": "{after:training}/made.txt"})
    add(campaign, "report", "evaluate", arguments={})
    done, _ = deploy(campaign)
    assert done.returncode == 5, done.stderr
    assert "3 of 4 trainings did not complete:" in done.stderr
    assert "    | Obstacle: there it is" in done.stderr
    shown = modak("logs", campaign.path, cwd=campaign.path)
    assert (shown.stdout, "not run: training failed" in shown.stderr) == (f"ran with --unless {obstacle}\n", True)
    shown = modak("logs", campaign.path, "--training", "other", cwd=campaign.path)
    assert (shown.stdout, shown.stderr) == ("ran with --value 1\n", "")
    first = records(campaign)
    assert (first["training"]["state"], first["training"]["exit_code"]) == ("FAILED", 3)
    assert first["other"]["state"] == "COMPLETED"
    for name in ("evaluate", "report"):
        assert (first[name]["state"], first[name]["explanation"]) == ("CANCELLED", "not run: training failed")
    again, _ = deploy(campaign)
    assert again.returncode == 5
    assert records(campaign)["training"]["job_id"] == first["training"]["job_id"]

    campaign.testbed.ssh(f"rm {obstacle}")
    assert modak("undeploy", first["training"]["folder"].name, cwd=campaign.path).returncode == 0
    done, trainings = deploy(campaign)
    assert done.returncode == 0, done.stderr
    assert {training["state"] for training in trainings.values()} == {"COMPLETED"}
    assert trainings["other"]["job_id"] == first["other"]["job_id"]
    made = f"--unless+{obstacle}"
    last = records(campaign)
    assert output(last["evaluate"]).splitlines()[1:] == ["MODAK_AFTER_OTHER --value+1", f"MODAK_AFTER_TRAINING {made}"]
    assert f"{last['training']['folder'].name}/code/made.txt" in output(last["evaluate"])
    assert max(last[each]["started"] for each in ("training", "other")) <= last["evaluate"]["started"]
    assert last["evaluate"]["ended"] <= last["report"]["started"] + 1
    unchanged, _ = deploy(campaign)
    assert json.loads(unchanged.stdout)["changed"] is False


def test_a_sweep_is_killed_and_goes_on(campaign):
    """Killed while it submits or watches: the same command goes on, and each point has one job."""
    campaign.training.update(
        arguments={"seed": 0, "sleep": 1}, sweep={"seed": [1, 2, 3], "sleep": ["0.5", "2"]}, parallel=1
    )
    started = campaign.start()
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and not any(record.get("job_id") for record in records(campaign).values()):
        time.sleep(0.2)
    os.killpg(started.pid, signal.SIGKILL)
    started.wait()
    done, trainings = deploy(campaign)
    assert done.returncode == 0, done.stderr
    assert len(trainings) == 6
    assert {training["state"] for training in trainings.values()} == {"COMPLETED"}
    assert len(campaign.testbed.jobs(f"{campaign.name}-training")) == 6
    found = sorted(records(campaign).values(), key=lambda record: record["started"])
    assert all(one["ended"] <= two["started"] + 1 for one, two in itertools.pairwise(found))
    assert "ran with --seed 2 --sleep 0.5" in output(records(campaign)["training:seed=2,sleep=0.5"])


def test_the_other_doors_find_it_done(campaign):
    campaign.training.update(arguments={"seed": 0}, sweep={"seed": [1, 2]})
    add(campaign, "evaluate", "training")
    done, trainings = deploy(campaign)
    assert done.returncode == 0, done.stderr
    again = playbook("deploy", campaign)
    assert again.returncode == 0, again.stdout + again.stderr
    assert "changed=0 " in again.stdout.splitlines()[-2]
    opera = ROOT / ".venv-opera" / "bin"
    if not (opera / "opera").exists():
        pytest.skip("opera has no environment here")
    third = run(opera / "opera", "deploy", "-c", "-f", "service.yaml", cwd=campaign.path, PATH=f"{opera}:/usr/bin:/bin")
    assert third.returncode == 0, third.stdout
    assert {name: each["job_id"] for name, each in records(campaign).items()} == {
        name: each["job_id"] for name, each in trainings.items()
    }
