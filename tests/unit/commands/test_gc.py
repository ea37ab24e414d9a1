"""Removing what nobody uses: which targets are meant, what is shown, and that nobody is asked in vain."""

from __future__ import annotations

import json
import os
import time

import pytest
from planned_once import planned_once
from typer.testing import CliRunner

from modak_ansible.commands.admin import garbage
from modak_ansible.commands.admin.garbage import Collection, known_targets
from modak_ansible.commands.main import application
from modak_ansible.deployment import playbook as deployment
from modak_ansible.deployment.playbook import PlaybookError, PlaybookRun
from modak_ansible.errors import ModakError, UsageError
from modak_ansible.reading.blueprint.reader import Inputs
from modak_ansible.target.core import files
from modak_ansible.target.core.files import write_json

FOUND = {"kind": "image", "name": "pytorch (abc)", "path": "/w/images/abc.sif", "size": 10**9, "idle": 3 * 86400.0}
STAYS = {"kind": "dataset", "name": "mnist", "path": "/w/datasets/mnist", "size": 1, "idle": 1.0, "keep": "used by x"}


@pytest.fixture
def project(blueprint, monkeypatch):
    (blueprint.path / ".modak").mkdir()
    monkeypatch.chdir(blueprint.path)
    return blueprint


@pytest.fixture
def deployed(project):
    return [planned_once(project.service, Inputs(None, (("epochs", each),))).save() for each in ("2", "3")]


@pytest.fixture
def target(monkeypatch):
    """A target with one image that nobody uses; gives what it was asked."""
    asked = []

    def run_playbook(playbook, variables, listener=None):
        asked.append((playbook, variables))
        is_gone = any(each["gc_state"] == "removed" for _, each in asked)
        removed = [FOUND] if variables["gc_state"] == "removed" else []
        garbage = [] if is_gone else [FOUND]
        answer = {"workspace": "/w", "garbage": garbage, "kept": [STAYS], "removed": removed, "problems": []}
        return PlaybookRun(int(bool(removed)), {"modak_gc": answer})

    monkeypatch.setattr(deployment, "run_playbook", run_playbook)
    return asked


def gc(*arguments):
    return CliRunner().invoke(application(), ["gc", *arguments], standalone_mode=False)


def test_a_target_is_asked_once_however_often_it_was_deployed_to(deployed, target, project):
    (known,) = known_targets(project.path / ".modak")
    assert (known.name, known.address) == ("cluster", "frontend.example")
    done = gc("--dry-run")
    assert len(target) == 1
    assert target[0][0] == "gc"
    assert target[0][1]["gc_state"] == "queried"
    assert target[0][1]["gc_older_than"] == 86400.0
    for words in ("cluster (frontend.example): /w", "pytorch (abc)", "1.0 GB", "3 d", "1 stay: used by x"):
        assert words in done.output


def test_two_accounts_of_a_host_are_two_targets(project, target):
    planned_once(project.service).save()
    planned_once(project.replace("username: alice", "username: bob").service).save()
    found = Collection.of_project(project.path, (), Inputs(), 0.0, here=False)
    assert len(found.targets) == 2


def test_of_several_targets_the_one_that_is_named_by_its_file_is_meant(project, target, tmp_path):
    """Or something would be removed where nobody asked for it."""
    planned_once(project.service).save()
    planned_once(project.replace("frontend.example", "other.example").service).save()
    (tmp_path / "hpc.yaml").write_text("scheduler: slurm\nfrontend: frontend.example\n")
    done = gc("--on", str(tmp_path / "hpc.yaml"), "--yes")
    assert done.exit_code == 0, done.output
    assert "other.example" not in done.output
    (meant,) = (each for each in known_targets(project.path / ".modak") if each.address == "frontend.example")
    assert [variables["modak_plan"] for _, variables in target] == [str(meant.plan_file)] * 2


@pytest.mark.parametrize(("port", "count"), [("", 2), (", port: 2222", 1), (", port: 2223", 0)])
def test_a_file_that_names_a_port_means_what_is_behind_that(project, target, tmp_path, port, count):
    """As of containers or tunnels, which have one address and are several targets."""
    planned_once(project.service).save()
    planned_once(project.replace("username: alice", "username: alice\n        port: 2222").service).save()
    (tmp_path / "hpc.yaml").write_text(f"{{ scheduler: slurm, frontend: frontend.example{port} }}\n")
    done = gc("--on", str(tmp_path / "hpc.yaml"), "--dry-run")
    assert (done.exit_code == 0) is bool(count), done.output
    assert len(target) == count


def test_only_what_was_shown_is_removed(deployed, target):
    done = gc("--yes", "--older-than", "7d", "--json")
    assert done.exit_code == 0, done.output
    assert [each["gc_state"] for _, each in target] == ["queried", "removed"]
    assert target[1][1]["gc_only"] == [FOUND["path"]]
    assert target[1][1]["gc_older_than"] == 7 * 86400.0
    answer = json.loads(done.stdout)
    assert answer["targets"][0]["removed"] == [FOUND]
    assert answer["targets"][0]["garbage"] == []


@pytest.mark.parametrize("arguments", [[], ["--json"]])
def test_nothing_is_removed_unasked(deployed, target, arguments):
    done = gc(*arguments)
    assert isinstance(done.exception, UsageError)
    assert "--yes" in done.exception.hint
    assert target == []


def test_a_damaged_plan_does_not_hide_its_target(deployed, target, project):
    (deployed[1] / "plan.json").write_text('{"digest": "x"}')
    (known,) = known_targets(project.path / ".modak")
    assert known.plan_file == deployed[0] / "plan.json"


def test_a_target_that_is_not_reached_is_told_of(deployed, monkeypatch):
    def run_playbook(*arguments, **more):
        raise PlaybookError("frontend.example does not answer", 4)

    monkeypatch.setattr(deployment, "run_playbook", run_playbook)
    done = gc("--dry-run", "--json")
    assert done.exit_code == 4 or done.return_value == 4 or getattr(done.exception, "exit_code", 0) == 4
    assert json.loads(done.stdout)["problems"] == ["frontend.example does not answer"]


def test_a_host_that_is_not_entered_is_told_of_once_and_keeps_nothing_else_from_going(deployed, monkeypatch):
    asked, problems = [], ["the host two cannot be asked: ssh: connect to host two port 22: No route to host"]

    def run_playbook(playbook, variables, listener=None):
        asked.append(variables["gc_state"])
        answer = {"workspace": "/w", "garbage": [FOUND], "kept": [], "removed": [], "problems": problems}
        return PlaybookRun(0, {"modak_gc": answer})

    monkeypatch.setattr(deployment, "run_playbook", run_playbook)
    done = gc("--yes", "--json")
    assert asked == ["queried", "removed"]
    assert getattr(done.exception, "exit_code", done.return_value or done.exit_code) == 1
    (problem,) = json.loads(done.stdout)["problems"]
    assert problem.startswith(problems[0])
    assert "modak check cluster" in problem


def test_what_is_said_is_a_line_where_there_is_no_terminal(project):
    assert gc("--dry-run").output.splitlines() == [
        "this project has no deployments, and so no targets; name a blueprint to look at its target"
    ]


def test_a_blueprint_names_its_target_before_anything_was_deployed(project, target):
    done = gc(str(project.path), "--dry-run")
    assert "cluster (frontend.example)" in done.output
    assert len(target) == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["clutser", "--dry-run"], "there is no target clutser"),
        (["clutser"], "there is no target clutser"),
        (["--older-than", "soon", "--dry-run"], "--older-than: 'soon' is not a duration"),
        (["--dry-run", "--yes"], "--dry-run cannot be combined with --yes"),
        (["--on", "local", "--dry-run"], "this project has not deployed to localhost"),
        (["-i", "site.yaml", "--dry-run"], "-i applies only to a blueprint"),
    ],
)
def test_mistakes(deployed, target, arguments, words):
    done = gc(*arguments)
    assert isinstance(done.exception, ModakError)
    assert words in done.exception.message
    assert target == []


def test_here_only_downloads_and_what_was_undeployed_on_request(deployed, target, project):
    state = project.path / ".modak"
    download = state / "downloads" / "0123456789ab"
    download.mkdir(parents=True)
    (download / "a.gz").write_bytes(b"x" * 7)
    write_json(deployed[0] / "state.json", {"undeployed": 1.0})
    for path in [*download.iterdir(), download, *deployed[0].iterdir(), deployed[0]]:
        os.utime(path, (time.time() - 10 * 86400,) * 2)
    assert gc("--yes").exit_code == 0
    assert not download.exists()
    assert deployed[0].exists()
    done = gc("--yes", "--deployments", "--json")
    assert [each["name"] for each in json.loads(done.stdout)["here"]["removed"]] == [deployed[0].name]
    assert not deployed[0].exists()
    assert deployed[1].exists()


def test_what_is_renamed_while_it_is_looked_at_is_no_error(deployed, target, project, monkeypatch):
    download = project.path / ".modak" / "downloads" / "0123456789ab"
    download.mkdir(parents=True)
    (download / ".a.gz.part").write_bytes(b"x" * 7)

    def changed_at(path):
        """As it is, while a download comes to its end."""
        if (download / ".a.gz.part").exists():
            (download / ".a.gz.part").rename(download / "a.gz")
        return files.changed_at(path)

    monkeypatch.setattr(garbage, "changed_at", changed_at)
    assert gc("--dry-run").exit_code == 0


def test_a_project_without_deployments(project, target):
    assert "no deployments" in gc("--dry-run").output
    assert target == []
