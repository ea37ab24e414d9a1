"""A script that would end at once is told before it is deployed, and only where its source leaves no doubt."""

from __future__ import annotations

import subprocess
import sys

import pytest

from modak_ansible.errors import UsageError
from modak_ansible.planning.service import check_blueprint, read
from modak_ansible.reading.blueprint.forms.mistakes import Mistakes
from modak_ansible.reading.blueprint.reader import Inputs
from modak_ansible.reading.blueprint.script.starting import start_problem

COMMANDS = """\
import argparse
parser = argparse.ArgumentParser()
{before}
commands = parser.add_subparsers(dest="command"{required})
fit = commands.add_parser("fit")
fit.add_argument("--epochs", type=int, default=1)
commands.add_parser("evaluate"{more})
parser.parse_args()
"""

GROUP = """\
import typer
app = typer.Typer()
@app.command()
def fit(epochs: int = 1): pass
@app.command()
def look_at(): pass
if __name__ == "__main__":
    app()
"""
CLICKS = """\
import click
@click.group()
def cli(): pass
@cli.command()
def fit(): pass
@cli.command("other")
def look_at(): pass
cli()
"""


def commands(required=", required=True", before="", more=""):
    return COMMANDS.format(required=required, before=before, more=more)


CASES = {
    "relative": ("from .conf import X\n", "", "is a part of the package mine"),
    "relative, of the package": ("import sys\nfrom . import conf\n", "", "is a part of the package mine"),
    "no command": (commands(), "", "one of its commands: fit, evaluate"),
    "another command": (commands(), "fti --epochs 3", "has no command fti"),
    "another command beside an alias": (commands(more=', aliases=["eval"]'), "evl", "has no command evl"),
    "no word": ("import sys\nname = sys.argv[1]\n", "", "takes sys.argv[1] (line 2), and none of its words is given"),
    "no word for main": (
        "import sys\ndef main():\n    print(open(sys.argv[1]))\n\nif __name__ == '__main__':\n    main()\n",
        "",
        "takes sys.argv[1] (line 3), and none of its words is given",
    ),
    "a word too few": (
        "import sys\nprint(sys.argv[0])\nif __name__ == '__main__':\n    print(open(sys.argv[1]).read(0), int(sys.argv[2]))\n",
        "train.py",
        "takes sys.argv[2] (line 4), and only 1 of its words is given",
    ),
    "no command of typer's": (GROUP, "", "one of its commands: fit, look-at"),
    "no command of click's": (CLICKS, "", "one of its commands: fit, other"),
    "no command of Lightning's": (
        "from lightning.pytorch.cli import LightningCLI\nLightningCLI(Net)\n",
        "",
        "one of its commands: fit, validate, test, predict",
    ),
    "lines of a notebook": (
        "import json\nget_ipython().run_line_magic('matplotlib', 'inline')\n",
        "",
        "calls get_ipython (line 2), which notebooks have alone",
    ),
    "another of a parser that starts without": (commands(required=""), "evalaute", "has no command evalaute"),
}
FINE = {
    "relative, caught": ("try:\n    from .conf import X\nexcept ImportError:\n    from conf import X\n", ""),
    "relative, not reached": ("def f():\n    from .conf import X\n", ""),
    "PEP 366": (
        "import os, sys\nsys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))\n"
        "import mine\n__package__ = 'mine'\nfrom .conf import X\n",
        "",
    ),
    "a command": (commands(), "fit --epochs 3"),
    "a command of typer's": (GROUP, "fit"),
    "typer's that does without": (GROUP.replace("Typer()", "Typer(invoke_without_command=True)"), ""),
    "one command of typer's": (GROUP.replace("@app.command()\ndef look", "def look"), ""),
    "an option first": (commands(before="parser.add_argument('--size')"), "--size 3 fit"),
    "a place first": (commands(before="parser.add_argument('folder')"), "here fit"),
    "an alias": (commands(more=", aliases=['eval']"), "eval"),
    "no command needed": (commands(required=""), ""),
    "its words": ("import sys\nprint(sys.argv[1], sys.argv[2])\n", "one two three"),
    "words that are counted": ("import sys\nif len(sys.argv) > 1:\n    print(sys.argv[1])\n", ""),
    "words that may be missed": ("import sys\ntry:\n    print(sys.argv[1])\nexcept IndexError:\n    pass\n", ""),
    "words of a function": ("import sys\ndef f():\n    print(sys.argv[1])\n", ""),
    "words behind an end": ("import sys\nif True:\n    sys.exit()\nprint(sys.argv[1])\n", ""),
    "words behind an end of main": (
        "import sys\ndef main():\n    if True:\n        sys.exit()\n\nmain()\nprint(sys.argv[1])\n",
        "",
    ),
    "words of a call in a call": ("import sys\ndef main():\n    return\n    print(sys.argv[1])\n\nmain()\n", ""),
    "words that are cut": ("import sys\nprint(sys.argv[1:], sys.argv[-1])\n", ""),
    "a word that may be": ("import sys\nfull = False\nprint(full and sys.argv[1])\n", ""),
    "lines of a notebook, asked for": ("if 'get_ipython' in globals():\n    get_ipython().system('pip')\n", ""),
    "Lightning's that does without": ("LightningCLI = dict\nLightningCLI(run=False)\n", ""),
    "a command of Lightning's": ("LightningCLI = print\nLightningCLI()\n", "fit"),
    "a name of its own": ("def get_ipython():\n    pass\n\nget_ipython()\n", ""),
    "no script": ("def f(:", ""),
}


@pytest.fixture
def script(tmp_path):
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "conf.py").write_text("X = 1\n")

    def write(text):
        (folder / "train.py").write_text(text)
        return folder / "train.py"

    return write


@pytest.mark.parametrize(("text", "words", "problem"), CASES.values(), ids=CASES)
def test_what_would_end_at_once(script, text, words, problem):
    assert problem in start_problem(script(text), words.split()).problem


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("from .conf import X\nprint(X)\n", "import top.mine.train"),
        ("from .conf import X\ndef main(): pass\n", "from top.mine.train import main; main()"),
        (
            'from ..other import X\nif __name__ == "__main__":\n    print(X)\n',
            'import runpy, top.mine.train; runpy.run_module("top.mine.train", run_name="__main__")',
        ),
    ],
)
def test_a_part_of_a_package_is_started_as_a_whole(tmp_path, text, start):
    folder = tmp_path / "top" / "mine"
    folder.mkdir(parents=True)
    for each in (folder, folder.parent):
        (each / "__init__.py").touch()
    (folder / "train.py").write_text(text)
    assert start_problem(folder / "train.py", []).hint == f"give a script that lies beside top/ and starts it: {start}"


@pytest.mark.parametrize(("text", "words"), FINE.values(), ids=FINE)
def test_what_may_start_is_let_go(script, text, words):
    assert start_problem(script(text), words.split()) is None


@pytest.mark.component
@pytest.mark.parametrize(
    ("text", "words", "ends"),
    [
        *((text, words, True) for text, words, _ in CASES.values()),
        *((*case, False) for case in list(FINE.values())[:-1]),
    ],
)
def test_python_agrees(script, text, words, ends):
    ended = subprocess.run([sys.executable, script(text), *words.split()], capture_output=True, check=False)
    assert bool(ended.returncode) == ends, ended.stderr


def test_a_blueprint_says_it_at_the_words(script, tmp_path):
    script(commands())
    (tmp_path / "mine" / "service.yaml").write_text(
        "tosca_definitions_version: tosca_simple_yaml_1_3\n"
        "imports: [ types/modak.yaml ]\n"
        "topology_template:\n"
        "  node_templates:\n"
        "    here: { type: modak.nodes.Local }\n"
        "    training:\n"
        "      type: modak.nodes.Training\n"
        "      properties:\n"
        "        framework: python\n"
        "        script: train.py\n"
        "        words: [ fti ]\n"
        '        walltime: "00:10:00"\n'
        "      requirements: [ { host: here } ]\n"
    )
    mistakes = Mistakes()
    check_blueprint(tmp_path / "mine" / "service.yaml", Inputs(), mistakes)
    [found] = [str(mistake) for mistake in mistakes]
    assert "service.yaml:11:16: script: train.py has no command fti (did you mean fit?)" in found


@pytest.mark.parametrize("first", ["#!/bin/bash -l", "#! /usr/bin/env -S bash -e", "#!/bin/csh"])
@pytest.mark.parametrize("name", ["job.batch", "job"])
def test_a_batch_script_is_told_by_its_first_line(tmp_path, name, first):
    (tmp_path / name).write_text(f"{first}\n#SBATCH --nodes=1\nsrun python train.py\n")
    with pytest.raises(UsageError, match=f"{name} is a script of the shell, by its first line") as caught:
        read(tmp_path / name, Inputs(), Mistakes())
    assert "give the Python script that it starts" in caught.value.hint


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("train.ipynb", "is a notebook"),
        ("run.sh", "is a script of the shell, by its name"),
        ("train.slurm", "is a job script, by its name"),
        ("train.R", "is a script of R, by its name"),
    ],
)
def test_what_is_no_script_of_python_by_its_name_is_told(blueprint, name, said):
    (blueprint.path / "train" / name).write_text("{}\n")
    blueprint.replace("train/train.py", f"train/{name}")
    mistakes = Mistakes()
    check_blueprint(blueprint.service, Inputs(), mistakes)
    assert [each.message for each in mistakes] == [f"{name} {said}"]
