"""Secrets that stand where they would be stored and shown: known by the names of values, or by their form."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from modak_ansible.errors import Location
from modak_ansible.reading.blueprint.forms.mistakes import Mistakes
from modak_ansible.reading.blueprint.forms.yaml_tree import Item

RULE = "secret"
# What opera was given is in its storage before anything of ours runs.
HINT = (
    "take it out, and out of .opera/inputs; logins and tokens of a build come from MODAK_SECRETS (docs/security.md), "
    "those of a script from a private file on the target that pre_execution reads"
)
_WORD = (
    r"(?:[A-Za-z0-9]+[_.-])*(?:password|passwd|passphrase|secret|token|credentials?|api[_-]?key"
    r"|(?:access|private|secret|encryption)[_-]?key|access[_-]?key[_-]?id)"
)
_NAME = re.compile(_WORD, re.IGNORECASE | re.ASCII)
# A value behind a name within a text: --name value, --name=value, NAME=value.
_PAIRS = (
    re.compile(rf"(?:^|\s)--?({_WORD})(?:=|\s+)[\"']?([^\s\"']+)", re.IGNORECASE | re.ASCII),
    re.compile(rf"(?:^|[\s\"'{{,;])({_WORD})=[\"']?([^\s\"',;]+)", re.IGNORECASE | re.ASCII),
)
_LOGIN = r"[a-z0-9+]://[^\s/@:]*:(?!\d+/)[^\s/@]+@(?!sha256:)"
_USER = r"https?://[^\s/@:]+@"
_QUERY = r"[?&][\w-]*(token|key|secret|signature|password)=[^&\s]+"
_FORMS = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----|\bgh[pousr]_[A-Za-z0-9]{20,}|\bgithub_pat_\w{20,}|\bglpat-[\w-]{16,}"
    r"|\bhf_[A-Za-z0-9]{20,}|\bAKIA[A-Z0-9]{16}\b|\bpypi-[\w-]{40,}|\bxox[abpr]-[\w-]{10,}|\bsk-[\w-]*\w{20}",
    re.ASCII,
)
# One of them is in whatever has one of these forms: most texts have none, which is soon seen.
_MARKS = re.compile(r"[-_=]|AKIA|://")
_SHORTEST = 4


def named_problem(name: str, value: str) -> str:
    """Why a value must not stand there, by its name; empty where it may."""
    return f"{name} looks like a secret, and inputs and plans are stored" if _is_secret(name, value) else ""


def text_problem(text: str) -> str:
    """Why a text must not stand there, by what it holds; empty where it may. The text itself is not repeated."""
    if not _MARKS.search(text):
        return ""
    if _FORMS.search(text):
        return "it has the form of a key or a token, and inputs and plans are stored"
    if "://" in text and (re.search(_LOGIN, text, re.IGNORECASE) or re.search(_USER, text, re.IGNORECASE)):
        return "the address holds a login, and inputs and plans are stored"
    if "://" in text and re.search(_QUERY, text, re.IGNORECASE):
        return "the address holds a key or a token, and inputs and plans are stored"
    for match in (match for pair in _PAIRS for match in pair.finditer(text)):
        if _is_secret(match.group(1), match.group(2)):
            return named_problem(match.group(1), match.group(2))
    return ""


def note_secrets(tree: Item, mistakes: Mistakes) -> None:
    for name, item in _values(tree, ""):
        problem = named_problem(name, item.text) or text_problem(item.text)
        if problem:
            mistakes.add(item.location, RULE, problem, HINT)


def note_secret(location: Location, name: str, value: Any, mistakes: Mistakes) -> None:
    """Notes a value that is a secret by its name, wherever it came from."""
    problem = named_problem(name, value) if isinstance(value, str) else ""
    if problem:
        mistakes.add(location, RULE, problem, HINT)


def _is_secret(name: str, value: str) -> bool:
    """Words that mark places in texts, and numbers, are the tokens of a language model."""
    if not _NAME.fullmatch(name) or len(value) < _SHORTEST or value.startswith("$"):
        return False
    if name.lower().endswith(("credential", "credentials")) and value.startswith(("/", "~/")):
        return False  # the path of a file with them, as GOOGLE_APPLICATION_CREDENTIALS has it
    is_number = value.isdigit() and "pass" not in name.lower()
    return not (is_number or value.lower() in ("true", "false", "none", "null") or value[0] in "<[{")


def _values(item: Item, name: str) -> Iterator[tuple[str, Item]]:
    """Texts, each with the name of the nearest mapping's member that it belongs to."""
    # an input's name says what its default is, and that of a property what TOSCA's function token makes
    is_function = len(item.entries) == 1
    for key, child in item.entries.items():
        is_of_parent = key == "default" or (is_function and key == "token" and child.is_list)
        yield from _values(child, name if is_of_parent else key)
    for child in item.elements:
        yield from _values(child, name)
    if isinstance(item.value, str | int):
        yield name, item if item.text else Item(item.location, item.value, str(item.value))
