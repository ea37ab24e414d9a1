"""Jobs are asked for without a playbook, by whatever shell and Python the target has, and nothing is left there."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import sys
from importlib.util import MAGIC_NUMBER
from pathlib import Path

import pytest

from modak_ansible.errors import ModakError, TargetUnreachable
from modak_ansible.stages.jobs import direct
from modak_ansible.target.core.sending import COMPILED, sources_for
from modak_ansible.transport.ssh import Connection

pytestmark = pytest.mark.component

NAME = "mnist-7419fa6b5af2"


class ByShell(Connection):
    """A target whose user's shell is one of this machine's, which says something when it starts."""

    shell, path, says, wrote = "/bin/sh", "", "", []

    @property
    def is_local(self):
        return False

    def run(self, command, given=b"", *, seconds=None):
        words = [self.shell, "-c", f"{self.says}{command}"]
        variables = {"PATH": self.path or "/usr/local/bin:/usr/bin:/bin"}
        done = subprocess.run(words, input=given, capture_output=True, env=variables, check=False)
        self.wrote.append(done.stdout.decode())
        return done


def jobs_of(answer):
    return json.loads(answer["answer"])["jobs"]


@pytest.mark.parametrize("shell", ["/bin/sh", "/bin/bash", "/bin/csh", "/bin/tcsh", "/usr/bin/fish", "/bin/zsh"])
def test_any_login_shell_asks(tmp_path, monkeypatch, shell):
    if not shutil.which(shell):
        pytest.skip(f"there is no {shell}")
    monkeypatch.setattr(ByShell, "shell", shell)
    monkeypatch.setattr(ByShell, "says", "echo welcome; echo modak; ")
    (job,) = jobs_of(direct.ask(ByShell("front"), str(tmp_path), "none", [NAME], ""))
    assert (job["deployment"], job["there"], job["situation"]["state"]) == (NAME, False, "NONE")
    assert list(tmp_path.iterdir()) == []


def test_this_machine_is_asked_by_this_python(tmp_path):
    names = [f"{NAME[:-1]}{number}" for number in range(3)]
    assert [job["deployment"] for job in jobs_of(direct.ask(Connection(""), str(tmp_path), "none", names, ""))] == names


def test_names_that_no_shell_and_no_python_likes(tmp_path):
    names = ["it's", 'a "quote"', "$(touch x)", "é\\n", "{}", "%s", "!!"]
    assert [
        job["deployment"] for job in jobs_of(direct.ask(ByShell("front"), str(tmp_path), "none", names, ""))
    ] == names


def test_what_another_python_compiled_is_not_read_and_its_own_comes_along_the_next_time(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(direct, "MAGIC_NUMBER", b"old!")
    target = ByShell("front", key="of this target")
    for is_known in (False, True):
        direct._code.cache_clear()
        assert len(jobs_of(direct.ask(target, str(tmp_path), "none", [NAME], ""))) == 1
        assert (COMPILED in target.wrote[-1]) is not is_known
    assert direct._code(target.key).magic == MAGIC_NUMBER.hex()
    assert direct._code("of another").magic == b"old!".hex()
    direct._code.cache_clear()


def test_what_is_sent_is_for_targets_alone_and_all_of_it_is_compiled():
    sources = sources_for(direct.queried)
    assert len(sources) > 50
    assert set(direct._code("").code) == set(sources)
    tops = {name.split(".")[1] for name in sources if "." in name}
    assert tops == {"errors", "schedulers", "target"}


def test_a_target_without_python_is_told_so(tmp_path, monkeypatch):
    monkeypatch.setattr(ByShell, "path", str(tmp_path))
    monkeypatch.setattr(direct, "_PYTHONS", ("python3.99",))
    with pytest.raises(ModakError, match="there is no Python 3 on the target"):
        direct.ask(ByShell("front"), str(tmp_path), "none", [NAME], "")


def test_what_cannot_be_told_is_an_error_with_its_cure(tmp_path):
    with pytest.raises(ModakError) as caught:
        direct.ask(Connection(""), str(tmp_path), "lumberjack", [NAME], "")
    assert caught.value.message == "modak_job broke on the target: KeyError: 'lumberjack'"
    assert caught.value.hint
    (tmp_path / "closed").write_text("no folder")
    (job,) = jobs_of(direct.ask(Connection(""), str(tmp_path / "closed"), "none", [NAME], ""))
    assert not job["there"]


@pytest.mark.parametrize("says", ["printf welcome; ", "printf 'modak-answer {'; exit 0; "])
def test_what_a_shell_says_besides_is_no_answer(tmp_path, monkeypatch, says):
    monkeypatch.setattr(ByShell, "says", says)
    if "exit" in says:
        with pytest.raises(ModakError, match="modak_job broke on the target"):
            direct.ask(ByShell("front"), str(tmp_path), "none", [NAME], "")
    else:
        assert len(jobs_of(direct.ask(ByShell("front"), str(tmp_path), "none", [NAME], ""))) == 1


def test_a_target_that_is_silent_is_told_apart(tmp_path):
    (tmp_path / "config").write_text("Host front\n  HostName 127.0.0.1\n  Port 1\n  BatchMode yes\n")
    with pytest.raises(TargetUnreachable, match="front refuses the connection"):
        direct.ask(Connection("front", tmp_path / "config"), str(tmp_path), "none", [NAME], "")


def test_the_command_is_one_line_without_what_shells_replace():
    command = direct._command(Connection("front", Path("config")))
    assert not set(command) & set("\n!`\\")
    inner = shlex.split(command)[-1]
    assert sys.executable not in inner
