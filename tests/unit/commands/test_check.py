"""modak check and modak discover, as a user types them, of targets that are invented or not there."""

from __future__ import annotations

import json
import socket

import pytest
import typer
import yaml
from surveyed import CLUSTER, NODE, surveyed

from modak_ansible.commands.admin import check, discover
from modak_ansible.commands.admin.check import known_scheduler
from modak_ansible.discovery import surveying
from modak_ansible.errors import TargetUnreachable, UsageError


@pytest.fixture
def target(monkeypatch, tmp_path):
    """What the next survey finds, or what goes wrong."""
    monkeypatch.chdir(tmp_path)

    def give(found):
        def look(aim, wanted, listener=None):
            give.asked = wanted
            if isinstance(found, Exception):
                raise found
            return found

        monkeypatch.setattr(surveying, "survey_target", look)

    return give


def run(command, capsys, *arguments, **options):
    code = 0
    try:
        command(*arguments, **options)
    except typer.Exit as error:
        code = error.exit_code
    return code, capsys.readouterr().out


def test_a_good_target(target, capsys):
    target(surveyed(containers__missing=[], apt_mirror="http://deb.example"))
    code, shown = run(check.command, capsys, "login.example")
    assert code == 0
    assert "login.example: a deployment can work" in shown
    assert "MISSING" not in shown.upper()


def test_something_is_missing(target, capsys):
    target(surveyed(rsync=False))
    code, shown = run(check.command, capsys, "login.example")
    assert code == 1
    assert "missing  rsync" in shown
    assert "have rsync installed" in shown
    assert "1 thing is missing" in shown


def test_what_a_target_says_gives_a_terminal_no_orders(target, capsys):
    target(surveyed(containers__version="apptainer \x1b]0;mine\x07", apt_mirror="http://\x1b[2J"))
    for command in (check.command, discover.command):
        shown = run(command, capsys, "login.example")[1]
        assert "\x1b" not in shown
        assert "\x07" not in shown


def test_as_json(target, capsys):
    target(surveyed(rsync=False))
    code, shown = run(check.command, capsys, "login.example", as_json=True)
    found = json.loads(shown)
    assert (code, found["exit_code"], found["address"]) == (1, 1, "login.example")
    (rsync,) = (finding for finding in found["findings"] if finding["about"] == "rsync")
    assert set(rsync) == {"about", "state", "seen", "todo"}
    assert rsync["state"] == "missing"


@pytest.mark.parametrize("as_json", [True, False])
def test_a_target_that_cannot_be_reached(target, capsys, as_json):
    target(TargetUnreachable("mnist-slrm is not the name of a host", hint="check it"))
    code, shown = run(check.command, capsys, "mnist-pytorch-slrm", as_json=as_json)
    assert code == 4
    assert "did you mean mnist-pytorch-slurm? check it" in shown


@pytest.mark.component
def test_a_host_that_really_refuses(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh" / "config").write_text(f"Host nobody\n  HostName 127.0.0.1\n  Port {port}\n")
    (tmp_path / ".ssh" / "config").chmod(0o600)
    code, shown = run(check.command, capsys, "nobody", as_json=True)
    assert code == 4
    (finding,) = json.loads(shown)["findings"]
    assert finding["seen"] == "nobody refuses the connection"


def test_what_is_asked_for_is_passed_on(target, capsys):
    target(surveyed())
    run(check.command, capsys, "login.example", scheduler="torque", job=True, patience=7)
    asked = target.asked
    assert (asked.scheduler, asked.node, asked.patience) == ("torque", True, 7)


def test_no_such_scheduler():
    with pytest.raises(UsageError, match="there is no such scheduler"):
        known_scheduler("slrm")


def test_discover_shows_what_it_would_write(target, capsys):
    target(surveyed(node=NODE))
    code, shown = run(discover.command, capsys, "alice@login.example")
    assert code == 0
    found = yaml.safe_load(shown)
    assert (found["frontend"], found["username"]) == ("login.example", "alice")
    assert [partition["name"] for partition in found["partitions"]] == [
        partition.name for partition in CLUSTER.partitions
    ]


def test_discover_writes(target, capsys, tmp_path):
    target(surveyed(node=NODE))
    code, shown = run(discover.command, capsys, "login.example", output="out")
    assert code == 0
    assert "written: out/site.yaml" in shown
    assert "modak check mnist-pytorch-slurm -i out/site.yaml" in shown
    assert "not known: architecture: n001 is skylake_avx512, and there are 2 kinds of node" in shown
    before = (tmp_path / "out" / "site.yaml").read_text()
    with pytest.raises(UsageError, match="already there"):
        discover.command("login.example", output="out")
    assert (tmp_path / "out" / "site.yaml").read_text() == before


def test_discover_as_json(target, capsys):
    target(surveyed())
    _, shown = run(discover.command, capsys, "login.example", output="site.yaml", as_json=True)
    found = json.loads(shown)
    assert (found["scheduler"], found["files"]) == ("slurm", ["site.yaml"])
    assert found["partitions"][0]["name"] == "batch"
    assert found["values"]["scratch"]["value"] is None
    assert found["unknown"]


def test_discover_where_no_python_can_look(target, capsys):
    from modak_ansible.discovery.surveying import Entrance, Survey
    from modak_ansible.errors import ModakError

    target(Survey(Entrance(0.1, 0.0, (("/usr/bin/python3", "3.6.8"),))))
    with pytest.raises(ModakError, match="no Python that is new enough"):
        discover.command("login.example")
