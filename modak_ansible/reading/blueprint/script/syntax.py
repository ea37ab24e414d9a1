"""The syntax of Python files, parsed and walked once, whatever is asked of it; nothing of them is run."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Callable, Iterable
from functools import lru_cache, wraps
from pathlib import Path
from typing import TypeVar

_KEPT = 128  # files
_HELD = "of_modak"
_ENCODING = re.compile(rb"([ \t\f]*(#.*)?\r?\n)?[ \t\f]*#.*?coding[:=]")  # in one of the first two lines (PEP 263)
_Syntax = TypeVar("_Syntax", bound=ast.AST)
_Result = TypeVar("_Result")
_LEAVES = (ast.Name, ast.Constant)  # half of all nodes, with nothing below them


def syntax_of(path: Path, words: re.Pattern[bytes] | None = None) -> ast.Module | None:
    """The syntax of a file; None where it cannot be read as Python of today.

    Args:
        words: that must stand in it to make it worth while.
    """
    try:
        text = path.read_bytes()
    except OSError:
        return None
    return _parsed(text) if words is None or words.search(text) else None


def parsed(text: bytes, name: str = "") -> ast.Module:
    """The syntax of a file's text.

    Raises:
        SyntaxError, ValueError: it is none of Python's.
        UnicodeDecodeError: it is no UTF-8 and does not say what else it is, which the parser lets pass in comments, and
            Python does not when it runs the file.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the user's own literals and escapes
        tree = ast.parse(text, filename=name)
    if not _ENCODING.match(text):
        text.decode("utf-8")
    return tree


@lru_cache(_KEPT)
def _parsed(text: bytes) -> ast.Module | None:
    try:
        return parsed(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def cached(function: Callable[[_Syntax], _Result]) -> Callable[[_Syntax], _Result]:
    """Has what a function tells of a file's syntax be kept with it, for as long as anybody has that.

    A project may have hundreds of files, each of which is asked in turn by whoever wants to know something.
    """
    name = f"{function.__module__}.{function.__qualname__}"

    @wraps(function)
    def wrapper(tree: _Syntax) -> _Result:
        results = vars(tree).setdefault(_HELD, {})
        if name not in results:
            results[name] = function(tree)
        result: _Result = results[name]
        return result

    return wrapper


def forget(tree: ast.AST) -> None:
    """Has what is kept with a file's syntax be found anew, which has changed."""
    vars(tree).pop(_HELD, None)


@cached
def nodes_of(tree: ast.AST) -> tuple[ast.AST, ...]:
    """All that a file is made of, in the order of :func:`ast.walk`, without what says how a name is used."""
    return tuple(parts_of(tree))


def parts_of(node: ast.AST) -> list[ast.AST]:
    """As :func:`nodes_of`, of a part of a file, which is not kept in the place of one."""
    nodes = [node]
    for part in nodes:
        nodes += children_of(part)
    return nodes


def assigned_in(nodes: Iterable[ast.AST]) -> dict[str, ast.expr]:
    """What variables are given last, by their names."""
    pairs = ((target, node.value) for node in nodes if isinstance(node, ast.Assign) for target in node.targets)
    return {target.id: value for target, value in pairs if isinstance(target, ast.Name)}


def last_name(node: ast.AST) -> str:
    """``save`` of torch.save; empty for what has no name."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def children_of(node: ast.AST) -> list[ast.AST]:
    """As :func:`ast.iter_child_nodes`, without a name's context, in a third of its time."""
    if type(node) in _LEAVES:
        return []
    children: list[ast.AST] = []
    for name in node._fields:
        if name == "ctx":  # of which a name itself tells
            continue
        value = getattr(node, name, None)
        if isinstance(value, ast.AST):
            children.append(value)
        elif isinstance(value, list):
            children += [child for child in value if isinstance(child, ast.AST)]
    return children


def env_of(tree: ast.AST, variable: str) -> str | None:
    """The first value that a file gives a variable, where it says both in the source; None where it does not.

    ``os.environ["NAME"] = "value"``, ``setdefault``, ``update`` in either form, and ``putenv``.
    """
    for node in nodes_of(tree):
        pairs: list[tuple[ast.AST | None, ast.AST]] = []
        if isinstance(node, ast.Assign):
            pairs = [(target.slice, node.value) for target in node.targets if isinstance(target, ast.Subscript)]
        elif isinstance(node, ast.Dict):
            pairs = list(zip(node.keys, node.values, strict=True))
        elif isinstance(node, ast.Call) and last_name(node.func) in ("setdefault", "putenv"):
            pairs = [(node.args[0], node.args[1])] if len(node.args) > 1 else []
        elif isinstance(node, ast.keyword):
            pairs = [(ast.Constant(node.arg), node.value)]
        for name, value in pairs:
            if isinstance(name, ast.Constant) and name.value == variable and isinstance(value, ast.Constant):
                return str(value.value)
    return None
