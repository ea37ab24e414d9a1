"""modak shell: which command enters a job, and what is said of one that cannot be entered."""

from __future__ import annotations

import json
import os
import sys

import pytest
from planned_once import planned_once

from modak_ansible.commands import main
from modak_ansible.commands.jobs import log_text
from modak_ansible.deployment import status_query
from modak_ansible.store.record import DeploymentRecord

WAY = {"plain": ["srun", "python3", "-c", "a b"], "terminal": ["srun", "--pty", "python3", "-c", "a b"]}


class Became(SystemExit):
    """This process became another."""


@pytest.fixture
def shell(blueprint, monkeypatch, capsys):
    """Runs the command about a deployment of which a target says something; gives what it became, or what it said."""
    (blueprint.path / ".modak").mkdir()
    monkeypatch.chdir(blueprint.path)
    folder = planned_once(blueprint.service).save()
    DeploymentRecord(folder).update(job={"state": "RUNNING", "job_id": "7"})
    became = []

    def become(program, words):
        became.append((program, words))
        raise Became

    def run(*words, state="RUNNING", way=WAY, terminal=False, asked="way"):
        def ask(entries, *, inside):
            assert inside == asked
            entries[0].answer = {"situation": {"state": state, "job_id": "7"}, "way": way}

        monkeypatch.setattr(status_query, "ask_targets", ask)
        monkeypatch.setattr(os, "execvp", become)
        monkeypatch.setattr(sys.stdin, "isatty", lambda: terminal, raising=False)
        monkeypatch.setattr(sys.stdout, "isatty", lambda: terminal, raising=False)
        monkeypatch.setattr(sys, "argv", ["modak", "shell", folder.name, *words])
        with pytest.raises(SystemExit) as ended:
            main.run()
        return became.pop()[1] if became else (ended.value.code, capsys.readouterr().err)

    return run


def test_a_command_is_one_word_that_no_shell_on_the_way_changes(shell):
    *ssh, address, remote = shell("--", "python", "-c", "print('$HOME')")
    assert (ssh[0], "-t" in ssh, address) == ("ssh", False, "frontend.example")
    assert remote.startswith("srun python3 -c 'a b' ")
    assert json.loads(bytes.fromhex(remote.rpartition(" ")[2])) == ["python", "-c", "print('$HOME')"]


def test_a_shell_has_a_terminal_where_its_caller_has_one(shell):
    words = shell(terminal=True)
    assert words[-3] == "-t"
    assert words[-1].startswith("srun --pty python3 ")
    assert "exec bash" in json.loads(bytes.fromhex(words[-1].rpartition(" ")[2]))[-1]


@pytest.mark.parametrize(("state", "hint"), [("QUEUED", "when it starts"), ("COMPLETED", "modak results")])
def test_a_job_that_does_not_run_is_not_entered(shell, state, hint):
    code, said = shell(state=state)
    assert (code, f"job 7 is {state.lower()}" in said, hint in said) == (1, True, True)


def test_no_way_in_is_told(shell):
    code, said = shell(way={"problem": "Torque does not say on which nodes the job runs"})
    assert (code, "cannot be entered: Torque does not say" in said) == (1, True)


def test_of_several_ranks_one_is_asked_for_that_there_is(shell, monkeypatch):
    monkeypatch.setattr(log_text, "ranks_of", lambda plan: 4)
    assert shell("--rank", "3", asked="way=3")[0] == "ssh"
    code, said = shell("--rank", "4")
    assert (code, "has no rank 4" in said, "it has 4" in said) == (2, True, True)
