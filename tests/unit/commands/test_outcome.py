"""The table at the end of a deployment of several trainings."""

from __future__ import annotations

from rich.console import Console

from modak_ansible.commands.deploy.outcome import _print_table

ROW = {"training": "t:lr=1", "job_id": "1_0", "state": "COMPLETED", "elapsed_seconds": 31.0, "accuracy": None,
       "numbers": {"loss": 0.5}, "explanation": "", "epochs": None, "epoch": 8, "epochs_requested": 8}  # fmt: skip


def test_epochs_are_those_that_status_shows(capsys):
    """Of a script that writes numbers of its own the column was empty."""
    _print_table(Console(width=100), [ROW, {**ROW, "epoch": None}])
    lines = capsys.readouterr().out.splitlines()
    assert lines[2].split() == ["t:lr=1", "1_0", "COMPLETED", "31", "s", "8/8", "loss", "0.5"]
