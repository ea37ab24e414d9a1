"""Runs go through the playbooks, and leave what is of use and nothing else."""

from __future__ import annotations

import json

import pytest

from modak_ansible.deployment.playbook import PlaybookError, PlaybookRun
from modak_ansible.errors import FAILED, TARGET_UNREACHABLE, ModakError, TargetUnreachable
from modak_ansible.measuring import executor as executor_module
from modak_ansible.measuring.executor import PlaybookExecutor
from modak_ansible.measuring.plans import plan_look


@pytest.fixture
def mine(planned, tmp_path):
    return planned._replace(state=tmp_path)


@pytest.fixture
def played(monkeypatch, mine):
    """The playbooks that were run; ``answer`` is what the next one does."""

    class Played(list):
        answer = staticmethod(PlaybookRun)

    made = Played()

    def run_playbook(name, variables, listener=None):
        assert variables == {"modak_plan": str(mine.folder / "plan.json")}
        assert (mine.folder / "origin.json").is_file()
        made.append(name)
        return made.answer()

    monkeypatch.setattr(executor_module, "run_playbook", run_playbook)
    monkeypatch.setattr(executor_module, "undeploy", lambda stores: made.append(f"undeploy {stores[0].folder}"))
    return made


def leave(mine, metrics):
    """What a run's stages leave here."""
    (mine.folder / "results").mkdir(parents=True, exist_ok=True)
    (mine.folder / "results" / "metrics.json").write_text(json.dumps(metrics))
    (mine.folder / "state.json").write_text(json.dumps({"job": {"job_id": "7"}}))
    return PlaybookRun()


def fail(code=FAILED):
    raise PlaybookError("job 7 ended as FAILED", code)


def test_a_run_is_one_playbook_and_leaves_its_metrics_only(played, mine, metrics):
    played.answer = lambda: leave(mine, metrics())
    outcome = PlaybookExecutor(print).run(mine)
    assert played == ["measure"]
    assert (outcome.metrics, outcome.job["job_id"], outcome.problem) == (metrics(), "7", "")
    assert not mine.folder.exists()


def test_the_results_of_a_failed_run_are_kept(played, mine, metrics):
    def broken():
        leave(mine, {**metrics(), "finished": False})
        fail()

    played.answer = broken
    outcome = PlaybookExecutor(print).run(mine)
    assert outcome.problem == "job 7 ended as FAILED"
    assert (mine.folder / "results" / "metrics.json").is_file()


@pytest.mark.parametrize("left", [None, {"finished": False}])
def test_a_run_without_whole_metrics_has_failed(played, mine, left):
    played.answer = lambda: leave(mine, left) if left else PlaybookRun()
    assert PlaybookExecutor(print).run(mine).problem == "the run left no complete metrics.json"


def test_a_target_that_is_gone_is_no_failed_run(played, mine):
    played.answer = lambda: fail(TARGET_UNREACHABLE)
    with pytest.raises(TargetUnreachable):
        PlaybookExecutor(print).run(mine)


def test_looking_finds_the_processor_and_brings_the_data(played, mine):
    facts = {"machine": "x86_64", "cpuinfo": {}, "processor": "A processor"}
    played.answer = lambda: PlaybookRun(results={"modak_probe": {"facts": facts}})
    assert PlaybookExecutor(print).look(mine)["architecture"] == "x86_64"
    assert played == ["probe", "dataset"]
    assert not mine.folder.exists()


def test_an_image_that_cannot_be_had_is_an_error_and_no_deployment(played, mine):
    played.answer = fail
    with pytest.raises(ModakError):
        PlaybookExecutor(print).prepare(mine)
    assert played == ["image"]
    assert not mine.folder.exists()


def test_an_interrupted_run_is_undeployed(played, mine):
    mine.save()
    PlaybookExecutor(print).end(mine)
    assert played == [f"undeploy {mine.folder}"]
    assert not mine.folder.exists()


def test_looking_is_never_the_users_own_deployment(place):
    one, two = (plan_look(place, with_data=with_data) for with_data in (True, False))
    assert one.plan.name == "bench-look"
    assert one.plan.deployment != two.plan.deployment
    assert (one.plan.dataset is not None, two.plan.dataset is not None) == (True, False)
