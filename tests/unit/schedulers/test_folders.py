"""The folders that a job's own lines are told of: its data, and where trainings ran that came before."""

from __future__ import annotations

import os
import subprocess

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from modak_ansible.model.plan import PlannedJob
from modak_ansible.model.target import Scheduler
from modak_ansible.schedulers.script import ScriptParts, render_script

pytestmark = pytest.mark.component

SCHEDULERS = ("none", "slurm", "torque")


def run(workspace, scheduler, **parts):
    """What the job of a training prints, whose interpreter is the shell."""
    deployment = workspace / "deployments" / "this"
    (deployment / "code").mkdir(parents=True)
    (deployment / "code" / "train.sh").write_text('echo "trained with $MODAK_DATASET"\n')
    (workspace / "images" / "abc.venv" / "bin").mkdir(parents=True, exist_ok=True)
    python = workspace / "images" / "abc.venv" / "bin" / "python"
    python.write_text('#!/bin/bash\nexec bash "$@"\n')
    python.chmod(0o755)
    job = PlannedJob(
        scheduler=Scheduler(scheduler), name="example", nodes=1, processes_per_node=1, cores_per_process=1, threads=1,
        walltime=60, environment={}, script="",
    )  # fmt: skip
    made = ScriptParts(image="images/abc.venv", python="bin/python", script="train.sh", **parts)
    (deployment / "job.sh").write_text(render_script(job, made))
    place = {
        "SLURM_SUBMIT_DIR": str(deployment),
        "PBS_O_WORKDIR": str(deployment),
        "SLURM_JOB_ID": "1",
        "PBS_JOBID": "1",
    }
    done = subprocess.run(
        ["bash", "job.sh"], cwd=deployment, env={**os.environ, **place}, capture_output=True, text=True, check=False
    )
    said = [(deployment / name).read_text() for name in ("output.log", "error.log")]
    assert (done.returncode, said[1]) == (0, ""), (done.stderr, said)
    return said[0].splitlines()


@pytest.mark.parametrize("scheduler", SCHEDULERS)
@pytest.mark.parametrize("staging", [None, "$SCRATCH"])
def test_the_users_own_lines_know_the_data(tmp_path, monkeypatch, scheduler, staging):
    (tmp_path / "datasets" / "d").mkdir(parents=True)
    (tmp_path / "datasets" / "d" / "file").touch()
    monkeypatch.setenv("SCRATCH", str(tmp_path / "scratch"))
    lines = (
        'ls "$MODAK_DATASET" {dataset}/file',
        "echo ${dataset} '{dataset}'",
        "for each in {dataset}/*; do echo $each; done",
    )
    text = run(
        tmp_path, scheduler, dataset="datasets/d", staging_path=staging, pre=("\n".join(lines),),
        post=("echo {dataset} $MODAK_DATASET",),
    )  # fmt: skip
    there = text[-1].split()[0]
    assert there.startswith(str(tmp_path / "scratch" if staging else tmp_path / "datasets" / "d"))
    assert [line for line in text if line] == [
        f"{there}/file", f"{there}:", "file", f"{there} {there}", f"{there}/file", f"trained with {there}", f"{there} {there}",
    ]  # fmt: skip


def test_a_path_that_the_user_sets_is_known_too(tmp_path):
    text = run(tmp_path, "none", environment=(("MODAK_DATASET", "/lustre/d"),), pre=("echo $MODAK_DATASET {dataset}",))
    assert text == ["/lustre/d {dataset}", "trained with /lustre/d"]


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_what_came_before_lies_in_one_folder_with_all_that_it_wrote(tmp_path, scheduler):
    first, second = (tmp_path / "deployments" / name for name in ("first", "second"))
    for folder in (first, second):
        (folder / "code").mkdir(parents=True)
        (folder / "code" / "model.pt").write_text("weights")
        (folder / "checkpoints").mkdir()
        (folder / "checkpoints" / "1.pt").touch()
        for name in ("metrics.json", "output.log", "error.log"):
            (folder / name).write_text(f"{folder.name} {name}")
    (second / "code" / "metrics.json").write_text("its own")
    lines = "for each in ${MODAK_AFTER_TRAIN//:/ }; do ls $each; cat $each/metrics.json; echo; done; echo {after:train}"
    for _ in range(2):  # another one that comes after finds it as well
        text = run(tmp_path, scheduler, after=(("train", ("first", "second")),), pre=(lines,))
        listed = ["checkpoints", "error.log", "metrics.json", "model.pt", "output.log"]
        assert text[:-2] == [*listed, "first metrics.json", *listed, "its own"]
        assert text[-2] == f"{first}/code:{second}/code"
        (tmp_path / "deployments" / "this").rename(tmp_path / f"done-{len(list(tmp_path.iterdir()))}")


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(st.sampled_from("a {}$'\"\\;:&|()`dataset"), max_size=20))
def test_lines_stand_as_they_were_written(tmp_path, text):
    job = PlannedJob(
        scheduler=Scheduler.NONE, name="example", nodes=1, processes_per_node=1, cores_per_process=1, threads=1,
        walltime=60, environment={}, script="",
    )  # fmt: skip
    parts = ScriptParts(image="", python="python3", script="train.py", pre=(text,))
    line = next(line for line in render_script(job, parts).splitlines() if line.startswith("eval "))
    shown = subprocess.run(["bash", "-c", f"printf %s {line[5:]}"], capture_output=True, text=True, check=True).stdout
    assert shown == text
