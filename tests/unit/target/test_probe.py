"""What a target says of its processor and its memory."""

from __future__ import annotations

import os
import pwd

import pytest

from modak_ansible.errors import ModakError
from modak_ansible.target.core import probe as probe_module
from modak_ansible.target.core import processor
from modak_ansible.target.core.container import check_fakeroot
from modak_ansible.target.core.probe import probe
from modak_ansible.target.core.workspace import Workspace

CPUINFO = """\
processor\t: 0
vendor_id\t: AuthenticAMD
model name\t: AMD EPYC: one
flags\t\t: fpu avx2

processor\t: 1
model name\t: another
"""


def test_the_first_core_speaks_for_all(tmp_path, monkeypatch):
    path = tmp_path / "cpuinfo"
    path.write_text(CPUINFO)
    monkeypatch.setattr(processor, "Path", lambda _: path)
    known = {"vendor_id": "AuthenticAMD", "model name": "AMD EPYC: one", "flags": "fpu avx2"}
    assert processor.cpuinfo() == known


def test_a_machine_without_cpuinfo_is_known_by_its_platform(tmp_path, monkeypatch):
    monkeypatch.setattr(probe_module, "cpuinfo", dict)
    monkeypatch.setattr(processor, "cpuinfo", dict)
    monkeypatch.setattr(processor.platform, "processor", lambda: "some processor")
    facts = probe(Workspace(str(tmp_path / "workspace")), "none", "none", create=True)
    assert (facts["processor"], facts["cpuinfo"]) == ("some processor", {})
    assert facts["memory"] > 10**8


@pytest.mark.component
@pytest.mark.parametrize(("scheduler", "says"), [("torque", "Version: 6.1.3"), ("pbspro", "pbs_version = 23.06.06")])
def test_a_qstat_that_says_whose_it_is_is_not_grid_engines(tmp_path, monkeypatch, scheduler, says):
    """Debian's package qconf has another program of that name, in the folder of all others."""
    for name in ("qsub", "qstat", "qdel", "qconf"):
        (tmp_path / name).write_text(f"#!/bin/sh\necho {says}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert probe(Workspace(str(tmp_path / "workspace")), scheduler, "none", create=True)


@pytest.mark.component
@pytest.mark.parametrize(
    ("scheduler", "says", "others"),
    [
        ("torque", "exit 1", "Grid Engine"), ("pbspro", "exit 1", "Grid Engine"),
        ("torque", "echo pbs_version = 22.05.11", "PBS Professional"), ("pbspro", "echo Version: 6.1.3 >&2", "Torque"),
        ("torque", "echo version: 4.2.10 >&2", ""), ("pbspro", "echo pbs_version = 2025.2.0", ""), ("pbspro", "exit 1", ""),
    ],
)  # fmt: skip
def test_a_qsub_of_another_scheduler_gets_no_job(tmp_path, monkeypatch, scheduler, says, others):
    """It takes any script, and reads none of its directives."""
    for name in ("qsub", "qstat", "qdel", *["qconf"] * (others == "Grid Engine")):
        (tmp_path / name).write_text(f"#!/bin/sh\n{says}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    workspace = Workspace(str(tmp_path / "workspace"))
    if not others:
        assert probe(workspace, scheduler, "none", create=True)
        return
    with pytest.raises(ModakError, match=rf"qsub on \S+ belongs to {others}, but the target is described as having "):
        probe(workspace, scheduler, "none", create=True)
    assert not workspace.path.exists()


def test_a_user_whom_no_list_of_users_has_is_known_by_a_number(tmp_path, monkeypatch):
    """As in a container that was started with --user 12345."""
    monkeypatch.setattr(pwd, "getpwuid", {}.__getitem__)
    facts = probe(Workspace(str(tmp_path / "workspace")), "none", "none", create=True)
    assert facts["user"] == str(os.getuid())
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    with pytest.raises(ModakError, match="12345 has no range in /etc/subuid"):
        check_fakeroot()
