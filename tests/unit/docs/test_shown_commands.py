"""Every modak line that a page shows is one that the command takes, about something that is there."""

from __future__ import annotations

import re
import shlex

import pytest
import typer
from documented import pages
from example_blueprint import ROOT

from modak_ansible.catalogue import load_catalogue
from modak_ansible.commands.main import application

# Names of things that readers have: their blueprint, their request, their training, one of their targets.
READERS = {
    "mine",
    "mine.csar",
    "request.json",
    "train.py",
    "cluster",
    "gpus",
    "testbed",
    "local",
    "alice@login.cluster.example",
}
_PLACEHOLDER = re.compile(r"[A-Z][A-Z_.]*(\.(sif|jsonl|json|yaml))?|\.\.\.")
_Exit = typer.Exit.__mro__[0]
_UsageError = typer.BadParameter.__mro__[1]
BLUEPRINTS = {path.parent.name for path in (ROOT / "tosca" / "blueprints").glob("*/service.yaml")}
SUITES = {path.stem for path in (ROOT / "benchmarks" / "suites").glob("*.yaml")}
ENTRIES = {entry.name for entry in load_catalogue().entries}
PAGES = [page for page in pages() if page.name != "docs/reference/commands.md"]


@pytest.fixture(scope="module")
def root_command():
    return typer.main.get_command(application())


def words_of(line: str) -> list[str]:
    """The words of a shown line, up to what the shell does with its output; of [a|b] the first, without the brackets."""
    line = re.sub(r"\[([^\]|]*)(\|[^\]]*)?\]", r"\1", line)
    words = shlex.split(line, comments=True)
    ends = [place for place, word in enumerate(words) if word in ("|", ">", "<", "&&", "||", ";", "&")]
    words = words[: min(ends, default=len(words))]
    while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):
        words = words[1:]
    return words


def mistake_in(words: list[str], root, *, is_mention: bool = False) -> str:
    """Why the command would not take these words; empty where it would.

    Args:
        words: those behind ``modak``.
        is_mention: a sentence names the command, and need not say what it is about.
    """
    command, name, rest = root, "modak", list(words)
    while getattr(command, "commands", None) and rest and not rest[0].startswith("-"):
        if rest[0] not in command.commands:
            return f"{name} has no command {rest[0]}"
        name, command = f"{name} {rest[0]}", command.commands[rest.pop(0)]
    try:
        context = command.make_context(name, rest)
    except _Exit:
        return ""
    except _UsageError as error:
        said = error.format_message()
        is_missing = type(error).__name__ in ("MissingParameter", "NoArgsIsHelpError")
        return "" if is_missing and is_mention else said or type(error).__name__
    return next(filter(None, (_unknown(each, value) for each, value in context.params.items())), "")


def _unknown(parameter: str, value) -> str:
    values = [str(each) for each in value] if isinstance(value, (list, tuple)) else [str(value)]
    known = {"blueprint": BLUEPRINTS, "suite": SUITES, "entries": ENTRIES, "entry": ENTRIES}.get(parameter)
    if known is None or value is None:
        return ""
    for each in values:
        is_there = each in known or each in READERS or (ROOT / each).exists() or _PLACEHOLDER.fullmatch(each)
        if not is_there and not any(name.startswith(each) for name in READERS):
            return f"there is no {parameter} {each}"
    return ""


def shown(page) -> list[tuple[int, str]]:
    """Lines of a page's blocks that call modak; those that end in a backslash with what follows."""
    found = []
    for block in (each for each in page.blocks if each.language != "text"):
        for line in block.text.replace("\\\n", "").splitlines():
            if match := re.match(r"(?:\$ )?((?:[A-Z_]+=\S+ )*)(?:\.venv/bin/)?modak (.*)", line.strip()):
                found.append((block.line, match[1] + "modak " + match[2]))
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_shown_lines_are_taken(page, root_command):
    wrong = []
    for line, text in shown(page):
        if mistake := mistake_in(words_of(text)[1:], root_command):
            wrong.append(f"{page.name}:{line}: {text}: {mistake}")
    for text in page.inline:
        is_command = re.match(r"(\.venv/bin/)?modak [a-z]", text)
        if is_command and (mistake := mistake_in(words_of(text)[1:], root_command, is_mention=True)):
            wrong.append(f"{page.name}: `{text}`: {mistake}")
    assert not wrong


def test_there_is_something_to_look_at():
    assert len([line for page in PAGES for line in shown(page)]) > 40


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("modak deploy mine -i site.yaml --detach  # a remark", ""),
        ("MODAK_PIP_INDEX_URL=x modak deploy mine", ""),
        ("modak plan BLUEPRINT --json | jq .choices", ""),
        ("modak logs [D] [build|stage|job]", ""),
        ("modak deploi mine", "modak has no command deploi"),
        ("modak deploy mine --detatch", "No such option: --detatch"),
        ("modak deploy", "Missing argument"),
        ("modak deploy mnist-pytorch-slrum", "there is no blueprint mnist-pytorch-slrum"),
        ("modak bench run today-gpu", "there is no suite today-gpu"),
        ("modak catalogue show pytorch-9-cpu", "there is no entry pytorch-9-cpu"),
    ],
)
def test_wrong_lines_are_told(line, expected, root_command):
    mistake = mistake_in(words_of(line)[1:], root_command)
    assert mistake.startswith(expected) if expected else not mistake, mistake
