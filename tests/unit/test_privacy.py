"""What is made here and on targets is private to the user, whatever the umask; and nothing follows a hostile path."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys

import pytest

from modak_ansible.deployment.playbook import run_playbook
from modak_ansible.errors import ModakError
from modak_ansible.planning.service import plan_blueprint
from modak_ansible.reading.blueprint.files import code_files
from modak_ansible.reading.blueprint.reader import Inputs
from modak_ansible.target.core.files import make_private, write_whole
from modak_ansible.target.core.workspace import Workspace


@pytest.fixture
def open_umask():
    before = os.umask(0)
    yield
    os.umask(before)


def open_to_others(folder):
    """Every path below a folder that others can reach: all above it may be entered, and it gives them a right."""
    found = []
    for path, folders, files in os.walk(folder):
        if stat.S_IMODE(os.stat(path).st_mode) & 0o077:
            found += [path, *(os.path.join(path, file) for file in files)]
        else:
            folders.clear()  # nobody else comes through
    return found


def test_files_and_folders(tmp_path, open_umask):
    make_private(tmp_path / "a" / "b")
    write_whole(tmp_path / "a" / "b" / "file", "text")
    modes = [stat.S_IMODE(path.stat().st_mode) for path in sorted((tmp_path / "a").rglob("*"))]
    assert (stat.S_IMODE((tmp_path / "a").stat().st_mode), modes) == (0o700, [0o700, 0o600])


def test_a_workspace(tmp_path, open_umask):
    workspace = Workspace(str(tmp_path / "far" / "below"))
    workspace.create()
    assert open_to_others(tmp_path / "far") == []


def test_a_workspace_that_was_open_before(tmp_path, open_umask):
    (tmp_path / "shared" / "images").mkdir(parents=True)
    workspace = Workspace(str(tmp_path / "shared"))
    workspace.create()
    assert stat.S_IMODE(workspace.path.stat().st_mode) == 0o777, "a folder of the user's own, which stays as it is"
    assert stat.S_IMODE(workspace.images.stat().st_mode) == 0o700


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a folder away")
def test_a_workspace_in_which_another_user_has_begun(tmp_path):
    (tmp_path / "images").mkdir()
    os.chown(tmp_path / "images", 12345, -1)
    with pytest.raises(ModakError, match="images belongs to another user"):
        Workspace(str(tmp_path)).create()


def test_a_deployment_on_this_machine(tmp_path, blueprint, open_umask):
    (blueprint.path / ".git").mkdir()
    folder = plan_blueprint(blueprint.service, Inputs()).save()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert open_to_others(blueprint.path / ".modak") == []


# --- paths that lead elsewhere


def test_a_link_out_of_the_project_does_not_travel(tmp_path):
    secret = tmp_path / "elsewhere" / "key"
    secret.parent.mkdir()
    secret.write_text("private")
    code = tmp_path / "project" / "train"
    code.mkdir(parents=True)
    (tmp_path / "project" / ".git").mkdir()
    (tmp_path / "project" / "shared.py").write_text("shared")
    (code / "shared.py").symlink_to(tmp_path / "project" / "shared.py")
    assert [each.path for each in travelling(code)] == ["shared.py"]
    (code / "data").symlink_to(secret)
    with pytest.raises(ValueError, match="data is a link to .*elsewhere/key, outside of the project"):
        travelling(code)


def test_a_link_to_what_is_hidden_does_not_travel(tmp_path):
    hidden = tmp_path / ".ssh"
    hidden.mkdir()
    (hidden / "id").write_text("private")
    (tmp_path / "code").mkdir()
    (tmp_path / ".git").mkdir()
    (tmp_path / "code" / "data").symlink_to(hidden / "id")
    with pytest.raises(ValueError, match=r"data is a link to .*, in the hidden \.ssh"):
        travelling(tmp_path / "code")
    (tmp_path / "linked").symlink_to(hidden)
    with pytest.raises(ValueError, match=r"linked is a link to .*, in the hidden \.ssh"):
        travelling(tmp_path / "linked")


def test_no_link_takes_a_folder_of_the_users_to_a_target(tmp_path):
    """Nor does one whose own name is that of what it leads to."""
    project = tmp_path / "home" / "work" / "cloned"
    for each in (project, project.parents[1] / ".ssh", project.parents[1] / "Documents"):
        each.mkdir(parents=True)
        (each / "file").write_text("private")
    (project / ".git").mkdir()
    (project / ".ssh").symlink_to("../../.ssh")
    (project / "src").symlink_to("../../Documents")
    for name, words in ((".ssh", "outside of the project"), ("src", "outside of the project")):
        with pytest.raises(ValueError, match=words):
            travelling(project / name, project)
    (project.parents[1] / ".git").mkdir()
    (project / ".git").rmdir()
    with pytest.raises(ValueError, match=r"\.ssh is a link to .*, in the hidden \.ssh"):
        travelling(project / ".ssh", project)
    assert travelling(project / "src", project)  # it belongs to the project now


def travelling(folder, top=None):
    return code_files(folder, None, top=top or folder.parent, is_blueprint=False)


# --- what Ansible is given


@pytest.mark.component
def test_ansible_replaces_nothing_in_what_it_is_given(tmp_path, monkeypatch):
    """A plan in a folder whose name is a template that would run a program."""
    monkeypatch.setenv("CANARY", str(tmp_path / "canary"))
    folder = tmp_path / "{{ lookup('pipe', 'touch $CANARY') }}"
    folder.mkdir()
    (folder / "plan.json").write_text(json.dumps({"not": "a plan"}))
    with pytest.raises(ModakError, match=r"\{\{ lookup.*\}\}/plan.json is not a plan"):
        run_playbook("probe", {"modak_plan": str(folder / "plan.json")})
    assert not (tmp_path / "canary").exists()


@pytest.mark.component
def test_ansible_checks_host_keys_and_is_given_no_secret(tmp_path, monkeypatch):
    """Its own environment, as a program in place of ansible-playbook finds it."""
    seen = tmp_path / "seen"
    (tmp_path / "ansible-playbook").write_text(
        f"#!/bin/bash\nenv > {seen}\ncat artifacts/*/command >> {seen}\nexit 1\n"
    )
    (tmp_path / "ansible-playbook").chmod(0o755)
    for name in ("MODAK_REGISTRY", "MODAK_REGISTRY_USERNAME", "MODAK_REGISTRY_PASSWORD"):
        monkeypatch.setenv(name, "planted-word")
    monkeypatch.setattr("modak_ansible.deployment.playbook.sys.executable", str(tmp_path / "python"))
    with pytest.raises(ModakError):
        run_playbook("deploy", {})
    text = seen.read_text()
    assert "ANSIBLE_HOST_KEY_CHECKING=True" in text
    assert "planted-word" not in text
    assert f"MODAK_SECRETS=/proc/{os.getpid()}/fd/" in text


# --- nothing is read as code


@pytest.mark.component
def test_no_code_comes_out_of_a_data_file(root):
    """Safe loaders alone, weights alone, and no pickles, in all that this project ships and runs."""
    forbidden = (
        "yaml.load(", "yaml.unsafe_load", "yaml.full_load", "UnsafeLoader", "FullLoader", "import pickle", "pickle.load",
        "joblib.load", "allow_pickle=True", "shelve.open", "marshal.load", "import dill", "shell=True", "os.system(",
        "os.popen(", "torch.load(",
    )  # fmt: skip
    allowed = {
        ("modak_ansible/catalogue/reader.py", "yaml.load("): "Loader=safe_loader",
    }
    tracked = subprocess.run(["git", "ls-files", "*.py"], cwd=root, capture_output=True, text=True, check=True)
    for name in tracked.stdout.split():
        if name.startswith("tests/"):
            continue
        for line in (root / name).read_text().splitlines():
            for word in forbidden:
                if word in line:
                    safe = allowed.get((name, word)) or ("weights_only=True" if word == "torch.load(" else None)
                    assert safe and safe in line, f"{name}: {line.strip()}"


@pytest.mark.component
def test_eval_and_exec_are_ruffs_to_find(root):
    config = (root / "pyproject.toml").read_text()
    assert '"S"' in config.split("select = ")[1].split("]")[0]
    ruff = os.path.join(os.path.dirname(sys.executable), "ruff")
    found = subprocess.run(
        [ruff, "check", "--select", "S102,S301,S302,S307,S506,S602,S604,S605", "--quiet", "modak_ansible", "roles",
         "playbooks", "benchmarks"], cwd=root, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert found.returncode == 0, found.stdout


# --- what reaches a terminal


@pytest.mark.parametrize("text", ["\x1b]52;c;cm0gLXJm\x07", "\x1b[2J", "\x9b31m", "\u202egnp.exe", "a\rb", "\0"])
def test_a_message_gives_a_terminal_no_orders(text, capsys):
    from modak_ansible.commands.main import _failed

    _failed(f"about {text}\nand more", 1)
    said = capsys.readouterr().err
    assert said.endswith("\nand more\n")
    assert said.replace("\n", "").isprintable()


def test_what_a_job_writes_gives_a_terminal_no_orders():
    from modak_ansible.deployment.playbook import _Watcher

    class Listener:
        said = []

        def progress(self, stage, text):
            self.said.append((stage, text))

    _Watcher(Listener())._line("modak job | \x1b[31mred\x1b[0m \x1b]0;title\x07 epoch 1")
    assert Listener.said == [("job", "red \\x1b]0;title\\x07 epoch 1")]


@pytest.mark.component
def test_a_name_is_no_markup(blueprint):
    blueprint.replace("    cluster:\n", '    "[red]":\n')
    blueprint.service.write_text(blueprint.service.read_text().replace("host: cluster", 'host: "[red]"'))
    modak = os.path.join(os.path.dirname(sys.executable), "modak")
    done = subprocess.run(
        [modak, "plan", str(blueprint.path)], capture_output=True, text=True, check=False, cwd=blueprint.path
    )
    assert done.returncode == 0, done.stderr
    assert "[red]" in done.stdout
