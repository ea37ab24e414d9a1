"""Many jobs at once, by what real schedulers printed of them: each is asked a fixed number of times."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import yaml_files
from hypothesis import given
from hypothesis import strategies as st

from modak_ansible.schedulers.base import CommandResult, JobState, SchedulerSilent
from modak_ansible.schedulers.registry import SCHEDULERS
from modak_ansible.target.core.commands import TimedRun

FOLDER = Path(__file__).parent / "recorded"
MANY = yaml_files.read(FOLDER / "many.yaml")
TORQUE = yaml_files.read(FOLDER / "torque.yaml")
SLURM = SCHEDULERS["slurm"]
MINE = [str(number) for number in range(849, 861)]


class Run:
    """Answers as a Slurm with 22 jobs did, and counts how often it is asked."""

    def __init__(self, **changes: CommandResult) -> None:
        self.asked: list[list[str]] = []
        self._changes = changes

    def __call__(self, argv):
        self.asked.append(argv)
        name = "queue" if "--states=PENDING" in argv else argv[0]
        return self._changes.get(name) or CommandResult(0, MANY[f"slurm-{name}"])


def placed(run, job_ids, scheduler=SLURM):
    """As what asks for places has them."""
    return scheduler.placed(run, scheduler.statuses(run, job_ids))


# --- Slurm


def test_slurm_is_asked_once_for_all_jobs():
    run = Run()
    found = SLURM.statuses(run, MINE)
    assert [argv[0] for argv in run.asked] == ["squeue", "sacct"]
    assert all(record.position is None for record in found.values())
    assert sorted(found) == MINE
    states = {job_id: str(record.state) for job_id, record in found.items()}
    assert states == {**dict.fromkeys(MINE, "QUEUED"), "856": "HELD", "860": "CANCELLED"}


def test_positions_are_those_of_the_whole_queue():
    """Three jobs of others come first; held ones, and those that wait for others or for their hour, have no turn."""
    found = placed(Run(), MINE)
    assert [found[str(number)].position for number in (849, 850, 855)] == [3, 4, 9]
    assert [found[str(number)].position for number in (856, 857, 858, 860)] == [None] * 4
    assert found["849"].starts == "2026-11-22T01:10:00"
    assert (found["857"].starts, found["857"].reason) == ("", "Dependency")


def test_an_array_is_known_by_its_own_number():
    found = placed(Run(), ["859"])
    assert (found["859"].state, found["859"].position) == (JobState.QUEUED, 10)


def test_where_nothing_waits_the_queue_is_not_asked_for():
    run = Run()
    found = placed(run, ["841"])
    assert [argv[0] for argv in run.asked] == ["squeue"]
    assert (found["841"].state, found["841"].nodes) == (JobState.RUNNING, "node[01-02]")


@pytest.mark.parametrize(
    "sacct",
    [CommandResult(1, err="Slurm accounting storage is disabled"), CommandResult(127, missing=True), CommandResult(0)],
)
def test_without_accounting_the_controller_is_asked_once_for_all_that_ended(sacct):
    run = Run(sacct=sacct)
    found = SLURM.statuses(run, ["832", "840", "841", "860", "999999"])
    assert [argv[0] for argv in run.asked] == ["squeue", "sacct", "scontrol"]
    assert {each: (str(record.state), record.exit_code) for each, record in found.items()} == {
        "832": ("COMPLETED", 0), "840": ("COMPLETED", 0), "841": ("RUNNING", None), "860": ("CANCELLED", 0),
    }  # fmt: skip


def test_the_accounting_may_be_late_for_many_too():
    run = Run(sacct=CommandResult(0, "832|RUNNING|0:0|node01|test|/home/modak/work\n"))
    assert SLURM.statuses(run, ["832"])["832"].state is JobState.COMPLETED


def test_a_queue_that_is_not_told_leaves_positions_blank():
    found = placed(Run(queue=CommandResult(1, err="slurm_load_jobs error")), MINE)
    assert found["849"].state is JobState.QUEUED
    assert all(record.position is None for record in found.values())


def test_nothing_is_asked_for_no_jobs():
    for scheduler in SCHEDULERS.values():
        assert scheduler.statuses(lambda argv: pytest.fail(f"asked {argv}"), []) == {}


@pytest.mark.parametrize("name", ["slurm", "torque", "lsf"])
def test_a_silent_scheduler_says_nothing_of_any_job(name):
    with pytest.raises(SchedulerSilent):
        SCHEDULERS[name].statuses(lambda argv: CommandResult(124, timed_out=True, err="no answer"), ["1"])


# --- Torque


def of_torque(text):
    asked = []

    def run(argv):
        asked.append(argv)
        return CommandResult(0, text)

    return run, asked


def test_torque_is_asked_once_for_all_jobs():
    jobs = "".join(TORQUE[f"state-{letter}-xml"]["out"].split("<Data>")[1].split("</Data>")[0] for letter in "QRHWCQ")
    run, asked = of_torque(f"<Data>{jobs.replace('123.frontend', '900.frontend', 1)}</Data>")
    known = ["900.frontend", "121.frontend", "123.frontend", "124.frontend", "7.frontend"]
    found = SCHEDULERS["torque"].statuses(run, known)
    assert asked == [["qstat", "-f", "-x"], ["pbsnodes", "-l"]]  # the latter since one of them runs
    assert {each: (str(record.state), record.position) for each, record in found.items()} == {
        "900.frontend": ("QUEUED", 1), "123.frontend": ("QUEUED", 2), "121.frontend": ("RUNNING", None),
        "124.frontend": ("HELD", None),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("case", "job", "state", "position"),
    [("torque-qstat", "112.frontend", "QUEUED", 6), ("torque-qstat", "103.frontend", "HELD", None), ("torque-qstat", "108.frontend", "QUEUED", None),
     ("torque-qstat", "93.frontend", "RUNNING", None), ("slurm-qstat", "849", "QUEUED", 8), ("slurm-qstat", "860", "COMPLETED", None)],
)  # fmt: skip
def test_tables_of_many_jobs(case, job, state, position):
    def run(argv):
        return CommandResult(2, err="Unknown option: x") if "-f" in argv else CommandResult(0, MANY[case])

    record = SCHEDULERS["torque"].statuses(run, [job])[job]
    assert (str(record.state), record.position) == (state, position)


# --- no scheduler


@pytest.mark.component
def test_processes_are_jobs():
    """This process lives; a number that was used again, and one that never was, do not."""
    mine = f"{os.getpid()}.{Path('/proc/self/stat').read_text().rpartition(')')[2].split()[19]}"
    found = SCHEDULERS["none"].statuses(TimedRun(), [mine, f"{os.getpid()}.1", "999999999.5", str(os.getpid())])
    assert {each: str(record.state) for each, record in found.items()} == {mine: "RUNNING", str(os.getpid()): "RUNNING"}


# --- whatever is printed

LINES = st.text(st.characters(codec="utf-8", exclude_categories=("Cs",)), max_size=60) | st.builds(
    "|".join, st.lists(st.sampled_from(["7", "7_1", "8", "PENDING", "RUNNING", "None", "", "x|y", "N/A"]), max_size=9)
)


@given(st.lists(LINES, max_size=8), st.lists(LINES, max_size=8), st.integers(0, 2), st.sampled_from(sorted(SCHEDULERS)))
def test_any_output_gives_records_of_wanted_jobs_or_silence(first, second, code, name):
    answers = [CommandResult(code, "\n".join(first)), CommandResult(0, "\n".join(second))]

    def run(argv):
        return (
            answers[0]
            if argv[0] in ("squeue", "qstat", "bjobs", "cat") and "--states=PENDING" not in argv
            else answers[1]
        )

    try:
        found = placed(run, ["7", "8"], SCHEDULERS[name])
    except SchedulerSilent:
        return
    assert set(found) <= {"7", "8"}
    assert all(record.state in JobState and (record.position or 1) >= 1 for record in found.values())


@given(st.permutations(range(20)), st.integers(0, 19))
def test_the_position_is_the_place_among_those_that_wait(order, held):
    """A queue in any order of priorities, of which one is held."""
    mine = "".join(f"{number}|PENDING|Priority||name|/home/x\n" for number in range(20) if number != held)
    queue = "".join(f"{n}|debug|{'JobHeldUser' if n == held else 'Priority'}|N/A\n" for n in order)
    run = Run(squeue=CommandResult(0, mine), queue=CommandResult(0, queue), sacct=CommandResult(0, ""))
    found = placed(run, [str(number) for number in range(20) if number != held])
    turns = [number for number in order if number != held]
    assert {int(each): record.position for each, record in found.items()} == {n: i + 1 for i, n in enumerate(turns)}
