"""What is shown of a deployment that goes on: everything on a terminal, each step once elsewhere."""

from __future__ import annotations

import io
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from modak_ansible.commands.deploy.progress import StageDisplay, print_pairs


def shown(*lines, terminal=False):
    file = io.StringIO()
    console = Console(file=file, force_terminal=terminal, width=200, color_system=None, legacy_windows=False)
    with StageDisplay(console) as display:
        for stage, text in lines:
            display.progress(stage, text)
    return file.getvalue()


BUILD = [("image", f"building pytorch-2.13-cpu, {seconds}: Get:{seconds}") for seconds in ("5 s", "42 s", "4 min 10 s")]


def test_elsewhere_than_on_a_terminal_a_step_is_said_once():
    said = shown(
        ("image", "making pytorch-2.13-cpu on the target"), *BUILD, ("image", "probing pytorch-2.13-cpu, 5 min: x")
    )
    assert [line.split()[:2] for line in said.splitlines()] == [
        ["image", "making"], ["image", "building"], ["image", "probing"]
    ]  # fmt: skip


@pytest.mark.parametrize("lines", [["20 % transferred, 3.1MB/s", "40 % transferred, 2.9MB/s"], ["fetching a.gz, 3 of 9 MB", "fetching a.gz, 7 of 9 MB"]])  # fmt: skip
def test_how_far_a_transfer_is_is_said_once(lines):
    assert len(shown(*(("dataset", line) for line in lines)).splitlines()) == 1


def test_what_the_job_says_is_all_shown():
    assert shown(("job", "epoch 1"), ("job", "epoch 1"), ("job", "3 s")).count("job") == 3


def test_another_stage_with_the_same_words_is_another_step():
    assert len(shown(("dataset", "waiting"), ("image", "waiting")).splitlines()) == 2


def test_a_terminal_shows_what_is_going_on():
    assert "\x1b[" in shown(*BUILD, terminal=True)


def on_terminal(width):
    return Console(file=io.StringIO(), force_terminal=True, width=width, color_system=None, legacy_windows=False)


def test_a_summary_goes_on_below_its_beginning():
    console = on_terminal(40)
    print_pairs(console, [("target", "alice@frontend: slurm 24.11, apptainer 1.4  [0.4 s]"), ("target", "again")])
    assert console.file.getvalue().splitlines() == [
        "  target    alice@frontend: slurm 24.11,",
        "            apptainer 1.4  [0.4 s]",
        "            again",
    ]  # fmt: skip


@given(text=st.text(st.sampled_from("ab [].,0s "), max_size=120), width=st.integers(45, 120))
def test_words_are_not_broken_on_a_terminal(text, width):
    console = on_terminal(width)
    print_pairs(console, [("title", text)])
    lines = console.file.getvalue().splitlines()
    assert "".join(lines).split() == ["title", *text.split()] or any(len(word) > width - 12 for word in text.split("]"))
    piped = Console(file=io.StringIO(), width=width)
    print_pairs(piped, [("title", text)])
    assert len(piped.file.getvalue().splitlines()) == 1


def test_a_stage_without_anything_to_do_is_not_shown():
    console = on_terminal(80)
    display = StageDisplay(console)
    display.finished("modak_dataset", {"msg": "none", "changed": False, "seconds": 0.0})
    display.finished("modak_job", {"msg": "job 7 is queued", "changed": True, "seconds": 2.5})
    assert console.file.getvalue() == "* job      job 7 is queued  2.5 s\n"


def test_what_the_job_says_at_once_does_not_leave_the_step_before_it_on_the_line(monkeypatch):
    monkeypatch.setattr("modak_ansible.commands.deploy.progress._SOON", 0.1)
    console = on_terminal(80)
    with StageDisplay(console) as display:
        display.task("Have the job present")
        display.progress("job", "job 7 submitted")
        time.sleep(0.4)
    assert "Have the job present" in console.file.getvalue()
