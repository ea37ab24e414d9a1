"""The modak command, as a user types it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.component

MODAK = Path(sys.executable).parent / "modak"


def modak(*arguments, cwd=None, **environment):
    return subprocess.run(
        [MODAK, *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=cwd,
        check=False,
        env={**os.environ, **environment},
    )


def test_help_lists_the_commands():
    shown = modak("--help")
    assert shown.returncode == 0
    for name in (
        "discover",
        "check",
        "validate",
        "plan",
        "deploy",
        "status",
        "logs",
        "undeploy",
        "image",
        "catalogue",
        "testbed",
    ):
        assert name in shown.stdout


def test_what_a_command_does_fits_on_a_terminal_of_80_columns():
    assert "..." not in modak("--help", COLUMNS="80").stdout.partition("Commands:")[2]


@pytest.mark.parametrize(
    "name",
    [
        "discover",
        "check",
        "validate",
        "plan",
        "deploy",
        "status",
        "logs",
        "results",
        "resume",
        "cancel",
        "hold",
        "release",
        "requeue",
        "undeploy",
        "image",
        "catalogue show",
        "catalogue build",
        "testbed up",
        "testbed ssh",
    ],
)
def test_every_command_has_help_with_an_example(name):
    shown = modak(*name.split(), "--help")
    assert shown.returncode == 0
    assert "Example: modak" in shown.stdout


@pytest.mark.parametrize("words", [[], ["deploy"], ["catalogue", "show"]], ids=" ".join)
def test_help_is_a_command_too(words):
    shown = modak("help", *words)
    assert (shown.stdout, shown.returncode) == (modak(*words, "--help").stdout, 0)


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["plann"], 2, "Did you mean 'plan'?"),
        (["plan"], 2, "Missing argument"),
        (["plan", "--jsn", "x"], 2, "No such option"),
        (["plan", "mnist-pytorch-local", "--on", ""], 2, "the name is empty"),
        (["init", __file__, "--on", "", "--yes"], 2, "the name is empty"),
        (["check", ""], 2, "the name is empty"),
        (["schema", "reqest"], 2, "'document': 'reqest' is not one of 'request', "),
        (["plan", "mnist-pytorch-slrum"], 2, "did you mean mnist-pytorch-slurm?"),
        (["plan", "mnist-pytorch-slurm", "--input", "epochs"], 2, "is not NAME=VALUE"),
        (
            ["plan", "mnist-pytorch-slurm", "--input", "epoch=2"],
            3,
            "--input epoch: unknown-input: the blueprint has no input epoch",
        ),
        (["plan", "mnist-pytorch-slurm", "--training", "trainig"], 2, "did you mean training?"),
        (["plan", "mnist-pytorch-slurm", "-i", "/no/such/file"], 3, "file-unreadable"),
        (["undeploy", "nothing"], 2, "there is no deployment nothing"),
        (["logs", "nothing"], 2, "there is no deployment nothing"),
        (["logs", "nothing", "--log", "err"], 2, "did you mean error?"),
        (["logs", "nothing", "jobs"], 2, "did you mean job?"),
        (["logs", "nothing", "--since", "soon"], 2, "neither a time nor a number of lines"),
        (["logs", "nothing", "-f", "--json"], 2, "--json cannot be combined with --follow"),
        (["cancel", "nothing"], 2, "there is no deployment nothing"),
        (["resume", "nothing"], 2, "there is no deployment nothing"),
        (["results", "nothing"], 2, "there is no deployment nothing"),
        (["status", "nothing"], 2, "there is no deployment nothing"),
    ],
)
def test_mistakes_end_in_one_message(tmp_path, arguments, code, words):
    shown = modak(*arguments, cwd=tmp_path)
    assert words in shown.stderr
    assert shown.stderr.startswith("error: ")
    assert "Traceback" not in shown.stderr + shown.stdout
    assert shown.returncode == code


def test_a_plan_in_json(blueprint):
    shown = modak("plan", blueprint.path, "--json")
    plan = json.loads(shown.stdout)
    assert {"digest", "application", "target", "image", "dataset", "job", "choices"} <= set(plan)
    assert plan["image"]["definition"].startswith("BootStrap: localimage")
    assert plan["job"]["script"].startswith("#!/bin/bash\n#SBATCH")
    assert modak("plan", blueprint.service, "--json").stdout == shown.stdout


def test_a_plan_for_people(blueprint):
    shown = modak("plan", blueprint.path, "--explain", "--texts").stdout
    for words in (
        "pytorch-2.13-cpu",
        "one for each core that the process is given",
        "Definition of debian-bookworm",
        "#SBATCH --time",
        "train, 1 file ->",
    ):
        assert words in shown
    assert len(modak("plan", blueprint.path).stdout) < len(shown) / 2


def test_planning_changes_nothing(blueprint):
    before = sorted(blueprint.path.rglob("*"))
    modak("plan", blueprint.path)
    modak("validate", blueprint.path)
    assert sorted(blueprint.path.rglob("*")) == before


def test_validation_in_json(blueprint):
    found = {"valid": True, "mistakes": [], "warnings": []}
    assert json.loads(modak("validate", blueprint.path, "--json").stdout) == found
    shown = modak("validate", blueprint.replace("numerics: same", "numerics: exact").path, "--json")
    assert shown.returncode == 3
    (mistake,) = json.loads(shown.stdout)["mistakes"]
    assert (mistake["line"], mistake["column"], mistake["rule"]) == (44, 35, "not-allowed-value")


def test_nothing_was_deployed(tmp_path):
    assert "nothing was deployed from this project" in modak("status", cwd=tmp_path).stdout
    assert json.loads(modak("status", "--json", cwd=tmp_path).stdout) == []


def test_the_testbed_is_down(tmp_path):
    """And none runs elsewhere: unit tests have a state of their own."""
    assert "the testbed is down" in modak("testbed", "status", cwd=tmp_path).stdout
    assert json.loads(modak("testbed", "status", "--json", cwd=tmp_path).stdout) == {"up": False}
    assert "modak testbed up" in modak("testbed", "ssh", cwd=tmp_path).stderr
    assert modak("testbed", "down", cwd=tmp_path).returncode == 0


def test_a_target_that_is_not_up(blueprint, tmp_path):
    blueprint.replace("frontend.example", "testbed").replace("        username: alice\n", "")
    shown = modak("deploy", blueprint.path, cwd=tmp_path, HOME=str(tmp_path))
    assert shown.returncode == 4
    assert "testbed is not up" in shown.stderr
    assert "modak testbed up" in shown.stderr


def test_an_error_of_our_own_is_kept_and_named(tmp_path):
    (tmp_path / "sitecustomize.py").write_text(
        "import modak_ansible.store.project as p\np.find_blueprint = lambda text: 1 / 0\n"
    )
    shown = modak("plan", "x", PYTHONPATH=str(tmp_path))
    assert "modak itself failed: ZeroDivisionError" in shown.stderr
    assert "Traceback" not in shown.stderr
    Path(shown.stderr.split()[-1]).unlink()


_INTERRUPTS = """\
import importlib.abc, signal, os, sys
class Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == {name!r}:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Finder())
"""


@pytest.mark.parametrize("name", ["typer", "modak_ansible.planning.service", "modak_ansible.planning.plan"])
def test_ctrl_c_while_the_command_is_still_being_read(tmp_path, name):
    """Whatever it is about to import: one word, and the code of an interruption."""
    (tmp_path / "sitecustomize.py").write_text(_INTERRUPTS.format(name=name))
    shown = modak("plan", "mnist-pytorch-slurm", cwd=tmp_path, PYTHONPATH=str(tmp_path))
    assert (shown.returncode, shown.stdout, shown.stderr) == (130, "", "interrupted\n")


def test_a_plan_imports_only_what_it_needs(tmp_path):
    """Each of these takes longer to import than most of what a plan does; the first plan checks its blueprint, too."""
    code = (
        "import atexit, sys; from modak_ansible.__main__ import run\n"
        "sys.argv = ['modak', 'plan', 'mnist-pytorch-slurm']\n"
        "frozen = lambda: {f'{kind.__module__}.{name}' for module in list(sys.modules.values()) for name, kind in vars(module).items()"
        " if isinstance(kind, type) and getattr(getattr(kind, '__dataclass_params__', 0), 'frozen', 0)}\n"
        "atexit.register(lambda: print(*sys.modules, '-', *frozen(), file=sys.stderr)); run()"
    )
    first, second = (
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "XDG_CACHE_HOME": str(tmp_path)},
            capture_output=True,
            text=True,
            check=True,
        )
        for _ in range(2)
    )
    assert first.stdout == second.stdout != ""
    checked = set(first.stderr.partition(" - ")[0].split())
    assert "toscaparser.tosca_template" in checked
    assert not checked & {"dateutil", "http.client", "pbr", "requests", "socket", "ssl", "stevedore"}
    imported, _, frozen = second.stderr.partition(" - ")
    loaded = set(imported.split())
    assert "modak_ansible.planning.plan" in loaded
    packages = {
        "ansible", "ansible_runner", "asyncio", "hpccm", "jinja2", "joblib", "matplotlib", "numpy", "optuna", "requests",
        "rich", "scipy", "sklearn", "spython", "sqlalchemy", "toscaparser",
    }  # fmt: skip
    modules = {
        "modak_ansible.catalogue.companions",
        "concurrent.futures",
        "http.client",
        "importlib.metadata",
        "logging",
        "modak_ansible.deployment",
        "modak_ansible.model.measured.tuning_report",
        "modak_ansible.schedulers.base",  # what plans need of schedulers are directives, and those of one
        "modak_ansible.schedulers.kubernetes",
        "modak_ansible.schedulers.registry",
        "modak_ansible.schedulers.lsf",
        "modak_ansible.schedulers.pbs",
        "modak_ansible.store.deployment",
        "modak_ansible.target.core.probe",
        "modak_ansible.target.jobs",
        "modak_ansible.target.metrics",
        "modak_ansible.reading.requests.reader",
        "packaging.requirements",
        "packaging.specifiers",
        "socket",
        "statistics",
        "xml.etree.ElementTree",
    }
    assert not loaded & (packages | modules)
    # a named tuple is made in a seventh of the time that a frozen dataclass takes
    assert sum(each.startswith("modak_ansible.") for each in frozen.split()) <= 3


def test_a_command_ends_without_taking_apart_what_it_has_imported():
    code = (
        "import atexit, sys; from modak_ansible.__main__ import run\n"
        "class Held:\n    def __del__(self): print('taken apart')\n"
        "held = Held(); sys.argv = ['modak', 'plan', 'nosuch']\n"
        "atexit.register(lambda: print('at exit')); run()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "at exit\n")
    assert "nosuch" in done.stderr


@pytest.mark.parametrize("closed", [1, 2])
@pytest.mark.parametrize(("word", "code"), [("--version", 0), ("nosuch", 2), ("plan mnist-pytorch-local", 0)])
def test_where_nobody_listens_the_code_is_the_same(closed, word, code):
    done = subprocess.run(["sh", "-c", f'exec "$0" {word} {closed}>&-', MODAK], capture_output=True, check=False)
    assert done.returncode == code
    assert b"Traceback" not in done.stdout + done.stderr
    assert b"error" not in done.stdout


def test_a_disk_that_is_full_is_told_where_json_is_asked_for_too():
    done = subprocess.run(["sh", "-c", 'exec "$0" schema plan >/dev/full', MODAK], capture_output=True, check=False)
    asked = subprocess.run(
        ["sh", "-c", 'exec "$0" plan nosuch --json >/dev/full', MODAK], capture_output=True, check=False
    )
    assert (done.returncode, asked.returncode) == (1, 2)
    assert b"No space left" in done.stderr
    assert b"Traceback" not in done.stderr + asked.stderr


@pytest.mark.parametrize("thread", ["import time; time.sleep(0.5); print('done')", ""])
def test_a_thread_that_still_runs_is_waited_for(thread):
    code = (
        f"import sys, threading; from modak_ansible.__main__ import run\n"
        f"threading.Thread(target=exec, args=({thread!r},)).start(); sys.argv = ['modak', '--version']; run()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert ("done" in done.stdout.splitlines()) == bool(thread)


def test_a_command_frees_memory_again_once_it_is_imported():
    code = (
        "import gc, sys; from modak_ansible.__main__ import run; from modak_ansible.commands import main\n"
        "main.run = lambda: print(gc.isenabled()); run()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "True\n"
