"""The container runtime: what is missing is told, and signatures are made and checked by its own words."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from modak_ansible.errors import ModakError
from modak_ansible.target.core import container
from modak_ansible.target.core.container import (
    check_fakeroot,
    check_signing_key,
    find_runtime,
    public_half,
    sign_image,
    verify_image,
)

APPTAINER = """#!/bin/bash
case "$1 $2" in
    "sign --help") echo "      --key string        path to the private key file" ;;
    "sign --key") [ -s "$4" ] && echo "$3" > "$4.signed" || { echo "FATAL: cannot sign" >&2; exit 255; } ;;
    "verify --key") [ "$(cat "$4.signed").pub" = "$3" ] || { echo "FATAL: no signature found" >&2; exit 255; } ;;
esac
"""


def test_what_is_missing_is_told_before_the_build(monkeypatch):
    monkeypatch.setattr(container, "find_program", lambda *names: None)
    with pytest.raises(ModakError, match="neither apptainer nor singularity is on the target"):
        find_runtime("any")
    with pytest.raises(ModakError, match="singularity is not on the target") as caught:
        find_runtime("singularity")
    assert "~/.bashrc" in caught.value.hint  # a site's modules are for jobs alone


def test_no_subuid(monkeypatch):
    monkeypatch.setattr(container, "_has_range", lambda *arguments: False)
    monkeypatch.setattr(container, "find_program", lambda *names: None)
    monkeypatch.setattr(os, "getuid", lambda: 1)
    with pytest.raises(ModakError, match="has no range in /etc/subuid") as caught:
        check_fakeroot()
    assert "--add-subuids" in caught.value.hint


@pytest.mark.parametrize(
    ("line", "found"),
    [("alice:100000:65536", True), ("1000:100000:65536", True), ("bob:1:2", False), ("alice", False), ("", False),
     ("alice:100000:1000", False), ("alice:100000:", False), ("!alice:100000:65536", False), ("alice:1:2\nalice:100000:65536", True)],
)  # fmt: skip
def test_ranges(tmp_path, line, found):
    """Of one that is smaller Apptainer says that the user has none; a ! is of those that are no more to build."""
    (tmp_path / "subuid").write_text(f"{line}\n")
    assert container._has_range(tmp_path / "subuid", "alice", 1000) is found


@pytest.fixture
def runtime(tmp_path):
    path = tmp_path / "apptainer"
    path.write_text(APPTAINER)
    path.chmod(0o755)
    return str(path)


@pytest.fixture
def key(tmp_path):
    path = tmp_path / "key.pem"
    path.touch(mode=0o600)
    (tmp_path / "key.pem.pub").touch()
    return str(path)


@pytest.mark.component
@pytest.mark.parametrize("given", ["{}", "$KEYS/key.pem"])
def test_a_signature_is_made_and_found(runtime, key, tmp_path, given, monkeypatch):
    monkeypatch.setenv("KEYS", str(tmp_path))
    image = tmp_path / "image.sif"
    image.write_text("image")
    check_signing_key(runtime, given.format(key))
    with pytest.raises(ModakError, match="is not signed with .*key.pem.pub: FATAL: no signature found"):
        verify_image(runtime, image, public_half(Path(key)))
    sign_image(runtime, image, given.format(key))
    verify_image(runtime, image, public_half(Path(key)))
    image.write_text("")
    with pytest.raises(ModakError, match="could not be signed: FATAL: cannot sign"):
        sign_image(runtime, image, key)


def test_a_key_must_be_whole_and_private(runtime, key, tmp_path):
    (tmp_path / "key.pem").chmod(0o640)
    with pytest.raises(ModakError, match="other users may read the key") as caught:
        check_signing_key(runtime, key)
    assert caught.value.hint == f"chmod 600 {key}"
    (tmp_path / "key.pem.pub").unlink()
    with pytest.raises(ModakError, match=r"the key .*key.pem.pub is not on the target") as caught:
        check_signing_key(runtime, key)
    assert "openssl genpkey" in caught.value.hint


@pytest.mark.component
def test_a_runtime_without_such_keys(key, tmp_path):
    with pytest.raises(ModakError, match="cannot sign with a key from a file"):
        check_signing_key("true", key)
