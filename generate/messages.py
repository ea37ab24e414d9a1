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


class Message(NamedTuple):
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
    def _nodes(self) -> list[tuple[ast.AST, list[_Function], Path]]:
        """Calls, returns, functions and classes, with the functions that each stands in and its module."""
        return [(node, inside, path) for path, tree in self.trees.items() for node, inside in _below(tree, [])]

    @cached_property
    def definitions(self) -> list[_Function | ast.ClassDef]:
        """Every function and class."""
        return [node for node, _, _ in self._nodes if isinstance(node, _Function | ast.ClassDef)]

    @cached_property
    def home(self) -> dict[_Function, Path]:
        """The module of each function."""
        return {node: path for node, _, path in self._nodes if isinstance(node, _Function)}

    def constant(self, name: str, inside: list[_Function]) -> str:
        """What a name stands for in the module, or in the one that it is imported from."""
        own = self.constants[self.home[inside[0]]] if inside else {}
        everywhere = {constants[name] for constants in self.constants.values() if name in constants}
        return own.get(name) or (everywhere.pop() if len(everywhere) == 1 else "")

    @cached_property
    def functions(self) -> dict[str, list[_Function]]:
        """Every function by its name."""
        by_name: dict[str, list[_Function]] = {}
        for function in self.home:
            by_name.setdefault(function.name, []).append(function)
        return by_name

    @cached_property
    def errors(self) -> dict[str, str]:
        """Every class of errors by its name, with the one that it is derived from."""
        parents = {
            definition.name: definition.bases[0].id
            for definition in self.definitions
            if isinstance(definition, ast.ClassDef) and definition.bases and isinstance(definition.bases[0], ast.Name)
        }
        classes = {"ModakError": ""}
        while derived := {
            name: parent for name, parent in parents.items() if parent in classes and name not in classes
        }:
            classes.update(derived)
        return classes

    def summary_of(self, error: str) -> str:
        """The first line of an error's docstring."""
        definition = next(definition for definition in self.definitions if definition.name == error)
        return (ast.get_docstring(definition) or "").partition("\n")[0]

    def calls(self) -> Iterator[tuple[ast.Call, list[_Function]]]:
        """Every call, with the functions that it stands in, the outermost first."""
        yield from ((call, inside) for call, inside, _ in self._nodes if isinstance(call, ast.Call))

    def returned(self) -> Iterator[tuple[list[ast.expr], list[_Function]]]:
        """The elements of every tuple that is returned, with the functions that it stands in."""
        for node, inside, _ in self._nodes:
            if isinstance(node, ast.Return) and isinstance(node.value, ast.Tuple):
                yield node.value.elts, inside


def _constants(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for statement in tree.body:
        if isinstance(statement, ast.Assign | ast.AnnAssign) and statement.value:
            for target in statement.targets if isinstance(statement, ast.Assign) else [statement.target]:
                names = target.elts if isinstance(target, ast.Tuple) else [target]
                values = statement.value.elts if isinstance(statement.value, ast.Tuple) else [statement.value]
                for name, value in zip(names, values, strict=False):
                    if isinstance(name, ast.Name) and (text := _text(value)):
                        yield name.id, text


def _below(node: ast.AST, inside: list[_Function]) -> Iterator[tuple[ast.AST, list[_Function]]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Call | ast.Return | ast.ClassDef | _Function):
            yield child, inside
        if not isinstance(child, _LEAVES):
            yield from _below(child, [*inside, child] if isinstance(child, _Function) else inside)


def called(call: ast.Call) -> str:
    """The last name of what is called."""
    if isinstance(call.func, ast.Attribute):
        return call.func.attr
    return call.func.id if isinstance(call.func, ast.Name) else ""


def arguments(call: ast.Call, names: tuple[str, ...]) -> dict[str, ast.expr]:
    """What a call gives, by the names of the parameters."""
    values = {name: value for name, value in zip(names, call.args, strict=False) if not isinstance(value, ast.Starred)}
    return values | {word.arg: word.value for word in call.keywords if word.arg}


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
            return [_joined(combination) for combination in itertools.islice(itertools.product(*parts), _MOST)]
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
            texts = [
                text
                for statement in ast.walk(before)
                if isinstance(statement, ast.Assign | ast.NamedExpr)
                for text in self._assigned(statement, node.id, inside, depth)
            ]
            if any(texts):
                return texts
        return [text for text in [self._source.constant(node.id, inside)] if text]

    def _assigned(
        self, assignment: ast.Assign | ast.NamedExpr, name: str, inside: list[_Function], depth: int
    ) -> list[str]:
        target, value = (
            assignment.target if isinstance(assignment, ast.NamedExpr) else assignment.targets[0],
            assignment.value,
        )
        if isinstance(target, ast.Name) and target.id == name:
            return self.of(value, inside, depth + 1)
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
            for name_node, part in zip(target.elts, value.elts, strict=False):
                if isinstance(name_node, ast.Name) and name_node.id == name:
                    return self.of(part, inside, depth + 1)
        elif isinstance(target, ast.Tuple):
            for place, name_node in enumerate(target.elts):
                if isinstance(name_node, ast.Name) and name_node.id == name:
                    return self._returned_at(value, place, depth)
        return []

    def _returned_at(self, value: ast.expr, place: int, depth: int) -> list[str]:
        """What stands at one place of the tuples that the functions return which an expression calls, one text each."""
        return [
            text
            for call in ast.walk(value)
            if isinstance(call, ast.Call)
            for function in self._source.functions.get(called(call), [])
            for statement in ast.walk(function)
            if isinstance(statement, ast.Return)
            for returned in _tuples(statement.value)
            if len(returned.elts) > place
            for text in self.of(returned.elts[place], [function], depth + 1)[:1] or [""]
        ]

    def _caught(self, name: ast.Name, inside: list[_Function], depth: int) -> list[str]:
        """The words of errors that are caught under a name, where functions of the package raise them."""
        return [
            text
            for attempt in (ast.walk(inside[-1]) if inside else ())
            if isinstance(attempt, ast.Try) and attempt.lineno < name.lineno <= (attempt.end_lineno or 0)
            if any(handler.name == name.id for handler in attempt.handlers)
            for statement in attempt.body
            for call in ast.walk(statement)
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
        texts = [
            text
            for function in self._source.functions.get(name, [])
            for statement in ast.walk(function)
            if isinstance(statement, ast.Return)
            for text in self.of(statement.value, [function], depth + 1)
        ]
        return list(dict.fromkeys(texts))

    def _parts(self, node: ast.expr, inside: list[_Function], depth: int) -> list[str]:
        """What may stand at one place of a text: a reason that the code gives in words, or else one name."""
        value = node.value if isinstance(node, ast.FormattedValue) else node
        if isinstance(value, ast.Name) and re.search("problem|reason|words|why", value.id):
            reasons = self.of(value, inside, depth + 1)
            return reasons if any(" " in text for text in reasons) else [self._part(node, inside)]
        return [self._part(node, inside)]

    def _part(self, node: ast.expr, inside: list[_Function]) -> str:
        if isinstance(node, ast.Constant):
            return str(node.value)
        value = node.value if isinstance(node, ast.FormattedValue) else node
        if isinstance(value, ast.Name) and (text := self._source.constant(value.id, inside)):
            return text
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
        statement = next(
            (candidate for candidate in body if candidate.lineno <= node.lineno <= (candidate.end_lineno or 0)), None
        )
        if statement is None:
            break
        passed = [*reversed(body[: body.index(statement)]), *passed]
        blocks = [getattr(statement, name, []) for name in ("body", "orelse", "finalbody")]
        blocks += [handler.body for handler in getattr(statement, "handlers", [])]
        body = next(
            (block for block in blocks if block and block[0].lineno <= node.lineno <= (block[-1].end_lineno or 0)), []
        )
        passed = [getattr(statement, "test", None) or statement, *passed] if body else [statement, *passed]
    yield from passed


def _name_of(node: ast.expr) -> str:
    """What the code calls a value, in capitals; the sign for something left out where it has no name."""
    if isinstance(node, ast.Call):
        if isinstance(node.func, ast.Attribute) and hasattr(str, node.func.attr) and node.func.attr != "join":
            return _name_of(node.func.value)
        is_about = called(node) in (
            "join",
            "quote",
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
    by_name: dict[str, list[Signature]] = {}
    for definition in source.definitions:
        if isinstance(definition, ast.ClassDef):
            _note(by_name, definition.name, _of_class(definition))
        elif definition.name != "__init__":
            _note(by_name, definition.name, _of_function(definition))
    return by_name


def _note(by_name: dict[str, list[Signature]], name: str, signature: Signature | None) -> None:
    if signature and signature not in by_name.get(name, []):
        by_name.setdefault(name, []).append(signature)


def _of_class(definition: ast.ClassDef) -> Signature | None:
    for inner in definition.body:
        if isinstance(inner, _Function) and inner.name == "__init__":
            return _of_function(inner) or _of_one_rule(inner)
    names = tuple(
        inner.target.id
        for inner in definition.body
        if isinstance(inner, ast.AnnAssign) and isinstance(inner.target, ast.Name)
    )
    return Signature(names, "rule", "message", "") if {"rule", "message"} <= set(names) else None


def _of_one_rule(function: _Function) -> Signature | None:
    """Of an error that always breaks the same rule, and hands its words on."""
    names = tuple(argument.arg for argument in function.args.args[1:])
    for call in ast.walk(function):
        if isinstance(call, ast.Call) and called(call) == "FieldProblem" and _text(call.args[0]):
            return Signature(names, "", "reason", _text(call.args[0]))
    return None


def _of_function(function: _Function) -> Signature | None:
    parameters = [
        argument for argument in (*function.args.args, *function.args.kwonlyargs) if argument.arg not in ("self", "cls")
    ]
    names = tuple(argument.arg for argument in parameters)
    kinds = {argument.arg: ast.unparse(argument.annotation) if argument.annotation else "" for argument in parameters}
    values = [*function.args.defaults, *(value for value in function.args.kw_defaults if value)]
    defaults = dict(zip(names[len(names) - len(values) :], values, strict=False))
    message = next((name for name in ("message", "reason", "problem") if name in names), "")
    if kinds.get("rule") == "str":
        return Signature(names, "rule", message, _text(defaults.get("rule")))
    # here rule is the function that finds the problem, and another parameter the rule's name
    name = next((name for name in ("rule_name", "name") if _text(defaults.get(name))), "")
    if kinds.get("rule", "").startswith("Callable") and name:
        return Signature(names, name, "", _text(defaults[name]))
    return None


def _text(node: ast.expr | None) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def rules(source: Source) -> dict[str, list[Message]]:
    """Every rule, with the messages that are told under its name."""
    by_rule: dict[str, set[Message]] = {}
    words, all_signatures = Words(source), signatures(source)
    for call, inside in source.calls():
        for signature in all_signatures.get(called(call), []):
            values = arguments(call, signature.names)
            names = words.of(values.get(signature.rule), inside) if signature.rule in values else [signature.default]
            messages = words.of(values.get(signature.message), inside) if signature.message else []
            if not signature.message:  # what finds the problem is given, and says it
                messages = words.of(ast.Call(values["rule"], [], []), inside) if "rule" in values else []
            hints = words.of(values.get("hint"), inside)
            for name in filter(_is_rule, names):
                by_rule.setdefault(name, set()).update(_paired(messages, hints))
    for name, message in _returned_tuples(source, words):
        by_rule.setdefault(name, set()).add(message)
    for name, functions in source.functions.items():
        if name.endswith("_problem") and any("text_rules" in str(source.home[function]) for function in functions):
            by_rule.setdefault("unsafe-value", set()).update(Message(text, "") for text in words._returned(name, 0))
    return {name: sorted(messages) for name, messages in sorted(by_rule.items())}


def _is_rule(name: str) -> bool:
    return re.fullmatch(r"[a-z]+(-[a-z]+)*", name) is not None


def _paired(messages: list[str], hints: list[str]) -> Iterator[Message]:
    """Messages with their hints: where there are as many of both they belong together; none rather than a wrong one."""
    if len(messages) != len(hints):
        hints = [hints[0] if len(hints) == 1 else ""] * len(messages)
    yield from (Message(message, hint) for message, hint in zip(messages, hints, strict=True) if message)


def _returned_tuples(source: Source, words: Words) -> Iterator[tuple[str, Message]]:
    """Of functions that return a rule with its message and its hint."""
    for elements, inside in source.returned():
        values = [words.of(one, inside) for one in elements] if len(elements) == 3 else []
        for first in (0, 1) if values else ():
            name = _text(elements[first])
            if "-" in name and _is_rule(name) and values[first + 1]:
                hint = values[2][0] if first == 0 and values[2] else ""
                yield name, Message(values[first + 1][0], hint)


# --- errors and findings


# What the job script cannot say is told as what no plan fits.
_SHOWN_AS = {"CannotExpress": "CannotPlan"}


def errors(source: Source) -> dict[str, list[Message]]:
    """What is raised, by the class of the error, except what a rule tells."""
    by_class: dict[str, set[Message]] = {}
    words = Words(source)
    for call, inside in source.calls():
        name = called(call)
        name = _SHOWN_AS.get(name, name)
        if name in source.errors and name != "InvalidBlueprint":
            names = ("about", "message", "hint") if name == "CannotPlan" else ("message",)
            values = arguments(call, names)
            messages = _paired(words.of(values.get("message"), inside), words.of(values.get("hint"), inside))
            by_class.setdefault(name, set()).update(messages)
    return {name: sorted(messages) for name, messages in sorted(by_class.items())}


def findings(source: Source) -> Mapping[str, list[tuple[str, Message]]]:
    """What a preflight may find, by what it is about: warning or missing, what was seen, what to do."""
    by_subject: dict[str, set[tuple[str, Message]]] = {}
    words = Words(source)
    for call, inside in source.calls():
        if called(call) in ("warning", "missing") and len(call.args) > 1 and (about := _text(call.args[0])):
            values = arguments(call, ("about", "seen", "todo"))
            observations = words.of(values["seen"], inside) or [_name_of(values["seen"])]
            messages = _paired(observations, words.of(values.get("todo"), inside))
            by_subject.setdefault(about, set()).update((called(call), message) for message in messages)
    return {about: sorted(message) for about, message in sorted(by_subject.items())}
