"""A campaign from its plans to its results, with a scheduler in memory and the target's own code."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
from fake_queue import FakeQueue

from modak_ansible.errors import JobFailed, ModakError
from modak_ansible.planning.service import plan_all
from modak_ansible.reading.blueprint.reader import Inputs
from modak_ansible.schedulers.base import JobState, SubmissionRefused, Waits
from modak_ansible.schedulers.registry import SCHEDULERS
from modak_ansible.stages.base import Stage
from modak_ansible.stages.jobs.operations import query_jobs, remove_jobs, resume_jobs, run_jobs
from modak_ansible.stages.report import report
from modak_ansible.target.core.workspace import Workspace
from modak_ansible.target.jobs.actions import act
from modak_ansible.target.jobs.results import results_of
from modak_ansible.transport.ssh import Connection

NODE = """\
    {name}:
      type: modak.nodes.Training
      properties: {{ framework: pytorch, script: train/train.py, resources: {{ cores_per_process: 4 }} }}
      requirements: [ {{ host: cluster }}{after} ]
"""


class Target:
    """Answers as the modules do; a test may have something happen before each look at the jobs."""

    def __init__(self, path, monkeypatch):
        self.workspace = Workspace(str(path))
        self.workspace.create()
        self.queue = FakeQueue(self.workspace.deployments)
        self.queue.name = "slurm"
        monkeypatch.setitem(SCHEDULERS, self.queue.name, self.queue)
        self.calls = []
        self.before_watch = self.queue.run_all

    def call(self, name, **arguments):
        action = arguments.pop("action", "results")
        self.calls.append(action)
        deployments = self.workspace.deployments
        if name == "modak_results":
            listed = {
                each: {"files": results_of(deployments / each, outputs)["files"], "missing": []}
                for each, outputs in arguments["outputs"].items()
            }
            return {"folder": str(deployments), "listed": listed}
        if action == "watch":
            self.before_watch()
            arguments["seconds"] = 0.1
        return act(action, {**arguments, "workspace": str(self.workspace.path)})


@pytest.fixture
def target(tmp_path, monkeypatch):
    return Target(tmp_path / "workspace", monkeypatch)


@pytest.fixture
def make_stages(blueprint, target):
    """The stages of all trainings of a blueprint: a sweep of two after preprocess, and evaluate after it."""
    blueprint.replace("          batch-size: 128\n", "          batch-size: 128\n        sweep: { epochs: [ 1, 2 ] }\n")
    blueprint.replace("        - dataset: digits\n", "        - dataset: digits\n        - after: preprocess\n")
    for name, after in (("preprocess", ""), ("evaluate", ", { after: training }")):
        blueprint.replace("\n  outputs:", f"\n{NODE.format(name=name, after=after)}\n  outputs:")

    def make(training=None, scheduler="slurm", **more):
        said = []
        stages = []
        for planned in plan_all(blueprint.service, Inputs(), training):
            plan = planned.plan.model_dump(mode="json")
            plan["job"]["scheduler"] = scheduler
            stages.append(Stage(plan, planned.save(), blueprint.path, Connection(""), target.call, said.append, **more))
        return stages, said

    return make


def named(stages):
    return {stage.plan["training"]: stage.folder.name for stage in stages}


def states(stages):
    jobs = {stage.plan["training"]: stage.record.read().get("job", {}) for stage in stages}
    return {name: (job.get("state"), job.get("explanation")) for name, job in jobs.items()}


DONE = ("COMPLETED", "")


@pytest.mark.component
def test_of_several_it_is_said_and_kept_when_the_first_may_begin(make_stages, target, monkeypatch):
    starts = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(time.time() + 3600))
    asked = []
    monkeypatch.setattr(target.queue, "forecast", lambda _, text: asked.append(text) or starts, raising=False)
    stages, said = make_stages()
    for stage in stages:
        stage.plan["job"]["script"] = f"#SBATCH --comment={stage.plan['training']}\n"
    run_jobs(stages, wait=False)
    assert asked == ["#SBATCH --comment=preprocess"]
    assert any(line.startswith("the first is expected to begin at ") for line in said)
    kept = {stage.plan["training"]: len(stage.record.read()["forecasts"]) for stage in stages}
    assert kept == {"preprocess": 1, "training:epochs=1": 0, "training:epochs=2": 0, "evaluate": 0}
    run_jobs(make_stages()[0], wait=False)
    assert len(asked) == 1  # all are there


@pytest.mark.component
def test_all_run_after_each_other_and_once(make_stages, target):
    stages, said = make_stages()
    outcome = run_jobs(stages)
    assert (outcome.changed, outcome.message) == (True, "4 jobs: 4 completed")
    assert set(states(stages).values()) == {DONE}
    ids = {training: target.queue.id_of(name) for training, name in named(stages).items()}
    assert target.queue.waits[ids["training:epochs=2"]] == Waits(ok=(ids["preprocess"],))
    assert target.queue.waits[ids["evaluate"]] == Waits(ok=(ids["training:epochs=1"], ids["training:epochs=2"]))
    assert target.calls.count("stage") == target.calls.count("submit") == 1
    for stage in stages:
        assert (stage.folder / "results" / "output.log").read_text() == f"{stage.folder.name} ended\n"
    again = run_jobs(stages)
    assert (again.changed, len(target.queue.jobs)) == (False, 4)
    assert "4 of 4 jobs submitted" in said
    assert report(stages).message == "4 jobs: 4 completed"


@pytest.mark.component
def test_a_fetch_that_was_cut_short_is_gone_on_with(make_stages, target):
    stages, _ = make_stages()
    run_jobs(stages, wait=False)
    arrived = stages[0].folder.parent / ".results.part"
    mine, other = arrived / stages[0].folder.name, arrived / "of-another-campaign"
    for each in (mine, other):
        each.mkdir(parents=True)
        (each / "output.log").write_text("half of")
    run_jobs(stages)
    name = stages[0].folder.name
    assert (stages[0].folder / "results" / "output.log").read_text() == f"{name} ended\n"
    assert list(arrived.iterdir()) == [other]


@pytest.mark.component
def test_what_comes_after_a_failure_is_not_run(make_stages, target):
    stages, said = make_stages()
    names = named(stages)
    run_jobs(stages, wait=False)
    target.queue.end(names["training:epochs=2"], 3)
    target.queue.end(names["preprocess"])
    run_jobs(stages)
    assert states(stages)["training:epochs=2"][0] == "FAILED"
    assert states(stages)["training:epochs=1"] == DONE
    assert states(stages)["evaluate"] == ("CANCELLED", "not run: training:epochs=2 failed")
    assert "evaluate: not run: training:epochs=2 failed" in said
    with pytest.raises(JobFailed) as caught:
        report(stages)
    assert caught.value.message.splitlines()[0] == "2 of 4 trainings did not complete:"
    assert caught.value.exit_code == 5


@pytest.mark.component
def test_each_failure_is_told_with_the_end_of_its_error_output_once(make_stages, target):
    stages, _ = make_stages()
    names = named(stages)
    run_jobs(stages, wait=False)
    target.queue.end(names["preprocess"])
    for training in ("training:epochs=1", "training:epochs=2"):
        target.queue.end(names[training], 1)
        error_log = target.workspace.deployments / names[training] / "error.log"
        error_log.write_text("Traceback (most recent call last):\nKeyError: 'lr'\n")
    run_jobs(stages)
    with pytest.raises(JobFailed) as caught:
        report(stages)
    lines = caught.value.message.splitlines()
    assert lines[0] == "3 of 4 trainings did not complete:"
    assert lines[1].startswith("  training:epochs=1: job 2 ended as FAILED, exit code 1")
    assert lines[2:4] == ["    | Traceback (most recent call last):", "    | KeyError: 'lr'"]
    assert lines[4].startswith("  training:epochs=2: job 3 ended as FAILED, exit code 1")
    assert lines[5:] == [
        "    its error output ends like that of training:epochs=1", "  evaluate: not run: training:epochs=1 failed",
    ]  # fmt: skip
    assert f"such as {names['training:epochs=1']}" in caught.value.hint


@pytest.mark.component
def test_the_reason_is_handed_down(make_stages, target):
    stages, _ = make_stages()
    run_jobs(stages, wait=False)
    target.queue.end(named(stages)["preprocess"], 1)
    run_jobs(stages)
    reason = ("CANCELLED", "not run: preprocess failed")
    assert [states(stages)[each] for each in ("training:epochs=1", "evaluate")] == [reason, reason]
    before = dict(target.queue.jobs)
    run_jobs(stages)  # it stays so, and nothing is submitted
    assert (target.queue.jobs, states(stages)["evaluate"]) == (before, reason)


@pytest.mark.component
def test_when_the_one_that_failed_is_deployed_anew_the_others_follow(make_stages, target):
    stages, _ = make_stages()
    run_jobs(stages, wait=False)
    target.queue.end(named(stages)["preprocess"], 1)
    run_jobs(stages)
    remove_jobs([stage for stage in stages if stage.plan["training"] == "preprocess"])
    run_jobs(stages)
    assert set(states(stages).values()) == {DONE}
    assert sum(state is JobState.COMPLETED for state in target.queue.jobs.values()) == 4


@pytest.mark.component
def test_what_was_interrupted_before_it_was_staged_is_undeployed_too(make_stages):
    """It stayed in modak status for good: nothing lay on the target, and so nothing was noted here."""
    stages, _ = make_stages()
    assert remove_jobs(stages).changed is False
    noted = [stage.record.read()["undeployed"] for stage in stages]
    assert all(noted)
    remove_jobs(stages)
    assert [stage.record.read()["undeployed"] for stage in stages] == noted


@pytest.mark.component
def test_jobs_that_wait_for_what_was_removed_are_submitted_anew(make_stages, target):
    stages, _ = make_stages()
    run_jobs(stages, wait=False)
    remove_jobs([stage for stage in stages if stage.plan["training"] == "preprocess"])
    run_jobs(stages)
    assert set(states(stages).values()) == {DONE}
    assert [state for state in target.queue.jobs.values() if not state.is_final] == []


@pytest.mark.component
def test_killed_in_the_middle_of_submitting(make_stages, target, monkeypatch):
    stages, _ = make_stages()
    submit, count = target.queue.submit, []

    def dying(*arguments):
        count.append(1)
        if len(count) == 3:
            raise KeyboardInterrupt
        return submit(*arguments)

    target.queue.submit = dying
    with pytest.raises(KeyboardInterrupt):
        run_jobs(stages)
    target.queue.submit = submit
    run_jobs(stages)
    assert set(states(stages).values()) == {DONE}
    assert len(target.queue.jobs) == 4


@pytest.mark.component
def test_a_full_queue_is_waited_for(make_stages, target):
    stages, said = make_stages("training")
    run_jobs(make_stages("preprocess")[0])
    target.queue.room = 1
    run_jobs(stages)
    assert set(states(stages).values()) == {DONE}
    assert any("the rest follows as jobs end" in line for line in said)


@pytest.mark.component
def test_a_refusal_of_another_kind_ends_it(make_stages, target):
    stages, _ = make_stages()

    def refuse(*_):
        raise SubmissionRefused("no such partition")

    target.queue.submit = refuse
    with pytest.raises(ModakError, match="preprocess: Fake refuses the job: no such partition"):
        run_jobs(stages)


@pytest.mark.component
def test_a_queue_that_the_users_other_jobs_fill_is_waited_for(make_stages, target, monkeypatch):
    monkeypatch.setattr("modak_ansible.stages.jobs.campaign.LOOK_SECONDS", 0)
    stages, said = make_stages("preprocess")
    target.queue.room = target.queue.others = 3
    looks = []

    def others_end():
        looks.append(1)
        target.queue.others = 3 if len(looks) < 4 else 2
        target.queue.run_all()

    target.before_watch = others_end
    run_jobs(stages)
    assert set(states(stages).values()) == {DONE}
    assert len(looks) >= 4
    full = [line for line in said if "the rest follows as jobs end" in line]
    assert full == ["Fake refuses the job: QOSMaxSubmitJobPerUserLimit; the rest follows as jobs end"], "and once"


@pytest.mark.component
def test_who_does_not_stay_does_not_wait_for_room(make_stages, target):
    stages, _ = make_stages("preprocess")
    target.queue.room = 0
    with pytest.raises(ModakError, match="QOSMaxSubmitJobPerUserLimit") as caught:
        run_jobs(stages, wait=False)
    assert caught.value.hint == "deploy again when some of the jobs have ended; nothing was submitted"


@pytest.mark.component
def test_a_known_end_outlives_a_scheduler_that_is_away(make_stages, target):
    stages, _ = make_stages("preprocess")
    run_jobs(stages, wait=False)
    target.queue.jobs["1"] = JobState.CANCELLED
    run_jobs(stages)
    assert states(stages)["preprocess"][0] == "CANCELLED"
    (folder,) = [path for path in target.workspace.deployments.iterdir() if path.is_dir() and path.name[0] != "."]
    for is_noted_there in (True, False):
        target.queue.silent = True
        with pytest.raises(ModakError, match="hush") as caught:
            resume_jobs(stages)
        assert (caught.value.exit_code, states(stages)["preprocess"][0]) == (4, "CANCELLED")
        assert query_jobs(stages).message == "job 1 is cancelled (it was cancelled)"
        if is_noted_there:
            (folder / "state" / "end.json").unlink()


def test_what_comes_before_has_to_be_deployed(make_stages, target):
    stages, _ = make_stages("evaluate")
    with pytest.raises(ModakError, match="evaluate comes after training, which was not deployed") as caught:
        run_jobs(stages)
    assert caught.value.hint == "deploy training first, or leave out --training"


@pytest.mark.component
def test_a_limit_has_points_wait_for_each_others_ends(make_stages, target, blueprint):
    blueprint.replace("        sweep:", "        parallel: 1\n        sweep:")
    stages, _ = make_stages()
    run_jobs(stages, wait=False)
    first, second = (target.queue.id_of(named(stages)[f"training:epochs={each}"]) for each in (1, 2))
    assert (target.queue.waits[first].ended, target.queue.waits[second].ended) == ((), (first,))


@pytest.mark.component
def test_without_a_scheduler_one_runs_after_the_other(make_stages, target, monkeypatch):
    monkeypatch.setitem(SCHEDULERS, "none", target.queue)
    stages, _ = make_stages(scheduler="none")
    living = []

    def one():
        alive = [target.queue.names[job_id] for job_id, state in target.queue.jobs.items() if not state.is_final]
        living.append(len(alive))
        target.queue.end(alive[0])

    target.before_watch = one
    run_jobs(stages)
    assert set(states(stages).values()) == {DONE}
    assert living == [1, 1, 1, 1]
    assert not any(target.queue.waits.values())


def test_trying_it_out_changes_nothing(make_stages, target):
    stages, _ = make_stages()
    outcome = run_jobs([replace(stage, check=True) for stage in stages])
    assert (outcome.changed, outcome.message) == (True, "would submit 4 jobs")
    assert (target.calls, target.queue.jobs) == (["look"], {})
    assert not any(stage.record.path.exists() for stage in stages)


@pytest.mark.component
def test_points_of_a_sweep_go_as_one_array(make_stages, target, blueprint):
    """And what comes after them waits for each; a value that is added waits for those that live."""
    target.queue.largest_array = 1000
    blueprint.replace("        sweep:", "        parallel: 1\n        sweep:")
    stages, _ = make_stages()
    run_jobs(stages, wait=False)
    assert [array[1:] for array in target.queue.arrays] == [("example-training", 2, 1)]
    assert target.queue.waits[target.queue.id_of(named(stages)["evaluate"])] == Waits(ok=("2_0", "2_1"))
    blueprint.replace("epochs: [ 1, 2 ]", "epochs: [ 1, 2, 3, 4 ]")
    more, _ = make_stages("training")
    run_jobs(more, wait=False)
    assert [array[2:] for array in target.queue.arrays] == [(2, 1), (2, 1)]
    added = target.queue.id_of(named(more)["training:epochs=3"])
    assert target.queue.waits[added] == Waits(ok=("1",), ended=("2_0", "2_1"))
    run_jobs(more)
    assert set(states(more).values()) == {DONE}
    assert len(target.queue.jobs) == 6


@pytest.mark.component
def test_all_that_failed_is_resumed_and_what_comes_after_follows(make_stages, target):
    target.queue.largest_array = 1000
    stages, said = make_stages()
    names = named(stages)
    run_jobs(stages, wait=False)
    target.queue.end(names["preprocess"])
    for epochs in (1, 2):
        target.queue.end(names[f"training:epochs={epochs}"], 3)
    run_jobs(stages)
    assert states(stages)["evaluate"][1] == "not run: training:epochs=1 failed"
    outcome = resume_jobs(stages)
    assert (outcome.changed, set(states(stages).values())) == (True, {DONE})
    assert [array[2] for array in target.queue.arrays] == [2, 2]
    assert any("what it left is kept in attempts/1" in line for line in said)
    assert resume_jobs(stages).changed is False
