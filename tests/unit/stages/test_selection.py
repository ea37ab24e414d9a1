"""What a user of ansible-playbook says beside the blueprint: hosts, tags, ways and users of the rest of a project."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from ansible.errors import AnsibleActionFail
from ansible.playbook.play_context import PlayContext
from ansible.plugins.loader import connection_loader, init_plugin_loader
from example_blueprint import ROOT
from example_request import TRAINING, RequestFolder

from modak_ansible.errors import ModakError
from modak_ansible.stages.action import StageAction
from modak_ansible.stages.plan import left_out, plan_deployment
from modak_ansible.transport.ssh import Connection

OURS = str(ROOT / "playbooks" / "deploy.yml")


@pytest.fixture
def training(tmp_path):
    training = RequestFolder(tmp_path / "training", TRAINING)
    return training.set("target", {"name": "local"}).set("job_options", {"wall_time_limit": "0:10:00"})


def play(training, name, *options):
    command = Path(sys.executable).with_name("ansible-playbook")
    done = subprocess.run(
        [command, ROOT / "playbooks" / f"{name}.yml", "-e", f"blueprint={training.file}", *options],
        capture_output=True, text=True, check=False,
        env={**os.environ, "HOME": str(training.path), "ANSIBLE_NOCOLOR": "1"},
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


@pytest.mark.component
@pytest.mark.parametrize(
    ("name", "options", "told"),
    [
        ("act", [], "nothing is said of what to do: -e job_state=cancelled, held, released or requeued"),
        ("probe", ["--limit", "mycluster"], "--limit mycluster fits no host: leave it out"),
        ("probe", ["--limit", "localhost"], "--limit localhost leaves out modak_target"),
        ("probe", ["--tags", "image"], "--tags and --skip-tags leave out all that this playbook does"),
        ("probe", ["-e", "ansible_connection=ssh"], "ansible_connection is ssh, and the plan's is local"),
    ],
)
def test_a_playbook_that_would_do_nothing_or_something_else_says_so(training, name, options, told):
    code, said = play(training, name, *options)
    assert code
    assert told in said


@pytest.mark.component
def test_nobody_becomes_another_on_the_target(training):
    code, said = play(training, "probe", "--become", "--become-user", "nobody", "--limit", "localhost,modak")
    assert not code, said


def test_hosts_of_others_are_not_deployed_to(training):
    known = {"groups": {"modak": ["web1", "modak_target"]}}
    with pytest.raises(AnsibleActionFail, match="group modak has hosts that are not targets of this plan: web1"):
        plan_deployment({"blueprint": str(training.file)}, check=True, variables=known)
    known["groups"]["modak"] = ["modak_target"]  # of a blueprint before
    assert plan_deployment({"blueprint": str(training.file)}, check=True, variables=known)["targets"]


@pytest.mark.parametrize(
    ("tags", "only", "skipped", "is_left_out"),
    [
        ([], ["all"], [], False),
        ([], ["image"], [], True),
        ([], ["untagged"], ["image"], False),
        (["train"], ["train"], [], False),
        (["train"], ["tagged"], [], False),
        (["train"], ["all"], ["train"], True),
        ([], ["all"], ["all"], True),
    ],
)
def test_a_play_among_others_may_be_left_out_and_a_playbook_of_ours_not(tags, only, skipped, is_left_out):
    known = {"ansible_run_tags": only, "ansible_skip_tags": skipped}
    assert left_out([*tags, "always"], known, ["site.yml"]) is is_left_out
    for ours in (OURS, "modak.hpc.deploy"):
        if is_left_out:
            with pytest.raises(AnsibleActionFail, match="leave out all"):
                left_out([*tags, "always"], known, [ours])
        else:
            assert not left_out([*tags, "always"], known, [ours])


def test_a_target_is_entered_as_the_plan_says(tmp_path):
    init_plugin_loader()
    action = StageAction.__new__(StageAction)
    action._connection = connection_loader.get("ssh", PlayContext())
    action._connection.set_options(
        var_options={"ansible_user": "eve", "ansible_port": 2222, "ansible_host": "web1", "ansible_password": "x"}
    )
    action._connection.set_become_plugin(object())
    action._as_planned(Connection("box", tmp_path / "ssh_config"))
    command = action._connection._build_command("ssh", "ssh", action._connection.get_option("host"), "true")
    words = " ".join(word.decode() for word in command)
    assert f"-F {tmp_path}/ssh_config" in words
    assert words.endswith("box true")
    assert not any(each in words for each in ("eve", "2222", "web1", "sshpass"))
    assert action._connection.become is None
    with pytest.raises(ModakError, match="ansible_connection is ssh, and the plan's is local"):
        action._as_planned(Connection(""))
