"""On which of the files beside it a script depends."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from modak_ansible.planning.service import plan_all, plan_blueprint, request_of
from modak_ansible.reading.blueprint.files import code_files
from modak_ansible.reading.blueprint.reader import Inputs
from modak_ansible.reading.blueprint.script.counting import counting

BESIDE = {
    "helpers.py": "X = 1\n", "evaluate.py": "import helpers\n", "notes.txt": "x", "vocab.txt": "a b",
    "models/__init__.py": "", "models/small.py": "from . import parts\n", "models/parts.py": "", "models/large.py": "",
    "conf/base.yaml": "a: 1\n", "conf/deep/more.yaml": "b: 1\n", "run.sh": "echo\n",
}  # fmt: skip


@pytest.fixture
def of(tmp_path):
    """The names of the files that count for a script."""

    def find(script, *words, **more):
        for name, text in {**BESIDE, **more, "train.py": script}.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        files = code_files(tmp_path, None, top=tmp_path, is_blueprint=False)
        counted, beside = counting(tmp_path, "train.py", files, words)
        assert sorted(file.path for file in [*counted, *beside]) == sorted(file.path for file in files)
        return {file.path for file in counted} - {"train.py"}

    return find


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("import torch\n", set()),
        ("import helpers\n", {"helpers.py"}),
        ("def f():\n    from helpers import X\n", {"helpers.py"}),
        ("from models import small\n", {"models/__init__.py", "models/small.py", "models/parts.py"}),
        ("import models.small as m\n", {"models/__init__.py", "models/small.py", "models/parts.py"}),
        ("from models.large import *\n", {"models/__init__.py", "models/large.py"}),
        ("open('vocab.txt')\n", {"vocab.txt"}),
        (
            "from pathlib import Path\nPath(__file__).parent / 'conf' / 'base.yaml'\n",
            {"conf/base.yaml", "conf/deep/more.yaml"},
        ),
        ("open(f'conf/{name}.yaml')\n", {"conf/base.yaml", "conf/deep/more.yaml"}),
        ("glob('*.txt')\n", {"notes.txt", "vocab.txt"}),
        ("run(['python', 'evaluate.py'])\n", {"evaluate.py", "helpers.py"}),
        ("load('models.large')\n", {"models/large.py"}),
        ("model.eval()\n", set()),
    ],
)
def test_what_is_imported_and_what_is_named_counts(of, script, expected):
    assert of(script) == expected


@pytest.mark.parametrize(
    "script",
    [
        "import importlib\nimportlib.import_module('models.' + name)\n", "__import__(name)\n", "exec(text)\n",
        "import sys\nsys.path.insert(0, 'x')\n", "import hydra\n", "print 'Python 2'\n",
        "import runpy\nrunpy.run_path(name)\n",
    ],
)  # fmt: skip
def test_where_nobody_can_tell_all_count(of, script):
    assert of(script) == set(BESIDE)


def test_arguments_and_shell_lines_name_files_too(of):
    assert of("import torch\n", "--config=conf/base.yaml", "bash run.sh && true") == {"conf/base.yaml", "run.sh"}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(max_size=60), st.lists(st.text(max_size=20), max_size=3))
def test_whatever_a_script_and_its_words_are(of, script, words):
    assert of("# " + script.replace("\x00", ""), *words) <= set(BESIDE)


def digest_of(blueprint):
    return plan_blueprint(blueprint.service, Inputs()).plan.digest


def test_only_a_change_of_what_counts_is_another_training(blueprint):
    folder = blueprint.path / "train"
    (folder / "train.py").write_text("import helpers\n")
    for name in ("helpers.py", "evaluate.py"):
        (folder / name).write_text("x = 1\n")
    first = digest_of(blueprint)
    (folder / "evaluate.py").write_text("x = 2\n")
    (folder / "more.py").write_text("")
    assert digest_of(blueprint) == first
    plan = plan_blueprint(blueprint.service, Inputs()).plan
    assert [file.path for file in plan.beside] == ["evaluate.py", "more.py"]
    (folder / "helpers.py").write_text("x = 2\n")
    assert digest_of(blueprint) != first


@pytest.mark.parametrize(
    "more",
    ["words: [ table.csv ]", "search: { trials: 3, objective: loss, over: { batch-size: [ 128, table.csv ] } }"],
)
def test_words_and_the_choices_of_a_search_name_files_too(blueprint, more):
    (blueprint.path / "train" / "table.csv").write_text("1\n")
    (blueprint.path / "train" / "other.csv").write_text("1\n")
    blueprint.replace("batch-size: 128", f"batch-size: 128\n        {more}")
    (planned,) = plan_all(blueprint.service, Inputs())
    assert [file.path for file in planned.plan.beside] == ["other.csv"]


def test_files_that_are_named_all_count(blueprint):
    (blueprint.path / "train" / "evaluate.py").write_text("x = 1\n")
    blueprint.replace("script: train/train.py", "script: train/train.py\n        files: [ '*.py' ]")
    plan = plan_blueprint(blueprint.service, Inputs()).plan
    assert [file.path for file in plan.application.files] == ["evaluate.py", "train.py"]
    assert plan.beside == ()


def test_files_that_are_named_and_not_the_scripts_own_tell_nothing_of_it(blueprint):
    """A folder has the scripts of several trainings, of which one is parallel by itself."""
    text = "import torch, modak_runtime\ntorch.distributed.init_process_group()\n"
    (blueprint.path / "train" / "parallel.py").write_text(text)
    blueprint.replace("script: train/train.py", "script: train/train.py\n        files: [ '*.py' ]")
    request = request_of(blueprint.service, Inputs())
    assert (request.parallelism, request.application.prepares) == (None, False)
    (blueprint.path / "train" / "train.py").write_text("import parallel\n")
    request = request_of(blueprint.service, Inputs())
    assert (request.parallelism.by, request.application.prepares) == ("ranks", True)


def test_a_script_is_not_parsed_again_while_its_files_are_the_same(of, monkeypatch):
    before = of("import helpers\n")
    with monkeypatch.context() as patch:
        patch.setattr("modak_ansible.reading.blueprint.script.counting.syntax_of", None)
        assert of("import helpers\n") == before == {"helpers.py"}
    assert of("import helpers\n", **{"helpers.py": "import evaluate\n"}) == {"helpers.py", "evaluate.py"}
    assert of("import helpers\n") == before


def test_what_was_found_of_other_bytes_is_not_kept(of, tmp_path):
    of("import helpers\n")
    files = code_files(tmp_path, None, top=tmp_path, is_blueprint=False)
    (tmp_path / "train.py").write_text("import evaluate\n")  # after its digest was made
    counting(tmp_path, "train.py", files, ["other"])
    (tmp_path / "train.py").write_text("import helpers\n")
    found, _ = counting(tmp_path, "train.py", files, ["other"])
    assert {file.path for file in found} == {"train.py", "helpers.py"}
