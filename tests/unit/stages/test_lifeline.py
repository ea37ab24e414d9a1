"""What a command keeps in passing is gone with it, or with the next command where it was killed."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from modak_ansible.transport.lifeline import PASSING, passing_folder, run_folder

_KEEPS = """
import time
from modak_ansible.transport.lifeline import run_folder
with run_folder() as folder:
    print(folder, flush=True)
    time.sleep(60)
"""


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return tmp_path


def test_a_folder_goes_with_its_command(place):
    with run_folder() as folder:
        assert [str(path) for path in place.iterdir()] == [folder]
    assert list(place.iterdir()) == []


@pytest.mark.component
def test_the_folder_of_a_killed_command_goes_with_the_next_one_and_that_of_a_living_one_stays(place):
    living, killed = (
        subprocess.Popen([sys.executable, "-c", _KEEPS], stdout=subprocess.PIPE, text=True) for _ in range(2)
    )
    try:
        folders = [Path(each.stdout.readline().strip()) for each in (living, killed)]
        killed.kill()
        killed.wait()
        assert all(folder.is_dir() for folder in folders)
        with run_folder():
            assert [folder.is_dir() for folder in folders] == [True, False]
    finally:
        living.kill()
        living.wait()


def test_what_somebody_else_named_so_stays(place):
    (place / "modak-run-mine").mkdir()
    with run_folder():
        pass
    assert (place / "modak-run-mine").is_dir()


def test_what_a_stage_keeps_goes_with_the_command(place, monkeypatch):
    with run_folder() as folder:
        monkeypatch.setenv(PASSING, folder)
        with passing_folder("modak-code-") as passing:
            assert Path(passing).parent == Path(folder)
