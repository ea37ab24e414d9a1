"""modak tune: what it would try, and what it shows of what a job found."""

from __future__ import annotations

import json
import sys

import pytest

from modak_ansible.commands import main


@pytest.fixture
def modak(monkeypatch, capsys):
    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["modak", *map(str, arguments)])
        code = main._run()
        return code, *capsys.readouterr()

    return run


def test_a_dry_run_shows_the_candidates(modak, blueprint):
    code, out, _ = modak("tune", blueprint.service, "--budget", 100, "--dry-run")
    assert code == 0
    assert "in at most 100 s" in out
    assert "c0   same           the plan's choice" in out
    assert "(for comparison only)" in out
    assert not (blueprint.path / ".modak").exists()


def test_a_dry_run_as_json(modak, blueprint):
    code, out, _ = modak("tune", blueprint.service, "--json", "--dry-run")
    found = json.loads(out)
    assert code == 0
    assert (found["trains"], found["steps"]) == (False, 20)
    assert found["candidates"][0]["name"] == "c0"


def test_what_cannot_be_tuned_is_refused_at_its_place(modak, blueprint):
    blueprint.replace("framework: pytorch", 'framework: pytorch\n        version: "1.4"')
    code, _, err = modak("tune", blueprint.service, "--dry-run")
    assert code == 3
    assert "service.yaml:" in err
    assert "nothing can be tuned: the tuner needs Python 3.11" in err


@pytest.mark.parametrize("budget", ["0", "-1", "x"])
def test_a_budget_is_a_number_of_seconds(modak, blueprint, budget):
    code, _, err = modak("tune", blueprint.service, "--budget", budget, "--dry-run")
    assert code == 2
    assert "--budget" in err


@pytest.fixture
def tuned(monkeypatch):
    """A target on which the second candidate is twice as fast as stock, and the third breaks."""

    def deploy(plan, folder, *, is_quiet):
        names = [candidate.name for candidate in plan.tuning.candidates]
        trials = []
        for position, (name, score) in enumerate([("c0", 0.2), ("c1", 0.22), ("c2", 0.11)], 1):
            steps = {
                "count": 20,
                "median_seconds": score,
                "p10_seconds": score,
                "p90_seconds": 0.3,
                "first_seconds": 1.5,
            }
            trials.append({"candidate": name, "rung": 1, "position": position, "asked": 20, "seconds": 9.0,
                           "steps": steps, "score": score})  # fmt: skip
        outcomes = {
            name: {"title": f"title of {name}", "outcome": "measured" if name < "c3" else "untried"} for name in names
        }
        outcomes["c3"].update(outcome="out", reason="it ended with exit code 1: broken")
        content = {
            "schema": "modak.tuning/1", "state": "finished", "reason": "", "date": "2026-01-01T00:00:00Z", "hostname": "n1",
            "budget": 100, "spent": 30, "best": "c2", "candidates": outcomes, "trials": trials,
        }  # fmt: skip
        (folder / "results").mkdir()
        (folder / "results" / "tuning.json").write_text(json.dumps(content))

    monkeypatch.setattr("modak_ansible.commands.plan.tune.deployed", deploy)


def test_the_result_is_a_table(modak, blueprint, tuned):
    code, out, _ = modak("tune", blueprint.service)
    lines = [line for line in out.splitlines() if "title of" in line]
    assert code == 0
    assert lines[0].split() == [
        "110.00", "ms", "110.00", "to", "300.00", "1.5", "s", "20", "2.00", "1.82", "title", "of", "c2", "best",
    ]  # fmt: skip
    assert "it ended with exit code 1: broken" in next(line for line in lines if "of c3" in line)
    assert "title of c2 of 9 candidates" not in lines


def test_the_result_as_json(modak, blueprint, tuned):
    code, out, _ = modak("tune", blueprint.service, "--json")
    found = json.loads(out)
    assert code == 0
    assert found["best"] == "c2"
    assert found["candidates"][0]["over_stock"] == pytest.approx(2.0)
    assert found["deployment"].startswith("example-tune-")


def test_a_job_that_left_nothing_is_an_error(modak, blueprint, monkeypatch):
    monkeypatch.setattr("modak_ansible.commands.plan.tune.deployed", lambda *_, **__: None)
    code, _, err = modak("tune", blueprint.service)
    assert code == 1
    assert "the job left no tuning.json" in err
