"""Whatever a command lists or shows, it prints as JSON, too."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import typer.main
from planned_once import planned_once

from modak_ansible.commands import main
from modak_ansible.errors import INVALID_BLUEPRINT
from modak_ansible.store.csar import archive
from modak_ansible.store.record import DeploymentRecord
from modak_ansible.target.core.files import write_json

# Commands that have nothing to list, and why.
SHOW_NOTHING = {
    "schema": "what it prints is JSON",
    "shell": "it runs a command of the user's",
    "notebook": "it is open until Ctrl-C",
    "testbed ssh": "it runs a command of the user's",
    "tensorboard": "it runs TensorBoard until it is ended",
    "testbed down": "it says that it is done",
    "targets remove": "it says that it is done",
    "catalogue remove": "it says that it is done",
}
# Commands that ask a target, or change something; their own tests look at what they print.
ACT = {
    "init", "login", "logout", "discover", "check", "deploy", "resume", "cancel", "hold", "release", "requeue", "top", "undeploy", "gc", "package",
    "catalogue add", "catalogue build", "catalogue push", "catalogue pull", "catalogue sign", "catalogue verify", "testbed up", "testbed use",
}  # fmt: skip
# What the others are given to look at: {blueprint} was deployed, and {image} is a file that is none.
LOOK = {
    "validate": "{blueprint}",
    "plan": "{blueprint}",
    "diff": "{blueprint}",
    "tune": "{blueprint} --dry-run",
    "trace": "{blueprint} --dry-run",
    "status": "--offline",
    "compare": "{blueprint} --offline",
    "export": "{blueprint} --offline --tensorboard exported",
    "logs": "{blueprint} stage",
    "results": "{blueprint}",
    "image": "{image}",
    "targets": "",
    "targets list": "",
    "targets show": "testbed",
    "catalogue": "",
    "catalogue list": "--framework pytorch",
    "catalogue show": "pytorch-2.13-cpu",
    "bench run": "smoke --dry-run",
    "bench compare": "{records}",
    "bench report": "{records}",
    "model fit": "--records {records}",
    "model show": "",
    "model explain": "{blueprint}",
    "model validate": "--records {records}",
    "testbed status": "",
}
IN_ERROR = {"image"}
ASK_SSH = {"targets", "targets list"}  # whether a login is open
DIFFERS = {"diff"}  # ends with 1 where what is deployed is not what is planned


def commands(command=None, name=""):
    """Every command by its words: groups that do something alone among them."""
    command = command or typer.main.get_command(main.application())
    inner = getattr(command, "commands", {})
    if name and (not inner or command.invoke_without_command):
        yield name, {option for param in command.params for option in param.opts}
    for word, each in inner.items():
        yield from commands(each, f"{name} {word}".strip())


COMMANDS = dict(commands())


def test_what_is_known_here_of_commands_is_all_of_them():
    assert set(COMMANDS) == {*SHOW_NOTHING, *ACT, *LOOK}


@pytest.mark.parametrize("name", sorted(set(COMMANDS) - set(SHOW_NOTHING)))
def test_every_command_that_shows_something_prints_json(name):
    assert "--json" in COMMANDS[name]


@pytest.fixture
def words(blueprint, monkeypatch):
    """A project in whose folder the test is, with a deployment that was undone; gives the words to put in."""
    (blueprint.path / ".modak").mkdir()
    monkeypatch.chdir(blueprint.path)
    folder = planned_once(blueprint.service).save()
    DeploymentRecord(folder).update(job={"state": "COMPLETED", "job_id": "7"}, undeployed="2026-01-01T00:00:00Z")
    (folder / "results").mkdir()
    (folder / "results" / "metrics.jsonl").write_text('{"step": 1, "loss": 2.5}\n')
    write_json(folder / "results" / "manifest.json", {"files": [{"path": "metrics.jsonl", "size": 1, "sha256": ""}]})
    image = blueprint.path / "none.sif"
    image.write_text("no image")
    records = Path(__file__).resolve().parents[3] / "benchmarks" / "records" / "today-cpu-amd-epyc.jsonl"
    few = blueprint.path / "few.jsonl"
    few.write_text("".join(f"{line}\n" for line in records.read_text().splitlines()[:40]))
    return {"blueprint": blueprint.service, "image": image, "records": few}


@pytest.mark.parametrize(
    "name", [pytest.param(each, marks=[pytest.mark.component] if each in ASK_SSH else []) for each in sorted(LOOK)]
)
def test_what_is_printed_parses_and_is_nothing_else(words, monkeypatch, capsys, name):
    arguments = [word.format(**words) for word in LOOK[name].split()]
    monkeypatch.setattr(sys, "argv", ["modak", *name.split(), *arguments, "--json"])
    with pytest.raises(SystemExit) as ended:
        main.run()
    printed = capsys.readouterr().out
    found = json.loads(printed)
    assert isinstance(found, dict | list)
    assert bool(ended.value.code) == (name in IN_ERROR | DIFFERS)
    assert ("error" in found) == (name in IN_ERROR)


@pytest.mark.parametrize(
    ("words", "code", "is_json"),
    [
        (["plan", "x", "--json", "--no-such-option"], 2, True),
        (["plan", "--json"], 2, True),
        (["plan", "no-such-blueprint", "--json"], 2, True),
        (["plan", "no-such-blueprint"], 2, False),
        (["deploy", "no-such-script.py", "--", "--json"], 2, False),
    ],
)
def test_a_mistake_is_json_where_that_is_asked_for(monkeypatch, tmp_path, capsys, words, code, is_json):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["modak", *words])
    with pytest.raises(SystemExit) as ended:
        main.run()
    printed = capsys.readouterr()
    assert ended.value.code == code
    assert printed.err.startswith("error: ")
    assert bool(printed.out) == is_json
    if is_json:
        (line,) = printed.out.splitlines()
        assert json.loads(line)["exit_code"] == code


@pytest.mark.parametrize("command", ["validate", "plan"])
def test_a_mistake_in_a_package_is_told_in_the_package(monkeypatch, blueprint, tmp_path, capsys, command):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    packed = {"service.yaml": (blueprint.service.read_bytes().replace(b"train/train.py", b"train/tran.py"), False)}
    Path("mine.csar").write_bytes(archive("service.yaml", packed, "modak"))
    for more in ([], ["--json"]):
        monkeypatch.setattr(sys, "argv", ["modak", command, "mine.csar", *more])
        with pytest.raises(SystemExit) as ended:
            main.run()
        printed = capsys.readouterr()
        assert ended.value.code == INVALID_BLUEPRINT
        assert "there is no script train/tran.py in mine.csar" in printed.out + printed.err
        assert "mine.csar/service.yaml" in (printed.out or printed.err)
        assert "cache" not in printed.out + printed.err
