"""Where a workspace lies, and what a plan names beside it."""

from __future__ import annotations

import pytest

from modak_ansible.errors import ModakError
from modak_ansible.target.core.workspace import Workspace, resolved


@pytest.mark.component
def test_homes_and_variables(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("SCRATCH", "/scratch/alice")
    assert str(resolved("~/d")) == f"{tmp_path}/d"
    assert str(resolved("$SCRATCH/d")) == "/scratch/alice/d"
    (tmp_path / ".bash_profile").write_text("echo welcome\nexport PROJECT=/project/x\n")
    assert str(resolved("$PROJECT/d")) == "/project/x/d"
    with pytest.raises(ModakError, match=r"\$NOTHING is not set on the target"):
        resolved("$NOTHING/d")


def test_a_variable_ends_where_a_shell_ends_its_name(monkeypatch):
    """As in job scripts, which bash expands."""
    monkeypatch.setenv("SCRATCH", "/scratch/alice")
    assert str(resolved("$SCRATCH-old/d")) == "/scratch/alice-old/d"
    assert str(resolved("$SCRATCH.d")) == "/scratch/alice.d"
    assert str(resolved("$SCRATCH")) == "/scratch/alice"


def test_a_workspace_may_lie_where_a_variable_says(monkeypatch):
    """As the quota of a home folder is small where there is a SCRATCH."""
    monkeypatch.setenv("HOME", "/home/alice")
    monkeypatch.setenv("SCRATCH", "/scratch/alice")
    assert str(Workspace("$SCRATCH/modak").path) == "/scratch/alice/modak"
    assert str(Workspace("modak").path) == "/home/alice/modak"
    assert str(Workspace("~/work").place("$SCRATCH/own.sif")) == "/scratch/alice/own.sif"
    assert str(Workspace("~/work").place("images/own.sif")) == "/home/alice/work/images/own.sif"
