"""What a script sets variables of its environment to."""

from __future__ import annotations

import ast

from modak_ansible.reading.blueprint.script.syntax import last_name, nodes_of


def said_of(tree: ast.AST, variable: str) -> str | None:
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
