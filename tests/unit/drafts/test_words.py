"""Words of a command line as arguments: what the script would get is what was typed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modak_ansible.reading.blueprint.script.option import Option
from modak_ansible.reading.drafts.words import arguments_of, given_as

DECLARED = (
    Option(("--epochs",), True, "int"),
    Option(("--fast",), False),
    Option(("-b", "--batch-size"), True, "int"),
    Option(("--any",)),
)
WORDS = st.lists(
    st.sampled_from(
        [
            "--epochs",
            "--fast",
            "-b",
            "--batch-size",
            "--any",
            "3",
            "-0.5",
            "x y",
            "--lr=0.1",
            "--a=",
            "-lr",
            "pos",
            "--",
            "-",
        ]
    )
)


def rendered(arguments, words):
    """The command line that a job has for them."""
    found = []
    for name, value in arguments.items():
        for each in value if isinstance(value, list) else [value]:
            found += [f"-{name}" if len(name) == 1 else f"--{name}", *([] if each is True else [each])]
    return [*found, *words]


@pytest.mark.parametrize(
    ("words", "arguments"),
    [
        ("--epochs 3 --fast", {"epochs": "3", "fast": True}),
        ("-b 64 --lr=0.1", {"b": "64", "lr": "0.1"}),
        ("--unknown 5 --other", {"unknown": "5", "other": True}),
        ("--shift -0.5", {"shift": "-0.5"}),
        ("--tag a --tag b", {"tag": ["a", "b"]}),
    ],
)
def test_options_have_names(words, arguments):
    assert arguments_of(words.split(), DECLARED) == (arguments, [])


@pytest.mark.parametrize("words", ["data", "--fast data", "lr=0.1", "-lr 0.1", "--epochs", "--sizes 1 2", "-b=3", "--"])
def test_what_has_no_name_stays_as_it_stands(words):
    assert arguments_of(words.split(), DECLARED) == ({}, words.split())


@given(WORDS)
def test_a_script_gets_what_was_typed(words):
    arguments, left = arguments_of(words, DECLARED)
    typed = [
        part
        for word in words
        for part in (word.split("=", 1) if word.startswith("--lr=") or word == "--a=" else [word])
    ]
    assert bool(arguments) + bool(left) <= 1
    if left or not words:
        assert left == words
    else:
        assert sorted(rendered(arguments, left)) == sorted(typed)


def test_what_is_missing_is_given_as_the_script_takes_it():
    assert given_as("--lr", "0.1") == ["--lr", "0.1"]
    assert given_as("db=", "mysql") == ["db=mysql"]  # of hydra's, in one word
    assert given_as("data", "a.csv") == ["a.csv"]
    assert [given_as(name) for name in ("--lr", "db=", "data")] == [["--lr", "..."], ["db=..."], ["DATA"]]


def test_of_an_option_that_does_not_repeat_the_last_value_counts_as_it_does_for_argparse():
    option = Option(("--lr",), True, "float", keeps_last=True)
    assert arguments_of(["--lr", "1", "--lr=2"], [option]) == ({"lr": "2"}, [])
