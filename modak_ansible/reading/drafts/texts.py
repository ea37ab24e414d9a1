"""The paths that a script's source spells out: texts put together of literals, with * for what is known at run time."""

from __future__ import annotations

import ast
import posixpath
import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count, takewhile
from pathlib import Path
from string import Formatter
from typing import Any, NamedTuple, TypeAlias

from modak_ansible.reading.blueprint.script.syntax import cached, children_of, forget, last_name, syntax_of

ANY = "*"
FORMATTED = re.compile(r"\{[^{}]*\}")
_PERCENT = re.compile(r"%(?:%|(?:\((\w+)\))?([-+# 0-9.]*)[a-zA-Z])")
# What gives the folder in which a script runs, which is its own.
_OF_SCRIPT = re.compile(r"os\.getcwd\(\)|(pathlib\.)?Path\.cwd\(\)|(pathlib\.)?Path\(\)")
_VARIABLE = re.compile(r"(os\.)?(getenv|environ\.get)")
Calls: TypeAlias = Mapping[str, Sequence[tuple[str, ast.Call]]]
_MOST_VALUES, _MOST_NESTED = 4, 2  # of a variable that has several, and of such that are made of each other
_JOIN, _SPLIT = (re.compile(rf"(\w*path\.|os\.path\.|osp\.)?{name}") for name in ("join", "split"))
_SAME = ("resolve", "absolute", "expanduser", "as_posix", "rstrip", "strip")
PLAIN_CALLS = ("str", "Path", "PosixPath", "PurePath", "abspath", "realpath", "expanduser", "fspath", "normpath")


class _Place(NamedTuple):
    function: ast.AST | None = None  # within which something is done
    is_perhaps: bool = False  # whether it is done in a case only, or again and again


class _Variables(NamedTuple):
    """What a file says of its variables.

    Attributes:
        values: what each is assigned; places: where that is done; uses: of each.
        functions: by what calls them.
    """

    values: dict[str, list[ast.expr]]
    places: dict[ast.expr, _Place]
    uses: dict[str, list[ast.Name | ast.Attribute]]
    functions: list[tuple[str, ast.FunctionDef]]


class Texts:
    """What expressions of one file are, as far as its literals say.

    Args:
        tree: the file's syntax.
        options: the defaults of the script's options, by the names that hold their values.
        path: the file's, below the script's folder.
        calls: what is called in this file and others, with their paths, by the last names; without them nothing is
            known of parameters.
    """

    def __init__(self, tree: ast.AST, options: Mapping[str, str], path: str = "", calls: Calls | None = None) -> None:
        self._options = options
        self._texts: dict[str, str | None] = {"__file__": path or "script.py"}  # what variables hold
        self._before: dict[str, str | None] = {}  # of those that are being looked at
        self._asked: set[str] = set()  # of these those that others are made of
        variables = _variables_of(tree)
        self._assigned, self._places, self._uses = variables.values, variables.places, variables.uses
        self._parameters: set[str] = set()
        if calls is not None:
            self._assigned, self._places = {**variables.values}, {**variables.places}
            self._add_parameters(variables, path, calls)

    def _add_parameters(self, variables: _Variables, path: str, calls: Calls) -> None:
        parameters = (pair for function in variables.functions for pair in _argument_values(*function, path, calls))
        for name, value in parameters:
            if name not in variables.values:
                self._parameters.add(name)
                self._assigned.setdefault(name, []).append(value)
                self._places.setdefault(value, _Place(is_perhaps=True))

    def of(self, node: ast.expr | None, depth: int = 0) -> str | None:
        """A text with * for its unknown parts; None where nothing of it is known."""
        if node is None or depth > 20:
            return None
        if isinstance(node, ast.Constant):
            return node.value if isinstance(node.value, str) else None
        if isinstance(node, ast.JoinedStr):
            return self._together(self.of(value, depth + 1) for value in node.values)
        if isinstance(node, ast.FormattedValue):
            return self.of(node.value, depth + 1) or ANY
        if isinstance(node, ast.BinOp):
            return self._operation(node, depth)
        if isinstance(node, ast.Name):
            return self._variable(node.id, depth)
        if isinstance(node, ast.Attribute):
            path = self.of(node.value, depth + 1) if node.attr == "parent" else None
            return self._attribute(node, depth) if path is None else _above(path)
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
            return self._item(node.value, node.slice.value, depth)
        if isinstance(node, ast.IfExp | ast.BoolOp):
            operands = node.values if isinstance(node, ast.BoolOp) else [node.body, node.orelse]
            return next((text for operand in operands if (text := self.of(operand, depth + 1)) is not None), None)
        if isinstance(node, ast.Call):
            return self._call(node, depth)
        return None

    def _variable(self, name: str, depth: int) -> str | None:
        """What a variable holds; of several values what they have in common, and of those that are made of what it held
        before the last, and what that has in common with the one before where it may hold that, too."""
        if name in self._before:
            self._asked.add(name)
            return self._before[name]
        if name in self._texts or name not in self._assigned:
            return self._texts.get(name, self._options.get(name))
        values = self._assigned[name]
        if len(values) > _MOST_VALUES or (len(values) > 1 and len(self._before) >= _MOST_NESTED):
            return None
        outer, self._asked = self._asked, set()
        self._before[name] = None  # while what it is made of is looked at
        goes_on = [value for value in values if any(_name_of(node) == name for node in ast.walk(value))]
        texts = [self.of(value, depth + 1) for value in values if value not in goes_on]
        option = self._options.get(name.partition(".")[2])  # that an attribute has the value of at first
        if option and any(value in goes_on or self._places[value].is_perhaps for value in values):
            texts.append(option)
        text = _in_common(texts)
        for value in goes_on:
            self._before[name] = before = text
            text = self.of(value, depth + 1)
            text = text if self._takes_its_place(name, value) else _in_common([before, text])
        del self._before[name]
        self._asked.discard(name)
        if text is None and name in self._parameters:
            text = self._options.get(name)
        if not self._asked:  # nothing that is still being looked at counts
            self._texts[name] = text
        self._asked |= outer
        return text

    def _takes_its_place(self, name: str, value: ast.expr) -> bool:
        """Whether a value, made of what a variable held before, is all that it is used with."""
        values, place = self._assigned[name], self._places[value]
        if place.is_perhaps or isinstance(value, ast.IfExp):
            return False
        inner_nodes = {inner for assigned in values for inner in ast.walk(assigned)}
        is_used = any(use.lineno < value.lineno and use not in inner_nodes for use in self._uses.get(name, ()))
        return not is_used and all(self._places[assigned].function is place.function for assigned in values)

    def _item(self, node: ast.expr, key: object, depth: int) -> str | None:
        """One of the command line's words, of the folders of a path, or of what holds options."""
        if isinstance(node, ast.Attribute) and node.attr == "parents" and isinstance(key, int):
            return _above(self.of(node.value, depth + 1), key + 1)
        written = ast.unparse(node.func if isinstance(node, ast.Call) else node)
        if isinstance(node, ast.Call) and node.args and key == 0 and _SPLIT.fullmatch(written):
            is_text = isinstance(node.args[0], ast.Constant)  # at which one that is called a path is split
            return None if is_text else _above(self.of(node.args[0], depth + 1))
        word = self._options.get(f"sys.argv[{key}]") if written == "sys.argv" else None
        return word or self._options.get(str(key))

    def _attribute(self, node: ast.Attribute, depth: int) -> str | None:
        """What an attribute holds: what it gets here; else by its name what options do, or a variable with one of
        absl's flags."""
        if _name_of(node) in self._assigned:
            return self._variable(_name_of(node), depth)
        owner = self._assigned.get(node.value.id, []) if isinstance(node.value, ast.Name) else []
        if node.attr == "value" and len(owner) == 1 and isinstance(owner[0], ast.Call) and owner[0].args:
            return self._options.get(str(getattr(owner[0].args[0], "value", "")))
        return self._options.get(node.attr)

    def _together(self, parts: Iterable[str | None]) -> str | None:
        text = re.sub(r"\*+", ANY, "".join(ANY if part is None else part for part in parts))
        return text if text.strip(ANY) else None

    def _operation(self, node: ast.BinOp, depth: int) -> str | None:
        left, right = self.of(node.left, depth + 1), self.of(node.right, depth + 1)
        if isinstance(node.op, ast.Add):
            return self._together((left, right))
        if isinstance(node.op, ast.Div):
            return _joined([left, right])
        if isinstance(node.op, ast.Mod) and left is not None:
            values = node.right.elts if isinstance(node.right, ast.Tuple) else [node.right]
            return self._together((_percent(left, self._values(values, depth)),))
        return None

    def _values(self, nodes: Sequence[ast.expr], depth: int) -> list[str | None]:
        """Those of some arguments in their order, as far as it is known."""
        plain = takewhile(lambda node: not isinstance(node, ast.Starred), nodes)
        return [self.of(node, depth + 1) for node in plain]

    def _call(self, node: ast.Call, depth: int) -> str | None:
        name = last_name(node.func)
        if name in ("getcwd", "cwd", "Path") and _OF_SCRIPT.fullmatch(ast.unparse(node)):
            return "."
        if name == "home" and not node.args:
            return "~"
        words = [self.of(argument, depth + 1) for argument in node.args]
        if _VARIABLE.fullmatch(ast.unparse(node.func)) and words and not (words[0] or "").startswith("MODAK_"):
            default = next((keyword.value for keyword in node.keywords if keyword.arg == "default"), None)
            return words[1] if len(words) > 1 else self.of(default, depth + 1)  # which nobody sets for a job
        if name == "files" and len(words) == 1 and words[0]:  # importlib.resources' folder of a package
            return words[0].replace(".", "/")
        if name == "join" and _JOIN.fullmatch(ast.unparse(node.func)):
            return _joined(words)
        if name == "dirname" and words:
            return _above(words[0])
        if name == "joinpath" and isinstance(node.func, ast.Attribute):
            return _joined([self.of(node.func.value, depth + 1), *words])
        if name == "format" and isinstance(node.func, ast.Attribute):
            text = self.of(node.func.value, depth + 1)
            if text is None:
                return None
            named = {keyword.arg: self.of(keyword.value, depth + 1) for keyword in node.keywords if keyword.arg}
            return self._together((_formatted(text, self._values(node.args, depth), named),))
        if name in _SAME and isinstance(node.func, ast.Attribute) and not node.args:
            return self.of(node.func.value, depth + 1)
        if name in PLAIN_CALLS and words:
            return _joined(words)
        return None


def constants_of(trees: Mapping[str, ast.Module]) -> dict[str, str]:
    """The texts that files hold under names in capitals, as modules of settings do; not of a name that has several."""
    values_by_name: dict[str, set[str | None]] = {}
    for path, tree in trees.items():
        texts = Texts(tree, {}, path)
        bodies = [tree.body, *(node.body for node in tree.body if isinstance(node, ast.ClassDef))]
        for name, value in (assignment for body in bodies for node in body for assignment in _assignments(node)):
            if name.isupper():
                values_by_name.setdefault(name, set()).add(texts.of(value))
    single = {name: next(iter(values)) for name, values in values_by_name.items() if len(values) == 1}
    return {name: value for name, value in single.items() if value}


def _percent(text: str, values: Sequence[str | None]) -> str:
    """What % makes of a text: the values where they stand as they are, and ANY for others."""
    remaining = iter(values)

    def value_of(match: re.Match[str]) -> str:
        name, form = match.groups()
        if match.group() == "%%":
            return "%"
        value = None if name else next(remaining, None)
        return ANY if form or value is None else value

    return _PERCENT.sub(value_of, text)


def _formatted(text: str, values: Sequence[str | None], named: Mapping[str, str | None]) -> str:
    """What ``format`` makes of a text, likewise."""
    fields = {**{str(number): value for number, value in enumerate(values)}, **named}
    result, places = "", count()
    try:
        for before, name, form, conversion in Formatter().parse(text):
            result += before
            if name is not None:
                value = fields.get(name or str(next(places)))
                result += ANY if form or conversion or value is None else value
    except ValueError:  # no form at all
        return FORMATTED.sub(ANY, text)
    return result


def override_variables(tree: ast.Module, folder: Path, words: Sequence[str]) -> None:
    """Gives the variables of a script that executes settings the values that its command line says.

    Such a script, nanoGPT's being the best known, has its defaults as variables, and runs other files and
    ``--name=value`` over them with ``exec``.
    """
    if not any(isinstance(node, ast.Call) and last_name(node.func) == "exec" for node in ast.walk(tree)):
        return
    values: dict[str, Any] = {}
    for word in words:
        name, is_given, value = word.removeprefix("--").partition("=")
        if word.startswith("--") and is_given:
            values[name] = value
        elif word.endswith(".py"):
            values |= _constants(folder / word)
    for node in tree.body:
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
            node.value = ast.copy_location(ast.Constant(values[name]), node.value) if name in values else node.value
    forget(tree)


def _constants(path: Path) -> dict[str, Any]:
    body = tree.body if (tree := syntax_of(path)) else []
    return {name: value.value for node in body for name, value in _assignments(node) if isinstance(value, ast.Constant)}


def below(text: str) -> str:
    """A path below the script's folder, as short as it can be; empty where it is none, or the folder itself."""
    if not text or text.startswith(("/", "~", "-")) or not text.isprintable() or "://" in text or len(text) > 200:
        return ""
    path = posixpath.normpath(text)
    return "" if path == "." or path.partition("/")[0] == ".." else path


def _joined(parts: list[str | None]) -> str | None:
    texts = [ANY if part is None else part for part in parts]
    if all(part == ANY for part in texts):
        return None
    text = ""
    for part in texts:
        text = part if part.startswith("/") or text in ("", ".") else f"{text.rstrip('/')}/{part}"
    return text


def _above(path: str | None, levels: int = 1) -> str | None:
    """The folder that a path lies in, or one so many levels above it; None where a part of the path is not known."""
    if path is None or ANY in path:
        return None
    return posixpath.normpath(posixpath.join(path, *[".."] * levels))


def _name_of(node: ast.AST) -> str:
    """That of a variable, or of an attribute of one with it; empty for anything else."""
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return f"{node.value.id}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def _functions_of(node: ast.AST) -> list[tuple[str, ast.FunctionDef]]:
    """The function that a statement defines, or that makes an object of the class, by the name of what calls it."""
    if isinstance(node, ast.ClassDef):
        return [
            (node.name, item) for item in node.body if isinstance(item, ast.FunctionDef) and item.name == "__init__"
        ]
    return [(node.name, node)] if isinstance(node, ast.FunctionDef) and node.name != "__init__" else []


def _argument_values(callee: str, function: ast.FunctionDef, path: str, calls: Calls) -> Iterator[tuple[str, ast.expr]]:
    """What the parameters of a function get: by the calls that say it, and else by default."""
    args, elsewhere = function.args, ast.Constant(0)  # which stands for what is known in another file alone
    places = [node.arg for node in (*args.posonlyargs, *args.args)]
    names = [*places[places[:1] in (["self"], ["cls"]) :], *(node.arg for node in args.kwonlyargs)]
    defaults = dict(zip(reversed(places), reversed(args.defaults), strict=False))
    defaults |= {node.arg: value for node, value in zip(args.kwonlyargs, args.kw_defaults, strict=True) if value}
    bindings = []
    for place, call in calls.get(callee, ()):
        binding: dict[str | None, ast.expr] = dict(zip(names, call.args, strict=False))
        binding |= {word.arg: word.value for word in call.keywords}
        if None in binding or any(isinstance(value, ast.Starred) for value in call.args):  # whatever these hold
            binding = dict.fromkeys(names, elsewhere)
        is_own = place == path
        bindings.append(
            {name: value if is_own or isinstance(value, ast.Constant) else elsewhere for name, value in binding.items()}
        )
    for name in names:
        values = [value for binding in bindings if (value := binding.get(name, defaults.get(name)))]
        different = {ast.dump(value): value for value in values if getattr(value, "value", value) is not None}
        # an empty text is mostly where others stand
        yield from (
            (name, elsewhere if getattr(value, "value", value) == "" else value) for value in different.values()
        )


def _in_common(texts: Sequence[str | None]) -> str | None:
    """A text that stands for some others, with ANY where they differ; None where one of them is not known."""
    known_texts = [text for text in texts if text is not None]
    if not known_texts or len(known_texts) < len(texts):
        return None
    first, before = known_texts[0], _common_letters(known_texts)
    if all(text == first for text in known_texts):
        return first
    after = min(_common_letters([text[::-1] for text in known_texts]), min(map(len, known_texts)) - before)
    text = re.sub(r"\*+", ANY, f"{first[:before]}{ANY}{first[len(first) - after :]}")
    return text if text.strip(ANY) else None


def _common_letters(texts: Sequence[str]) -> int:
    """How many letters they begin with alike."""
    columns = enumerate(zip(*texts, strict=False))
    return next((number for number, column in columns if len(set(column)) > 1), min(map(len, texts)))


def _with_places(tree: ast.AST) -> Iterator[tuple[ast.AST, _Place]]:
    """All that a file is made of, as nodes_of gives it, and where it is."""
    waiting = deque([(tree, _Place())])
    while waiting:
        node, place = waiting.popleft()
        yield node, place
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            place = _Place(node)
        elif isinstance(node, ast.For | ast.While | ast.Try) or (isinstance(node, ast.If) and not _is_of_main(node)):
            place = place._replace(is_perhaps=True)
        waiting.extend((child, place) for child in children_of(node))


@cached
def _variables_of(tree: ast.AST) -> _Variables:
    variables = _Variables({}, {}, {}, [])
    for node, place in _with_places(tree):
        if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load):
            variables.uses.setdefault(_name_of(node), []).append(node)
        for target, value in _assignments(node):
            if getattr(value, "value", value) is not None:  # which is no path
                variables.values.setdefault(target, []).append(value)
                variables.places[value] = place
        variables.functions.extend(_functions_of(node))
    return variables


def _is_of_main(node: ast.If) -> bool:
    return any(_name_of(inner) == "__name__" for inner in ast.walk(node.test))


def _pairs(target: ast.expr, value: ast.expr) -> list[tuple[ast.expr, ast.expr]]:
    """What is assigned to what, where several variables get several values, too."""
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
        return list(zip(target.elts, value.elts, strict=True))
    return [(target, value)]


def _assignments(node: ast.AST) -> list[tuple[str, ast.expr]]:
    """The variables that a statement gives a value, and the values."""
    if isinstance(node, ast.Assign):
        targets = [pair for target in node.targets for pair in _pairs(target, node.value)]
    elif isinstance(node, ast.AnnAssign) and node.value is not None:
        targets = [(node.target, node.value)]
    elif isinstance(node, ast.AugAssign):
        targets = [(node.target, ast.copy_location(ast.BinOp(node.target, node.op, node.value), node))]
    elif isinstance(node, ast.For):
        targets = [(node.target, node.iter)]
    else:
        return []
    return [(name, value) for target, value in targets if (name := _name_of(target))]
