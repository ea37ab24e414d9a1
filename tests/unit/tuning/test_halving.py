"""Successive halving among candidates of known speed: the best one is found, within the budget, whatever goes wrong."""

from __future__ import annotations

import json
import math
import random

import optuna
import pytest
from hypothesis import given
from hypothesis import strategies as st
from modak_tuner import scores
from modak_tuner.diary import Diary
from modak_tuner.halving import Failed, Halving, Stopped


@pytest.fixture
def tune(tmp_path):
    def run(tuning, runner):
        (tmp_path / "state").mkdir(exist_ok=True)
        diary = Diary(str(tmp_path), tuning)
        diary.busy = 0.25  # as on two cores, however many there are here
        halving = Halving(tuning, runner, diary, runner.clock)
        reason = halving.tune(optuna) if tuning["reduction"] > 1 else halving.take_turns()
        diary.end("finished", reason)
        return json.loads((tmp_path / "tuning.json").read_text())

    return run


@pytest.mark.parametrize("seed", range(6))
def test_the_best_one_is_found(tune, section, fake_runner, seed):
    speeds = {f"c{each}": speed for each, speed in enumerate([1.0, 1.4, 0.9, 0.7, 1.1, 0.95, 1.2, 0.8, 1.5])}
    found = tune(section(9, budget=5000), fake_runner(speeds, noise=0.05, seed=seed))
    assert found["best"] == "c3"
    assert found["state"] == "finished"
    asked = {}
    for trial in found["trials"]:
        asked.setdefault(trial["asked"], []).append(trial["candidate"])
    assert list(map(len, asked.values())) == [9, 4, 3]  # the plan's choice stays, for the others to be compared with
    assert asked[60] == sorted(asked[60], reverse=True)  # in the order of names, turned round
    assert "c0" in asked[180]


@given(
    speeds=st.lists(st.floats(0.5, 2.0), min_size=2, max_size=12),
    noise=st.floats(0.0, 0.1),
    seed=st.integers(0, 1000),
)
def test_what_is_taken_is_nearly_the_best_and_never_slower_than_the_plan(
    tmp_path_factory, fake_runner, section, speeds, noise, seed
):
    folder = tmp_path_factory.mktemp("deployment")
    (folder / "state").mkdir()
    tuning = section(len(speeds), budget=100000)
    by_name = {f"c{each}": speed for each, speed in enumerate(speeds)}
    runner = fake_runner(by_name, noise=noise, seed=seed)
    Halving(tuning, runner, Diary(str(folder), tuning), runner.clock).tune(optuna)
    taken = by_name[(folder / "state" / "tuned").read_text().strip()]
    # three rungs tell 3 % apart, by how far processes usually lie apart
    assert taken <= min(speeds) * (1.03 + 4 * noise)
    assert taken <= speeds[0] * (1 + noise)


class Drifts:
    """A runner whose processes differ, as those of a real machine do."""

    def __init__(self, runner, sigma, seed):
        self._runner, self._sigma, self._random = runner, sigma, random.Random(seed)
        self.clock, self.runs = runner.clock, runner.runs

    def __call__(self, *arguments):
        factor = math.exp(self._random.gauss(0, self._sigma))
        found = self._runner(*arguments)
        return {name: value * factor if name[0] in "mp" else value for name, value in found.items()}


@pytest.mark.parametrize("sigma", [0.02, 0.1])
def test_processes_that_differ_make_nobody_the_best_who_is_as_fast(tune, section, fake_runner, sigma):
    """Of a hundred tunings with four candidates alike, few take another than the plan's."""
    wrong = 0
    for seed in range(100):
        runner = fake_runner({f"c{number}": 0.2 for number in range(4)}, noise=0.01, seed=seed)
        wrong += tune(section(4, budget=5000), Drifts(runner, sigma, seed))["best"] != "c0"
    assert wrong <= 20


def test_one_that_is_faster_by_little_is_found_in_more_turns(tune, section, fake_runner):
    found = [
        tune(section(2, budget=5000), Drifts(fake_runner({"c0": 0.2, "c1": 0.185}, seed=seed), 0.02, seed))
        for seed in range(20)
    ]
    assert sum(each["best"] == "c1" for each in found) >= 18
    rungs = [max(trial["rung"] for trial in each["trials"]) for each in found]
    assert min(rungs) == 3 < max(rungs) <= 7
    assert {trial["asked"] for each in found for trial in each["trials"] if trial["rung"] > 3} == {180}


@pytest.mark.parametrize(("steps", "goes_on"), [(200, False), (100000, True), (None, True)])
def test_a_job_that_trains_takes_no_turn_that_costs_more_than_it_may_gain(tune, section, fake_runner, steps, goes_on):
    tuning = {**section(2, budget=5000, total_steps=steps), "trains": True}
    found = tune(tuning, fake_runner({"c0": 0.2, "c1": 0.197}, noise=0.01))
    assert (max(trial["rung"] for trial in found["trials"]) > 3) is goes_on


@pytest.mark.parametrize("broken", ["c0", "c1"])
def test_one_that_breaks_in_a_turn_behind_the_last_rung_is_out(tune, section, fake_runner, broken):
    runner = fake_runner({"c0": 0.2, "c1": 0.195})

    class Breaks:
        clock = runner.clock

        def __call__(self, candidate, *arguments):
            if candidate["name"] == broken and len(runner.runs) >= 6:
                raise Failed("out of memory")
            return runner(candidate, *arguments)

    found = tune(section(2, budget=5000), Breaks())
    assert found["candidates"][broken]["outcome"] == "out"
    assert found["best"] == ({"c0", "c1"} - {broken}).pop()


def test_faster_ones_are_combined_and_others_are_not(tune, section, fake_runner):
    tuning = {**section(6), "first_rung": 5}
    for number, parts in ((4, ["c1", "c2"]), (5, ["c1", "c3"])):
        tuning["candidates"][number]["parts"] = parts
    runner = fake_runner({"c0": 0.2, "c1": 0.15, "c2": 0.17, "c3": 0.25, "c4": 0.12, "c5": 0.1})
    found = tune(tuning, runner)
    assert found["best"] == "c4"
    assert found["candidates"]["c5"]["outcome"] == "untried"


def test_who_reads_of_a_trial_finds_the_best_noted(tmp_path, fake_runner, section):
    """A tuner that is killed behind the line leaves what the line says."""
    (tmp_path / "state").mkdir()
    tuned, heard = tmp_path / "state" / "tuned", []

    class Heard(Diary):
        def say(self, text):
            heard.append((text, tuned.read_text().strip()))

    tuning, runner = section(2), fake_runner({"c0": 1.0, "c1": 0.5})
    Halving(tuning, runner, Heard(str(tmp_path), tuning), runner.clock).tune(optuna)
    assert [best for _, best in heard[:2]] == ["c0", "c1"]


def test_differences_inside_the_noise_leave_the_plans_choice(tune, section, fake_runner):
    found = tune(section(4), fake_runner({"c0": 1.0, "c1": 0.995, "c2": 1.0, "c3": 1.003}, noise=0.1))
    assert found["best"] == "c0"


def test_a_first_step_that_does_not_pay_is_counted(tune, section, fake_runner):
    speeds, start = {"c0": 0.1, "c1": 0.05}, {"c1": 30.0}
    assert tune(section(2, total_steps=200), fake_runner(speeds, start=start))["best"] == "c0"
    assert tune(section(2, total_steps=5000), fake_runner(speeds, start=start))["best"] == "c1"
    assert tune(section(2), fake_runner(speeds, start=start))["best"] == "c1"  # how long it trains is not known


@pytest.mark.parametrize("budget", [1, 10, 30, 100, 300])
def test_the_budget_is_kept(tune, section, fake_runner, budget):
    runner = fake_runner({f"c{number}": 0.2 for number in range(8)})
    found = tune(section(8, budget=budget), runner)
    assert runner.now <= budget
    assert found["best"] == ("c0" if budget > 1 else "")


def test_who_is_slower_than_the_budget_is_out(tune, section, fake_runner):
    found = tune(section(3, budget=300), fake_runner({"c0": 0.1, "c1": 500.0, "c2": 0.05}))
    assert found["best"] == "c2"
    assert found["candidates"]["c1"]["outcome"] == "out"
    assert "it made " in found["candidates"]["c1"]["reason"]


def test_who_crashes_is_out_and_the_others_go_on(tune, section, fake_runner):
    speeds = {"c0": 0.2, "c1": Failed("it ended with exit code 1: no such kernel"), "c2": 0.1, "c3": 0.3}
    found = tune(section(4), fake_runner(speeds))
    assert found["best"] == "c2"
    assert found["candidates"]["c1"] == {
        "title": "candidate 1", "settings": {}, "outcome": "out", "reason": "it ended with exit code 1: no such kernel",
    }  # fmt: skip


def test_the_plans_choice_may_crash_too(tune, section, fake_runner):
    found = tune(section(3), fake_runner({"c0": Failed("no"), "c1": 0.2, "c2": 0.3}))
    assert found["best"] == "c1"
    assert tune(section(2), fake_runner({"c0": Failed("no"), "c1": Failed("no")}))["best"] == ""


class StopsAfter:
    """A runner that somebody ends."""

    def __init__(self, runner, number):
        self._runner, self._left = runner, number
        self.clock = runner.clock

    def __call__(self, *arguments):
        self._left -= 1
        if self._left < 0:
            raise Stopped("signal 15 stopped it")
        return self._runner(*arguments)


@pytest.mark.parametrize(("number", "best"), [(0, ""), (1, "c0"), (2, "c0"), (3, "c2"), (5, "c3"), (6, "c3")])
def test_stopped_in_the_middle_the_best_so_far_is_known(tune, section, fake_runner, number, best):
    runner = fake_runner({"c0": 0.2, "c1": 0.3, "c2": 0.15, "c3": 0.1, "c4": 0.4}, noise=0.01)
    found = tune(section(5), StopsAfter(runner, number))
    assert (found["best"], len(found["trials"])) == (best, number)
    assert found["reason"] == "signal 15 stopped it"


def test_one_who_is_only_compared_with_runs_once_and_never_wins(tune, section, fake_runner):
    runner = fake_runner({"c0": 0.3, "c1": 0.1, "c2": 0.2})
    found = tune(section(3, may_win=[True, False, True]), runner)
    assert found["best"] == "c2"
    assert [name for name, _ in runner.runs].count("c1") == 1


def test_larger_steps_are_worth_more():
    half = {"total_steps": None, "work_per_step": 0.5}
    measure = {"count": 20, "median_seconds": 1.0, "p10_seconds": 1.0, "p90_seconds": 1.0}
    assert scores.score(half, measure) == 2.0
    assert math.isclose(scores.score({"total_steps": 11}, {**measure, "to_first_step_seconds": 3.0}), 13.0)
    late = {**measure, "to_first_step_seconds": 4.5, "import_seconds": 1.5}  # who came first read it from disk
    assert math.isclose(scores.score({"total_steps": 11}, late), 13.0)


def test_every_line_says_what_was_measured(tune, section, fake_runner, capsys):
    tune(section(2, budget=100), fake_runner({"c0": 0.2, "c1": Failed("it broke")}, noise=0.0))
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "tuning: trial 1, rung 1, candidate 0: 200.00 ms a step, the first after 2.0 s (20 steps)"
    assert lines[1] == "tuning: trial 2, rung 1, candidate 1: dropped: it broke"
    assert lines[-1].startswith("tuning: ended: one candidate is left; best: candidate 0")


def test_a_best_one_that_the_budget_cuts_short_stays_the_best(tune, section, fake_runner):
    runner = fake_runner({"c0": 0.5, "c1": 0.2}, noise=0.01, start={"c0": 1.0, "c1": 20.0})
    found = tune(section(2, budget=62), runner)
    assert runner.now <= 62
    assert (found["best"], found["reason"]) == ("c1", "the budget is spent")
    assert found["candidates"]["c1"]["outcome"] == "measured"


def test_a_best_one_that_breaks_later_is_the_best_no_more(tune, section, fake_runner, tmp_path):
    runner = fake_runner({"c0": Failed("no"), "c1": 0.2, "c2": 0.3})

    class Breaks:
        clock = runner.clock

        def __call__(self, candidate, steps, seconds):
            if steps > 20:
                raise Failed("out of memory")
            return runner(candidate, steps, seconds)

    found = tune(section(3), Breaks())
    assert found["best"] == "c2"
    assert (tmp_path / "state" / "tuned").read_text() == "c2\n"


def test_on_a_large_machine_more_may_be_busy():
    assert scores.busy_limit(None) == scores.busy_limit(2) == 0.25
    assert scores.busy_limit(128) == 16


def test_a_neighbour_who_comes_and_goes_decides_nothing(tune, section, fake_runner):
    runner = fake_runner({"c0": 0.3, "c1": 0.2, "c2": 0.35}, noise=0.01)
    busy = {"c0": 1.5, "c1": 0.0, "c2": 1.4}

    class Shared:
        clock = runner.clock

        def __call__(self, candidate, *arguments):
            return {**runner(candidate, *arguments), "foreign_cores": busy[candidate["name"]]}

    assert tune(section(3), Shared())["best"] == "c0"
    busy["c0"] = 0.1
    assert tune(section(3), Shared())["best"] == "c1"


def turns_of(section, **values):
    return {**section(2, may_win=[True, False]), "reduction": 1, "rungs": 5, **values}


def test_the_choice_and_stock_take_turns(tune, section, fake_runner, capsys):
    runner = fake_runner({"c0": 0.2, "c1": 0.1})
    found = tune(turns_of(section), runner)
    names = [name for name, _ in runner.runs]
    assert names == ["c0", "c1", "c1", "c0", "c0", "c1", "c1", "c0", "c0", "c1"]
    assert {steps for _, steps in runner.runs} == {20}
    assert found["best"] == "c0"  # which trains, whatever the ratio is
    assert found["reason"] == "all turns were taken"
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("compare_with_stock: trial 1, turn 1, candidate 0: 198.00 ms a step")
    assert lines[-1] == "compare_with_stock: ended: all turns were taken"


@pytest.mark.parametrize(
    ("stock", "rungs", "may_win", "best"),
    [
        (0.1, 2, True, "c1"),
        (0.1, 2, False, "c2"),
        (0.1, 1, True, "c0"),  # which noise may be
        (0.198, 4, True, "c0"),  # which noise is
        (0.3, 4, True, "c0"),
    ],
)
def test_stock_trains_where_it_is_faster_beyond_noise(tune, section, fake_runner, capsys, stock, rungs, may_win, best):
    """Or what keeps wishes and good practice where it breaks one, which the plan has behind it and no turn tries."""
    given = {**section(2 if may_win else 3, may_win=[True, may_win, True]), "reduction": 1, "rungs": rungs}
    assert tune(given, fake_runner({"c0": 0.2, "c1": stock}))["best"] == best
    told = "" if best == "c0" else f"; best: candidate {best[1]}"
    assert capsys.readouterr().out.splitlines()[-1] == f"compare_with_stock: ended: all turns were taken{told}"


def test_one_turn_that_can_be_compared_is_not_two(tune, section, fake_runner):
    """Others kept the machine busy during a half of the other one."""
    runner, busy = fake_runner({"c0": 0.2, "c1": 0.1}), iter([0.0, 1.0, 0.0, 0.0])

    class Shared:
        clock = runner.clock

        def __call__(self, *asked):
            return {**runner(*asked), "foreign_cores": next(busy)}

    assert tune({**section(2, may_win=[True, True]), "reduction": 1, "rungs": 2}, Shared())["best"] == "c0"


@pytest.mark.parametrize("broken", [0, 2])
def test_stock_trains_where_the_choice_cannot_be_run(tune, section, fake_runner, broken):
    runner = fake_runner({"c0": 0.1, "c1": 0.2})
    given = {**section(2, may_win=[True, True]), "reduction": 1, "rungs": 4}

    class Breaks:
        clock = runner.clock

        def __call__(self, candidate, *asked):
            if candidate["name"] == "c0" and len(runner.runs) >= broken:
                raise Failed("it ended with exit code 1")
            return runner(candidate, *asked)

    found = tune(given, Breaks())
    assert (found["best"], found["reason"]) == ("c1", "a candidate was dropped")


@pytest.mark.parametrize("budget", [12, 15, 20, 27, 37])
def test_turns_end_with_the_budget(tune, section, fake_runner, budget):
    runner = fake_runner({"c0": 0.2, "c1": 0.1})
    found = tune(turns_of(section, budget=budget), runner)
    assert found["reason"] == "the budget is spent"
    assert runner.now <= budget
    assert found["best"] == "c0"
    assert len(runner.runs) % 2 == 0  # half a turn would have taken time and compared nothing


@pytest.mark.parametrize("broken", ["c1", "c0"])
def test_who_cannot_be_run_ends_the_turns(tune, section, fake_runner, broken):
    runner = fake_runner({"c0": 0.2, "c1": 0.1, broken: Failed("it ended with exit code 1")})
    found = tune(turns_of(section), runner)
    assert found["reason"] == "a candidate was dropped"
    assert found["best"] == "c0"  # stock may not win
    assert len(runner.runs) == 2
