"""What is made of Ansible's events: progress for the listener, and one message out of any failure."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import ansible_runner
import pytest

from modak_ansible.deployment.playbook import _environment, _no_leftovers, _Watcher, own_signals, run_playbook
from modak_ansible.errors import FAILED, TARGET_UNREACHABLE, TimeIsOver


class Listener:
    def __init__(self):
        self.heard = []

    def progress(self, stage, text):
        self.heard.append((stage, text))

    def task(self, name):
        self.heard.append(name)

    def finished(self, action, result):
        self.heard.append((action, result.get("msg")))


def event(kind, stdout="", **data):
    return {"event": kind, "stdout": stdout, "event_data": data}


def test_whoever_runs_a_playbook_gets_the_signals_back():
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    with own_signals():
        for number in before:
            signal.signal(number, signal.SIG_IGN)
    assert {number: signal.getsignal(number) for number in before} == before


def test_progress_tasks_and_results():
    listener = Listener()
    watcher = _Watcher(listener)
    watcher.event(event("playbook_on_task_start", task="Run the job"))
    watcher.event(event("verbose", "\x1b[0;34mmodak job | epoch 1/2 | loss 0.5\x1b[0m\r\nsomething else"))
    watcher.event(event("runner_on_ok", task_action="modak.hpc.modak_job", res={"msg": "done", "changed": True}))
    watcher.event(event("runner_on_ok", task_action="ansible.builtin.meta", res={}))
    watcher.event(event("playbook_on_stats", changed={"modak": 2, "localhost": 1}))
    assert listener.heard == ["Run the job", ("job", "epoch 1/2 | loss 0.5"), ("modak_job", "done")]
    assert watcher.run.results == {"modak_job": {"msg": "done", "changed": True}}
    assert watcher.run.changed == 3


def test_the_first_failure_counts_with_its_exit_code():
    watcher = _Watcher(None)
    watcher.event(
        event("runner_on_failed", task="Run", task_action="modak.hpc.modak_job", res={"msg": "the job", "exit_code": 5})
    )
    watcher.event(event("runner_on_failed", task="Then", task_action="modak.hpc.modak_report", res={"msg": "another"}))
    error = watcher.error()
    assert (error.message, error.exit_code) == ("the job", 5)


def test_a_listener_that_nobody_hears_ends_the_playbook():
    class Unheard(Listener):
        def progress(self, stage, text):
            raise BrokenPipeError

    watcher = _Watcher(Unheard())
    watcher.event(event("verbose", "modak job | epoch 1"))
    assert isinstance(watcher.ended_by, BrokenPipeError)


@pytest.mark.component
def test_what_a_playbook_leaves_running_is_ended(tmp_path):
    with _no_leftovers(str(tmp_path)):
        worker = subprocess.Popen(["sleep", "60"], executable="/bin/sleep", start_new_session=True)
        marked = subprocess.Popen(
            [sys.executable, "-c", "import time; time.sleep(60)", f"{tmp_path}/inventory"], start_new_session=True
        )
        while not Path(f"/proc/{marked.pid}/cmdline").read_bytes():
            time.sleep(0.01)  # Popen returns a little before the kernel shows the new command
    assert marked.wait(timeout=10) == -signal.SIGKILL
    assert worker.poll() is None
    worker.kill()
    worker.wait()


def test_a_task_that_is_not_ours_is_named():
    watcher = _Watcher(None)
    watcher.event(
        event("runner_on_failed", task="Make a folder", task_action="ansible.builtin.file", res={"msg": "no"})
    )
    assert (watcher.error().message, watcher.error().exit_code) == ("Make a folder: no", FAILED)


def test_an_ignored_failure_is_none():
    watcher = _Watcher(None)
    watcher.event(event("runner_on_failed", task="Try", ignore_errors=True, res={"msg": "no"}))
    watcher.event(event("runner_on_unreachable", task="Go", task_action="modak.hpc.modak_probe", res={"msg": "far"}))
    assert (watcher.error().message, watcher.error().exit_code) == ("far", TARGET_UNREACHABLE)


def test_a_playbook_that_does_not_start_shows_what_was_said():
    watcher = _Watcher(None)
    watcher.event(event("verbose", "ERROR! the playbook could not be found"))
    assert "the playbook could not be found" in watcher.error().message


def run_for(monkeypatch, seconds, deadline):
    """Runs a playbook that takes its time, as ansible-runner does: it asks each second whether to go on."""

    def run(*, cancel_callback, **more):
        ends = time.monotonic() + seconds
        while time.monotonic() < ends:
            if cancel_callback():
                return SimpleNamespace(status="canceled")
            time.sleep(0.01)
        return SimpleNamespace(status="successful")

    monkeypatch.setattr(ansible_runner, "run", run)
    return run_playbook("deploy", {}, deadline=deadline and time.monotonic() + deadline)


@pytest.mark.component
def test_ansible_does_not_check_what_is_ours():
    """Each role's arguments against their types, which is a tenth of its processor time in a deployment."""
    connection = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    listener = Listener()
    run_playbook("survey", {"survey_connection": connection}, listener)
    assert [each for each in listener.heard if isinstance(each, str)] == ["Know the target", "Survey the target"]


def test_a_deadline_ends_a_playbook(monkeypatch):
    with pytest.raises(TimeIsOver, match="the time limit is over"):
        run_for(monkeypatch, 20, 0.05)


def test_a_playbook_that_ends_before_its_deadline(monkeypatch):
    assert run_for(monkeypatch, 0.05, 60).changed == 0
    assert run_for(monkeypatch, 0.05, None).changed == 0


def test_ctrl_c_is_no_deadline(monkeypatch):
    monkeypatch.setattr(ansible_runner, "run", lambda **more: SimpleNamespace(status="canceled"))
    with pytest.raises(KeyboardInterrupt):
        run_playbook("deploy", {}, deadline=time.monotonic() + 60)


OTHERS = (
    "BECOME",
    "REMOTE_USER",
    "ASK_PASS",
    "BECOME_ASK_PASS",
    "TASK_TIMEOUT",
    "FORKS",
    "STDOUT_CALLBACK",
    "VAULT_IDENTITY_LIST",
)


def test_what_is_exported_for_other_playbooks_is_not_for_these(monkeypatch):
    """With sudo, all of a deployment would be root's; and rsync enters as the target says, not as another user."""
    seen = []
    ours = ("HOME", "REMOTE_TMP", "REMOTE_TEMP", "SSH_ARGS", "COLLECTIONS_PATH")
    for name in (*OTHERS, *ours):
        monkeypatch.setenv(f"ANSIBLE_{name}", "x")

    def run(**_):
        seen.extend(os.environ)
        return SimpleNamespace(status="successful")

    monkeypatch.setattr(ansible_runner, "run", run)
    run_playbook("deploy", {})
    assert {f"ANSIBLE_{name}" for name in ours} <= set(seen)
    assert not {f"ANSIBLE_{name}" for name in OTHERS} & set(seen)
    assert os.environ["ANSIBLE_BECOME"] == "x"


def test_what_a_shell_exports_in_another_encoding_is_put_into_utf_8(monkeypatch):
    """ansible-runner writes the environment down, and could not."""
    monkeypatch.setenv("GREETING", os.fsdecode("Grüße".encode("latin-1")))
    assert _environment()["GREETING"] == "Gr\ufffd\ufffde"
    assert "HOME" not in _environment()
