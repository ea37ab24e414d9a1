"""The steps of a build that download, run by bash and by pip itself: from a folder, without a network."""

from __future__ import annotations

import hashlib
import os
import shlex
import subprocess
import sys
import zipfile

import pytest

from modak_ansible.catalogue import load_catalogue, locks
from modak_ansible.catalogue.locks import PackageLock
from modak_ansible.recipes import steps
from modak_ansible.recipes.environment import environment_script

ENTRY = next(entry for entry in load_catalogue().entries if entry.name == "measuring-tools")
HERE = "{}.{}".format(*sys.version_info)


@pytest.fixture
def wheel(tmp_path):
    """A wheel in a folder of its own, which pip looks at; a function that writes it."""

    def write(text="x = 1\n"):
        path = tmp_path / "wheels" / "tiny-1.0-py3-none-any.whl"
        path.parent.mkdir(exist_ok=True)
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("tiny.py", text)
            archive.writestr("tiny-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n")
            archive.writestr(
                "tiny-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
            )
            archive.writestr("tiny-1.0.dist-info/RECORD", "tiny.py,,\n")
        return path

    return write


@pytest.fixture
def lock(monkeypatch, wheel):
    """Locks the wheel as it is now, for some versions of Python."""

    def write(*pythons):
        digest = hashlib.sha256(wheel().read_bytes()).hexdigest()
        made = PackageLock(pythons or (HERE,), (f'tiny==1.0 ; python_version == "{HERE}" --hash=sha256:{digest}',))
        for module in (steps, locks):
            monkeypatch.setattr(module, "lock_of", {ENTRY.name: made}.__getitem__)

    return write


def run(script, tmp_path, *arguments):
    site = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path / "wheels"), "PIP_CONFIG_FILE": os.devnull}
    own = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
    command = ["bash", "-euc", script, "bash", *map(str, arguments)]
    return subprocess.run(command, env=own | site, capture_output=True, text=True, check=False, timeout=120)


def install(entry, tmp_path):
    """Runs the commands of an image's build, for a folder in place of its environment."""
    commands = steps.pip_install(entry, sys.executable, str(tmp_path / "lock"), f"--target {tmp_path / 'there'}")
    return run("\n".join(commands), tmp_path)


@pytest.mark.component
def test_what_the_lock_knows_is_installed(lock, tmp_path):
    lock()
    done = install(ENTRY, tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "there" / "tiny.py").read_text() == "x = 1\n"


@pytest.mark.component
@pytest.mark.parametrize("index", ["", "http://localhost:9"])
def test_what_differs_from_the_lock_is_not_installed(lock, wheel, tmp_path, index):
    lock()
    wheel("x = 2\n")
    done = install(ENTRY.model_copy(update={"index": index}), tmp_path)
    assert done.returncode != 0
    assert "DO NOT MATCH THE HASHES" in done.stderr
    assert not (tmp_path / "there").exists()


def make_environment(tmp_path, folder="made", first=HERE):
    entry = ENTRY.model_copy(update={"requirements": ("tiny==1.0",), "probe": "import tiny"})
    return run(environment_script(entry, [], first), tmp_path, tmp_path / folder)


@pytest.mark.component
def test_an_environment_has_what_the_lock_has(lock, wheel, tmp_path):
    lock()
    done = make_environment(tmp_path, first="2.6")
    assert done.returncode == 0, done.stdout + done.stderr
    wheel("x = 2\n")
    done = make_environment(tmp_path, "other")
    assert done.returncode != 0
    assert "DO NOT MATCH THE HASHES" in done.stderr


@pytest.mark.component
def test_no_environment_is_made_with_a_python_that_the_lock_does_not_know(lock, tmp_path):
    lock("2.5", "2.6")
    done = make_environment(tmp_path)
    assert done.returncode == 1
    assert done.stderr == "error: measuring-tools needs Python 2.5 or 2.6 in PATH, and there is none that starts\n"
    assert not (tmp_path / "made").exists()


@pytest.mark.component
def test_what_a_plan_needs_comes_first_and_by_itself(lock, wheel, tmp_path):
    digest = hashlib.sha256(wheel().read_bytes()).hexdigest()
    line, options = f"tiny==1.0 --hash=sha256:{digest}", f"--target {tmp_path / 'there'}"
    commands = steps.own_pip_install(["tiny>=1"], sys.executable, str(tmp_path / "own"), options, [line])
    assert ["--no-deps" in command for command in commands] == [False, True, False]
    assert run("\n".join(commands[:2]), tmp_path).returncode == 0
    wheel("x = 2\n")
    assert "DO NOT MATCH THE HASHES" in run("\n".join(commands), tmp_path).stderr


@pytest.mark.component
def test_a_users_own_hashes_are_kept(lock, wheel, tmp_path):
    """Those with hashes first and by themselves, the others as ever."""
    digest = hashlib.sha256(wheel().read_bytes()).hexdigest()
    own = [f"tiny==1.0 --hash=sha256:{digest}", "tiny>=1"]
    commands = steps.own_pip_install(own, sys.executable, str(tmp_path / "own"), f"--target {tmp_path / 'there'}")
    assert [command.count("--require-hashes") for command in commands] == [0, 1, 0, 0]
    assert run("\n".join(commands[:2]), tmp_path).returncode == 0
    assert (tmp_path / "there" / "tiny.py").exists()
    wheel("x = 2\n")
    assert "DO NOT MATCH THE HASHES" in run("\n".join(commands), tmp_path).stderr


@pytest.mark.component
def test_nothing_takes_the_place_of_what_has_a_hash(wheel, tmp_path):
    """Not even what another package of the user's asks for; of a plan's own packages the user's word counts."""
    digest = hashlib.sha256(wheel().read_bytes()).hexdigest()
    own = [f"tiny==1.0 --hash=sha256:{digest}", "tiny<1"]
    done = run("\n".join(steps.own_pip_install(own, sys.executable, str(tmp_path / "own"), "")[2:]), tmp_path)
    assert done.returncode != 0
    assert "conflicting" in done.stderr or "Could not find a version" in done.stderr
    *_, pins, asked = steps.own_pip_install(
        ["Tiny<1", "b"], "python", "own", "", ["tiny==1.0", "kept==2 --hash=sha256:1"]
    )
    assert pins == "printf '%s\\n' kept==2 > own"
    assert asked == "python -m pip install  -c own 'Tiny<1' b"
    *_, pins, _ = steps.own_pip_install(['a[x]===1.0 ; python_version > "3" --hash=sha256:1', "b"], "python", "own", "")
    assert shlex.split(pins)[2] == 'a===1.0 ; python_version > "3"', "pip takes no extras in a constraint"


def test_packages_without_hashes_are_asked_for_at_once():
    assert steps.own_pip_install(["a>=1,<2", "b"], "python", "own", "-q") == ["python -m pip install -q 'a>=1,<2' b"]
    assert steps.own_pip_install([], "python", "own", "-q") == []
