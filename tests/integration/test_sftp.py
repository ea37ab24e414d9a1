"""Files behind a real sshd, that of the testbed's front end."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import uuid

import pytest
from listed_sources import Sources

from modak_ansible.errors import ModakError

pytestmark = pytest.mark.testbed
SIZE = 3_000_000


@pytest.fixture
def ssh(tmp_path, testbed, monkeypatch):
    """Has the ssh on PATH know the testbed; gives what adds options to it, or cuts what comes through it."""
    real = shutil.which("ssh")
    program = tmp_path / "bin" / "ssh"
    program.parent.mkdir()

    own = tmp_path / "ssh_config"

    def make(options="", cut=0, key=""):
        through = f"exec > >(stdbuf -o0 head -c {cut})" if cut else ""
        config = (testbed.folder / "ssh_config").read_text()
        own.write_text(re.sub("(?<=IdentityFile ).*", key, config) if key else config)
        known = f"exec {real} -F {own} {options}"
        program.write_text(f'#!/bin/bash\n{through}\n{known} "$@"\n')
        program.chmod(0o755)

    make()
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("modak_ansible.sources.listed._KEPT", -1)
    return make


@pytest.fixture
def folder(testbed):
    name = f"sftp-{uuid.uuid4().hex[:8]}"
    testbed.ssh(
        f"mkdir -p {name}/deep && cd {name} && echo 1 > a.csv && echo 2 > 'deep/b c.csv' "
        f"&& head -c {SIZE} /dev/urandom > deep/large.bin && ln -s deep linked"
    )
    yield name
    testbed.ssh(f"rm -r {name}")


def test_files_are_listed_fetched_gone_on_with_and_held_to_the_plan(ssh, folder, testbed, tmp_path):
    sources = Sources()
    _, source = sources.one(f"sftp://testbed/~/{folder}/**/*[cn]*")
    names = ["a.csv", "deep/b c.csv", "deep/large.bin", "linked/b c.csv", "linked/large.bin"]
    assert [file.name for file in source.files] == names
    assert source.files[2].size == SIZE
    carrier = sources.Carrier(tmp_path / "target", reaches=True)
    ssh(cut=1_000_000)
    with pytest.raises(ModakError, match="the connection ended"):
        sources.brought(sources.one(f"sftp://testbed/~/{folder}/deep/large.bin")[1], carrier)
    part = (carrier.downloads / "large.bin").stat().st_size
    assert 500_000 < part < 1_000_000
    ssh(cut=SIZE - part + 500_000)  # which is too little for all of it
    found = sources.brought(sources.one(f"sftp://testbed/~/{folder}/deep/large.bin")[1], carrier)
    ssh()
    carrier = sources.Carrier(tmp_path / "other", reaches=True)
    there = sources.brought(source, carrier)
    assert list(there) == names
    assert there["deep/large.bin"] == there["linked/large.bin"] == found["large.bin"]
    assert (there["a.csv"], len(found["large.bin"])) == (b"1\n", SIZE)
    testbed.ssh(f"echo 3 > {folder}/a.csv; touch -d '2 hours ago' {folder}/a.csv")
    with pytest.raises(ModakError, match=r"a\.csv has changed since the plan was made"):
        sources.brought(source, carrier)


def test_what_is_refused(ssh, folder, testbed, tmp_path):
    sources = Sources()
    home = testbed.ssh(f"mkdir -m 0 {folder}/closed; pwd")
    assert (
        f"sftp://testbed{home}/{folder}/closed: permission denied"
        in sources.problem(f"sftp://testbed/~/{folder}").reason
    )
    gone = sources.problem(f"sftp://testbed/~/{folder}/deep/larg.bin")
    assert (f"there is no file or folder {folder}/deep/larg.bin" in gone.reason, gone.hint) == (
        True,
        "did you mean large.bin?",
    )
    assert "sftp://nowhere.invalid: " in sources.problem("sftp://nowhere.invalid/x").reason


def _keys(folder, name):
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True)
    return folder / name, (folder / f"{name}.pub").read_text().rsplit(" ", 1)[0]


def test_a_wrong_login_or_host_key_is_named_and_brings_nothing(ssh, folder, testbed, tmp_path):
    sources, text = Sources(), f"sftp://testbed/~/{folder}/deep"
    _, source = sources.one(text)
    other, public = _keys(tmp_path, "other")
    address, port = testbed.state["address"], testbed.state["port"]
    (tmp_path / "known").write_text(f"[{address}]:{port} {public}\n")
    takes_none = "accepts none of the keys that ssh has here for modak@"
    cases = [
        ("/dev/null", "", "has a host key that is not known here", "compare the key"),
        (f"{tmp_path}/known", "", f"a different host key from the one in {tmp_path}/known:1", "ssh-keygen"),
        ("", str(other), takes_none, "ssh-add"),
        ("", f"{tmp_path}/no-key", takes_none, f"no such identity: {tmp_path}/no-key"),
    ]
    for known, key, reason, hint in cases:
        ssh(f"-o IdentityAgent=none {f'-o UserKnownHostsFile={known}' if known else ''}", key=key)
        found = sources.problem(text)  # although it was listed before: no network is down
        assert (reason in found.reason, hint in found.hint) == (True, True), found
        carrier = sources.Carrier(tmp_path / "target", reaches=True)
        with pytest.raises(ModakError, match=reason):
            sources.brought(source, carrier)
        assert [path for path in carrier.folder.rglob("*") if path.is_file()] == []
    ssh()
    assert list(sources.brought(source, carrier)) == ["b c.csv", "large.bin"]
