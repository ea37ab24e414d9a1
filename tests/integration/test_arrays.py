"""Sweeps as job arrays of a real Slurm: each point is a task, and every command takes it as it takes any job."""

from __future__ import annotations

import itertools
import json

import pytest
from cluster import modak
from test_campaigns import add, campaign, deploy, output, records  # noqa: F401 - a fixture
from test_deployment import wait_for
from test_verbs import fill

pytestmark = pytest.mark.testbed

# Fails as long as the file is there that --unless names, at one value of --seed.
SCRIPT = """\
import os, sys, time
words = dict(zip(sys.argv[1::2], sys.argv[2::2]))
print("seed", words.get("--seed"), flush=True)
time.sleep(float(words.get("--sleep", 1)))
if words.get("--seed") == "3" and os.path.exists(words.get("--unless", "")):
    sys.exit(3)
open("made.txt", "w").write("made")
"""


@pytest.fixture
def swept(campaign):  # noqa: F811
    campaign.script(SCRIPT)
    return campaign


def sweep(project, count, **properties):
    arguments = {"seed": 0, **properties.pop("arguments", {})}
    project.training.update(arguments=arguments, sweep={"seed": list(range(1, count + 1))}, **properties)


def array_of(trainings):
    """The id of the array whose tasks the points of a sweep are, each once and in their order."""
    ids = [each["job_id"] for name, each in sorted(trainings.items()) if name.startswith("training:")]
    (array,) = {each.partition("_")[0] for each in ids}
    assert ids == [f"{array}_{number}" for number in range(len(ids))]
    return array


def jobs_of(project):
    """The ids of all jobs that the points of the sweep ever had, and those of arrays."""
    return project.testbed.jobs(f"{project.name}-training")


def point(project, seed):
    return records(project)[f"training:seed={seed}"]


def command(verb, record, *options):
    done = modak(verb, record["folder"].name, "--json", *options, cwd=record["folder"].parents[2])
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


def array_folders(swept) -> set[str]:
    return set(swept.testbed.ssh("ls -d modak/deployments/.array-* 2> /dev/null || true").split())


def test_a_sweep_is_one_array_and_a_failing_point_is_its_own(swept):
    """One array with the limit; what fails keeps what comes after from running, until it is resumed; values are added."""
    obstacle = f"{swept.testbed.ssh('mkdir -p modak && cd modak && pwd')}/{swept.name}-obstacle"
    swept.testbed.ssh(f"touch {obstacle}")
    others = array_folders(swept)  # of tests that were ended
    add(swept, "evaluate", "training", arguments={"w": "{after:training}"})
    sweep(swept, 6, parallel=2, arguments={"unless": obstacle})
    done, trainings = deploy(swept, "--detach")
    assert done.returncode == 0, done.stderr
    array = array_of(trainings)
    assert "ArrayTaskThrottle=2" in swept.testbed.ssh(f"scontrol --oneliner show job {array}")
    done, _ = deploy(swept)
    assert done.returncode == 5, done.stderr
    assert array_of(records(swept)) == array
    assert "training:seed=3: job" in done.stderr
    assert len(jobs_of(swept)) == 6
    found = records(swept)
    assert (found["training:seed=3"]["state"], found["training:seed=3"]["exit_code"]) == ("FAILED", 3)
    assert [found[f"training:seed={seed}"]["state"] for seed in (1, 2, 4, 5, 6)] == ["COMPLETED"] * 5
    assert found["evaluate"]["explanation"] == "not run: training:seed=3 failed"
    assert output(found["training:seed=5"]) == "seed 5\n"

    swept.testbed.ssh(f"rm {obstacle}")
    resumed = command("resume", found["training:seed=3"])
    assert (resumed["job"]["state"], resumed["job"]["attempt"]) == ("COMPLETED", 2)
    sweep(swept, 7, parallel=2, arguments={"unless": obstacle})
    swept.others.clear()
    done, trainings = deploy(swept)
    assert done.returncode == 0, done.stderr
    ids = {name: each["job_id"] for name, each in trainings.items()}
    assert [ids[f"training:seed={seed}"] for seed in (1, 6)] == [f"{array}_0", f"{array}_5"]
    assert {training["state"] for training in trainings.values()} == {"COMPLETED"}
    unchanged, _ = deploy(swept)
    assert json.loads(unchanged.stdout)["changed"] is False
    assert len(array_folders(swept) - others) == 1


@pytest.mark.thorough
def test_never_more_at_once_than_allowed(swept):
    """The testbed has two nodes; with a limit of one the points of the array run in turn, and what follows all of them last."""
    add(swept, "evaluate", "training", arguments={"w": "{after:training}"})
    sweep(swept, 4, parallel=1)
    done, trainings = deploy(swept)
    assert done.returncode == 0, done.stderr
    array_of(trainings)
    found = sorted(records(swept).values(), key=lambda record: record["started"])
    assert all(one["ended"] <= two["started"] + 1 for one, two in itertools.pairwise(found))
    assert found[-1]["folder"] == records(swept)["evaluate"]["folder"]


@pytest.mark.thorough
def test_operations_on_one_point_leave_the_others_alone(swept):
    # Each of these commands takes seconds, more where others work beside: the points must still run when the last is asked.
    filler = fill(swept)
    sweep(swept, 4, arguments={"sleep": 120})
    try:
        done, trainings = deploy(swept, "--detach")
        assert done.returncode == 0, done.stderr
        array = array_of(trainings)
        shown = json.loads(modak("status", swept.path, "--json", cwd=swept.path).stdout)
        assert sorted(each["job_id"] for each in shown) == [f"{array}_{number}" for number in range(4)]
        assert len({each["position"] for each in shown}) == 4
        held = command("hold", point(swept, 2))
        assert (held["job_id"], held["state"], held["changed"]) == (f"{array}_1", "HELD", True)
        assert command("hold", point(swept, 2))["changed"] is False
        assert command("release", point(swept, 2))["state"] == "QUEUED"
        cancelled = command("cancel", point(swept, 3))
        assert (cancelled["job_id"], cancelled["state"]) == (f"{array}_2", "CANCELLED")
        states = {
            one["job_id"]: one["state"]
            for one in json.loads(modak("status", swept.path, "--json", cwd=swept.path).stdout)
        }
        assert states == {f"{array}_{number}": "CANCELLED" if number == 2 else "QUEUED" for number in range(4)}
    finally:
        swept.testbed.ssh(f"scancel {filler}")
    running = f"squeue --noheader --array --states=RUNNING --jobs={array}_0 --format=%T"
    wait_for(lambda: swept.testbed.ssh(running) == "RUNNING")
    requeued = command("requeue", point(swept, 1))
    assert (requeued["job_id"], requeued["state"], requeued["changed"]) == (f"{array}_0", "QUEUED", True)
    wait_for(lambda: "seed 4" in modak("logs", point(swept, 4)["folder"].name, cwd=swept.path).stdout)
    assert modak("undeploy", point(swept, 4)["folder"].name, cwd=swept.path).returncode == 0
    assert swept.testbed.ssh(f"squeue --noheader --array --jobs={array} --format=%i").split() == [
        f"{array}_0",
        f"{array}_1",
    ]


def test_killed_between_sbatch_and_the_note_of_the_tasks(swept):
    """sbatch takes the array, and all that waits for it there dies before it comes back: it is asked at once again."""
    deadly = 'if [ "$1" = --parsable ]; then kill -9 $PPID; fi'
    wrapper = f'#!/bin/bash\\n/usr/bin/sbatch.real "$@"\\n{deadly}\\n'
    swept.testbed.root(
        f"mv /usr/bin/sbatch /usr/bin/sbatch.real; printf '{wrapper}' > /usr/bin/sbatch; chmod 755 /usr/bin/sbatch"
    )
    sweep(swept, 3)
    try:
        first = swept.deploy()
    finally:
        swept.testbed.root("mv /usr/bin/sbatch.real /usr/bin/sbatch")
    assert first.returncode == 0, first.stdout + first.stderr
    assert "the connection broke; trying again in 1 s" in first.stdout
    assert "Traceback" not in first.stderr
    wait_for(lambda: jobs_of(swept))  # the accounting runs a little behind
    done, trainings = deploy(swept)
    assert done.returncode == 0, done.stdout + done.stderr
    array_of(trainings)
    assert len(jobs_of(swept)) == 3


def of_all(verb, project, *options):
    """What a command about the whole blueprint answers, by training."""
    done = modak(verb, project.path, "--json", *options, cwd=project.path)
    assert done.returncode == 0, done.stdout + done.stderr
    answer = json.loads(done.stdout)
    return {training["training"]: training for training in (answer["trainings"] if verb == "resume" else answer)}


@pytest.mark.thorough
def test_operations_on_a_whole_campaign(swept):
    """Each command takes the blueprint for all of its trainings, or for one with all points of its sweep."""
    filler = fill(swept)
    add(swept, "other", arguments={"value": 1})
    sweep(swept, 2)
    try:
        assert deploy(swept, "--detach")[0].returncode == 0
        held = of_all("hold", swept, "--training", "training")
        assert {name: (each["state"], each["changed"]) for name, each in held.items()} == {
            "training:seed=1": ("HELD", True), "training:seed=2": ("HELD", True)
        }  # fmt: skip
        released = of_all("release", swept)
        assert {name: (each["state"], each["changed"]) for name, each in released.items()} == {
            "training:seed=1": ("QUEUED", True), "training:seed=2": ("QUEUED", True), "other": ("QUEUED", False)
        }  # fmt: skip
        assert not any(each["changed"] for each in of_all("requeue", swept).values())
        assert {each["state"] for each in of_all("cancel", swept).values()} == {"CANCELLED"}
        assert not any(each["changed"] for each in of_all("cancel", swept).values())
        refused = modak("hold", swept.path, cwd=swept.path)
        assert refused.returncode == 1
        assert "3 of 3 jobs are not in the state that was asked for:" in refused.stderr
        assert "other: job" in refused.stderr
    finally:
        swept.testbed.ssh(f"scancel {filler}")
    resumed = of_all("resume", swept)
    assert {(each["state"], each["explanation"]) for each in resumed.values()} == {("COMPLETED", "")}
    array_of(resumed)
    files = {name: [file["path"] for file in found["files"]] for name, found in of_all("results", swept).items()}
    assert all("output.log" in file for file in files.values())
    assert len(of_all("status", swept, "--training", "training")) == 2
    one = json.loads(modak("undeploy", swept.path, "--training", "other", "--json", cwd=swept.path).stdout)
    assert one["changed"] is True
    assert [each["changed"] for each in of_all("undeploy", swept).values()] == [True, True]
    # what stays is the lock, and which jobs are not to be taken for those of a later deployment
    left = swept.testbed.ssh(
        f"ls -A modak/deployments | grep -v -e lock -e 'gone$' | grep -e {swept.name} -e array || true"
    )
    assert left == ""


STOPPED = """\
import os, sys, time
seed, saved = sys.argv[-1], os.path.join(os.environ["MODAK_CHECKPOINTS"], "saved")
print("seed", seed, "goes on" if os.path.exists(saved) else "begins", flush=True)
if seed == "2" and not os.path.exists(saved):
    open(saved, "w").write("1")
    sys.exit(85)
time.sleep(20 if seed == "1" else 1)
"""


@pytest.mark.thorough
def test_a_point_that_is_queued_again_leaves_the_others_running(swept):
    """It is the last task of its array, to which Slurm gives the number of the array itself."""
    swept.script(STOPPED)
    sweep(swept, 2, checkpoint={"every": 60, "requeue": 1})
    done, trainings = deploy(swept, "--detach")
    assert done.returncode == 0, done.stderr
    array = array_of(trainings)

    def is_back():
        return "Restarts=1" in swept.testbed.ssh(f"scontrol show job {array}_1")

    wait_for(is_back, 180)
    swept.testbed.ssh(f"scontrol update JobId={array}_1 StartTime=now")  # Slurm lets requeued jobs wait for two minutes
    done, trainings = deploy(swept)
    assert done.returncode == 0, done.stderr
    assert array_of(trainings) == array
    assert output(point(swept, 1)) == "seed 1 begins\n"
    assert output(point(swept, 2)) == "seed 2 begins\nseed 2 goes on\n"
