"""Secrets come from the environment or a private file, and no message repeats them."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from modak_ansible.errors import ModakError
from modak_ansible.store.logins import take_logins
from modak_ansible.transport.secrets import Login, Secrets, handed_on, read_secrets

FILE = """\
registries:
  registry.example: { username: alice, password: planted-word }
  other.example:5000: { username: bob, password: "1234" }
pip:
  index-url: https://bob:planted-token@index.example/simple
"""
KEPT = Secrets(
    (Login("registry.example", "alice", "planted-word"), Login("other.example:5000", "bob", "1234")),
    {"index-url": "https://bob:planted-token@index.example/simple"},
)
LOGIN = {
    "MODAK_REGISTRY": "registry.example",
    "MODAK_REGISTRY_USERNAME": "carol",
    "MODAK_REGISTRY_PASSWORD": "from-environment",
}


@pytest.fixture(autouse=True)
def own_home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "kept" / "secrets.yaml"
    path.parent.mkdir()
    path.write_text(FILE)
    path.chmod(0o600)
    return path


def test_without_any():
    assert read_secrets({}) == Secrets()


def test_a_private_file(file):
    assert read_secrets({"MODAK_SECRETS": str(file)}) == KEPT
    assert "planted" not in repr(KEPT)


def test_the_usual_file(file, tmp_path):
    usual = tmp_path / "home" / ".config" / "modak" / "secrets.yaml"
    usual.parent.mkdir(parents=True)
    file.rename(usual)
    (tmp_path / "home" / ".modak").mkdir()  # of deployments from the home folder
    assert read_secrets({}) == KEPT


def test_the_environment_goes_before_the_file(file):
    found = read_secrets({**LOGIN, "MODAK_SECRETS": str(file), "MODAK_PIP_INDEX_URL": "https://x:y@z/"})
    assert found.logins == (Login("registry.example", "carol", "from-environment"), KEPT.logins[1])
    assert found.pip == {"index-url": "https://x:y@z/"}


def test_half_a_login():
    with pytest.raises(ModakError, match="MODAK_REGISTRY_PASSWORD without MODAK_REGISTRY, MODAK_REGISTRY_USERNAME"):
        read_secrets({"MODAK_REGISTRY_PASSWORD": "planted-word"})


def test_a_login_is_for_a_host():
    """That of an address would be for no image, and nobody would be told."""
    with pytest.raises(ModakError, match="MODAK_REGISTRY is not a host"):
        read_secrets({**LOGIN, "MODAK_REGISTRY": "https://registry.example"})


def test_a_file_that_others_may_read(file):
    file.chmod(0o640)
    with pytest.raises(ModakError, match="others may read or write the secrets") as caught:
        read_secrets({"MODAK_SECRETS": str(file)})
    assert caught.value.hint == f"chmod 600 {file}"


@pytest.mark.parametrize("mark", [".git", ".modak"])
def test_a_file_in_a_project(file, mark):
    (file.parent / mark).mkdir()
    with pytest.raises(ModakError, match="are inside the project"):
        read_secrets({"MODAK_SECRETS": str(file)})


@pytest.mark.parametrize(
    "text",
    [
        "registries: { planted: [",
        "planted",
        "planted-name: { a: b }",
        "registries: { r.example: planted }",
        "registries: { r.example: { username: a, password: [planted] } }",
        "registries: { r.example: { username: a, pass: planted } }",
        "pip: { planted: x }",
        "registries: !planted { a: b }",
        "registries: [{ registry: r.example, username: a, password: planted }]",
        "pip: planted",
        "registries: { 'https://r.example': { username: a, password: planted } }",
        "registries: { docker.io/team: { username: a, password: planted } }",
    ],
)
def test_a_file_of_another_form_is_not_repeated(file, text):
    file.write_text(text)
    with pytest.raises(ModakError) as caught:
        read_secrets({"MODAK_SECRETS": str(file)})
    assert "planted" not in str(caught.value).replace("planted-name", "").replace("no secret planted", "")


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(ModakError, match="cannot be read: No such file"):
        read_secrets({"MODAK_SECRETS": str(tmp_path / "none")})


@pytest.mark.component
def test_a_vault(file, tmp_path, monkeypatch):
    word = tmp_path / "word"
    word.write_text("opens\n")
    monkeypatch.setenv("ANSIBLE_VAULT_PASSWORD_FILE", str(word))
    vault = os.path.join(os.path.dirname(sys.executable), "ansible-vault")
    subprocess.run([vault, "encrypt", str(file)], check=True, capture_output=True)
    file.chmod(0o644)  # what is encrypted may be read, and lie in a project
    (file.parent / ".git").mkdir()
    assert read_secrets({"MODAK_SECRETS": str(file)}) == KEPT
    # neither does a folder that is somebody else's project configure Ansible, nor does it matter for relative paths
    project = tmp_path / "cloned"
    project.mkdir()
    (project / "ansible.cfg").write_text("[defaults]\nvault_password_file = ./runs\n")
    (project / "runs").write_text(f"#!/bin/sh\ntouch {tmp_path}/canary\n")
    (project / "runs").chmod(0o755)
    monkeypatch.chdir(project)
    monkeypatch.setenv("ANSIBLE_VAULT_PASSWORD_FILE", "../word")
    assert read_secrets({"MODAK_SECRETS": os.path.relpath(file)}) == KEPT
    monkeypatch.delenv("ANSIBLE_VAULT_PASSWORD_FILE")
    with pytest.raises(ModakError, match="ansible-vault cannot decrypt"):
        read_secrets({"MODAK_SECRETS": str(file)})
    assert not (tmp_path / "canary").exists()
    monkeypatch.setenv("ANSIBLE_VAULT_PASSWORD_FILE", str(word))
    word.write_text("does not\n")
    with pytest.raises(ModakError, match="ansible-vault cannot decrypt") as caught:
        read_secrets({"MODAK_SECRETS": str(file)})
    assert "ANSIBLE_VAULT_PASSWORD_FILE" in caught.value.hint


@pytest.mark.component
def test_sops(file, tmp_path, monkeypatch):
    """The program is a stand-in that decrypts as sops is asked to; sops itself is on few machines."""
    plain = tmp_path / "plain"
    plain.write_text(FILE)
    file.write_text(
        "registries: ENC[AES256_GCM,data:abc]\nsops:\n    mac: ENC[AES256_GCM,data:x]\n    version: 3.9.0\n"
    )
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    with pytest.raises(ModakError, match="is encrypted, and sops is not on this machine"):
        read_secrets({"MODAK_SECRETS": str(file)})
    program = tmp_path / "bin" / "sops"
    program.write_text(f'#!/bin/sh\n[ "$1 $2" = "--decrypt {file}" ] && cat {plain}\n')
    program.chmod(0o755)
    assert read_secrets({"MODAK_SECRETS": str(file)}) == KEPT
    plain.write_bytes(FILE.replace("planted-word", "geh\xe4gt").encode("latin-1"))
    with pytest.raises(ModakError, match=r"what sops decrypts in .* is not text"):
        read_secrets({"MODAK_SECRETS": str(file)})


def test_only_what_is_needed_goes_to_the_target():
    hub = {"kind": "pull", "source": "docker://debian:trixie", "definition": ""}
    own = {"kind": "pull", "source": "docker://registry.example/a:1", "definition": ""}
    top = {"kind": "build", "source": "", "definition": "Bootstrap: localimage\nFrom: {{ base }}\n"}
    assert KEPT.for_target([hub]) == {}
    assert [login["username"] for login in KEPT.for_target([own])["logins"]] == ["alice"]
    assert KEPT.for_target([hub, top]) == {"pip": dict(KEPT.pip)}


@pytest.mark.component
def test_a_process_is_handed_a_file_that_is_on_no_disk(file):
    environment = {**LOGIN, "MODAK_SECRETS": str(file)}
    with handed_on(environment) as handed:
        assert "from-environment" not in str(handed)
        assert read_secrets({**environment, **handed}) == read_secrets(environment)
        code = "from modak_ansible.transport.secrets import read_secrets; print(len(read_secrets().logins))"
        child = {**os.environ, **environment, **handed, "PYTHONPATH": os.pathsep.join(sys.path)}
        done = subprocess.run([sys.executable, "-c", code], env=child, capture_output=True, text=True, check=False)
        assert done.stdout == "2\n"
    with handed_on(environment, needed=False) as handed:
        assert read_secrets({**environment, **handed}) == Secrets()


@pytest.mark.component
def test_logins_of_data_are_handed_on_in_the_same_way():
    environment = {"HF_TOKEN": "hf_sesame", "AWS_SECRET_ACCESS_KEY": "", "HOME": "/"}
    code = "import os; from modak_ansible.store.logins import take_logins; take_logins(); print(os.environ['HF_TOKEN'])"
    with handed_on(environment) as handed:
        assert "sesame" not in str(handed)
        child = {**os.environ, **environment, **handed, "PYTHONPATH": os.pathsep.join(sys.path)}
        done = subprocess.run([sys.executable, "-c", code], env=child, capture_output=True, text=True, check=True)
        assert done.stdout == "hf_sesame\n"
    with handed_on(environment, needed=False) as handed:
        take_logins(known := {**environment, **handed})
        assert known["HF_TOKEN"] == ""
    with handed_on(environment, needed=False, asks=True) as handed:  # such as modak undeploy, of a cloud
        take_logins(known := {**environment, **handed})
        assert known["HF_TOKEN"] == "hf_sesame"
