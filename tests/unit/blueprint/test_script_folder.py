"""What the folder of a script tells: its work, its switches, and whether it calls prepare."""

from __future__ import annotations

import string

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from modak_ansible.errors import InvalidBlueprint
from modak_ansible.planning.service import plan_blueprint, request_of
from modak_ansible.reading.blueprint.forms.mistakes import Mistakes
from modak_ansible.reading.blueprint.reader import Inputs
from modak_ansible.reading.blueprint.script.folder import ScriptFolders, is_reached, read_workload, work_of

WORKLOAD = """\
name: digits
title: Digits
kind: training
parameters: 1000
gflop_per_image: 0.5
scripts:
  - framework: pytorch
    script: train.py
    switches:
      memory_format: [contiguous, channels_last]
"""


def application(blueprint):
    return request_of(blueprint.service, Inputs()).application


def test_arguments_tell_the_work_when_nobody_else_does(blueprint):
    work = application(blueprint).work
    assert (work.epochs, work.batch_size, work.workload, work.parameters) == (2, 128, "", None)


@pytest.mark.parametrize("argument", ["e: 50", "epoch: 50", "n: 50", "epochs: 50.0"])
def test_epochs_are_known_by_whatever_name_they_are_given(blueprint, argument):
    (blueprint.path / "train" / "train.py").write_text(
        "import argparse\np = argparse.ArgumentParser()\np.add_argument('-e', '--epochs')\n"
        "p.add_argument('-n', dest='epochs')\np.add_argument('--batch-size')\np.parse_args()\n"
    )
    blueprint.replace("epochs: { get_input: epochs }", argument)
    assert application(blueprint).work.epochs == 50


@pytest.mark.parametrize(
    "words",
    [
        '[ -e, "50" ]', '[ --epochs, "50" ]', '[ "--epochs=50" ]', '[ "-e50" ]', '[ fit, --epochs, "7", --epochs, "50" ]',
        '[ "-e50", --, --epochs, "7" ]',
    ],
)  # fmt: skip
def test_epochs_are_known_from_words_as_from_arguments(blueprint, words):
    (blueprint.path / "train" / "train.py").write_text(
        "import argparse\np = argparse.ArgumentParser()\np.add_argument('-e', '--epochs', type=int)\n"
        "p.add_argument('--batch-size')\np.add_argument('rest', nargs='*')\np.parse_args()\n"
    )
    blueprint.replace('walltime: "00:30:00"', f'walltime: "00:30:00"\n        words: {words}')
    work = application(blueprint).work
    assert (work.epochs, work.batch_size) == (50, 128)


@pytest.mark.parametrize(
    ("words", "epochs"),
    [
        (("epochs=50",), 50), (("+trainer.max_epochs=50", "train.batch-size=8"), 50), (("training.num-epochs=5",), 5),
        (("epochs=5,50",), None), (("warmup.epochs=5",), None), (("pretrain.epochs=5", "epochs"), None),
    ],
)  # fmt: skip
def test_epochs_are_known_from_words_of_hydra(words, epochs):
    assert work_of({}, None, (), words).epochs == epochs
    assert work_of({}, None, [(word.partition("=")[0], word.partition("=")[2]) for word in words]).epochs == epochs


def test_workload_yaml_tells_more(blueprint):
    (blueprint.path / "train" / "workload.yaml").write_text(WORKLOAD)
    made = application(blueprint)
    assert (made.work.workload, made.work.parameters, made.work.gflop_per_sample) == ("digits", 1000, 0.5)
    assert made.workload.scripts[0].switches == {"memory_format": ("contiguous", "channels_last")}


def test_what_the_user_says_goes_before(blueprint):
    (blueprint.path / "train" / "workload.yaml").write_text(WORKLOAD)
    blueprint.replace(
        'walltime: "00:30:00"', 'walltime: "00:30:00"\n        work: { parameters: 7, epochs: 9, samples: 500 }'
    )
    work = application(blueprint).work
    assert (work.parameters, work.epochs, work.samples, work.batch_size) == (7, 9, 500, 128)


@pytest.mark.parametrize(
    ("arguments", "samples", "batch"),
    [
        ((("images", "1280"),), 1280, None),
        ((("limit", "64"), ("batch_size", "32")), 64, 32),
        ((("batch-size", "0"),), None, None),
        ((("batch-size", "many"), ("images", True)), None, None),
        ((("epochs", "٣"),), None, None),
    ],
)
def test_only_plain_numbers_of_known_options_count(arguments, samples, batch):
    work = work_of({}, None, arguments)
    assert (work.samples, work.batch_size, work.epochs) == (samples, batch, None)


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        ("kind: training", "kind: nonsense", 3, "kind: Input should be 'training' or 'infrastructure'"),
        ("parameters: 1000", "parameters: many", 4, "parameters: Input should be a valid integer"),
        (
            "    script: train.py",
            "    skript: train.py",
            8,
            "scripts.0.skript: there is no such name (did you mean script?)",
        ),
        ("[contiguous, channels_last]", "contiguous", 10, "scripts.0.switches.memory_format"),
        ("title: Digits\n", "", 1, "title: Field required"),
        ("parameters: 1000", "parameters: -5", 4, "parameters: -5 is not above 0"),
        ("gflop_per_image: 0.5", "gflop_per_image: .nan", 5, "gflop_per_image: nan is not above 0"),
        (
            "    script: train.py",
            '    versions: ">=x"\n    script: train.py',
            8,
            "versions: >=x is not a version or a range",
        ),
        ("    script: train.py", "    versions: newest\n    script: train.py", 8, "versions: newest is not a version"),
    ],
)
def test_a_damaged_workload_is_a_mistake_with_its_place(blueprint, old, new, line, words):
    path = blueprint.path / "train" / "workload.yaml"
    path.write_text(WORKLOAD.replace(old, new))
    with pytest.raises(InvalidBlueprint) as caught:
        plan_blueprint(blueprint.service, Inputs())
    assert f"{path}:{line}:" in str(caught.value)
    assert words in str(caught.value)


@pytest.mark.parametrize("text", ["", "- a list", "{", "name: [", "1: 2", "scripts: 3"])
def test_what_is_no_workload_at_all(blueprint, text):
    (blueprint.path / "train" / "workload.yaml").write_text(text)
    with pytest.raises(InvalidBlueprint, match=r"workload\.yaml:"):
        plan_blueprint(blueprint.service, Inputs())


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.dictionaries(st.sampled_from(["name", "title", "kind", "scripts", "nodes"]), st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(string.printable, max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(string.ascii_letters, max_size=4), inner, max_size=3),
    max_leaves=8,
)))  # fmt: skip
def test_any_workload_is_read_or_noted(tmp_path, content):
    import yaml

    path = tmp_path / "workload.yaml"
    path.write_text(yaml.safe_dump(content))
    mistakes = Mistakes()
    found = read_workload(path, mistakes)
    assert (found is None) == bool(mistakes)


@pytest.mark.parametrize(
    ("text", "prepares"),
    [
        ("import modak_runtime\n", True),
        ("from modak_runtime import prepare\n", True),
        ("try:\n    import modak_runtime as m\nexcept ImportError:\n    m = None\n", True),
        ("def f():\n    from modak_runtime.hooks import x\n", True),
        ("# import modak_runtime\n", False),
        ("'''\nimport modak_runtime\n'''\n", False),
        ("from .modak_runtime import prepare\n", False),
        ("import modak_runtimes\n", False),
        ("import modak_runtime\nprint 'Python 2'\n", False),
        ("import modak_runtime\x00", False),
        ("", False),
        ("from transformers import Trainer, TrainingArguments\n", True),
        ("import lightning as L\nL.Trainer(max_epochs=1)\n", True),
        ("import pytorch_lightning as pl\nfrom pytorch_lightning.cli import LightningCLI\nLightningCLI(A)\n", True),
        ("from trl import SFTTrainer\n", True),
        ("from transformers import AutoModel\n", False),
        ("from mine import Trainer\n", False),
        ("import lightning\n# no Trainers\n", False),
    ],
)
def test_the_line_is_found_where_python_would(tmp_path, text, prepares):
    path = tmp_path / "train.py"
    path.write_text(text)
    assert is_reached(path) is prepares


def test_any_file_that_travels_may_hold_the_line(blueprint):
    assert not application(blueprint).prepares
    (blueprint.path / "train" / "loop.py").write_text("import modak_runtime\n")
    script = blueprint.path / "train" / "train.py"
    script.write_text("import loop\n" + script.read_text())
    assert application(blueprint).prepares
    blueprint.replace("script: train/train.py", "script: train/train.py\n        files: [ 'none/*' ]")
    assert not application(blueprint).prepares


def test_a_folder_is_looked_at_once(blueprint, monkeypatch):
    folders = ScriptFolders()
    first = folders.files(blueprint.path / "train", None, top=blueprint.path, data={})
    (blueprint.path / "train" / "new.py").write_text("")
    assert folders.files(blueprint.path / "train", None, top=blueprint.path, data={}) is first
    assert len(folders.files(blueprint.path / "train", ["*.py"], top=blueprint.path, data={})) == 2


def test_what_makes_a_script_parallel_is_looked_for_once(blueprint):
    folders, here = ScriptFolders(), blueprint.path / "train"
    code = folders.files(here, None, top=blueprint.path, data={})
    assert folders.parallelism(here, code) is None
    (here / "train.py").write_text("import torch\ntorch.distributed.init_process_group()\n")
    assert folders.parallelism(here, list(code)) is None
    assert ScriptFolders().parallelism(here, code).place == "train.py:2"
