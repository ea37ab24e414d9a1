"""The controller is killed, or interrupted, at each stage of a deployment; the same command finishes the work.

Further moments of a kill are in test_deployment.py (between sbatch and the note of its id, on the target itself; two deploys of
one project at once) and in test_images.py (a build that is killed, too).
"""

from __future__ import annotations

import copy
import json
import shutil

import pytest
from cluster import thorough, wait_for
from faults import (
    finishes,
    left_here,
    line,
    nothing_is_left,
    nothing_runs_here,
    one_job_completed,
    results_are_whole,
)
from reached import INTERRUPT, KILL, SCRIPT, SIZE, SPEED, STAGES, Started, stages

pytestmark = pytest.mark.testbed
__all__ = ["line", "stages"]
QUICK = "watching"
LONGER = [stage for stage in STAGES if stage != QUICK]
# What is sent or fetched is not sent or fetched again.
GOES_ON = ("dataset", "files", "results")
# What the same command says of what it finds.
FOUND = {"image": "joining the build of requirements that is already running", "dataset": "sending 24 MB in 1 file"}


@pytest.mark.parametrize("stage", [QUICK, *thorough(*LONGER)])
def test_killed(project, line, stages, stage):
    started = stages.start(stage)
    assert started.end(KILL) == -KILL
    line.speed, line.passed = None, 0
    nothing_runs_here(project)
    said = finishes(project)
    assert FOUND.get(stage, "") in said
    if stage in GOES_ON:
        assert line.passed < SIZE * 0.9


@pytest.mark.parametrize("stage", thorough(*STAGES))
def test_interrupted(project, line, stages, stage):
    """Ctrl-C, which a terminal sends to the whole process group."""
    started = stages.start(stage)
    assert started.end(INTERRUPT, seconds=60) == 130, started.said
    nothing_runs_here(project)
    assert started.said.endswith("interrupted\n")
    assert "Traceback" not in started.said
    again = f"modak deploy {project.path}"
    if stage == "watching":
        assert f"Job {project.record['job']['job_id']} continues. To follow it: {again}" in started.said
    elif stage == "results":
        assert f"Job {project.record['job']['job_id']} had already ended. To continue: {again}" in started.said
    elif stage != "plan":
        words = "What had begun on the target, such as a build or the submission of a job, continues to its end. To pick it up again: "
        assert words + again in started.said
    line.speed, line.passed = None, 0
    assert FOUND.get(stage, "") in finishes(project)
    if stage in GOES_ON:
        assert line.passed < SIZE * 0.9


@pytest.mark.thorough
def test_two_deploys_from_two_copies_of_the_project(project, tmp_path):
    """As from two machines of one account: neither knows of the other."""
    project.script("import time\nprint('epoch 1', flush=True)\ntime.sleep(5)\nprint('done')\n").write()
    other = copy.copy(project)
    other.path, other.temporary = tmp_path / "copy", tmp_path / "copy-tmp"
    other.environment = {**project.environment, "TMPDIR": str(other.temporary)}
    shutil.copytree(project.path, other.path, symlinks=True)
    other.temporary.mkdir()
    assert project.deployment == other.deployment
    both = [project.start(), other.start()]
    said = [process.communicate(timeout=180)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0], said
    job = one_job_completed(project)
    for each, words in zip((project, other), said, strict=True):
        assert f"job {job} is completed" in words
        assert (results_are_whole(each) / "output.log").read_text() == "epoch 1\ndone\n"
        nothing_is_left(each)


@pytest.mark.thorough
def test_a_campaign_is_killed_while_its_results_are_fetched(project, line):
    project.script(SCRIPT.format(seconds=0, blocks=SIZE >> 20))
    project.training.update(arguments={"seed": 0}, sweep={"seed": [1, 2]}, outputs=["out"])
    line.speed = SPEED
    started = Started(project)
    deployments = project.path / ".modak" / "deployments"
    fetched = deployments / ".results.part"
    wait_for(lambda: any(path.stat().st_size > SIZE // 3 for path in fetched.rglob("big")), 180, every=0.1)
    assert started.end(KILL) == -KILL
    line.speed, line.passed = None, 0
    nothing_runs_here(project)
    assert fetched.is_dir()
    before = {
        path.parent.name: json.loads(path.read_text())["job"]["job_id"] for path in deployments.glob("*/state.json")
    }
    again = project.deploy("--json")
    assert again.returncode == 0, again.stderr
    assert line.passed < 2 * SIZE * 0.9
    whole = (SIZE >> 20) << 20
    assert [path.stat().st_size for path in deployments.glob("*/results/code/out/big")] == [whole, whole]
    assert left_here(project) == []
    trainings = json.loads(again.stdout)["trainings"]
    assert {training["deployment"]: training["job_id"] for training in trainings} == before
