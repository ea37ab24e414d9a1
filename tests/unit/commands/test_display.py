"""What is shown of a deployment that goes on: everything on a terminal, each step once elsewhere."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from modak_ansible.commands.display import StageDisplay


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
    assert len(shown(*(("dataset", each) for each in lines)).splitlines()) == 1


def test_what_the_job_says_is_all_shown():
    assert shown(("job", "epoch 1"), ("job", "epoch 1"), ("job", "3 s")).count("job") == 3


def test_another_stage_with_the_same_words_is_another_step():
    assert len(shown(("dataset", "waiting"), ("image", "waiting")).splitlines()) == 2


def test_a_terminal_shows_what_is_going_on():
    assert "\x1b[" in shown(*BUILD, terminal=True)
