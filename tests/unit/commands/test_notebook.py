"""modak notebook: what it submits or goes back to, what it says on the way, and how it ends."""

from __future__ import annotations

import signal
import socket
import sys

import pytest
import typer
from planned_once import planned_once

from modak_ansible.commands import main
from modak_ansible.commands.jobs import notebook
from modak_ansible.deployment import fetching, job_control, looking, notebooks, playbook, status_query
from modak_ansible.deployment.notebooks import Listening
from modak_ansible.deployment.playbook import Enough
from modak_ansible.errors import UsageError
from modak_ansible.store.record import DeploymentRecord
from modak_ansible.transport import tunnel
from modak_ansible.transport.tunnel import NoTunnel

TOKEN = "tell-nobody"
RUNNING = {"state": "RUNNING", "job_id": "7", "nodes": "node01"}
IDLE = {"state": "CANCELLED", "job_id": "7", "explanation": "by the notebook itself, idle for 60 s"}
LOST = {
    "state": "FAILED",
    "job_id": "7",
    "explanation": "the training ended with exit code 1",
    "error_tail": ["", "no JupyterLab"],
}


class Target:
    """A target and its front end, as far as the command asks them.

    Attributes:
        situations: of the job, at each look; the last one stays.
        answers: of JupyterLab, at each look; the last one stays.
        lost: whether the tunnel is, likewise.
    """

    def __init__(self, deployments):
        self.deployments = deployments
        self.situations, self.answers = [RUNNING], [True]
        self.played, self.opened, self.brought, self.lost = [], [], [], [False]

    def next(self, what):
        found = what[0]
        if len(what) > 1:
            what.pop(0)
        if isinstance(found, BaseException):
            raise found
        return found

    def ask(self, entries, every=0.0, heard=None, *, inside=""):
        for entry in entries:
            while True:
                situation = self.next(self.situations)
                entry.answer = {"situation": situation}
                DeploymentRecord(entry.store.folder).update(job=situation)
                try:
                    if heard:
                        heard()
                except Enough:
                    raise
                if not heard or situation["state"] not in ("QUEUED", "RUNNING"):
                    break

    def play(self, name, variables, listener=None, **_):
        self.played.append(name)

    def open(self, made):
        self.opened.append(made.port)


@pytest.fixture
def target(blueprint, monkeypatch):
    (blueprint.path / ".modak").mkdir()
    monkeypatch.chdir(blueprint.path)
    made = Target(blueprint.path / ".modak" / "deployments")
    for module in (status_query, notebooks):
        monkeypatch.setattr(module, "ask_targets", made.ask)
    monkeypatch.setattr(playbook, "run_playbook", made.play)
    monkeypatch.setattr(job_control, "act", lambda _stores, state, _listener: made.played.append(f"act {state}"))
    monkeypatch.setattr(
        fetching, "fetch_results", lambda *stores: made.brought.append([store.name for store in stores])
    )
    monkeypatch.setattr(notebooks, "listening", lambda *_: Listening("node01", 8888, TOKEN))
    monkeypatch.setattr(notebooks, "answers", lambda *_: made.next(made.answers))
    monkeypatch.setattr(looking, "unseen", lambda _: [])
    monkeypatch.setattr(tunnel.Tunnel, "open", lambda self: made.open(self))  # noqa: PLW0108 - tests replace it
    monkeypatch.setattr(tunnel.Tunnel, "close", lambda _: made.opened.append("closed"))
    monkeypatch.setattr(tunnel.Tunnel, "is_lost", lambda *_: made.next(made.lost))
    monkeypatch.setattr(notebook.time, "sleep", lambda _: None)
    return made


@pytest.fixture
def call(target, blueprint, monkeypatch, capsys):
    """Runs the command; gives its exit code, and what it said."""

    def run(*words, path=blueprint.service):
        monkeypatch.setattr(sys, "argv", ["modak", "notebook", str(path), *words])
        with pytest.raises(SystemExit) as ended:
            main.run()
        said = capsys.readouterr()
        return ended.value.code or 0, said.out, said.err

    return run


def test_it_is_submitted_opened_and_ends_when_idle(target, call):
    target.situations = [{"state": "QUEUED", "job_id": "7", "reason": "Priority"}, RUNNING, IDLE]
    target.answers = [True, True, False]
    code, out, _ = call("--idle", "60s")
    (port, *_) = target.opened
    assert (code, target.played) == (0, ["deploy"])
    assert "job 7 is queued (Priority)\njob 7 is running on node01\n" in out
    assert f"http://127.0.0.1:{port}/lab?token={TOKEN}\n" in out
    assert "the notebook has ended: cancelled, by the notebook itself, idle for 60 s" in out
    assert target.opened[-1] == "closed"
    assert len(target.brought) == 1


def test_its_token_is_kept_in_no_file(target, call):
    target.situations, target.answers = [RUNNING, IDLE], [True, False]
    call()
    assert not [path for path in target.deployments.rglob("*") if path.is_file() and TOKEN in path.read_text()]


def test_the_same_command_goes_back_to_it(target, call):
    target.situations, target.answers = [RUNNING], [True, KeyboardInterrupt()]
    assert call("--keep")[0] == 0
    target.answers = [True, KeyboardInterrupt()]
    code, out, err = call("--idle", "2h", "--keep")
    assert (code, target.played) == (0, ["deploy"])
    assert "back to " in out
    assert "to an earlier plan; modak cancel " in err
    assert "To open it: modak notebook " in out
    target.situations, target.answers = [IDLE, RUNNING], [True, KeyboardInterrupt()]
    call("--keep")
    assert target.played == ["deploy", "resume"]  # what was saved there is there


def test_the_blueprint_still_means_its_training(target, call, blueprint):
    from modak_ansible.store.deployments import find_trainings

    folder = planned_once(blueprint.service).save()
    target.answers = [True, KeyboardInterrupt()]
    call("--keep")
    assert [each.name for each in find_trainings(str(blueprint.service))] == [folder.name]


@pytest.mark.parametrize(("words", "played"), [((), ["deploy", "act cancelled"]), (("--keep",), ["deploy"])])
def test_ctrl_c_ends_the_job_unless_it_is_kept(target, call, words, played):
    target.answers = [True, KeyboardInterrupt()]
    code, out, _ = call(*words)
    assert (code, target.played, target.opened[-1]) == (0, played, "closed")
    assert ("modak cancel" in out) == bool(words)


@pytest.mark.parametrize(("said", "ends"), [(True, True), (False, False), (typer.Abort(), False)])
def test_on_a_terminal_it_is_asked(target, call, monkeypatch, said, ends):
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(typer, "confirm", lambda *_, **__: target.next([said]))
    target.answers = [True, KeyboardInterrupt()]
    _, out, _ = call()
    assert ("act cancelled" in target.played, "To end it: modak cancel" in out) == (ends, not ends)


def test_a_terminal_that_is_closed_leaves_it_running(target, call):
    def answers():
        signal.raise_signal(signal.SIGHUP)

    target.answers = [True, None]
    target.next = lambda what: what.pop(0) if len(what) > 1 else answers() if what is target.answers else what[0]
    code, _, err = call()
    assert (code, target.played, target.opened[-1]) == (130, ["deploy"], "closed")
    assert "The notebook keeps running until it is idle for 30m" in err


def test_a_lost_tunnel_is_opened_again_at_the_same_port(target, call):
    target.answers = [True, True, True, False]
    target.situations = [RUNNING, IDLE]
    target.lost = [True, False]
    real_open, count = target.open, []

    def open_(made):
        count.append(1)
        if len(count) in (2, 3):
            target.opened.append("refused")
            raise NoTunnel("there is no tunnel to node01: no route")
        real_open(made)

    target.open = open_
    code, _, err = call()
    first, *rest = target.opened
    assert (code, rest[:3]) == (0, ["refused", "refused", first])
    assert "the tunnel was lost; reopening it\nthe tunnel is open again\n" in err


def test_a_node_that_is_silent_for_a_while_is_told_once_and_so_is_its_coming_back(target, call):
    target.situations, target.answers = [RUNNING, RUNNING, RUNNING, IDLE], [True, False, False, True, False]
    code, _, err = call()
    assert (code, err) == (0, "note: it does not answer\nit answers again\n")


def test_a_tunnel_that_stays_lost_says_what_to_do(target, call, monkeypatch):
    monkeypatch.setattr(notebook, "_REOPENS", -1.0)
    target.lost, target.answers = [True], [True]
    real_open = target.open

    def open_(made):
        if target.opened:
            raise NoTunnel("there is no tunnel to node01: no route")
        real_open(made)

    target.open = open_
    code, _, err = call()
    assert code == 4
    assert "error: there is no tunnel to node01: no route\n  The notebook keeps running" in err
    assert "  To end it: modak cancel" in err


def test_a_job_that_ends_before_it_is_ready_says_why(target, call):
    target.situations = [LOST]
    code, _, err = call()
    assert code == 5
    assert "job 7 ended before JupyterLab was ready: failed, the training ended with exit code 1, no JupyterLab" in err
    assert "modak logs " in err


def test_ctrl_c_while_it_waits_leaves_the_job_and_says_so(target, call):
    target.situations = [{"state": "QUEUED", "job_id": "7"}, KeyboardInterrupt()]
    code, _, err = call()
    assert (code, target.played, target.opened) == (130, ["deploy"], [])
    assert "What has begun continues. To open it: modak notebook " in err
    assert "To end its job: modak cancel " in err


def test_what_does_not_answer_says_what_may_be_so(target, call, monkeypatch):
    monkeypatch.setattr(notebook, "_ANSWERS", -1.0)
    target.answers = [False]
    code, _, err = call()
    assert (code, target.opened[-1]) == (1, "closed")
    assert "listens on port 8888 of node01, and does not answer through frontend.example" in err
    assert "AllowTcpForwarding" in err


def test_a_node_that_fails_is_an_error(target, call):
    target.situations, target.answers = (
        [RUNNING, {**LOST, "state": "NODE_FAIL", "explanation": "its node failed"}],
        [True, False],
    )
    code, _, err = call()
    assert (code, "the notebook has ended: node_fail, its node failed" in err) == (5, True)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--idle", "soon"), "--idle: "),
        (("--idle", "10s"), "--idle 10s is less than a minute"),
        (("--training", "nosuch"), "has no training nosuch"),
    ],
)
def test_what_cannot_be_is_told_before_anything_is_done(target, call, words, message):
    code, _, err = call(*words)
    assert (code, target.played) == (2, [])
    assert message in err


def test_a_port_that_is_taken_is_told_before_a_job_is_submitted(target, call):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        code, _, err = call("--port", str(taken.getsockname()[1]))
    assert (code, target.played) == (2, [])
    assert "leave --port out for a free one" in err


def test_no_such_blueprint(target, call, tmp_path):
    code, _, err = call(path=tmp_path / "nosuch")
    assert (code, target.played) == (UsageError.exit_code, [])
    assert "nosuch" in err
