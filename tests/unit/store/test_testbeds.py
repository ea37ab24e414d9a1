"""Testbeds are found from anywhere while they run, and a note or a folder that lies is believed in nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from modak_ansible.commands.admin import testbed as command
from modak_ansible.errors import ModakError, TargetUnreachable, UsageError
from modak_ansible.store import testbeds
from modak_ansible.store.project import known_testbed
from modak_ansible.transport.ssh import Connection, configuration_for_testbed

SLEEP = "import time; time.sleep(60)"
WAY = """\
Host testbed
  HostName 127.1.2.3
  Port 2222
  User modak
"""


@pytest.fixture
def start(tmp_path):
    """Has a project's testbed run, as far as can be seen: a process of its name, and its files."""
    processes = []

    def begin(project, name=None):
        folder = tmp_path / project / ".modak" / "testbed"
        folder.mkdir(parents=True)
        name = name or testbeds.name_of(folder)
        processes.append(subprocess.Popen([sys.executable, "-c", SLEEP, name]))
        words = Path(f"/proc/{processes[-1].pid}/cmdline")
        while name.encode() not in words.read_bytes():  # for a moment after exec it has none
            time.sleep(0.001)
        facts = {
            "name": name,
            "pid": processes[-1].pid,
            "user": "modak",
            "address": "127.1.2.3",
            "port": 2222,
            "nodes": ["n1"],
        }
        (folder / "state.json").write_text(json.dumps(facts))
        (folder / "ssh_config").write_text(WAY)
        return folder

    begin.processes = processes
    yield begin
    for process in processes:
        process.kill()
        process.wait()


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    (tmp_path / "elsewhere" / ".modak").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "elsewhere")
    return tmp_path / "elsewhere"


@pytest.mark.component
def test_the_only_one_that_runs_is_found_from_any_folder(start, elsewhere, capsys):
    folder = start("a")
    assert known_testbed(elsewhere / ".modak") == elsewhere / ".modak" / "testbed"
    testbeds.note(folder)
    assert known_testbed(elsewhere / ".modak") == folder
    command.status()
    assert (
        f"the testbed of {folder.parent.parent} is up: modak@127.1.2.3 port 2222, nodes n1" in capsys.readouterr().out
    )
    command.status(as_json=True)
    shown = json.loads(capsys.readouterr().out)
    assert (shown["up"], shown["owner"]) == (True, str(folder.parent.parent))


@pytest.mark.component
def test_a_projects_own_goes_before_it_even_while_it_is_down(start, elsewhere, capsys):
    testbeds.note(start("a"))
    own = elsewhere / ".modak" / "testbed"
    own.mkdir()
    assert known_testbed(elsewhere / ".modak") == own
    command.status()
    shown = capsys.readouterr().out
    assert shown.startswith("the testbed is down")
    assert "a is up, too" in shown
    with pytest.raises(TargetUnreachable) as caught:
        Connection("testbed", elsewhere / "config", testbed_is_known=False).check()
    assert "this project's testbed is down, and another one runs" in str(caught.value)
    assert "modak testbed use " in caught.value.hint


@pytest.mark.component
def test_of_several_one_is_chosen_by_name(start, elsewhere, capsys):
    first, second = start("a"), start("b")
    for each in (first, second):
        testbeds.note(each)
    own = elsewhere / ".modak" / "testbed"
    with pytest.raises(ModakError, match="several testbeds run") as caught:
        testbeds.chosen(own)
    assert all(f"--of {each.parent.parent}" in caught.value.hint for each in (first, second))
    with pytest.raises(TargetUnreachable, match="several testbeds run") as caught:
        Connection("testbed", elsewhere / "config", testbed_is_known=False).check()
    assert "modak testbed use " in caught.value.hint
    assert testbeds.chosen(own, second.parent.parent) == second
    command.use(second.parent.parent)
    assert known_testbed(elsewhere / ".modak").resolve() == second
    command.use(first.parent.parent)
    assert known_testbed(elsewhere / ".modak").resolve() == first
    assert f"the testbed of {first.parent.parent} is up" in capsys.readouterr().out
    with pytest.raises(ModakError, match="has no testbed that is up"):
        testbeds.chosen(own, elsewhere.parent)


@pytest.mark.component
def test_a_testbed_of_its_own_is_not_given_up_for_another(start, elsewhere):
    other = start("a")
    (elsewhere / ".modak" / "testbed").mkdir()
    with pytest.raises(UsageError, match="has a testbed of its own"):
        command.use(other.parent.parent)


@pytest.mark.component
def test_that_of_another_project_is_stopped_only_where_it_is_named(start, elsewhere):
    folder = start("a")
    testbeds.note(folder)
    with pytest.raises(ModakError, match="belongs to another project") as caught:
        command.down()
    assert caught.value.hint == f"modak testbed down --of {folder.parent.parent}"


@pytest.mark.component
def test_one_that_was_only_used_is_given_up_and_not_stopped(start, elsewhere, capsys):
    folder = start("a")
    testbeds.note(folder)
    command.use(folder.parent.parent)
    command.down(purge=True)
    assert not (elsewhere / ".modak" / "testbed").is_symlink()
    assert (folder / "state.json").is_file()
    assert f"modak testbed down --of {folder.parent.parent}" in capsys.readouterr().out


@pytest.mark.component
def test_what_has_ended_or_was_never_one_is_not_found(start, elsewhere, state_home):
    folder = start("a")
    testbeds.note(folder)
    start.processes[0].kill()
    start.processes[0].wait()
    lying = start("b", name="another-process")
    testbeds.note(lying)
    assert testbeds.running() == []
    notes = state_home / "modak" / "testbeds"
    (notes / "testbed-0").write_bytes(b"\xff")
    assert testbeds.running() == []


@pytest.mark.component
def test_notes_that_others_may_write_say_nothing(start, state_home):
    testbeds.note(start("a"))
    assert testbeds.running()
    os.chmod(state_home / "modak" / "testbeds", 0o777)
    assert testbeds.running() == []


@pytest.mark.parametrize(
    "state",
    ["", "[]", "{}", '{"pid": 1}', '{"pid": 1, "name": "x"}', '{"pid": "x"}', '{"pid": null}', '{"pid": 99999999}'],
)
def test_a_cloned_projects_folder_runs_nothing(tmp_path, state):
    (tmp_path / "state.json").write_text(state)
    assert testbeds.state_of(tmp_path) == {}
    (tmp_path / "ssh_config").write_text(WAY + "  ProxyCommand touch /tmp/taken-over\n")
    with pytest.raises(ModakError, match="does not belong to a testbed"):
        configuration_for_testbed(tmp_path)
