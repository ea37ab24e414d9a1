"""Searches: trials are deployments that a study chooses; killed anywhere, none is lost and none runs twice."""

from __future__ import annotations

import json
import math
import shutil

import pytest

from modak_ansible.commands.status import status
from modak_ansible.deployment.comparison import compare
from modak_ansible.deployment.run import Deployed
from modak_ansible.deployment.searches import searching
from modak_ansible.deployment.searches.search_store import SearchStore, searches_of, shown
from modak_ansible.deployment.searches.study import Study, behind_median
from modak_ansible.deployment.status import StatusEntry, rows_of
from modak_ansible.errors import JobFailed, TimeIsOver, UsageError
from modak_ansible.planning.service import plan_all, plan_trials
from modak_ansible.reading.blueprint.inputs import Inputs
from modak_ansible.store.deployment import DeploymentStore
from modak_ansible.store.deployments import glance
from modak_ansible.store.record import DeploymentRecord

ARGUMENTS = "          batch-size: 128\n"
SEARCH = """\
        arguments: { epochs: 2, lr: 0.1, kind: a }
        search:
          trials: 12
          over: { lr: { from: 1e-4, to: 1, log: true }, kind: [ a, b ] }
          objective: val_loss
          prune: median
"""


TRIALS = {}


def trials_once(planned, points):
    """The plans of trials, made once for all tests of a process whose blueprint is the same."""
    key = (planned.blueprint.read_text(), planned.plan.digest, str(planned.inputs), str(points))
    if key not in TRIALS:
        TRIALS[key] = plan_trials(planned, points)
    places = {"blueprint": planned.blueprint, "state": planned.state, "testbed": planned.testbed}
    return [each._replace(**places) for each in TRIALS[key]]


class Killed(BaseException):
    """The command is killed: nothing of it goes on."""


class Cluster:
    """What the target does: jobs that take three looks, and log a curve that follows from their arguments."""

    LOOKS = 3

    def __init__(self, monkeypatch):
        self.jobs, self.calls, self.kill_at, self.cancelled = {}, 0, None, []
        self.forget_results, self.broken, self.by = False, set(), "step"
        monkeypatch.setattr(searching, "plan_trials", trials_once)
        for name in ("deploy", "ask_targets", "act", "fetch_results"):
            monkeypatch.setattr(searching, name, self.step(getattr(self, name)))

    def step(self, act):
        """Before and after each call the command may be killed."""

        def called(*given, **more):
            self.tick()
            answer = act(*given, **more)
            self.tick()
            return answer

        return called

    def tick(self):
        self.calls += 1
        if self.calls == self.kill_at:
            raise Killed

    def deploy(self, planned, **_):
        for each in planned:
            each.save()
            if each.plan.deployment not in self.jobs:  # as the real one, it looks first
                self.jobs[each.plan.deployment] = {"looks": 0, "state": "RUNNING"}
            self.tick()  # submitted, and nothing of it is noted here yet
            DeploymentRecord(each.folder).note_job(self.situation(each.plan.deployment))
        return Deployed(1, tuple(each.store for each in planned))

    def situation(self, name):
        job = self.jobs.get(name)
        if job is None:
            return {"state": "NONE", "job_id": "", "explanation": ""}
        return {"state": job["state"], "job_id": name, "explanation": "", "started": 1.0, "ended": 9.0}

    def curve(self, store):
        arguments = dict(DeploymentStore(store.folder).plan["application"]["arguments"])
        floor = (math.log10(float(arguments["lr"])) + 2) ** 2 + (arguments["kind"] == "a")
        return [floor + 1 / step for step in range(1, self.LOOKS + 1)]

    def ask_targets(self, entries, every=0.0, heard=None):
        while True:
            for entry in entries:
                job = self.jobs.get(entry.name)
                if job and job["state"] == "RUNNING":
                    job["looks"] += 1
                    if job["looks"] >= self.LOOKS:
                        job["state"] = "FAILED" if entry.name in self.broken else "COMPLETED"
                looks = min(self.LOOKS, job["looks"]) if job else 0
                numbers = {"val_loss": self.curve(entry.store)[looks - 1]} if looks else {}
                entry.answer = {
                    "situation": self.situation(entry.name), "there": bool(job),
                    "progress": {"step": 100 * looks, self.by: looks, "numbers": numbers},
                }  # fmt: skip
                if job:
                    DeploymentRecord(entry.store.folder).note_job(self.situation(entry.name))
            if heard is None:
                return
            heard()
            if not any(job["state"] == "RUNNING" for job in self.jobs.values()):
                return

    def act(self, stores, state):
        assert state == "cancelled"
        for name in [store.name for store in stores]:
            if self.jobs[name]["state"] == "RUNNING":
                self.jobs[name]["state"] = "CANCELLED"
                self.cancelled.append(name)

    def fetch_results(self, *stores):
        for store in stores:
            (store.folder / "results").mkdir(exist_ok=True)
            looks = self.jobs[store.name]["looks"]
            lines = [{self.by: n, "val_loss": value} for n, value in enumerate(self.curve(store)[:looks], 1)]
            name = "other" if self.forget_results else "val_loss"
            text = "".join(json.dumps({self.by: each[self.by], name: each["val_loss"]}) + "\n" for each in lines)
            (store.folder / "results/metrics.jsonl").write_text(text)
            (store.folder / "results/manifest.json").write_text(
                '{"files": [{"path": "metrics.jsonl", "size": 1, "sha256": ""}]}'
            )


@pytest.fixture
def cluster(monkeypatch):
    return Cluster(monkeypatch)


@pytest.fixture
def asked(blueprint):
    text = blueprint.service.read_text()
    begin, end = text.index("        arguments:\n"), text.index("        resources:")
    blueprint.service.write_text(text[:begin] + SEARCH + text[end:])
    (blueprint.path / ".modak").mkdir()
    return blueprint


def planned_of(asked, **changes):
    (planned,) = plan_all(asked.service, Inputs())
    return planned._replace(**changes)


def run(asked, cluster, planned=None, **changes):
    said = []
    listener = type("Told", (), {"progress": lambda _, stage, text: said.append(text)})()
    done, _ = searching.carry_out_search(planned or planned_of(asked, **changes), listener=listener)
    return done, said


def facts(asked, done):
    """What came of the trials, by what they were given."""
    found = {}
    for each in done:
        store = DeploymentStore(each.folder)  # as its files are now
        found[store.plan["training"]] = rows_of([StatusEntry(store)])[0]["state"]
    return found


def test_trials_are_deployments_and_the_bad_ones_are_pruned(asked, cluster):
    done, said = run(asked, cluster)
    found = facts(asked, done)
    assert len(found) == len(done) == 12 == len(cluster.jobs)
    assert all(name.startswith("training:lr=") and ",kind=" in name for name in found)
    pruned = [name for name, state in found.items() if state == "PRUNED"]
    assert len(pruned) == len(cluster.cancelled) > 0
    assert sum("is pruned: val_loss" in line and "where half of the others had" in line for line in said) == len(pruned)
    (search,) = searches_of(DeploymentStore(each.folder) for each in done)
    comparison = compare([DeploymentStore(each.folder) for each in done])
    assert comparison.by == "val_loss"
    assert comparison.runs[0].deployment == search["best"]["deployment"]
    assert {run.state for run in comparison.runs} == {"COMPLETED", "PRUNED"}
    assert search["states"] == {"complete": 12 - len(pruned), "pruned": len(pruned)}
    assert shown(search).startswith(
        f"search training: 12 of 12 trials ({12 - len(pruned)} completed, {len(pruned)} pruned)"
    )


def test_places_of_two_kinds_are_not_compared(asked, cluster, monkeypatch):
    """Steps until a trial has ended, and then the epochs that its curve turned out to have."""
    cluster.by, places = "epoch", []
    monkeypatch.setattr(Study, "report", lambda _self, _trial, place, _value: places.append(place))
    run(asked, cluster)
    assert set(places) == {1, 2}


def test_an_ended_search_changes_nothing_and_more_trials_go_on(asked, cluster):
    run(asked, cluster)
    done, changed = searching.carry_out_search(planned_of(asked))
    assert (len(done), changed, len(cluster.jobs)) == (12, False, 12)
    asked.replace("trials: 12", "trials: 14")
    done, changed = searching.carry_out_search(planned_of(asked))
    assert (len(done), changed, len(cluster.jobs)) == (14, True, 14)


def test_killed_anywhere_it_goes_on_as_if_it_had_not_been(asked, monkeypatch):
    """Each place is tried in which the command may be killed around what it does to the target."""
    cluster = Cluster(monkeypatch)
    asked.replace("trials: 12", "trials: 4")
    planned = planned_of(asked)
    whole = facts(asked, run(asked, cluster, planned)[0])
    calls = cluster.calls
    for kill_at in range(1, calls + 1):
        shutil.rmtree(asked.path / ".modak")
        (asked.path / ".modak").mkdir()
        cluster = Cluster(monkeypatch)
        cluster.kill_at = kill_at
        with pytest.raises(Killed):
            run(asked, cluster, planned)
        done, _ = run(asked, cluster, planned)
        assert facts(asked, done) == whole, kill_at
        assert len(cluster.jobs) == 4


def test_a_line_that_was_cut_off_is_mended(asked, cluster):
    cluster.kill_at = 9
    with pytest.raises(Killed):
        run(asked, cluster)
    (journal,) = (asked.path / ".modak/searches").glob("*/journal.log")
    before = journal.read_bytes()
    journal.write_bytes(before + b'{"op_code": 5, "worker')
    assert len(run(asked, cluster)[0]) == 12
    assert journal.read_bytes().startswith(before)


def test_several_at_once(asked, cluster):
    assert len(run(asked, cluster, parallel=4)[0]) == 12 == len(cluster.jobs)


def test_values_that_come_again_are_not_trained_again(asked, cluster):
    asked.replace("lr: { from: 1e-4, to: 1, log: true }, kind", "kind")
    done, said = run(asked, cluster)
    assert len(done) == 2 == len(cluster.jobs)
    assert sum(", as trial " in line for line in said) == 10


def test_a_number_that_is_not_there_fails_the_trial_and_says_which_there_are(asked, cluster):
    cluster.forget_results = True
    asked.replace("trials: 12", "trials: 3")
    with pytest.raises(JobFailed, match="no trial of training produced a value of val_loss\n  .*it has other"):
        run(asked, cluster)
    assert len(cluster.jobs) == 3


def test_a_trial_that_fails_is_one_of_them(asked, cluster):
    deploy = searching.deploy

    def breaking(planned, **more):
        cluster.broken |= {planned[0].plan.deployment} if len(cluster.jobs) == 2 else set()
        return deploy(planned, **more)

    searching.deploy = breaking
    done, said = run(asked, cluster)
    assert sorted(facts(asked, done).values()).count("FAILED") == 1
    assert any(line.startswith("trial 2 failed: failed") for line in said)


def test_what_was_undeployed_begins_anew(asked, cluster):
    done, _ = run(asked, cluster)
    for each in done:
        DeploymentRecord(each.folder).update(undeployed=1.0)
    cluster.jobs.clear()
    run(asked, cluster)
    assert len(cluster.jobs) == 12


def test_who_goes_on_with_it_is_alone(asked, cluster):
    run(asked, cluster)
    (folder,) = (asked.path / ".modak/searches").iterdir()
    with SearchStore(folder), pytest.raises(UsageError, match="another modak deploy is running this search"):
        run(asked, cluster)


def test_its_time_may_be_over(asked, cluster):
    with pytest.raises(TimeIsOver):
        searching.carry_out_search(planned_of(asked), deadline=0.0)
    assert len(searching.trials_of(planned_of(asked))) == 1


def test_nobody_searches_detached(asked):
    with pytest.raises(UsageError, match="training is a search: its trials are chosen"):
        searching.deploy_all([planned_of(asked)], wait=False)


@pytest.mark.parametrize(
    ("mine", "rising", "median"),
    [
        ({}, False, None),
        ({1: 9.0}, False, 2.5),
        ({1: 1.0, 2: 9.0}, False, None),  # its best until now counts
        ({0: 9.0}, False, None),  # the others had nothing there
        ({2: 9.0}, True, None),
        ({2: 0.0}, True, 1.5),
    ],
)
def test_behind_the_median(mine, rising, median):
    others = [{1: 1.0, 2: 0.0}, {1: 2.0, 2: 1.0}, {1: 3.0, 2: 2.0}, {1: 4.0, 2: 3.0}]
    assert behind_median(mine, others, rising=rising) == median
    assert behind_median(mine, others[:3], rising=rising) is None


def rows_here(asked):
    return rows_of([StatusEntry(store) for store in glance(asked.path / ".modak")])


def test_status_has_the_search_of_each_trial(asked, cluster):
    done, _ = run(asked, cluster)
    rows = rows_here(asked)
    assert len(rows) == 12
    (search,) = searches_of(done)
    assert all(row["search"] == search for row in rows)
    assert (search["state"], search["trials"], search["running"]) == ("completed", 12, [])
    assert search["states"]["pruned"] == sum(row["state"] == "PRUNED" for row in rows)
    assert search["best"]["deployment"] in {row["deployment"] for row in rows}
    (folder,) = (asked.path / ".modak/searches").iterdir()
    (folder / "search.json").write_text("{")
    assert all("search" not in row for row in rows_here(asked))


def test_what_became_of_trials_that_nobody_went_on_with_is_told(asked, cluster, capsys, monkeypatch):
    monkeypatch.chdir(asked.path)
    planned = planned_of(asked, parallel=3)
    with pytest.raises(TimeIsOver):
        searching.carry_out_search(planned, deadline=0.0)
    first, second, third = searching.trials_of(planned)
    search = rows_here(asked)[0]["search"]
    assert (search["state"], search["states"], len(search["running"])) == ("stopped", {"running": 3}, 3)
    DeploymentRecord(first.folder).update(undeployed=1.0)
    DeploymentRecord(second.folder).update(job={"state": "COMPLETED", "job_id": "1"})
    search = rows_here(asked)[0]["search"]
    assert search["states"] == {"running": 1, "undeployed": 1, "ended": 1}
    assert search["running"] == [third.name]
    status.command(offline=True)
    assert capsys.readouterr().out.splitlines()[-1] == (
        "search training: 0 of 12 trials (1 ended, 1 running, 1 undeployed); nothing continues it now: modak deploy does"
    )
    (folder,) = (asked.path / ".modak/searches").iterdir()
    with SearchStore(folder):
        assert rows_here(asked)[0]["search"]["state"] == "running"


def test_how_it_is_is_known_before_the_first_trial_is_submitted(asked, cluster):
    cluster.kill_at = 1
    with pytest.raises(Killed):
        run(asked, cluster)
    (folder,) = (asked.path / ".modak/searches").iterdir()
    assert shown(SearchStore(folder).state).startswith("search training: 0 of 12 trials (1 running)")
