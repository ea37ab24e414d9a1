"""Executable and arguments as a script with options, or as a command."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modak_ansible.reading.blueprint.forms.forms import FieldProblem
from modak_ansible.reading.requests.application.program import options_of, program_of, words_of
from modak_ansible.schedulers.script import _option


def everything_is_there(_):
    return True


@pytest.mark.parametrize(
    ("executable", "arguments", "script", "options", "words"),
    [
        ("train.py", None, "train.py", (), ()),
        ("./train.py", "", "train.py", (), ()),
        ("python3 a/train.py --xy 1", "-b 2", "a/train.py", (("xy", "1"), ("b", "2")), ()),
        ("train.py", "--lr=0.1 --flag", "train.py", (("lr", "0.1"), ("flag", True)), ()),
        ("train.py", ("--name", "a b"), "train.py", (("name", "a b"),), ()),
        # what would mean something else when written as pairs stays as it is
        ("train.py", "data --epochs 3", "train.py", (), ("data", "--epochs", "3")),
        ("train.py", "--use_synthetic_data=false", "train.py", (), ("--use_synthetic_data=false",)),
        ("train.py", "-batch_size=96", "train.py", (), ("-batch_size=96",)),
        ("train.py", "--a 1 2", "train.py", (), ("--a", "1", "2")),
        ("train.py", "--a=-1", "train.py", (), ("--a=-1",)),
        ("train.py", "--x 1", "train.py", (), ("--x", "1")),
    ],
)
def test_scripts(executable, arguments, script, options, words):
    program = program_of(executable, arguments, everything_is_there)
    assert (program.script, program.arguments, program.words, program.command) == (script, options, words, ())


@pytest.mark.parametrize(
    ("executable", "arguments", "command"),
    [
        ("./xthi", "", ("./xthi",)),
        ("test_mpi", "a b c", ("test_mpi", "a", "b", "c")),
        ("python3 -m package", "--x", ("python3", "-m", "package", "--x")),
        ("/opt/a", "$HOME/x 'a b'", ("bash", "-c", "exec /opt/a \"$HOME\"/x 'a b'")),
    ],
)
def test_commands(executable, arguments, command):
    assert program_of(executable, arguments, everything_is_there).command == command


def test_a_variable_is_not_replaced_where_no_shell_reads(tmp_path):
    with pytest.raises(FieldProblem, match=r"\$HOME is not expanded in a script's arguments"):
        program_of("train.py", "--data $HOME/x", everything_is_there)


def test_a_variable_is_not_set_where_no_shell_reads():
    with pytest.raises(FieldProblem, match="OMP_NUM_THREADS=4 sets a variable, but no shell reads this"):
        program_of("OMP_NUM_THREADS=4 ./solver", None, everything_is_there)


@given(
    st.lists(st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=12), max_size=6)
)
def test_words_are_those_of_a_shell(words):
    text = shlex.join(words)
    if any(each in text for each in ("`", "$(")) or any(set(word) <= set("();<>|&") for word in words):
        return
    assert words_of(text) == tuple(words)


@given(st.lists(st.sampled_from(["--a", "--bc=1", "-d", "x", "-9", "--e=true", "2", "--f=", "a b"]), max_size=6))
def test_pairs_mean_the_same_words(words):
    pairs = options_of(tuple(words))
    if pairs is not None:
        rendered = [word for name, value in pairs for word in shlex.split(_option(name, value))]
        assert rendered == [part for word in words for part in (word.split("=") if "=" in word else [word])]
