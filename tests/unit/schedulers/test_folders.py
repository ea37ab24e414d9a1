"""The folders that a job's own lines are told of: its data, and where trainings ran that came before."""

from __future__ import annotations

import os
import subprocess

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from modak_ansible.model.plan import PlannedJob
from modak_ansible.model.target import Scheduler
from modak_ansible.schedulers.script import DataPlace, ScriptParts, render_script

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
        tmp_path, scheduler, data=(DataPlace("d", "datasets/d"),), staging_path=staging, pre=("\n".join(lines),),
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


def view(workspace, path, *records):
    """What was found of data on the target, as the front end leaves it for jobs."""
    (workspace / "datasets").mkdir(parents=True, exist_ok=True)
    words = [str(path), *(str(word) for record in records for word in record)]
    (workspace / "datasets" / "there-1.view").write_text("".join(f"{word}\0" for word in words))
    return DataPlace("there", "datasets/there-1", "MODAK_DATASET_THERE", "here/there", is_present=True)


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_several_datasets_lie_where_the_script_looks_for_them(tmp_path, monkeypatch, scheduler):
    """Those of the target where they were, the others on the node's scratch."""
    monkeypatch.setenv("SCRATCH", str(tmp_path / "scratch"))
    own, their = tmp_path / "datasets" / "corpus-1", tmp_path / "lustre a"
    for folder, name in ((own, "it's $x.txt"), (their, "file")):
        folder.mkdir(parents=True)
        (folder / name).write_text(name)
    corpus = DataPlace("corpus", "datasets/corpus-1", "MODAK_DATASET_CORPUS", "../it's $x.txt", "it's $x.txt")
    there = view(tmp_path, their, (4, "/file"))
    lines = ('cat here/there/file {dataset.there}/file "../it\'s \\$x.txt"', "echo; echo {dataset.corpus}")
    text = run(
        tmp_path, scheduler, data=(corpus, there), staging_path="$SCRATCH", pre=("\n".join(lines),),
        environment=(("MODAK_DATASET_TOO", "{dataset.there}"),),
    )  # fmt: skip
    assert text[0] == "filefileit's $x.txt"
    assert text[1].startswith(str(tmp_path / "scratch"))
    assert (tmp_path / "deployments" / "this" / "code" / "here" / "there").readlink() == their


@pytest.mark.parametrize(
    ("records", "code", "said"),
    [
        ([(4, "/none")], 66, "lustre/none is not on "),
        ([(4, "/file"), (5, "/file")], 65, "lustre/file has 4 bytes on "),
    ],
)
def test_data_that_the_node_does_not_see_ends_the_job(tmp_path, records, code, said):
    (tmp_path / "lustre").mkdir()
    (tmp_path / "lustre" / "file").write_text("four")
    with pytest.raises(AssertionError) as caught:
        run(tmp_path, "none", data=(view(tmp_path, tmp_path / "lustre", *records),))
    assert f"{code} != 0" in str(caught.value)
    assert said in str(caught.value)


def test_what_lies_where_the_data_is_to_lie_is_left_alone(tmp_path):
    place = tmp_path / "deployments" / "this" / "data"
    place.mkdir(parents=True)
    (place / "mine").touch()
    (tmp_path / "datasets" / "d").mkdir(parents=True)
    with pytest.raises(AssertionError, match="the data belongs at ../data, but something else is there"):
        run(tmp_path, "none", data=(DataPlace("d", "datasets/d", mount_as="../data"),))
    assert (place / "mine").exists()
