"""What the code tells users when something is wrong, read from its source: rules, messages, hints, findings.

A message is found with what is put into it in capitals, as in *there is no training NAME*: of a value the name that the
code has for it. What it says only when it runs, such as another program's words, is left out.
"""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import NamedTuple

_MOST = 12  # texts that one place of the code may make
PACKAGE = Path(__file__).resolve().parents[1] / "modak_ansible"
_Function = ast.FunctionDef | ast.AsyncFunctionDef
_LEAVES = (ast.Constant, ast.Name, ast.expr_context, ast.operator, ast.cmpop, ast.Import, ast.ImportFrom)


class Told(NamedTuple):
    """A message as users see it, and what it says is to be done."""

    message: str
    hint: str


class Signature(NamedTuple):
    """Which arguments of a function are a rule, a message and a hint; the rule where none is given."""

    names: tuple[str, ...]
    rule: str
    message: str
    default: str


@dataclass
class Source:
    """All modules of the package, as they are written."""

    trees: dict[Path, ast.Module] = field(default_factory=dict)

    @classmethod
    @cache
    def read(cls) -> Source:
        paths = [path for path in PACKAGE.rglob("*.py") if "/runtime/" not in str(path)]
        return cls({path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(paths)})

    @cached_property
    def constants(self) -> dict[Path, dict[str, str]]:
        """Texts that a module gives a name, by its path."""
        return {path: dict(_constants(tree)) for path, tree in self.trees.items()}

    @cached_property
    def _known(self) -> list[tuple[ast.AST, list[_Function], Path]]:
        """Calls, returns, functions and classes, with the functions that each stands in and its module."""
        return [(each, inside, path) for path, tree in self.trees.items() for each, inside in _below(tree, [])]

    @cached_property
    def definitions(self) -> list[_Function | ast.ClassDef]:
        """Every function and class."""
        return [each for each, _, _ in self._known if isinstance(each, _Function | ast.ClassDef)]

    @cached_property
    def home(self) -> dict[_Function, Path]:
        """The module of each function."""
        return {each: path for each, _, path in self._known if isinstance(each, _Function)}

    def constant(self, name: str, inside: list[_Function]) -> str:
        """What a name stands for in the module, or in the one that it is imported from."""
        own = self.constants[self.home[inside[0]]] if inside else {}
        everywhere = {known[name] for known in self.constants.values() if name in known}
        return own.get(name) or (everywhere.pop() if len(everywhere) == 1 else "")

    @cached_property
    def functions(self) -> dict[str, list[_Function]]:
        """Every function by its name."""
        found: dict[str, list[_Function]] = {}
        for each in self.home:
            found.setdefault(each.name, []).append(each)
        return found

    @cached_property
    def errors(self) -> dict[str, str]:
        """Every class of errors by its name, with the one that it is derived from."""
        parents = {
            definition.name: definition.bases[0].id
            for definition in self.definitions
            if isinstance(definition, ast.ClassDef) and definition.bases and isinstance(definition.bases[0], ast.Name)
        }
        found = {"ModakError": ""}
        while more := {name: parent for name, parent in parents.items() if parent in found and name not in found}:
            found.update(more)
        return found

    def said_of(self, error: str) -> str:
        """The first line of an error's docstring."""
        found = next(definition for definition in self.definitions if definition.name == error)
        return (ast.get_docstring(found) or "").partition("\n")[0]

    def calls(self) -> Iterator[tuple[ast.Call, list[_Function]]]:
        """Every call, with the functions that it stands in, the outermost first."""
        yield from ((each, inside) for each, inside, _ in self._known if isinstance(each, ast.Call))

    def returned(self) -> Iterator[tuple[list[ast.expr], list[_Function]]]:
        """The elements of every tuple that is returned, with the functions that it stands in."""
        for each, inside, _ in self._known:
            if isinstance(each, ast.Return) and isinstance(each.value, ast.Tuple):
                yield each.value.elts, inside


def _constants(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for each in tree.body:
        if isinstance(each, ast.Assign | ast.AnnAssign) and each.value:
            for target in each.targets if isinstance(each, ast.Assign) else [each.target]:
                names = target.elts if isinstance(target, ast.Tuple) else [target]
                values = each.value.elts if isinstance(each.value, ast.Tuple) else [each.value]
                for name, value in zip(names, values, strict=False):
                    if isinstance(name, ast.Name) and (text := _text(value)):
                        yield name.id, text


def _below(node: ast.AST, inside: list[_Function]) -> Iterator[tuple[ast.AST, list[_Function]]]:
    for each in ast.iter_child_nodes(node):
        if isinstance(each, ast.Call | ast.Return | ast.ClassDef | _Function):
            yield each, inside
        if not isinstance(each, _LEAVES):
            yield from _below(each, [*inside, each] if isinstance(each, _Function) else inside)


def called(call: ast.Call) -> str:
    """The last name of what is called."""
    if isinstance(call.func, ast.Attribute):
        return call.func.attr
    return call.func.id if isinstance(call.func, ast.Name) else ""


def arguments(call: ast.Call, names: tuple[str, ...]) -> dict[str, ast.expr]:
    """What a call gives, by the names of the parameters."""
    given = {name: value for name, value in zip(names, call.args, strict=False) if not isinstance(value, ast.Starred)}
    return given | {word.arg: word.value for word in call.keywords if word.arg}


class Words:
    """Texts out of expressions."""

    def __init__(self, source: Source) -> None:
        self._source = source

    def of(self, node: ast.expr | None, inside: list[_Function], depth: int = 0) -> list[str]:
        """All texts that an expression may have; none where that is known only when it runs."""
        if node is None or depth > 6:
            return []
        if isinstance(node, ast.Constant):
            return [node.value] if isinstance(node.value, str) and node.value else []
        if isinstance(node, ast.JoinedStr):
            parts = [self._parts(value, inside, depth) for value in node.values]
            return [_joined(each) for each in itertools.islice(itertools.product(*parts), _MOST)]
        if isinstance(node, ast.IfExp):
            return [*self.of(node.body, inside, depth + 1), *self.of(node.orelse, inside, depth + 1)]
        if isinstance(node, ast.BoolOp):
            return [text for value in node.values for text in self.of(value, inside, depth + 1)]
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            ends = self.of(node.left, inside, depth + 1), self.of(node.right, inside, depth + 1)
            return [f"{left}{right}" for left in ends[0] for right in ends[1] or [_name_of(node.right)]]
        if isinstance(node, ast.Name):
            return self._named(node, inside, depth)
        if isinstance(node, ast.Call) and called(node) == "str" and isinstance(node.args[0], ast.Name):
            return self._caught(node.args[0], inside, depth)
        if isinstance(node, ast.Call):
            return self._returned(called(node), depth)
        return []

    def _named(self, node: ast.Name, inside: list[_Function], depth: int) -> list[str]:
        """What was assigned to a name last before it is used, or what the name stands for in its module."""
        for before in _statements_before(node, inside[-1]) if inside else ():
            found = [
                text
                for each in ast.walk(before)
                if isinstance(each, ast.Assign | ast.NamedExpr)
                for text in self._assigned(each, node.id, inside, depth)
            ]
            if any(found):
                return found
        return [text for text in [self._source.constant(node.id, inside)] if text]

    def _assigned(self, each: ast.Assign | ast.NamedExpr, name: str, inside: list[_Function], depth: int) -> list[str]:
        target, value = each.target if isinstance(each, ast.NamedExpr) else each.targets[0], each.value
        if isinstance(target, ast.Name) and target.id == name:
            return self.of(value, inside, depth + 1)
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
            for one, said in zip(target.elts, value.elts, strict=False):
                if isinstance(one, ast.Name) and one.id == name:
                    return self.of(said, inside, depth + 1)
        elif isinstance(target, ast.Tuple):
            for place, one in enumerate(target.elts):
                if isinstance(one, ast.Name) and one.id == name:
                    return self._returned_at(value, place, depth)
        return []

    def _returned_at(self, value: ast.expr, place: int, depth: int) -> list[str]:
        """What stands at one place of the tuples that the functions return which an expression calls, one text each."""
        return [
            text
            for call in ast.walk(value)
            if isinstance(call, ast.Call)
            for function in self._source.functions.get(called(call), [])
            for each in ast.walk(function)
            if isinstance(each, ast.Return)
            for one in _tuples(each.value)
            if len(one.elts) > place
            for text in self.of(one.elts[place], [function], depth + 1)[:1] or [""]
        ]

    def _caught(self, name: ast.Name, inside: list[_Function], depth: int) -> list[str]:
        """The words of errors that are caught under a name, where functions of the package raise them."""
        return [
            text
            for attempt in (ast.walk(inside[-1]) if inside else ())
            if isinstance(attempt, ast.Try) and attempt.lineno < name.lineno <= (attempt.end_lineno or 0)
            if any(handler.name == name.id for handler in attempt.handlers)
            for each in attempt.body
            for call in ast.walk(each)
            if isinstance(call, ast.Call)
            for function in self._source.functions.get(called(call), [])
            for raised in ast.walk(function)
            if isinstance(raised, ast.Raise) and isinstance(raised.exc, ast.Call) and raised.exc.args
            for text in self.of(raised.exc.args[0], [function], depth + 1)
        ]

    def _returned(self, name: str, depth: int) -> list[str]:
        """What a function of the package returns that says what is wrong, or what to do."""
        if not re.search(r"(problem|hint|reason|refusal|todo|why)", name):
            return []
        found = [
            text
            for function in self._source.functions.get(name, [])
            for each in ast.walk(function)
            if isinstance(each, ast.Return)
            for text in self.of(each.value, [function], depth + 1)
        ]
        return list(dict.fromkeys(found))

    def _parts(self, node: ast.expr, inside: list[_Function], depth: int) -> list[str]:
        """What may stand at one place of a text: a reason that the code gives in words, or else one name."""
        value = node.value if isinstance(node, ast.FormattedValue) else node
        if isinstance(value, ast.Name) and re.search("problem|reason|words|why", value.id):
            found = self.of(value, inside, depth + 1)
            return found if any(" " in text for text in found) else [self._part(node, inside)]
        return [self._part(node, inside)]

    def _part(self, node: ast.expr, inside: list[_Function]) -> str:
        if isinstance(node, ast.Constant):
            return str(node.value)
        value = node.value if isinstance(node, ast.FormattedValue) else node
        if isinstance(value, ast.Name) and (known := self._source.constant(value.id, inside)):
            return known
        return _name_of(value)


def _joined(parts: tuple[str, ...]) -> str:
    """A text of its parts; none where a reason is none, and without what is put right behind a word, as a plural is."""
    text = ""
    for part in parts:
        if not part:
            return ""
        if not (re.fullmatch(r"[A-Z_]+|\.\.\.", part) and re.search(r"\w$", text)):
            text += part
    return text


def _tuples(node: ast.expr | None) -> list[ast.Tuple]:
    """The tuples that an expression may be."""
    if isinstance(node, ast.IfExp):
        return [*_tuples(node.body), *_tuples(node.orelse)]
    return [node] if isinstance(node, ast.Tuple) else []


def _statements_before(node: ast.expr, function: _Function) -> Iterator[ast.AST]:
    """The statement that a name is used in, and those that ran before it, the nearest first."""
    body: list[ast.stmt] = function.body
    passed: list[ast.AST] = []
    while body:
        here = next((each for each in body if each.lineno <= node.lineno <= (each.end_lineno or 0)), None)
        if here is None:
            break
        passed = [*reversed(body[: body.index(here)]), *passed]
        blocks = [getattr(here, name, []) for name in ("body", "orelse", "finalbody")]
        blocks += [each.body for each in getattr(here, "handlers", [])]
        body = next(
            (block for block in blocks if block and block[0].lineno <= node.lineno <= (block[-1].end_lineno or 0)), []
        )
        passed = [getattr(here, "test", None) or here, *passed] if body else [here, *passed]
    yield from passed


def _name_of(node: ast.expr) -> str:
    """What the code calls a value, in capitals; the sign for something left out where it has no name."""
    if isinstance(node, ast.Call):
        if isinstance(node.func, ast.Attribute) and hasattr(str, node.func.attr) and node.func.attr != "join":
            return _name_of(node.func.value)
        is_about = called(node) in (
            "join",
            "shown",
            "visible",
            "str",
            "repr",
            "sorted",
            "len",
            "counted",
            "harmless",
            "round",
        )
        return (
            _name_of(node.args[-1 if called(node) == "counted" else 0])
            if is_about and node.args
            else _upper(called(node))
        )
    if isinstance(node, ast.Attribute):
        owner = _name_of(node.value) if node.attr in ("text", "value", "name", "path", "message") else ""
        return owner or _upper(node.attr)
    if isinstance(node, ast.Name):
        return _upper(node.id)
    if isinstance(node, ast.Subscript):
        return _upper(str(node.slice.value)) if isinstance(node.slice, ast.Constant) else _name_of(node.value)
    if isinstance(node, ast.GeneratorExp | ast.ListComp):
        return _name_of(node.elt)
    return "..."


def _upper(name: str) -> str:
    name = re.sub(r"^(format_|shown_)", "", name.strip("_")).upper()
    return name if re.fullmatch(r"[A-Z][A-Z_]*", name) and name not in ("SELF", "EACH", "LEN", "JOIN") else "..."


# --- rules


def signatures(source: Source) -> dict[str, list[Signature]]:
    """Every function and class that takes the name of a rule, by its own name."""
    found: dict[str, list[Signature]] = {}
    for definition in source.definitions:
        if isinstance(definition, ast.ClassDef):
            _note(found, definition.name, _of_class(definition))
        elif definition.name != "__init__":
            _note(found, definition.name, _of_function(definition))
    return found


def _note(found: dict[str, list[Signature]], name: str, signature: Signature | None) -> None:
    if signature and signature not in found.get(name, []):
        found.setdefault(name, []).append(signature)


def _of_class(each: ast.ClassDef) -> Signature | None:
    for inner in each.body:
        if isinstance(inner, _Function) and inner.name == "__init__":
            return _of_function(inner) or _of_one_rule(inner)
    names = tuple(
        inner.target.id
        for inner in each.body
        if isinstance(inner, ast.AnnAssign) and isinstance(inner.target, ast.Name)
    )
    return Signature(names, "rule", "message", "") if {"rule", "message"} <= set(names) else None


def _of_one_rule(each: _Function) -> Signature | None:
    """Of an error that always breaks the same rule, and hands its words on."""
    names = tuple(one.arg for one in each.args.args[1:])
    for call in ast.walk(each):
        if isinstance(call, ast.Call) and called(call) == "FieldProblem" and _text(call.args[0]):
            return Signature(names, "", "reason", _text(call.args[0]))
    return None


def _of_function(each: _Function) -> Signature | None:
    parameters = [one for one in (*each.args.args, *each.args.kwonlyargs) if one.arg not in ("self", "cls")]
    names = tuple(one.arg for one in parameters)
    kinds = {one.arg: ast.unparse(one.annotation) if one.annotation else "" for one in parameters}
    values = [*each.args.defaults, *(value for value in each.args.kw_defaults if value)]
    given = dict(zip(names[len(names) - len(values) :], values, strict=False))
    message = next((name for name in ("message", "reason", "problem") if name in names), "")
    if kinds.get("rule") == "str":
        return Signature(names, "rule", message, _text(given.get("rule")))
    # here rule is the function that finds the problem, and another parameter the rule's name
    name = next((name for name in ("rule_name", "name") if _text(given.get(name))), "")
    if kinds.get("rule", "").startswith("Callable") and name:
        return Signature(names, name, "", _text(given[name]))
    return None


def _text(node: ast.expr | None) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def rules(source: Source) -> dict[str, list[Told]]:
    """Every rule, with the messages that are told under its name."""
    found: dict[str, set[Told]] = {}
    words, known = Words(source), signatures(source)
    for call, inside in source.calls():
        for signature in known.get(called(call), []):
            given = arguments(call, signature.names)
            names = words.of(given.get(signature.rule), inside) if signature.rule in given else [signature.default]
            messages = words.of(given.get(signature.message), inside) if signature.message else []
            if not signature.message:  # what finds the problem is given, and says it
                messages = words.of(ast.Call(given["rule"], [], []), inside) if "rule" in given else []
            hints = words.of(given.get("hint"), inside)
            for name in filter(_is_rule, names):
                found.setdefault(name, set()).update(_paired(messages, hints))
    for name, told in _returned_tuples(source, words):
        found.setdefault(name, set()).add(told)
    for function, each in source.functions.items():
        if function.endswith("_problem") and any("text_rules" in str(source.home[one]) for one in each):
            found.setdefault("unsafe-value", set()).update(Told(text, "") for text in words._returned(function, 0))
    return {name: sorted(told) for name, told in sorted(found.items())}


def _is_rule(name: str) -> bool:
    return re.fullmatch(r"[a-z]+(-[a-z]+)*", name) is not None


def _paired(messages: list[str], hints: list[str]) -> Iterator[Told]:
    """Messages with their hints: where there are as many of both they belong together; none rather than a wrong one."""
    if len(messages) != len(hints):
        hints = [hints[0] if len(hints) == 1 else ""] * len(messages)
    yield from (Told(message, hint) for message, hint in zip(messages, hints, strict=True) if message)


def _returned_tuples(source: Source, words: Words) -> Iterator[tuple[str, Told]]:
    """Of functions that return a rule with its message and its hint."""
    for elements, inside in source.returned():
        values = [words.of(one, inside) for one in elements] if len(elements) == 3 else []
        for first in (0, 1) if values else ():
            name = _text(elements[first])
            if "-" in name and _is_rule(name) and values[first + 1]:
                hint = values[2][0] if first == 0 and values[2] else ""
                yield name, Told(values[first + 1][0], hint)


# --- errors and findings


# What the job script cannot say is told as what no plan fits.
_SHOWN_AS = {"CannotExpress": "CannotPlan"}


def errors(source: Source) -> dict[str, list[Told]]:
    """What is raised, by the class of the error, except what a rule tells."""
    found: dict[str, set[Told]] = {}
    words = Words(source)
    for call, inside in source.calls():
        name = called(call)
        name = _SHOWN_AS.get(name, name)
        if name in source.errors and name != "InvalidBlueprint":
            names = ("about", "message", "hint") if name == "CannotPlan" else ("message",)
            given = arguments(call, names)
            told = _paired(words.of(given.get("message"), inside), words.of(given.get("hint"), inside))
            found.setdefault(name, set()).update(told)
    return {name: sorted(told) for name, told in sorted(found.items())}


def findings(source: Source) -> Mapping[str, list[tuple[str, Told]]]:
    """What a preflight may find, by what it is about: warning or missing, what was seen, what to do."""
    found: dict[str, set[tuple[str, Told]]] = {}
    words = Words(source)
    for call, inside in source.calls():
        if called(call) in ("warning", "missing") and len(call.args) > 1 and (about := _text(call.args[0])):
            given = arguments(call, ("about", "seen", "todo"))
            seen = words.of(given["seen"], inside) or [_name_of(given["seen"])]
            told = _paired(seen, words.of(given.get("todo"), inside))
            found.setdefault(about, set()).update((called(call), each) for each in told)
    return {about: sorted(each) for about, each in sorted(found.items())}
