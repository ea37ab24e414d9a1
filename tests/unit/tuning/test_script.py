"""The job that tunes: its script, and what it does when all goes well and when it does not."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from golden import assert_golden

from modak_ansible.model.plan import PlannedJob
from modak_ansible.model.target import Scheduler
from modak_ansible.model.tuning import PlannedTuning, TuningCandidate
from modak_ansible.runtime import FILES
from modak_ansible.schedulers.script import DataPlace, ScriptParts, render_script

pytestmark = pytest.mark.component

SHELLCHECK = shutil.which("shellcheck", path=str(Path(sys.executable).parent)) or "shellcheck"
# A training whose steps take as long as it is told, and that reports them as the runtime would.
TRAINING = """\
import json, os, sys, time
step = float(os.environ["STEP"])
if step < 0:
    sys.exit("no such kernel")
trial = int(os.environ.get("MODAK_TRIAL_STEPS", 0))
count = trial or 3
time.sleep(min(step, 5))
report = {"schema": "modak.applied/1", "choices": {}, "steps": {
    "count": count, "first_seconds": step, "to_first_step_seconds": step,
    "median_seconds": step, "p10_seconds": step, "p90_seconds": step}}
json.dump(report, open(os.environ["MODAK_APPLIED"], "w"))
open(os.environ["MODAK_METRICS"], "w").write("{}")
if not trial:
    print("trained", os.environ["MODAK_TUNED"], os.environ["NOTE"], sys.argv[1:])
"""
NOTE = "a 'b' $HOME"


def candidate(number, step, **changes):
    values = {
        "name": f"c{number}", "title": "the plan's choice" if not number else f"step {step}",
        "environment": (("STEP", str(step)), ("NOTE", NOTE)), "arguments": (("note", NOTE), ("n", str(number))),
    }  # fmt: skip
    return TuningCandidate(**{**values, **changes})


def tuning(*steps, budget=60, trains=True, **changes):
    found = [candidate(number, step) for number, step in enumerate(steps)]
    found[1] = found[1].model_copy(update=changes)
    return PlannedTuning(candidates=tuple(found), budget=budget, steps=20, reduction=3, rungs=3, trains=trains)


def rendered(scheduler, section, **changes):
    job = PlannedJob(
        scheduler=Scheduler(scheduler), name="example", nodes=1, processes_per_node=1, cores_per_process=4, threads=4,
        walltime=600, environment={}, script="",
    )  # fmt: skip
    first = section.candidates[0]
    parts = {
        "image": "images/abc.sif", "python": "/opt/venv/bin/python", "script": "train.py", "container_runtime": "any",
        "data": (DataPlace("mnist", "datasets/mnist-1"),), "runtime": True, "environment": first.environment,
        "arguments": first.arguments, "tuning": section,
    }  # fmt: skip
    return render_script(job, ScriptParts(**{**parts, **changes}))


CASES = {
    "slurm-tuning": rendered("slurm", tuning(0.2, 0.1, 0.3, may_win=False)),
    "torque-only-tuning": rendered("torque", tuning(0.2, 0.1, 0.3, trains=False)),
    "slurm-compare-with-stock": rendered(
        "slurm", PlannedTuning(**{**dict(tuning(0.1, 0.2, may_win=False)), "reduction": 1})
    ),
    "none-tuning": rendered("none", tuning(0.2, 0.1, 0.3), container_runtime=None, arguments=()),
}


@pytest.mark.parametrize("name", CASES)
def test_script(name, tmp_path):
    assert_golden(f"scripts/{name}.sh", CASES[name])
    path = tmp_path / "job.sh"
    path.write_text(CASES[name])
    subprocess.run(["bash", "-n", str(path)], check=True)
    found = subprocess.run([SHELLCHECK, str(path)], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout


class Job:
    """A deployment without a scheduler, whose image is this Python."""

    def __init__(self, workspace, section):
        self.folder = workspace / "deployments" / "one"
        (workspace / "datasets" / "mnist-1").mkdir(parents=True)
        python = workspace / "images" / "abc.venv" / "bin" / "python"
        python.parent.mkdir(parents=True)
        python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
        python.chmod(0o755)
        (self.folder / "code").mkdir(parents=True)
        (self.folder / "code" / "train.py").write_text(TRAINING)
        shutil.copytree(FILES, self.folder / "runtime", ignore=shutil.ignore_patterns("__pycache__"))
        plan = {"application": {"script": "train.py", "words": []}, "tuning": section.model_dump(mode="json")}
        (self.folder / "plan.json").write_text(json.dumps(plan))
        script = rendered("none", section, image="images/abc.venv", python="bin/python", container_runtime=None)
        (self.folder / "job.sh").write_text(script)

    def start(self):
        command = ["bash", str(self.folder / "job.sh")]
        return subprocess.Popen(command, cwd=self.folder, start_new_session=True)

    def run(self):
        return self.start().wait(timeout=60)

    def text(self, name):
        path = self.folder / name
        return path.read_text() if path.exists() else ""

    @property
    def tuned(self):
        return json.loads(self.text("tuning.json"))

    def await_line(self, text):
        deadline = time.monotonic() + 30
        while text not in self.text("output.log") and time.monotonic() < deadline:
            time.sleep(0.05)
        assert text in self.text("output.log")

    def trained(self):
        found = [line for line in self.text("output.log").splitlines() if line.startswith("trained")]
        assert len(found) <= 1
        return found[0].split()[1] if found else ""


@pytest.fixture
def job(tmp_path):
    return lambda *steps, **changes: Job(tmp_path, tuning(*steps, **changes))


def test_the_best_one_trains_with_its_own_words(job):
    made = job(0.2, 0.1, 0.3)
    assert made.run() == 0
    assert made.trained() == "c1"
    assert f"trained c1 {NOTE} {['--note', NOTE, '-n', '1']!r}" in made.text("output.log")
    assert (made.tuned["best"], made.tuned["state"]) == ("c1", "finished")
    assert made.text("output.log").startswith("tuning: trial 1, rung 1, the plan's choice: 200.00 ms a step")
    assert json.loads(made.text("applied.json"))["steps"]["count"] == 3  # the training's own, not a trial's
    assert not list(made.folder.glob("trial-*"))


def test_a_job_that_only_tunes_trains_nothing(job):
    made = job(0.2, 0.1, 0.3, trains=False)
    assert made.run() == 0
    assert made.trained() == ""
    assert made.tuned["best"] == "c1"
    assert not (made.folder / "metrics.json").exists()


def test_a_job_that_only_tunes_fails_where_nothing_could_be_measured(job):
    made = job(-1, -1, trains=False)
    assert made.run() == 1
    assert made.tuned["candidates"]["c1"]["reason"] == "it ended with exit code 1: no such kernel"


def test_where_nothing_could_be_measured_the_plans_choice_trains(job):
    made = job(0.01, -1)
    (made.folder / "runtime" / "modak_tuner" / "trial.py").write_text("raise RuntimeError('broken')\n")
    assert made.run() == 0
    assert made.trained() == "c0"
    assert "tuning ended with code 1" in made.text("error.log")


def test_without_optuna_the_plans_choice_trains(job):
    made = job(0.01, 0.01)
    (made.folder / "runtime" / "optuna.py").write_text("raise ImportError('No module named optuna')\n")
    assert made.run() == 0
    assert made.trained() == "c0"
    assert made.tuned["reason"] == "the image has no optuna: No module named optuna"


def tuner_of(made):
    """The process of the tuner."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if b"modak_tuner" in words and str(made.folder).encode() in words and b"timeout" not in words:
            return int(path.parent.name)
    raise AssertionError("the tuner does not run")


def test_a_tuner_that_is_ended_leaves_the_best_so_far_to_train(job):
    made = job(0.6, 0.1, 2.0, budget=100)
    process = made.start()
    made.await_line("trial 2")
    os.kill(tuner_of(made), signal.SIGTERM)
    assert process.wait(timeout=30) == 0
    assert made.trained() == "c1"
    assert (made.tuned["state"], made.tuned["reason"]) == ("stopped", "signal 15 stopped it")


def test_a_tuner_that_is_killed_leaves_the_best_so_far_to_train(job):
    made = job(0.6, 0.1, 2.0, budget=100)
    process = made.start()
    made.await_line("trial 2")
    os.kill(tuner_of(made), signal.SIGKILL)
    assert process.wait(timeout=30) == 0
    assert made.trained() == "c1"


def test_a_job_that_is_ended_while_it_tunes_goes_on_with_the_best_so_far(job):
    """As a scheduler ends it, and begins it anew under the same number."""
    made = job(0.6, 0.1, 2.0, budget=100)
    process = made.start()
    made.await_line("trial 2")
    os.kill(process.pid, signal.SIGTERM)
    assert process.wait(timeout=30) == 143
    assert made.trained() == ""
    assert made.tuned["best"] == "c1"
    (made.folder / "state" / "claim").unlink()  # without a scheduler, the number is that of the process
    assert made.run() == 0
    assert made.trained() == "c1"
