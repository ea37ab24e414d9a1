"""The table at the end of a deployment of several trainings."""

from __future__ import annotations

from rich.console import Console

from modak_ansible.commands.deploy.outcome import _print_table

ROW = {"training": "t:lr=1", "job_id": "1_0", "state": "COMPLETED", "elapsed_seconds": 31.0, "accuracy": None,
       "numbers": {"loss": 0.5}, "explanation": "", "remarks": [], "epochs": None, "epoch": 8, "epochs_requested": 8}  # fmt: skip


def test_epochs_are_those_that_status_shows(capsys):
    """Of a script that writes numbers of its own the column was empty."""
    _print_table(Console(width=100), [ROW, {**ROW, "epoch": None}])
    lines = capsys.readouterr().out.splitlines()
    assert lines[2].split() == ["t:lr=1", "1_0", "COMPLETED", "31", "s", "8/8", "loss", "0.5"]


def test_a_loss_that_is_no_number_is_said(capsys):
    """Of a training that diverged the result was empty."""
    _print_table(Console(width=120), [{**ROW, "numbers": {}, "remarks": ["loss is nan since epoch 4"]}])
    assert capsys.readouterr().out.splitlines()[2].endswith("8/8             loss is nan since epoch 4")
