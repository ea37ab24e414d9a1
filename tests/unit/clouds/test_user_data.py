"""What a machine is told when it first starts: as cloud-init reads it, whatever stands in it; and when it ends itself."""

from __future__ import annotations

import os
import subprocess
import time

import pytest
import yaml
from golden import assert_golden
from hypothesis import given
from hypothesis import strategies as st

from modak_ansible.errors import ModakError
from modak_ansible.model.target import Cloud, Terms
from modak_ansible.stages.clouds.user_data import (
    KeyPair,
    idle_script,
    login_key_of,
    minutes_of,
    new_host_key,
    user_data,
)

KEY = KeyPair(
    "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXk\n-----END OPENSSH PRIVATE KEY-----\n", "ssh-ed25519 AAAAhost"
)
TERMS = Terms(price_per_hour=0.5, budget=4.0, idle_minutes=20)


def test_it_is_as_somebody_has_read_it():
    cloud = Cloud(provider="aws", packages=("apptainer",))
    assert_golden("cloud/user-data.yaml", user_data(cloud, TERMS, "admin", KEY, "ssh-ed25519 AAAAlogin alice"))


@given(
    packages=st.lists(st.text(min_size=1), max_size=3),
    key=st.text(),
    private=st.text(),
    idle=st.integers(5, 10**6),
    budget=st.none() | st.floats(0.01, 10**6),
)
def test_cloud_init_reads_what_was_meant(packages, key, private, idle, budget):
    terms = Terms(price_per_hour=1.0, budget=budget, idle_minutes=idle)
    text = user_data(
        Cloud(provider="aws", packages=tuple(packages)), terms, "admin", KeyPair(private, "ssh-ed25519 A"), key
    )
    assert text.startswith("#cloud-config\n")
    told = yaml.safe_load(text)
    assert told["packages"] == ["rsync", *packages]
    assert told["ssh_keys"] == {"ed25519_private": private, "ed25519_public": "ssh-ed25519 A"}
    assert told.get("ssh_authorized_keys", [""]) == [key]
    assert told["ssh_pwauth"] is False
    assert told["write_files"][0]["content"] == idle_script(terms)


def test_without_a_budget_it_lives_as_long_as_it_is_used():
    assert minutes_of(Terms(price_per_hour=0.5)) is None
    assert minutes_of(TERMS) == 480
    assert "modak-began" in idle_script(TERMS)
    assert "-mmin" in idle_script(Terms())


@pytest.fixture
def machine(tmp_path):
    """Runs the script on a machine with sessions, and tells whether it ends it."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "shutdown").write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/ended\n')
    (tmp_path / "bin" / "shutdown").chmod(0o755)
    (tmp_path / "script").write_text(idle_script(TERMS))

    def run(*, sessions=(), unused=0, old=0):
        began, used, ended = (tmp_path / name for name in ("began", "used", "ended"))
        for number, processes in enumerate(sessions):
            group = tmp_path / "cgroup" / "user.slice" / "user-1000.slice" / f"session-{number}.scope"
            group.mkdir(parents=True, exist_ok=True)
            (group / "cgroup.procs").write_text(processes)
        for path, minutes in ((began, old), (used, unused)):
            path.touch()
            os.utime(path, (time.time() - minutes * 60,) * 2)
        environment = {
            "PATH": f"{tmp_path}/bin:{os.environ['PATH']}", "MODAK_BEGAN": str(began), "MODAK_USED": str(used),
            "MODAK_CGROUPS": str(tmp_path / "cgroup"), "MODAK_ALL": str(tmp_path / "all"),
        }  # fmt: skip
        subprocess.run(["sh", tmp_path / "script"], env=environment, check=True)
        return ended.exists() and ended.read_text() == "-P now\n"

    return run


@pytest.mark.component
@pytest.mark.parametrize(
    ("how", "ends"),
    [
        ({}, False),
        ({"unused": 19}, False),
        ({"unused": 22}, True),
        ({"unused": 22, "sessions": ["", "4711\n"]}, False),
        ({"unused": 22, "sessions": [""]}, True),
        ({"old": 479}, False),
        ({"old": 482, "sessions": ["4711\n"]}, True),
    ],
)
def test_it_ends_when_nobody_uses_it_or_its_budget_is_spent(machine, how, ends):
    assert machine(**how) == ends


@pytest.fixture
def host(machine, tmp_path):
    """Runs the script on a host of a cluster; gives whether it ends it, and how many minutes ago the cluster was used."""
    (tmp_path / "script").write_text(idle_script(TERMS, of_cluster=True))

    def run(*, jobs="", all_unused=None, **how):
        (tmp_path / "bin" / "squeue").write_text(f"#!/bin/sh\nprintf '{jobs}'\n")
        (tmp_path / "bin" / "squeue").chmod(0o755)
        everybodys = tmp_path / "all"
        if all_unused is not None:
            everybodys.touch()
            os.utime(everybodys, (time.time() - all_unused * 60,) * 2)
        ends = machine(**how)
        return ends, round((time.time() - everybodys.stat().st_mtime) / 60) if everybodys.exists() else None

    return run


@pytest.mark.component
@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ({"unused": 22}, (True, None)),  # alone, before it is part of anything
        ({"unused": 22, "all_unused": 22}, (True, 22)),
        ({"unused": 22, "all_unused": 3}, (False, 3)),  # another host is used
        ({"unused": 3, "all_unused": 22}, (False, 3)),  # and hears of this one
        ({"unused": 22, "all_unused": 22, "jobs": "17 cloud job"}, (False, 0)),  # in no session
        ({"unused": 22, "all_unused": 22, "sessions": ["4711\n"]}, (False, 0)),
    ],
)
def test_a_host_of_a_cluster_is_used_when_any_of_it_is(host, how, expected):
    assert host(**how) == expected


@pytest.mark.component
def test_the_use_of_a_cluster_ends(host):
    """Two hosts that tell each other of a use long ago do not keep each other."""
    assert host(unused=18, all_unused=18) == (False, 18)
    assert host(unused=22, all_unused=18) == (False, 18)
    assert host(unused=22, all_unused=22) == (True, 22)


@pytest.mark.component
def test_each_machine_has_a_key_of_its_own():
    first, second = new_host_key(), new_host_key()
    assert first.public.startswith("ssh-ed25519 ")
    assert first != second
    assert first.private.startswith("-----BEGIN OPENSSH PRIVATE KEY-----\n")


def test_the_public_half_lies_beside_the_private_one(tmp_path):
    (tmp_path / "id.pub").write_text("ssh-ed25519 AAAA alice\n")
    assert login_key_of(tmp_path / "id") == "ssh-ed25519 AAAA alice"
    with pytest.raises(ModakError, match=r"other\.pub does not exist") as refused:
        login_key_of(tmp_path / "other")
    assert "ssh-keygen -y -f" in refused.value.hint
