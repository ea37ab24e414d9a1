"""Options that a library makes a parser of: flags of absl, and dataclasses for Hugging Face's HfArgumentParser."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from modak_ansible.reading.blueprint.script.option import Option, literal
from modak_ansible.reading.blueprint.script.syntax import last_name

_FLAGS = "absl.flags."
_MARKS = ("mark_flag_as_required", "mark_flags_as_required")
_KINDS = {"integer": "int", "float": "float"}
PARSERS = ("HfArgumentParser", "TrlParser")
_PLAIN = ("str", "int", "float")

Namer = Callable[[ast.AST], str]


def absl_options(calls: Iterable[ast.Call], name_of: Namer) -> Iterator[Option]:
    """The flags that one file defines with absl, whose modules define more."""
    flags = [(name_of(call.func).removeprefix(_FLAGS), call) for call in calls if name_of(call.func).startswith(_FLAGS)]
    marked_flags = [literal(call.args[0]) for name, call in flags if name in _MARKS and call.args]
    required = {word for value in marked_flags for word in _words(value)}
    defined = {literal(call.args[0]) for name, call in flags if name.startswith("DEFINE_") and call.args}
    # of another module, such as a file of configuration of ml_collections
    yield from (Option((f"--{name}",), True, is_required=True) for name in sorted(required - defined))
    for function, call in flags:
        keywords = {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}
        name = literal(call.args[0] if call.args else keywords.get("name"))
        kind = function.removeprefix("DEFINE_")
        if kind == function or not isinstance(name, str):
            continue
        short = literal(keywords.get("short_name"))
        names = (f"--{name}", *([f"-{short}"] if isinstance(short, str) and short else []))
        default = literal(call.args[1] if len(call.args) > 1 else keywords.get("default"))
        values = (
            literal(call.args[2] if len(call.args) > 2 else keywords.get("enum_values")) if kind == "enum" else None
        )
        is_switch = kind in ("bool", "boolean")
        yield Option(
            (*names, f"--no{name}") if is_switch else names,
            None if is_switch or kind.startswith("multi") else True,
            _KINDS.get(kind, ""),
            tuple(values) if isinstance(values, list | tuple) else None,
            is_required=name in required or literal(keywords.get("required")) is True,
            default=default,
            held_by=name,
        )


def _words(value: Any) -> list[str]:
    """The texts of a literal that is one, or a list of them."""
    values = [value] if isinstance(value, str) else value if isinstance(value, list | tuple | set) else []
    return [text for text in values if isinstance(text, str)]


def parsed_classes(calls: Iterable[ast.Call], name_of: Namer, lists: Mapping[str, ast.expr]) -> set[str]:
    """The names of the dataclasses that a file has Hugging Face's parser make options of.

    Args:
        lists: what variables hold, by their names.
    """
    parser_calls = [call for call in calls if name_of(call.func).rpartition(".")[2] in PARSERS]
    nodes = [node for call in parser_calls for node in (*call.args, *(keyword.value for keyword in call.keywords))]
    expressions = (lists[node.id] if isinstance(node, ast.Name) and node.id in lists else node for node in nodes)
    return {last_name(node) for expression in expressions for node in ast.walk(expression)} - {""}


def dataclass_options(node: ast.ClassDef) -> list[Option]:
    lines = (line for line in node.body if isinstance(line, ast.AnnAssign))
    return [_field_option(line, line.target.id) for line in lines if isinstance(line.target, ast.Name)]


def _field_option(line: ast.AnnAssign, name: str) -> Option:
    value = line.value
    is_field = isinstance(value, ast.Call) and ast.unparse(value.func).rpartition(".")[2] == "field"
    keywords = (
        {keyword.arg: keyword.value for keyword in value.keywords} if isinstance(value, ast.Call) and is_field else {}
    )
    has_default = not {"default", "default_factory"}.isdisjoint(keywords) if is_field else value is not None
    words = ast.unparse(line.annotation).strip("'\"")
    kinds = [kind for kind in _PLAIN if kind in words.replace("[", " ").replace("]", " ").replace("|", " ").split()]
    is_list = any(word in words.lower() for word in ("list", "tuple", "sequence"))
    is_switch = "bool" in words
    metadata = literal(keywords.get("metadata"))
    settings = metadata if isinstance(metadata, dict) else {}
    spellings = dict.fromkeys((f"--{name}", f"--{name.replace('_', '-')}"))
    aliases = _words(settings.get("aliases"))
    switches = [f"--no_{name}", f"--no-{name.replace('_', '-')}"] if is_switch else []
    choices = settings.get("choices")
    return Option(
        (*spellings, *aliases, *switches),
        True if kinds and not is_list and not is_switch else None,
        kinds[0] if kinds in (["int"], ["float"]) and not is_list else "",
        tuple(choices) if isinstance(choices, list | tuple) else None,
        is_required=not has_default and not is_switch,
        default=literal(keywords.get("default") if is_field else value),
        held_by=name,
    )
