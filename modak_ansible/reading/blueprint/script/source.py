"""The options that one Python file declares: with argparse, as its one command of click or typer, or for a library."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any, TypeAlias

from modak_ansible.reading.blueprint.script.libraries import absl_options, dataclass_options, parsed_classes
from modak_ansible.reading.blueprint.script.option import Option, literal
from modak_ansible.reading.blueprint.script.starting import module_of
from modak_ansible.reading.blueprint.script.syntax import assigned_in, cached, children_of, last_name, parts_of

_PARSER = "argparse.ArgumentParser"
_READ_FROM_ELSEWHERE = {"parents", "prefix_chars", "fromfile_prefix_chars"}
# What a parser may be asked for without taking options that are not seen here.
_HARMLESS = {
    "add_argument", "add_argument_group", "add_mutually_exclusive_group", "add_subparsers", "add_parser", "required",
    "dest", "title", "metavar", "set_defaults", "get_default", "parse_args", "parse_intermixed_args", "error", "exit",
    "print_help", "print_usage", "format_help", "format_usage", "prog", "description", "epilog", "usage",
}  # fmt: skip
# All words of the command line, which is what a parser reads by itself.
_WORDS = "sys.argv[1:]"
# What gives another parser, or what stands for one.
_GROUPS = ("add_argument_group", "add_mutually_exclusive_group", "add_subparsers", "add_parser")
_ALONE = ("store_true", "store_false", "store_const", "append_const", "count", "help", "version")
_CLICK_PLAIN = ("argument", "help_option", "version_option", "pass_context", "pass_obj")

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef


class ScriptSource:
    """What one file says of its command line.

    Attributes:
        imported: the modules that it imports, and what may be modules.
        used: what it names, by full names such as ``torch.distributed.get_rank``, and the first line of each.
        options: those that are added to a parser of argparse, by literal names.
        places: what is given by its place and by no name, of whichever of the three it has.
        makes_parsers: how many parsers of argparse it makes.
        parses: whether a parser reads the command line in it.
        abbreviates: whether its parsers take the beginning of a name for it.
        handed_to: the modules whose code gets a parser, and may add to it; empty for code that nobody knows.
        makes_names: whether options get their names at run time.
        is_script: whether it is a script of its own where it is started itself, and not imported.
        is_dynamic: whether options may be declared in ways that are not seen.
        has_commands: whether a word names one of several commands, and options may be another's.
        is_doubtful: whether the options that are seen may not be those of the script's own command line.
        command: the options of its commands of click or typer; None where it has none.
        flags: those that it defines with absl.
        classes: the options that its dataclasses would become, by the names of these.
        parsed: the names of the dataclasses that are options, be they its own.
    """

    def __init__(self, tree: ast.Module) -> None:
        self.imported: set[str] = set()
        self.used: dict[str, int] = {}
        self.options: list[Option] = []
        self.places: list[Option] = []
        self.makes_parsers = 0
        self.parses = False
        self.abbreviates = True
        self.handed_to: set[str] = set()
        self.makes_names = False
        self.is_script = any(isinstance(node, ast.If) and "__name__" in ast.unparse(node.test) for node in tree.body)
        self.is_dynamic = False
        self.is_doubtful = False
        self.has_commands = False
        self.command: tuple[Option, ...] | None = None
        self._nodes: list[ast.AST] = [tree]  # all, in the order of nodes_of
        self._parents: dict[ast.AST, ast.AST] = {}
        for node in self._nodes:
            children = children_of(node)
            self._parents.update(dict.fromkeys(children, node))
            self._nodes += children
        self._calls: list[ast.Call] = self._of(ast.Call)
        self._dotted: list[ast.Name | ast.Attribute] = self._of(ast.Name, ast.Attribute)
        self._class_defs: list[ast.ClassDef] = self._of(ast.ClassDef)
        self._full_names: dict[str, str] = {}
        self._functions: dict[str, Function] = {
            node.name: node for node in self._of(ast.FunctionDef, ast.AsyncFunctionDef)
        }
        self._classes = {_PARSER}
        self._parsers: set[str] = set()
        self._makers: set[str] = set()  # functions that give back a parser that they make
        self._read()

    def calls(self) -> Iterator[tuple[str, ast.Call]]:
        """What it calls, by full names, which are empty for what is no dotted name."""
        return ((self._name(call.func), call) for call in self._calls)

    def numbers_at(self, name: str) -> dict[str, int]:
        """What all calls of a full name are given alike by keyword as plain numbers."""
        constants = [
            {(keyword.arg, keyword.value.value) for keyword in call.keywords if isinstance(keyword.value, ast.Constant)}
            for call in self._calls
            if self._name(call.func) == name
        ]
        common = set.intersection(*constants) if constants else set()
        return {name: value for name, value in common if name and type(value) is int}

    def _read(self) -> None:
        for statement in self._of(ast.Import, ast.ImportFrom):
            self._import(statement)
        script_paths = [call.args[0] for name, call in self.calls() if name == "runpy.run_path" and call.args]
        self.imported |= {module_of(path) for argument in script_paths if isinstance(path := literal(argument), str)}
        for definition in self._class_defs:
            if any(self._name(base) == _PARSER for base in definition.bases):
                self._classes.add(definition.name)
                self.is_doubtful = True
        calls = [call for call in self._calls if self._name(call.func) in self._classes]
        for call in calls:
            self._note_parser(call)
        self._makers = {
            name for name, function in self._functions.items() if calls and _returns_one_of(calls, function)
        }
        for call in self._calls:
            self._note_parser_variable(call)
        for node in self._dotted:
            name = self._name(node)
            self.used[name] = min(node.lineno, self.used.get(name, node.lineno))
            if name in ("sys.argv", "sys.orig_argv") and ast.unparse(self._parents[node]) != _WORDS:
                self.is_doubtful = True  # which may change them
            if name in self._classes and not self._is_plain_use(node):
                self.is_dynamic = True  # which may be handed on
            if isinstance(node, ast.Attribute):
                self._attribute(node)
            elif isinstance(node.ctx, ast.Load) and self._is_parser(node):
                self._note_other_use(node)
        self._commands()
        self.flags = tuple(absl_options(self._calls, self._name))
        self.parsed = parsed_classes(self._calls, self._name, assigned_in(self._of(ast.Assign)))
        self.classes = {node.name: dataclass_options(node) for node in self._class_defs if _is_dataclass(node)}

    def _of(self, *kinds: type[ast.AST]) -> list[Any]:
        return [node for node in self._nodes if type(node) in kinds]

    def _import(self, node: ast.Import | ast.ImportFrom) -> None:
        if isinstance(node, ast.Import):
            for alias in node.names:
                self.imported.add(alias.name)
                first = alias.name.split(".")[0]
                self._full_names[alias.asname or first] = alias.name if alias.asname else first
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                name = f"{node.module}.{alias.name}" if node.module else alias.name
                self.imported |= {name, node.module or alias.name}
                self._full_names[alias.asname or alias.name] = name

    def _name(self, node: ast.AST) -> str:
        """``argparse.ArgumentParser`` of whatever names it here; empty for what is no dotted name."""
        if isinstance(node, ast.Name):
            return self._full_names.get(node.id, node.id)
        if isinstance(node, ast.Attribute):
            owner = self._name(node.value)
            return f"{owner}.{node.attr}" if owner else ""
        return ""

    # --- argparse

    def _note_parser(self, call: ast.Call) -> None:
        self.makes_parsers += 1
        keywords = {keyword.arg: keyword.value for keyword in call.keywords}
        if None in keywords or _READ_FROM_ELSEWHERE & set(keywords) or len(call.args) > 4:
            self.is_dynamic = True
        if "allow_abbrev" in keywords and literal(keywords["allow_abbrev"]) is not True:
            self.abbreviates = False

    def _note_parser_variable(self, node: ast.Call) -> None:
        """Notes the variables that hold a parser or a group of one; a parser that is held otherwise is out of sight."""
        is_parser = self._name(node.func) in self._classes
        is_group = isinstance(node.func, ast.Attribute) and node.func.attr in _GROUPS
        is_maker = isinstance(node.func, ast.Name) and node.func.id in self._makers
        if not (is_parser or is_group or is_maker):
            return
        parent = self._parents.get(node)
        if isinstance(parent, ast.Assign) and len(parent.targets) == 1 and isinstance(parent.targets[0], ast.Name):
            self._parsers.add(parent.targets[0].id)
        elif isinstance(parent, ast.AnnAssign) and isinstance(parent.target, ast.Name):
            self._parsers.add(parent.target.id)
        elif not isinstance(parent, ast.Attribute | ast.Expr | ast.Return):
            self.is_dynamic = True

    def _is_plain_use(self, node: ast.AST) -> bool:
        """Whether a parser's class is called, derived from, or an annotation."""
        parent = self._parents.get(node)
        if isinstance(parent, ast.Call):
            return parent.func is node
        if isinstance(parent, Function):
            return parent.returns is node
        return isinstance(parent, ast.ClassDef | ast.arg) or getattr(parent, "annotation", None) is node

    def _attribute(self, node: ast.Attribute) -> None:
        parent = self._parents.get(node)
        call = parent if isinstance(parent, ast.Call) and parent.func is node else None
        if node.attr == "add_argument":
            self._add_options([call] if call else self._calls_of_alias(parent))
        elif node.attr in ("add_subparsers", "add_parser"):
            self.has_commands = True
            words = {keyword.arg for keyword in call.keywords} if call else {None}
            self.is_dynamic |= bool({None, "parser_class", *_READ_FROM_ELSEWHERE} & words)
        elif node.attr in ("parse_known_args", "parse_known_intermixed_args"):
            self.is_dynamic = True
        elif node.attr in ("parse_args", "parse_intermixed_args"):
            self.parses = True
            arguments = [ast.unparse(argument) for argument in (*call.args, *call.keywords)] if call else ["elsewhere"]
            self.is_doubtful |= arguments not in ([], [_WORDS])
        elif isinstance(node.value, ast.Name) and node.attr not in _HARMLESS and self._is_parser(node.value):
            self.is_dynamic = True

    def _is_parser(self, node: ast.Name) -> bool:
        """Whether a name is that of a parser, and not of something else within a comprehension or a lambda."""
        if node.id not in self._parsers:
            return False
        within: ast.AST | None = node
        while within is not None:
            loops: list[ast.comprehension] = getattr(within, "generators", [])
            targets = [part for loop in loops for part in ast.walk(loop.target)]
            if any(isinstance(part, ast.Name) and part.id == node.id for part in targets):
                return False
            if isinstance(within, ast.Lambda) and node.id in {argument.arg for argument in within.args.args}:
                return False
            within = self._parents.get(within)
        return True

    def _add_options(self, calls: list[ast.Call] | None) -> None:
        self.is_dynamic |= calls is None
        for call in calls or ():
            option = _argument(call)
            if option is None:
                self.makes_names = True
            elif option.names[0].startswith("-"):
                self.options.append(option)
            else:
                self.places.append(option)

    def _calls_of_alias(self, parent: ast.AST | None) -> list[ast.Call] | None:
        """The calls of a variable that holds add_argument; None for whatever else becomes of it."""
        if not (isinstance(parent, ast.Assign) and all(isinstance(target, ast.Name) for target in parent.targets)):
            return None
        names = {target.id for target in parent.targets if isinstance(target, ast.Name)}
        uses = [node for node in self._nodes if isinstance(node, ast.Name) and node.id in names]
        calls = [self._parents.get(use) for use in uses if isinstance(use.ctx, ast.Load)]
        alias_calls = [call for call in calls if isinstance(call, ast.Call) and isinstance(call.func, ast.Name)]
        return alias_calls if len(alias_calls) == len(calls) else None

    def _note_other_use(self, node: ast.Name) -> None:
        """Notes what else becomes of a parser than that its methods are called."""
        parent = self._parents.get(node)
        call = self._parents.get(parent) if isinstance(parent, ast.keyword) else parent
        if isinstance(parent, ast.Attribute | ast.Return):
            return
        if not isinstance(call, ast.Call):
            self.is_dynamic = True
            return
        self.is_doubtful = True
        if not (isinstance(call.func, ast.Name) and call.func.id in self._functions):
            self.handed_to.add(self._name(call.func).rpartition(".")[0])

    # --- click and typer

    def _commands(self) -> None:
        """Notes the options of the commands that the file has: of one, or of any of several."""
        functions: list[Function] = self._of(ast.FunctionDef, ast.AsyncFunctionDef)
        clicks, groups = self._click_commands(functions)
        typers = [
            function
            for function in functions
            if any(self._is_typer_command(decorator) for decorator in function.decorator_list)
        ]
        run_calls = [node for node in self._calls if self._name(node.func) == "typer.run"]
        typers += [
            self._functions[argument.id]
            for call in run_calls
            for argument in call.args
            if isinstance(argument, ast.Name) and argument.id in self._functions
        ]
        used_names = {self._name(node) for node in self._dotted}
        # what may add commands, or options before them, in ways that are not seen
        if used_names & {"click.Group", "click.CommandCollection"} or any(
            (clicks or typers) and name.endswith((".add_command", ".add_typer", ".callback")) for name in used_names
        ):
            self.is_dynamic = True
        elif clicks or typers:
            options = [option for function in clicks for option in self._click_options(function)]
            options += [option for function in typers for option in self._typer_options(function)]
            self.is_dynamic |= None in options
            self.has_commands |= bool(groups) or len(clicks) + len(typers) > 1
            self.command = tuple(option for option in options if option)

    def _click_commands(self, functions: list[Function]) -> tuple[list[Function], set[str]]:
        """The functions that are commands of click, or groups of them, and the names of the groups."""
        groups: set[str] = set()
        commands: list[Function] = []
        for function in functions:  # a group stands before what is in it
            marks = {self._name(_callee(decorator)) for decorator in function.decorator_list}
            is_group = bool(marks & {"click.group", *(f"{group}.group" for group in groups)})
            if is_group:
                groups.add(function.name)
            if is_group or marks & {"click.command", *(f"{group}.command" for group in groups)}:
                commands.append(function)
        return commands, groups

    def _is_typer_command(self, node: ast.expr) -> bool:
        name = self._name(_callee(node))
        return "typer" in self._full_names and name.endswith(".command") and not name.startswith("click.")

    def _click_options(self, function: Function) -> Iterator[Option | None]:
        """The options of a command; None for what may declare others."""
        for decorator in function.decorator_list:
            name = self._name(_callee(decorator)).removeprefix("click.")
            words, keywords = _call_arguments(decorator)
            if name == "option":
                yield self._click_option(words, keywords)
            elif name == "argument" and words and isinstance(words[0], str):
                may_miss = literal(keywords.get("nargs")) == -1 or literal(keywords.get("required")) is False
                is_needed = not may_miss and not {"default", "envvar", "callback", "cls", None} & set(keywords)
                self.places.append(
                    Option((words[0],), is_required=is_needed, default=_text_of(keywords.get("default")))
                )
            elif name not in _CLICK_PLAIN and not (
                name.rpartition(".")[2] in ("command", "group")
                and not {"cls", "context_settings", None} & set(keywords)
            ):
                yield None

    def _click_option(self, words: tuple[Any, ...] | None, keywords: dict[str | None, ast.expr]) -> Option | None:
        if not words or None in keywords or "cls" in keywords or not all(isinstance(word, str) for word in words):
            return None
        names = tuple(name.strip() for word in words if word.startswith("-") for name in word.split("/"))
        if not names:
            return None
        is_flag = len(names) > sum(word.startswith("-") for word in words) or literal(keywords.get("is_flag")) is True
        doubts = {"nargs", "multiple", "flag_value", "prompt", "callback", "type"} & set(keywords)
        takes_value = False if is_flag or "count" in keywords else None if doubts - {"type"} else True
        kind = self._kind(keywords.get("type"))
        required = literal(keywords.get("required")) is True and not {"default", "envvar", "prompt"} & set(keywords)
        held_by = next((word for word in words if not word.startswith("-")), "").partition("/")[0]
        default = _text_of(keywords.get("default"))
        return Option(names, takes_value, kind, None, bool(required), default, held_by, keeps_last=takes_value is True)

    def _typer_options(self, function: Function) -> Iterator[Option | None]:
        """The options of a function; None for what may declare others."""
        args = function.args
        settings = [_call_arguments(decorator)[1] for decorator in function.decorator_list]
        if (
            args.vararg
            or args.kwarg
            or args.posonlyargs
            or any({"cls", "context_settings", None} & set(setting) for setting in settings)
        ):
            yield None
        defaults: list[ast.expr | None] = [None] * (len(args.args) - len(args.defaults)) + list(args.defaults)
        pairs = [*zip(args.args, defaults, strict=True), *zip(args.kwonlyargs, args.kw_defaults, strict=True)]
        for argument, default in pairs:
            yield from self._typer_option(argument, default)

    def _typer_option(self, argument: ast.arg, default: ast.expr | None) -> Iterator[Option | None]:
        annotation, metadata = argument.annotation, [default]
        if isinstance(annotation, ast.Subscript) and self._name(annotation.value).endswith("Annotated"):
            parts = annotation.slice.elts if isinstance(annotation.slice, ast.Tuple) else [annotation.slice]
            annotation, metadata = parts[0], [*parts[1:], default]
        info = [node for node in metadata if isinstance(node, ast.Call) and self._name(node.func).startswith("typer.")]
        if (info and self._name(info[0].func) == "typer.Argument") or (default is None and not info):
            is_needed, default_value = self._typer_place(argument, default, info)
            self.places.append(Option((argument.arg,), is_required=is_needed, default=default_value))
            return
        words, keywords = _call_arguments(info[0]) if info else ((), {})
        if words is None or None in keywords:
            yield None
            return
        own_names = tuple(
            name for word in words if isinstance(word, str) and word.startswith("-") for name in word.split("/")
        )
        plain = f"--{argument.arg.replace('_', '-')}"
        kind = self._name(annotation) if annotation else ""
        is_flag = kind == "bool" or (not kind and isinstance(literal(default), bool))
        names = own_names or ((plain, f"--no-{plain[2:]}") if is_flag else (plain,))
        takes_value = False if is_flag else True if kind in ("int", "float", "str") else None
        default_value = _text_of(default if default not in info else next(iter(info[0].args), None))
        kind = kind if kind in ("int", "float") and not is_flag else ""
        yield Option(names, takes_value, kind, default=default_value, held_by=argument.arg)

    def _typer_place(self, argument: ast.arg, default: ast.expr | None, info: list[ast.Call]) -> tuple[bool, Any]:
        """Whether a command ends without what is given in a place, and what that is by default."""
        value = default if default not in info else next(iter(info[0].args), None)
        keywords = {keyword.arg: keyword.value for call in info for keyword in call.keywords}
        value = value if value is not None else keywords.get("default")
        is_context = self._name(argument.annotation).endswith("Context") if argument.annotation else False
        is_open = {"default_factory", "envvar", "callback", None} & set(keywords)
        return (value is None or literal(value) is ...) and not is_context and not is_open, _text_of(value)

    def _kind(self, node: ast.expr | None) -> str:
        name = self._name(node) if node is not None else ""
        return name if name in ("int", "float") else ""


def _returns_one_of(calls: list[ast.Call], function: Function) -> bool:
    """Whether it is a function in which one of some calls is made, and which gives something back."""
    nodes = parts_of(function)
    return any(isinstance(node, ast.Return) and node.value for node in nodes) and any(node in calls for node in nodes)


@cached
def source_of(tree: ast.Module) -> ScriptSource:
    """What a file says of its command line, read once whoever asks."""
    return ScriptSource(tree)


def _argument(call: ast.Call) -> Option | None:
    """What a call of add_argument declares; None where its names are made at run time."""
    names = tuple(literal(argument) for argument in call.args)
    if not names or not all(isinstance(name, str) and name for name in names):
        return None
    keywords = {keyword.arg: keyword.value for keyword in call.keywords}
    action = keywords.get("action")
    if None in keywords or (action is not None and not isinstance(literal(action), str)):
        if action is not None and last_name(action) == "BooleanOptionalAction":
            return Option((*names, *(f"--no-{name[2:]}" for name in names if name.startswith("--"))), False)
        return Option(names)
    required = literal(keywords.get("required")) is True
    default, held_by = _text_of(keywords.get("default")), str(literal(keywords.get("dest")) or "")
    if action is not None and literal(action) in _ALONE:
        return Option(names, False, is_required=required)
    kind = keywords.get("type")
    is_plain = kind is None or (isinstance(kind, ast.Name) and kind.id in ("str", "int", "float"))
    name = kind.id if isinstance(kind, ast.Name) and is_plain and kind.id != "str" else ""
    choices = literal(keywords.get("choices")) if is_plain else None
    values = tuple(choices) if isinstance(choices, list | tuple) else None
    if not names[0].startswith("-"):
        required = action is None and ("nargs" not in keywords or literal(keywords["nargs"]) == "+")
    takes, keeps_last = None if "nargs" in keywords else True, action is None or literal(action) == "store"
    return Option(names, takes, name, values, required, default, held_by, keeps_last, literal(keywords.get("nargs")))


def _is_dataclass(node: ast.ClassDef) -> bool:
    return any(ast.unparse(_callee(decorator)).rpartition(".")[2] == "dataclass" for decorator in node.decorator_list)


def _callee(node: ast.AST) -> ast.AST:
    return node.func if isinstance(node, ast.Call) else node


def _call_arguments(node: ast.AST) -> tuple[tuple[Any, ...] | None, dict[str | None, ast.expr]]:
    """The literal words that something is called with, and the rest by name; no words where one is not literal."""
    if not isinstance(node, ast.Call):
        return (), {}
    words = None if any(isinstance(argument, ast.Starred) for argument in node.args) else tuple(map(literal, node.args))
    return words, {keyword.arg: keyword.value for keyword in node.keywords}


def _text_of(node: ast.expr | None) -> Any:
    """The value of a literal, be it wrapped in a call such as Path("data"); None for anything else."""
    if isinstance(node, ast.Call) and len(node.args) == 1 and not node.keywords:
        node = node.args[0]
    return literal(node)
