"""The templates of job scripts as Python: imported faster than jinja2 is, and not compiled anew in each plan."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path

import jinja2
from jinja2 import nodes

from generate import Writers

FOLDER = Path(__file__).resolve().parents[1] / "modak_ansible" / "schedulers" / "templates"
_HEAD = '''"""The texts of job scripts: made by make generate from the templates beside it, which are what is edited."""

from __future__ import annotations

import shlex
from typing import Any, Dict

Given = Dict[str, Any]  # the values that a template has names for


class _Loop:
    def __init__(self, place: int, count: int) -> None:
        self.first, self.last = place == 0, place == count - 1


def _looped(items: Any) -> Any:
    return ((_Loop(place, len(items)), item) for place, item in enumerate(items))
'''
_TAIL = '''

def render(template: str, given: Given) -> str:
    """A script's text."""
    out: list[str] = []
    _TEMPLATES[template](out, dict(given))
    return "".join(out)


_TEMPLATES = {%s}
'''
_COMPARED = {"eq": "==", "ne": "!=", "gt": ">", "gteq": ">=", "lt": "<", "lteq": "<=", "in": "in", "notin": "not in"}
_JOINED = {nodes.And: "and", nodes.Or: "or", nodes.Mod: "%", nodes.Add: "+", nodes.Sub: "-"}


def environment() -> jinja2.Environment:
    """How the templates are read, and how jinja2 itself would render them."""
    jinja = jinja2.Environment(
        loader=jinja2.FileSystemLoader(FOLDER),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # noqa: S701 - bash, not HTML: the quote filter does this work
    )
    jinja.filters["quote"] = shlex.quote
    return jinja


def rendered_module() -> str:
    """The module's text: a function for each template, and of each macro one inside."""
    names = sorted(path.name for path in FOLDER.glob("*.j2"))
    jinja = environment()
    parts = [_HEAD]
    for name in names:
        tree = jinja.parse((FOLDER / name).read_text(encoding="utf-8"))
        lines = [f"def {_function(name)}(out: list[str], given: Given) -> None:", *_block(tree.body, {}, 1)]
        parts.append("\n\n" + "\n".join(lines) + "\n")
    functions = {name.partition(".")[0]: _function(name) for name in names}
    return "".join(parts) + _TAIL % ", ".join(f'"{name}": {function}' for name, function in functions.items())


def _function(template: str) -> str:
    return f"_{template.partition('.')[0]}"


def _block(body: Iterable[nodes.Node], own: dict[str, str], depth: int) -> list[str]:
    lines = [line for node in body for line in _statement(node, own)]
    return ["    " * depth + line for line in lines or ["pass"]]


def _statement(node: nodes.Node, own: dict[str, str]) -> Iterator[str]:
    """The lines of a statement.

    Args:
        node: the statement.
        own: names of Python for variables of the function, such as those of loops; the others are in ``given``.
    """
    if isinstance(node, nodes.Output):
        yield f"out += [{', '.join(_written(part, own) for part in node.nodes)}]"
    elif isinstance(node, nodes.If):
        yield from _if(node, own)
    elif isinstance(node, nodes.For):
        yield from _for(node, own)
    elif isinstance(node, nodes.Assign) and isinstance(node.target, nodes.Name):
        yield f"given[{node.target.name!r}] = {_value(node.node, own)}"
    elif isinstance(node, nodes.Include) and isinstance(node.template, nodes.Const):
        yield f"{_function(node.template.value)}(out, given)"
    elif isinstance(node, nodes.Macro):
        arguments = [argument.name for argument in node.args]
        yield f"def {node.name}({', '.join(f'{argument}: Any' for argument in arguments)}) -> str:"
        yield "    out: list[str] = []"
        yield from _block(node.body, {**own, **{argument: argument for argument in arguments}}, 1)
        yield '    return "".join(out)'
        yield f"given[{node.name!r}] = {node.name}"
    else:
        raise TypeError(f"line {node.lineno}: {type(node).__name__} is not known here")


def _if(node: nodes.If, own: dict[str, str]) -> Iterator[str]:
    for word, branch in (("if", node), *(("elif", branch) for branch in node.elif_)):
        yield f"{word} {_value(branch.test, own)}:"
        yield from _block(branch.body, own, 1)
    if node.else_:
        yield "else:"
        yield from _block(node.else_, own, 1)


def _for(node: nodes.For, own: dict[str, str]) -> Iterator[str]:
    targets = node.target.items if isinstance(node.target, nodes.Tuple) else [node.target]
    names = [target.name for target in targets if isinstance(target, nodes.Name)]
    has_loop = any(name.name == "loop" for name in node.find_all(nodes.Name))
    items, target = _value(node.iter, own), ", ".join(names)
    loop = f"loop_{node.lineno}"
    if set(names) & set(own):
        raise TypeError(f"line {node.lineno}: {target} has another meaning around it")
    inner = {**own, **{name: name for name in names}, "loop": loop}
    yield f"for {loop}, ({target}) in _looped({items}):" if has_loop else f"for {target} in {items}:"
    body = _block(node.body, inner, 1)
    if node.test:
        yield f"    if {_value(node.test, inner)}:"
        body = ["    " + line for line in body]
    yield from body


def _written(node: nodes.Expr, own: dict[str, str]) -> str:
    if isinstance(node, nodes.TemplateData):
        return repr(node.data)
    return f"str({_value(node, own)})"


def _value(node: nodes.Expr | None, own: dict[str, str]) -> str:
    """An expression of Python, in parentheses where it may need them."""
    match node:
        case nodes.Name():
            return own.get(node.name) or f"given[{node.name!r}]"
        case nodes.Const():
            return repr(node.value)
        case nodes.Tuple():
            return f"({', '.join(_value(item, own) for item in node.items)})"
        case nodes.Getattr():
            return f"{_value(node.node, own)}.{node.attr}"
        case nodes.Getitem():
            return f"{_value(node.node, own)}[{_value(node.arg, own)}]"
        case nodes.Slice(start=start, stop=None, step=None):
            return f"{_value(start, own)}:"
        case nodes.Call(kwargs=[]):
            return f"{_value(node.node, own)}({', '.join(_value(argument, own) for argument in node.args)})"
        case nodes.Filter():
            return _filtered(node, own)
        case _:
            return _operated(node, own)


def _operated(node: nodes.Expr | None, own: dict[str, str]) -> str:
    match node:
        case nodes.Not():
            return f"(not {_value(node.node, own)})"
        case nodes.CondExpr():
            return f"({_value(node.expr1, own)} if {_value(node.test, own)} else {_value(node.expr2, own)})"
        case nodes.Compare(ops=[operand]):
            return f"({_value(node.expr, own)} {_COMPARED[operand.op]} {_value(operand.expr, own)})"
        case nodes.BinExpr() if type(node) in _JOINED:
            return f"({_value(node.left, own)} {_JOINED[type(node)]} {_value(node.right, own)})"
    raise TypeError(f"{node} is not known here")


def _filtered(node: nodes.Filter, own: dict[str, str]) -> str:
    match node:
        case nodes.Filter(name="quote"):
            return f"shlex.quote({_value(node.node, own)})"
        case nodes.Filter(name="select", args=[]):
            return f"[each for each in {_value(node.node, own)} if each]"
        case nodes.Filter(name="join", args=[between]):
            return f"{_value(between, own)}.join({_value(node.node, own)})"
    raise TypeError(f"{node} is not known here")


FILES: Writers = {"modak_ansible/schedulers/rendered.py": lambda _: rendered_module()}
