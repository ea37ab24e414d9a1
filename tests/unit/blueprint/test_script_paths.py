"""A path that is not there, and is called almost as one that is, is told before a job looks for it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from modak_ansible.commands import main
from modak_ansible.reading.blueprint.script.paths import path_slips


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("training")
    (folder / "data").mkdir()
    for name in ("data/train.csv", "wine things.csv", "exp1.yaml", "train.py", "model.pt", "README"):
        (folder / name).touch()
    return folder


@pytest.mark.parametrize(
    ("options", "words", "meant"),
    [
        ({"train_file": "data/trian.csv"}, (), "data/train.csv"),
        ({"train_file": "dat/train.csv"}, (), "data/train.csv"),
        ({"files": ["data/train.csv", "data/trains.csv"]}, (), "data/train.csv"),
        ({}, ("wine thing.csv",), "wine things.csv"),
        ({}, ("--data=data/trian.csv",), "data/train.csv"),
        ({}, ("--data", "data/trian.csv"), "data/train.csv"),
    ],
)
def test_a_slip_is_told(folder, options, words, meant):
    (slip,) = path_slips(folder, options.items(), words, ())
    assert slip.meant == meant


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"train_file": "data/train.csv", "epochs": 3, "name": "READM", "lr": "0.1"}, ("train.py",)),
        ({"config": "exp2.yaml"}, ()),  # another of a series: it may be made
        ({"save_model": "models.pt", "output-dir": "dat/"}, ("--out=modle.pt",)),
        ({"weights": "models.pt"}, ()),  # which the script writes
        ({}, ("--save-model", "modle.pt")),
        ({"data": "{dataset}/trian.csv", "url": "https://data/trian.csv", "glob": "data/trian.*"}, ()),
        ({"data": "/data/trian.csv", "home": "~/data/trian.csv"}, ()),
    ],
)
def test_what_is_no_slip_is_let_be(folder, options, words):
    assert list(path_slips(folder, options.items(), words, ("models.pt",))) == []


@given(st.text(max_size=40))
def test_no_text_is_too_odd(folder, text):
    for slip in path_slips(folder, [("data", text)], [text], ()):
        assert (folder / slip.meant).exists()
        assert not (folder / slip.path).exists()


def test_a_script_that_is_deployed_has_it_as_a_warning(folder):
    (folder / "train.py").write_text(
        "import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('--data')\nparser.parse_args()\n"
    )
    words = ["plan", str(folder / "train.py"), "--on", "local", "--", "--data", "data/trian.csv"]
    done = CliRunner().invoke(main.application(words), words)
    assert done.exit_code == 0, done.output
    (told,) = [line for line in done.stderr.splitlines() if "trian" in line]
    assert told.startswith("warning: ")
    assert told.endswith("data/trian.csv, which train.py is given, does not exist (did you mean data/train.csv?)")


@pytest.mark.parametrize("here", [".", "code", "code/src"])
def test_a_path_from_the_project_s_root_is_told_as_it_is_from_the_script_s_folder(tmp_path, monkeypatch, here):
    """People start python src/train.py there, and a job starts where the script lies."""
    (tmp_path / ".git").mkdir()
    (tmp_path / "code" / "src").mkdir(parents=True)
    (tmp_path / "configs").mkdir()
    (tmp_path / "configs" / "one.yaml").write_text("")
    (tmp_path / "table.csv").write_text("")
    options = [("config", "configs/one.yaml"), ("save_dir", "configs/one.yaml"), ("name", "configs"), ("x", "gone.csv")]
    monkeypatch.chdir(tmp_path / here)
    folder = Path(os.path.relpath(tmp_path / "code" / "src"))  # as people name it
    found = list(path_slips(folder, options, ["table.csv", "../../table.csv"], ()))
    assert [(slip.option, slip.path, slip.meant) for slip in found] == [
        ("config", "configs/one.yaml", "../../configs/one.yaml"), ("", "table.csv", "../../table.csv"),
    ]  # fmt: skip
    (tmp_path / "code" / ".git").mkdir()
    assert list(path_slips(tmp_path / "code" / "src", options, ["table.csv"], ())) == []
