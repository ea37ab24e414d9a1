"""Patience is for a target that answered before; one that cannot be entered is an error at once."""

from __future__ import annotations

import errno
import importlib.util
from pathlib import Path
from types import SimpleNamespace

import pytest
from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.loader import init_plugin_loader

from modak_ansible.errors import LoginRefused, ModakError, TargetUnreachable
from modak_ansible.stages import action
from modak_ansible.stages.base import Outcome
from modak_ansible.stages.jobs import direct
from modak_ansible.transport import retry


class Connection:
    login = None

    def __init__(self, problem=None):
        self.problem = problem
        self.checks = self.resets = 0

    def check(self):
        self.checks += 1
        if self.problem:
            raise self.problem

    def refused(self, said):
        return None

    def reset(self):
        self.resets += 1


class Action(action.StageAction):
    """An action whose module is a list of answers; an exception among them is raised."""

    stage_name = "job"

    def __init__(self, *answers, check_mode=False):
        self._connection = Connection()
        self._task = SimpleNamespace(check_mode=check_mode)
        self.answers = list(answers)
        self.said = []

    def _execute_module(self, name, module_args, task_vars):
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def _say(self, text):
        self.said.append(text)


@pytest.fixture(scope="module", autouse=True)
def plugins():
    """Where modules are found, as any run of Ansible's begins with."""
    init_plugin_loader()


@pytest.fixture
def pauses(monkeypatch):
    slept = []
    monkeypatch.setattr(retry.time, "sleep", slept.append)
    return slept


def test_a_connection_that_breaks_is_made_again(pauses):
    broken = AnsibleConnectionFailure("broken")
    made = Action({"x": 1}, broken, broken, {"x": 2})
    connection = Connection()
    call = made._caller(connection, {})
    assert [call("m"), call("m")] == [{"x": 1}, {"x": 2}]
    assert (pauses, made._connection.resets, connection.checks) == ([1, 2], 2, 1)
    assert made.said == ["the connection broke; trying again in 1 s", "the connection broke; trying again in 2 s"]


def test_a_target_that_stays_away_is_given_up(pauses):
    made = Action(*[AnsibleConnectionFailure("gone")] * 8)
    with pytest.raises(TargetUnreachable, match="does not answer any more: gone"):
        made._caller(Connection(), {})("m")
    assert sum(pauses) == 128


def test_a_home_that_cannot_be_written_is_no_broken_connection(pauses):
    said = (
        'Failed to create temporary directory. Failed command was: ( umask 77 && mkdir -p "` echo /home/a/.ansible `"&&'
    )
    made = Action(AnsibleConnectionFailure(said))
    with pytest.raises(ModakError, match=r"/home/a/\.ansible cannot be made on the target"):
        made._caller(Connection(), {})("m")
    assert pauses == []


def test_a_target_that_cannot_be_entered_is_not_tried_again(pauses):
    made = Action({"x": 1})
    with pytest.raises(TargetUnreachable, match="refused"):
        made._caller(Connection(TargetUnreachable("refused")), {})("m")
    assert (pauses, made.answers) == ([], [{"x": 1}])


class Kept(direct.RemoteFunction):
    """What is kept ready on a target, of answers as above."""

    made, answers = [], []

    def __init__(self, connection, function):
        self.function, self.is_open = function, True
        self.made.append(self)

    def ask(self, asked):
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def close(self):
        self.is_open = False


@pytest.fixture
def kept(monkeypatch):
    monkeypatch.setattr(Kept, "made", [])
    monkeypatch.setattr(action, "RemoteFunction", Kept)
    return Kept.made


def test_what_only_looks_is_kept_ready_until_something_else_is_done(kept, monkeypatch):
    monkeypatch.setattr(Kept, "answers", [{"x": 1}, {"x": 2}, {"x": 4}])
    made = Action({"x": 3})
    made.looks = {("m", "watch"): print}
    call = made._caller(Connection(), {})
    assert [call("m", action=each)["x"] for each in ("watch", "watch", "act", "watch")] == [1, 2, 3, 4]
    assert [(each.function, each.is_open) for each in kept] == [(print, False), (print, True)]


def test_what_submits_a_job_stays_to_watch_it(kept, monkeypatch):
    monkeypatch.setattr(Kept, "answers", [{}, {}])
    made = Action()
    made.looks = dict.fromkeys([("m", "submit"), ("m", "watch")], print)
    call = made._caller(Connection(), {})
    assert [call("m", action=each) for each in ("submit", "watch")] == [{}, {}]
    assert [each.is_open for each in kept] == [True]


def test_in_check_mode_modules_are_asked(kept):
    """Which know of it."""
    made = Action({"x": 1}, check_mode=True)
    made.looks = {("m", "look"): print}
    assert made._caller(Connection(), {})("m", action="look") == {"x": 1}
    assert kept == []


def test_what_is_asked_once_is_not_kept_ready(kept, monkeypatch):
    """Files come or go next, and not every target has more than one session at a time."""
    monkeypatch.setattr(Kept, "answers", [{"x": 1}])
    made = Action()
    made.looks = {("m", "look"): print}
    made._caller(Connection(), {})("m", action="look")
    assert [each.is_open for each in kept] == [False]


def test_a_look_whose_connection_breaks_is_made_again(kept, pauses, monkeypatch):
    monkeypatch.setattr(Kept, "answers", [{"x": 1}, TargetUnreachable("timed out"), {"x": 2}, LoginRefused("ended")])
    made = Action()
    made.looks = {("m", ""): print}
    call = made._caller(Connection(), {})
    assert [call("m"), call("m")] == [{"x": 1}, {"x": 2}]
    with pytest.raises(LoginRefused, match="ended"):
        call("m")
    assert (pauses, made._connection.resets) == ([1], 1)


def test_the_interpreter_that_was_found_is_told(monkeypatch):
    class Finds(Action):
        _discovered_interpreter_key, _discovered_interpreter = "discovered_interpreter_python", "/usr/bin/python3"

        def _stages(self, task_vars):
            raise ModakError("enough")

    monkeypatch.setattr(action.ActionBase, "run", lambda *_: {})
    monkeypatch.setattr(action, "end_with_parent", lambda: None)
    assert Finds().run()["ansible_facts"] == {"discovered_interpreter_python": "/usr/bin/python3"}


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ({"failed": True, "msg": "no subuid", "hint": "ask"}, "no subuid\n  ask"),
        (
            {"failed": True, "module_stderr": "Traceback\nSyntaxError: bad\n"},
            "m failed on the target: SyntaxError: bad",
        ),
        (
            {"failed": True, "msg": "Unsupported parameters for (m) module: leave. Supported parameters include: a."},
            "playbooks belong to another version of modak_ansible",
        ),
        (
            {"failed": True, "msg": "value of action must be one of: look, stage, got: skip"},
            "again with modak package",
        ),
        ({"failed": True, "msg": "MODULE FAILURE", "module_stdout": ""}, "the target needs Python 3.8 or later"),
    ],
)
def test_a_module_that_fails_is_one_message(answer, words):
    with pytest.raises(ModakError) as caught:
        Action(answer)._caller(Connection(), {})("m")
    assert words in str(caught.value)


@pytest.mark.parametrize(("completed", "works"), [(True, False), (False, True)])
def test_a_deployment_that_has_completed_needs_no_work(make_stage, completed, works):
    stage, _ = make_stage(None)
    stage.record.note_stage("job", state="done", changed=True, seconds=2.0, message="made")
    made = Action()
    made._task = SimpleNamespace(args={"completed": [stage.folder.name] if completed else []})
    made.perform = lambda _: Outcome(True, "made anew")
    outcome = made._outcome([stage])
    assert (outcome.changed, outcome.message) == ((True, "made anew") if works else (False, "made"))


def test_of_several_one_that_has_not_completed_needs_it(make_stage):
    stage, _ = make_stage(None)
    made = Action()
    made._task = SimpleNamespace(args={"completed": ["another"]})
    made.perform = lambda _: Outcome(True, "made anew")
    assert made._outcome([SimpleNamespace(folder=stage.folder.with_name("another")), stage]).changed


def test_a_full_disk_here_is_one_message(tmp_path, monkeypatch):
    """Ansible would tell it as an unexpected failure of its own."""

    class Full(Action):
        def _stages(self, task_vars):
            raise OSError(errno.ENOSPC, "No space left on device", str(tmp_path / "state.json"))

    monkeypatch.setattr(action.ActionBase, "run", lambda *_: {})
    monkeypatch.setattr(action, "end_with_parent", lambda: None)
    result = Full().run()
    assert result["failed"]
    assert result["msg"] == (
        f"on this machine, {tmp_path}/state.json: No space left on device\n"
        "  make room there, and run the same command again"
    )


def test_what_is_done_to_a_job_is_no_stage_of_its_deployment(make_stage, monkeypatch):
    """A hold that was refused stood in the summary and in junit.xml of a training that had completed."""
    spec = importlib.util.spec_from_file_location(
        "modak_job", Path(__file__).parents[3] / "plugins/action/modak_job.py"
    )
    plugin = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(plugin)

    def refuses(*_):
        raise ModakError("job 7 is completed and cannot be held")

    stage, _ = make_stage(None)
    stage.record.note_stage("job", state="done", changed=True, message="job 7 is completed")
    known = stage.record.read()
    made = object.__new__(plugin.ActionModule)
    made._task = SimpleNamespace(args={"state": "held"}, check_mode=False)
    monkeypatch.setattr(action.ActionBase, "run", lambda *_: {})
    monkeypatch.setattr(made, "_stages", lambda _: [stage])
    monkeypatch.setattr(plugin.operations, "operate", refuses)
    assert made.run()["msg"] == "job 7 is completed and cannot be held"
    assert stage.record.read() == known


@pytest.mark.parametrize("callback", ["default", "json_ansible_callback", "ansible.posix.json"])
def test_progress_stands_in_no_output_that_is_to_be_json(monkeypatch, capsys, callback):
    monkeypatch.setattr(action.constants, "DEFAULT_STDOUT_CALLBACK", callback)
    action.StageAction._say(Action(), "on its way")
    said = capsys.readouterr()
    assert ("on its way" in said.out) == (callback == "default")
    assert "modak job | on its way" in said.out + said.err
