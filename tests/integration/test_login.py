"""A cluster that wants a one-time code: one login by hand, and everything goes through it."""

from __future__ import annotations

import json
import os
import subprocess

import pexpect
import pytest
from cluster import MODAK, modak
from otp import front_end

pytestmark = pytest.mark.testbed

TARGET = """\
scheduler: slurm
frontend: otp
partitions: [ { name: debug, nodes: 2, cores: 1, memory: 4000 MB } ]
scratch: { path: /scratch, sharing: node-local }
image_base: debootstrap
"""
SCRIPT = """\
import argparse, json
parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=1)
arguments = parser.parse_args()
json.dump({"epochs": arguments.epochs}, open("out.json", "w"))
"""


def terminal(environment, *words):
    """The modak command at a terminal."""
    return pexpect.spawn(str(MODAK), [*words], env=environment, encoding="utf-8", timeout=60)


def log_in(environment, otp, *words):
    child = terminal(environment, "login", *words)
    child.expect("assword: ")
    child.sendline(otp.code())
    child.expect(pexpect.EOF)
    child.close()
    return child


@pytest.fixture
def night(testbed, tmp_path, monkeypatch):
    """A target that wants codes, under that name; gives its front end, and the environment of whoever uses it."""
    home = tmp_path / "home"
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / ".config"))
    with front_end(testbed, home) as otp:
        targets = home / ".config" / "modak" / "targets"
        targets.mkdir(parents=True)
        (targets / "night.yaml").write_text(TARGET)
        yield otp, {**os.environ, "COLUMNS": "200"}


def state_of(name):
    return next(row for row in json.loads(modak("targets", "--json").stdout) if row["name"] == name)["targets"][0][
        "login"
    ]


def test_one_login_serves_everything_until_it_ends(night, tmp_path):
    otp, environment = night
    project = tmp_path / "project"
    (project / ".git").mkdir(parents=True)
    (project / "train.py").write_text(SCRIPT)

    refused = modak("deploy", "train.py", "--on", "night", "--", "--epochs", "2", cwd=project)
    assert refused.returncode == 4, refused.stdout + refused.stderr
    assert "refuses the login without a password or a code" in refused.stderr
    assert "modak login otp" in refused.stderr
    assert state_of("night") == ""

    wrong = terminal(environment, "login", "night")
    for _ in range(3):
        wrong.expect("assword: ")
        wrong.sendline("nonsense")
    wrong.expect("the login to ")
    wrong.expect(pexpect.EOF)
    wrong.close()
    assert wrong.exitstatus == 4

    entered = log_in(environment, otp, "night")
    assert entered.exitstatus == 0, entered.before
    assert "all commands go through it" in entered.before
    terminal(environment, "login", "night").expect("was open already")
    assert state_of("night") == "open"

    done = modak("deploy", "train.py", "--on", "night", "--", "--epochs", "2", cwd=project)
    assert done.returncode == 0, done.stdout + done.stderr
    (result,) = (project / ".modak" / "deployments").glob("train-*/results/code/out.json")
    assert json.loads(result.read_text()) == {"epochs": 2}

    otp.end_sessions()
    ended = modak("undeploy", "train.py", cwd=project)
    assert ended.returncode == 4, ended.stdout + ended.stderr
    assert "the login to otp of " in ended.stderr
    assert "has ended" in ended.stderr
    assert "modak login night" in ended.stderr
    assert state_of("night") == "ended"

    assert log_in(environment, otp, "night").exitstatus == 0
    assert modak("undeploy", "train.py", cwd=project).returncode == 0
    assert "is closed" in modak("logout", "night").stdout
    assert "was not open" in modak("logout", "night").stdout


def test_the_users_own_way_is_taken(night, testbed, tmp_path):
    """By way of another host, and through a connection of which ~/.ssh/config says where it is."""
    otp, environment = night
    config = tmp_path / "home" / ".ssh" / "config"
    socket = f"/tmp/otp-{os.getpid()}"
    jump = f"  ProxyJump testbed\n  ControlMaster auto\n  ControlPath {socket}\n"
    config.write_text(config.read_text() + jump + (testbed.folder / "ssh_config").read_text())
    assert log_in(environment, otp, "night").exitstatus == 0
    own = subprocess.run(["ssh", "-F", config, "-O", "check", "otp"], capture_output=True, text=True, check=False)
    assert own.returncode == 0, own.stderr
    looked = modak("check", "night")
    assert "ok       ssh" in looked.stdout, looked.stdout + looked.stderr
    assert "is closed" in modak("logout", "night").stdout
    assert not os.path.exists(socket)


def test_nothing_is_asked_without_a_terminal(tmp_path):
    done = subprocess.run(
        [MODAK, "login", "somewhere.invalid"], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "a login needs a terminal" in done.stderr
