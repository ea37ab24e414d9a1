"""Asking for many jobs: news are noted, silence is an answer, and patience grows while nothing happens."""

from __future__ import annotations

import pytest

from modak_ansible.errors import TargetUnreachable
from modak_ansible.stages.jobs import query as jobs
from modak_ansible.stages.jobs.query import Asking, ask_for_jobs
from modak_ansible.store.forecasts import WAITING
from modak_ansible.store.record import DeploymentRecord
from modak_ansible.target.jobs.query import queried


def job(name, state="RUNNING", epoch=None, **more):
    situation = {"state": state, "job_id": "7", "explanation": ""}
    progress = {"epoch": epoch} if epoch else {}
    return {"deployment": name, "there": True, "situation": situation, "elapsed": 1.0, "position": None, "starts": "",
            "forecast": None, "progress": progress, **more}  # fmt: skip


@pytest.fixture
def asked(make_stage, monkeypatch):
    """Asks with answers in turn; gives the names that were asked for, the pauses, and the last answer."""

    def ask_in_turn(answers, every=0.0, names=("one", "two"), *, inside=""):
        wanted, slept, heard = [], [], []
        stage, _ = make_stage(None)

        def ask(connection, function, about):
            deployments, known = about.pop("deployments"), about.pop("job_ids")
            expected = stage.plan["target"]["workspace"], stage.plan["job"]["scheduler"], inside
            assert (connection, function, tuple(about.values())) == (stage.connection, queried, expected)
            assert not known or set(known) <= set(deployments)
            wanted.append(deployments)
            answer = answers.pop(0)
            if isinstance(answer, Exception):
                raise answer
            return {"jobs": [each for each in answer if each["deployment"] in deployments]}

        for name in names:
            (stage.folder.parent / name).mkdir(exist_ok=True)
        monkeypatch.setattr(jobs, "ask", ask)
        asking = Asking(stage.connection, stage.plan, stage.folder.parent, list(names), every, inside)
        ask_for_jobs(asking, lambda *answer: heard.append(answer), slept.append)
        assert len(heard) == len(wanted)
        return wanted, slept, *heard[-1]

    return ask_in_turn


def test_one_look(asked, tmp_path):
    wanted, slept, answer, problem = asked([[job("one"), job("two", "QUEUED", position=2)]])
    assert (wanted, slept, problem) == ([["one", "two"]], [], "")
    assert answer["two"]["position"] == 2
    record = DeploymentRecord(tmp_path / "deployments" / "one").read()
    assert record["job"]["state"] == "RUNNING"


def test_only_news_are_written(asked, tmp_path):
    asked([[job("one"), job("two", "NONE")]])
    before = (tmp_path / "deployments" / "one" / "state.json").stat().st_mtime_ns
    asked([[job("one", epoch=5), job("two", "NONE")]])
    assert (tmp_path / "deployments" / "one" / "state.json").stat().st_mtime_ns == before
    assert not (tmp_path / "deployments" / "two" / "state.json").exists()
    asked([[job("one", "COMPLETED", epoch=9), job("two", "DAMAGED")]])
    assert DeploymentRecord(tmp_path / "deployments" / "one").read()["progress"] == {"epoch": 9}
    assert not (tmp_path / "deployments" / "two" / "state.json").exists()


def test_the_first_word_of_when_a_job_may_begin_stays(asked, tmp_path):
    record = DeploymentRecord(tmp_path / "deployments" / "one")
    for starts in (900.0, 500.0):
        asked([[job("one", "QUEUED", forecast={"said": 100.0, "starts": starts}), job("two")]])
    (noted,) = record.read()["forecasts"]
    assert (noted["starts"], noted["when"], noted["run"]) == (900.0, WAITING, "7 1 1")
    asked([[job("one", "QUEUED"), job("two")]])
    assert record.read()["forecasts"] == [noted]


def test_a_silent_target_is_an_answer(asked):
    _, _, answer, problem = asked([TargetUnreachable("frontend does not answer", hint="look at the network")])
    assert (answer, problem) == ({}, "frontend does not answer (look at the network)")


def test_patience_grows_while_nothing_changes_and_ends_with_the_jobs(asked):
    same = [[job("one", elapsed=float(n)), job("two")] for n in range(10)]
    news = [[job("one", epoch=2), job("two", "COMPLETED")], [job("one", epoch=2)], [job("one", "FAILED")]]
    wanted, slept, answer, _ = asked([*same, *news], every=2.0)
    assert slept[:5] == [2.0, 3.0, 4.5, 6.75, 10.125]
    assert max(slept) == 30.0
    assert slept[-2:] == [2.0, 3.0]
    assert wanted[-2:] == [["one"], ["one"]]  # what has ended is asked for no more
    assert {name: each["situation"]["state"] for name, each in answer.items()} == {
        "one": "FAILED", "two": "COMPLETED",
    }  # fmt: skip


def test_watching_outlives_a_silence(asked):
    silence = TargetUnreachable("gone")
    wanted, slept, _, problem = asked([[job("one")], silence, silence, [job("one", "COMPLETED")]], 2.0, ["one"])
    assert (len(wanted), slept) == (4, [2.0, 2.0, 3.0])
    assert problem == ""


def test_who_asks_seldom_is_not_asked_to_ask_more_often(asked):
    _, slept, _, _ = asked([[job("one")], [job("one")], [job("one", "COMPLETED")]], 60.0, ["one"])
    assert slept == [60.0, 60.0]


def test_what_is_measured_is_measured_as_often_until_no_job_runs(asked):
    answers = [[job("one", usage=[{"node": "node01"}])]] * 3
    wanted, slept, answer, _ = asked([*answers, [job("one", "QUEUED", usage=[])]], 2.0, ["one"], inside="usage")
    assert (len(wanted), slept) == (4, [2.0] * 3)
    assert answer["one"]["usage"] == []
