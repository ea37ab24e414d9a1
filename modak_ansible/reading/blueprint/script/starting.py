"""What a script would end at before it does anything, as far as its source says it for certain."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from modak_ansible.errors import nearest
from modak_ansible.reading.blueprint.script.option import literal
from modak_ansible.reading.blueprint.script.syntax import nodes_of, syntax_of


class StartProblem(NamedTuple):
    is_of_words: bool  # whether its words are to be mended, and not the script
    problem: str
    hint: str


def start_problem(script: Path, words: Sequence[str]) -> StartProblem | None:
    """Why a script does not start with some words behind its options; None where nothing is known against it.

    Args:
        words: with nothing that ``arguments`` of a blueprint say.
    """
    tree = syntax_of(script)
    if tree is None:
        return None
    return _relative_import(tree, script) or _command(tree, words)


def _relative_import(tree: ast.Module, script: Path) -> StartProblem | None:
    """Of what is run by its path, Python knows no package; a script may say it by itself (PEP 366)."""
    if any(isinstance(node, ast.Name) and node.id == "__package__" for node in nodes_of(tree)):
        return None
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.level:
            package = script.absolute().parent.name
            problem = f"is a part of the package {package}, and no script: {ast.unparse(node)} (line {node.lineno})"
            start = f"from {package} import {script.stem}"
            return StartProblem(False, problem, f"give a script that lies beside {package}/ and starts it: {start}")
    return None


def _command(tree: ast.Module, words: Sequence[str]) -> StartProblem | None:
    """Of a parser with subcommands, that none is given, or one that it does not have."""
    calls = [node for node in nodes_of(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)]
    made = [call for call in calls if _attribute(call) == "add_subparsers"]
    names = [literal(call.args[0]) if call.args else None for call in calls if _attribute(call) == "add_parser"]
    is_plain = len(made) == 1 and names and all(isinstance(name, str) for name in names)
    if not is_plain or any("aliases" in {keyword.arg for keyword in call.keywords} for call in calls):
        return None
    known = [str(name) for name in names]
    is_needed = any(each.arg == "required" and literal(each.value) is True for each in made[0].keywords)
    if not words and is_needed:
        listed = ", ".join(known)
        return StartProblem(True, f"does not start without one of its commands: {listed}", f"words: [ {known[0]} ]")
    has_places = any(
        _attribute(call) == "add_argument" and not str(literal(call.args[0]) if call.args else "").startswith("-")
        for call in calls
    )
    first = words[0] if words else ""
    # what its commands take by place, or a value of an option before it, is not told from a command
    if first and not first.startswith("-") and first not in known and "{" not in first and not has_places:
        return StartProblem(True, f"has no command {first}", nearest(first, known))
    return None


def _attribute(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else ""
