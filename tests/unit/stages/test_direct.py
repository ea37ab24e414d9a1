"""Jobs are asked for without a playbook, by whatever shell and Python the target has, and nothing is left there."""

from __future__ import annotations

import json
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from modak_ansible.errors import ModakError, TargetUnreachable
from modak_ansible.stages.jobs import direct
from modak_ansible.target.core.sending import sources_for
from modak_ansible.target.jobs.actions import acted
from modak_ansible.target.jobs.query import queried
from modak_ansible.transport.ssh import Connection

pytestmark = pytest.mark.component

NAME = "mnist-7419fa6b5af2"


class ByShell(Connection):
    """A target whose user's shell is one of this machine's, which says something when it starts."""

    shell, path, says = "/bin/sh", "", ""

    @property
    def is_local(self):
        return False

    def run(self, command, given=b"", *, seconds=None):
        return subprocess.run(self._words(command), input=given, capture_output=True, env=self.variables, check=False)

    def start(self, command, errors):
        pipe = subprocess.PIPE
        return subprocess.Popen(self._words(command), stdin=pipe, stdout=pipe, stderr=errors, env=self.variables)

    def _words(self, command):
        return [self.shell, "-c", f"{self.says}{command}"]

    @property
    def variables(self):
        return {"PATH": self.path or "/usr/local/bin:/usr/bin:/bin"}


def ask(connection, workspace, names=(NAME,), scheduler="none"):
    asked = {"workspace": str(workspace), "scheduler": scheduler, "deployments": [*names], "job_ids": {}, "inside": ""}
    return direct.ask(connection, queried, asked)["jobs"]


@pytest.mark.parametrize("shell", ["/bin/sh", "/bin/bash", "/bin/csh", "/bin/tcsh", "/usr/bin/fish", "/bin/zsh"])
def test_any_login_shell_asks(tmp_path, monkeypatch, shell):
    if not shutil.which(shell):
        pytest.skip(f"there is no {shell}")
    monkeypatch.setattr(ByShell, "shell", shell)
    monkeypatch.setattr(ByShell, "says", "echo welcome; echo modak; ")
    (job,) = ask(ByShell("front"), tmp_path)
    assert (job["deployment"], job["there"], job["situation"]["state"]) == (NAME, False, "NONE")
    assert list(tmp_path.iterdir()) == []


def test_this_machine_is_asked_by_this_python(tmp_path):
    names = [f"{NAME[:-1]}{number}" for number in range(3)]
    assert [job["deployment"] for job in ask(Connection(""), tmp_path, names)] == names


def test_names_that_no_shell_and_no_python_likes(tmp_path):
    names = ["it's", 'a "quote"', "$(touch x)", "é\\n", "{}", "%s", "!!"]
    assert [job["deployment"] for job in ask(ByShell("front"), tmp_path, names)] == names


def test_what_is_sent_is_for_targets_alone(root):
    """Another process than this one, in which tests load more, is looked at."""
    code = f"from {queried.__module__} import queried; from {sources_for.__module__} import sources_for; "
    code += "print(*sources_for(queried))"
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    sent = done.stdout.split()
    assert {name.split(".")[1] for name in sent if "." in name} == {"errors", "schedulers", "target"}
    assert not [name for name in sent if name.startswith("modak_ansible.target.images.")]  # which no job's state needs


def test_a_target_without_python_is_told_so(tmp_path, monkeypatch):
    monkeypatch.setattr(ByShell, "path", str(tmp_path))
    monkeypatch.setattr(direct, "_PYTHONS", ("python3.99",))
    with pytest.raises(ModakError, match="there is no Python 3 on the target"):
        ask(ByShell("front"), tmp_path)


def test_what_cannot_be_told_is_an_error_with_its_cure(tmp_path):
    with pytest.raises(ModakError) as caught:
        ask(Connection(""), tmp_path, [NAME], scheduler="lumberjack")
    assert caught.value.message == "modak_ansible.target.jobs.query failed on the target: KeyError: 'lumberjack'"
    assert caught.value.hint
    (tmp_path / "closed").write_text("no folder")
    (job,) = ask(Connection(""), tmp_path / "closed")
    assert not job["there"]


@pytest.mark.parametrize("says", ["printf welcome; ", "printf 'modak-answer {'; exit 0; "])
def test_what_a_shell_says_besides_is_no_answer(tmp_path, monkeypatch, says):
    monkeypatch.setattr(ByShell, "says", says)
    if "exit" in says:
        with pytest.raises(ModakError, match="query failed on the target"):
            ask(ByShell("front"), tmp_path)
    else:
        assert len(ask(ByShell("front"), tmp_path)) == 1


def test_a_target_that_is_silent_is_told_apart(tmp_path):
    (tmp_path / "config").write_text("Host front\n  HostName 127.0.0.1\n  Port 1\n  BatchMode yes\n")
    with pytest.raises(TargetUnreachable, match="front refuses the connection"):
        ask(Connection("front", tmp_path / "config"), tmp_path)


def test_the_command_is_one_line_without_what_shells_replace():
    command = direct._command(Connection("front", Path("config")))
    assert not set(command) & set("\n!`\\")
    inner = shlex.split(command)[-1]
    assert sys.executable not in inner


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """What is kept ready on a target, and a file with a line for each time that its shell was started."""
    monkeypatch.setattr(ByShell, "says", f"echo welcome; echo once >> {tmp_path}/starts; ")
    there = direct.RemoteFunction(ByShell("front"), queried)
    yield there, tmp_path / "starts"
    there.close()


def ask_kept(kept, workspace, *names):
    asked = {"workspace": str(workspace), "scheduler": "none", "deployments": names, "job_ids": {}, "inside": ""}
    return [job["deployment"] for job in kept.ask(asked)["jobs"]]


def test_what_is_kept_ready_is_sent_once_and_asked_often(kept, tmp_path):
    there, starts = kept
    assert [ask_kept(there, tmp_path, name) for name in ("a\n", "b")] == [["a\n"], ["b"]]
    assert starts.read_text() == "once\n"
    process = there._process
    there.close()
    assert process.returncode == 0  # it ended by itself: the next session may be the only one that its host allows


def test_what_was_ended_there_is_told_and_sent_anew(kept, tmp_path):
    there, starts = kept
    ask_kept(there, tmp_path, "a")
    there._process.kill()
    there._process.wait()
    with pytest.raises(TargetUnreachable, match="front: the login failed"):
        ask_kept(there, tmp_path, "b")
    assert ask_kept(there, tmp_path, "c") == ["c"]
    assert starts.read_text() == "once\nonce\n"


def test_an_answer_that_nobody_waited_for_is_none_to_the_next_question(tmp_path):
    about = {"workspace": str(tmp_path), "scheduler": "none", "deployments": "[]"}
    there = direct.RemoteFunction(ByShell("front"), acted)
    there.ask({**about, "action": "look"})
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, 0.1)
    try:
        with pytest.raises(KeyboardInterrupt):
            there.ask({**about, "action": "watch", "seconds": 1.0})
        assert "known" in json.loads(there.ask({**about, "action": "look"})["answer"])
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        there.close()


def test_an_error_of_what_is_kept_ready_is_an_error_with_its_cure(kept, tmp_path):
    there, _ = kept
    with pytest.raises(ModakError, match=r"query failed on the target: KeyError: 'lumberjack'") as caught:
        there.ask(
            {"workspace": str(tmp_path), "scheduler": "lumberjack", "deployments": [], "job_ids": {}, "inside": ""}
        )
    assert caught.value.hint
