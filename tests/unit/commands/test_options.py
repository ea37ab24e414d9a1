"""What several commands share."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from modak_ansible.commands.main import application
from modak_ansible.commands.options import PlanOptions
from modak_ansible.errors import UsageError


def test_a_command_is_restated_with_all_that_was_given():
    inputs = Path("my site.yaml")
    said = PlanOptions("mine", inputs=[inputs], value=["epochs=4", "name=a b"], training="train", on="t.yaml").restated
    assert said == "mine --inputs 'my site.yaml' --input epochs=4 --input 'name=a b' --training train --on t.yaml"
    assert PlanOptions("mine").restated == "mine"
    said = PlanOptions("train.py", ["--lr", "1"], nodes=2, processes=3, on="box").restated
    assert said == "train.py --on box --nodes 2 --processes-per-node 3 -- --lr 1"
    assert PlanOptions("train.py", accelerators=0).restated == "train.py --accelerators 0"


@given(st.text(min_size=1), st.lists(st.text()))
def test_a_shell_reads_it_as_it_was_given(blueprint, values):
    words = shlex.split(PlanOptions(blueprint, value=values).restated)
    assert words == [blueprint, *(word for value in values for word in ("--input", value))]


def test_of_two_files_of_inputs_none_is_left_out():
    words = ["plan", "mnist-pytorch-local", "-i", "site.yaml", "-i", "mine.yaml"]
    done = CliRunner().invoke(application(), words, standalone_mode=False)
    assert isinstance(done.exception, UsageError)
    assert done.exception.message == "--inputs is given twice: site.yaml and mine.yaml"


@pytest.mark.parametrize("asked", [PlanOptions(value=["name=\udcfc"]), PlanOptions(words=["--name", "\udcfc"])])
def test_what_no_text_holds_is_refused(asked):
    """A terminal that is not UTF-8 gives bytes, which Python keeps as halves of letters."""
    with pytest.raises(UsageError, match="is not in UTF-8"):
        asked.all_inputs  # noqa: B018


@pytest.mark.parametrize(
    ("encoding", "typed", "problem"),
    [
        ("utf-8", "Größe".encode(), ""),
        ("utf-8", "Größe".encode("latin-1"), "is not in UTF-8"),
        ("iso8859-1", "Größe".encode("latin-1"), ""),
        ("iso8859-1", "Größe".encode(), "is in UTF-8, and the locale says ISO8859-1"),
        ("ascii", "Größe".encode(), "is not in ASCII"),
    ],
)
def test_letters_are_read_as_the_locale_has_them_or_refused_with_its_name(monkeypatch, encoding, typed, problem):
    monkeypatch.setattr("sys.getfilesystemencoding", lambda: encoding)
    asked = PlanOptions(value=[f"name={typed.decode(encoding, 'surrogateescape')}"])
    if not problem:
        assert asked.all_inputs.values == (("name", "Größe"),)
        return
    with pytest.raises(UsageError, match=problem) as caught:
        asked.all_inputs  # noqa: B018
    assert "LC_ALL=C.UTF-8" in caught.value.hint


@pytest.mark.parametrize(
    "words",
    [
        ["schema", "plan", "--output"],
        ["model", "fit", "--output"],
        ["bench", "report", "--output"],
        ["bench", "run", "smoke", "--dry-run", "--records"],
        ["plan", "mnist-pytorch-local", "--inputs"],
    ],
)
def test_a_folder_where_a_file_is_to_be_is_told(tmp_path, monkeypatch, words):
    """The current one has no name at all."""
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(application(), [*words, "."], standalone_mode=False)
    assert isinstance(done.exception, UsageError)
    assert done.exception.message == f"{words[-1]} . is a folder"


def test_an_option_of_the_command_behind_the_dashes_is_told_unless_the_script_has_it(tmp_path):
    script = tmp_path / "fit.py"
    script.write_text("import sys\nprint(sys.argv)  # --strict\n")
    words = ["plan", str(script), "--on", "local", "--", "--json", "--strict", "--epochs=3"]
    done = CliRunner().invoke(application(), words)
    assert f"warning: --json after -- is passed to {script}; modak's own options go before --\n" in done.stderr
    assert done.stderr.count("after --") == 1


def test_the_name_of_a_file_beside_is_what_may_be_meant(tmp_path):
    (tmp_path / "service.yaml").touch()
    done = CliRunner().invoke(application(), ["plan", str(tmp_path / "service.yml")], standalone_mode=False)
    assert isinstance(done.exception, UsageError)
    assert done.exception.hint == "did you mean service.yaml?"
