"""What a script would end at before it does anything, as far as its source says it for certain."""

from __future__ import annotations

import ast
import re
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from modak_ansible.errors import nearest
from modak_ansible.reading.blueprint.script.option import literal
from modak_ansible.reading.blueprint.script.syntax import last_name, nodes_of, parts_of, syntax_of

# What Python might even read without a mistake, and not as it is meant.
_OTHER_PROGRAMS = {
    ".r": "a script of R", ".sh": "a script of the shell", ".bash": "a script of the shell", ".jl": "a script of Julia",
    ".m": "a script of MATLAB", ".pyc": "compiled Python", ".yaml": "a file of YAML", ".yml": "a file of YAML",
    ".json": "a file of JSON", ".toml": "a file of TOML", ".txt": "a text",
    "makefile": "a Makefile", "dockerfile": "a Dockerfile", "snakefile": "a workflow of Snakemake",
    **dict.fromkeys((".slurm", ".sbatch", ".pbs", ".qsub", ".lsf", ".sge", ".job"), "a job script"),
}  # fmt: skip
_SHELL = re.compile(rb"#!.*\b[a-z]*sh\b")
_LINE = 256  # bytes, of which Linux reads a first line
_WHERE = "a job starts where the script lies"
_OF_LIGHTNING = ("fit", "validate", "test", "predict")
_SEVERAL = 2  # commands, of which one is to be named


class StartProblem(NamedTuple):
    is_of_words: bool  # whether its words are to be mended, and not the script
    problem: str
    hint: str


def start_problem(script: Path, words: Sequence[str], *, has_more: bool = False) -> StartProblem | None:
    """Why a script does not start with some words behind its options; None where nothing is known against it.

    Args:
        words: with nothing that ``arguments`` of a blueprint say.
        has_more: whether these say something, so that there are more words than those.
    """
    problem, hint = other_program(script)
    if problem:
        return StartProblem(False, problem, hint)
    tree = syntax_of(script)
    if tree is None:
        return None
    return (
        _relative_import(tree, script)
        or _notebook_problem(tree)
        or _command_problem(tree, words)
        or _group_problem(tree, words)
        or _lightning_problem(tree, words)
        or (None if has_more else _missing_words(tree, words))
    )


def other_program(script: Path) -> tuple[str, str]:
    """What a script is, by its name or first line, that is none of Python's, and what to do; empty for any other."""
    if script.suffix == ".ipynb":
        return "is a notebook", f"make a script of it first: jupyter nbconvert --to script {script.name}"
    hint = "give the Python script that it starts; a training is one of Python's"
    if kind := _OTHER_PROGRAMS.get(script.suffix.lower() or script.name.lower()):
        return f"is {kind}, by its name", hint
    if is_of_shell(script):
        return "is a script of the shell, by its first line", hint
    return "", ""


def is_of_shell(path: Path) -> bool:
    """Whether a file's first line names a shell, as that of a batch script does, whatever its name is."""
    try:
        with path.open("rb") as file:
            return _SHELL.match(file.readline(_LINE)) is not None
    except OSError:
        return False


def _relative_import(tree: ast.Module, script: Path) -> StartProblem | None:
    """Of what is run by its path, Python knows no package; a script may say it by itself (PEP 366)."""
    if any(isinstance(node, ast.Name) and node.id == "__package__" for node in nodes_of(tree)):
        return None
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.level:
            folder = script.absolute().parent
            problem = f"is a part of the package {folder.name}, and no script: {ast.unparse(node)} (line {node.lineno})"
            return StartProblem(False, problem, start_hint(tree, script, node.level))
    return None


def with_one_start_hint(notes: Sequence[str]) -> list[str]:
    """Notes of which several may end with how a script is started above its folder, which one of them says."""
    parted = [note.partition(f"; {_WHERE}") for note in notes]
    ends = [end for _, _, end in parted]
    return [what if end in ends[:number] else what + by + end for number, (what, by, end) in enumerate(parted)]


def _notebook_problem(tree: ast.Module) -> StartProblem | None:
    """Of what nbconvert makes of lines with ! and %, which Python does not know; it may be imported from IPython."""
    nodes = nodes_of(tree)
    bound_names = {node.asname or node.name for node in nodes if isinstance(node, ast.alias)}
    bound_names |= {node.name for node in nodes if isinstance(node, ast.FunctionDef)}
    plain = (statement for statement in tree.body if isinstance(statement, ast.Expr | ast.Assign))
    calls = [node for statement in plain for node in parts_of(statement) if isinstance(node, ast.Call)]
    line = next((call.lineno for call in calls if last_name(call.func) == "get_ipython"), 0)
    if not line or "get_ipython" in bound_names:
        return None
    return StartProblem(False, f"calls get_ipython (line {line}), which notebooks have alone", "remove such lines")


def package_of(folder: Path, level: int = 1) -> Path:
    """The outermost package that a folder belongs to, of those that can be imported: a repository's name may be none.

    Args:
        level: how far up it reaches at least, in the dots of a relative import.
    """
    top = folder
    for _ in range(level - 1):
        top = top.parent
    while (top.parent / "__init__.py").is_file() and top.parent.name.isidentifier():
        top = top.parent
    return top


def start_hint(tree: ast.Module, script: Path, level: int = 1) -> str:
    """How a part of a package is started: by a script beside the package, which imports it."""
    path = script.absolute()
    top = package_of(path.parent, level)
    module = ".".join(path.relative_to(top.parent).with_suffix("").parts)
    start = f"import {module}"
    if any(isinstance(node, ast.FunctionDef) and node.name == "main" for node in tree.body):
        start = f"from {module} import main; main()"
    elif any(isinstance(node, ast.If) and "__name__" in ast.unparse(node.test) for node in tree.body):
        start = f'import runpy, {module}; runpy.run_module("{module}", run_name="__main__")'
    return f"give a script that lies beside {top.name}/ and starts it: {start}"


def module_of(path: str) -> str:
    """What a file would be imported as, by its path below a folder that Python looks in."""
    return path.removeprefix("./").removesuffix(".py").replace("/", ".")


def start_above(script: Path, path_above: str) -> str:
    """How a script is started in a folder above its own, as people do by its path, so that it finds what lies there.

    Args:
        path_above: what lies so, as it is from the script's folder.
    """
    path = script.resolve()
    top = path.parents[path_above.count("../")]
    relative = path.relative_to(top).as_posix()
    is_part = (path.parent / "__init__.py").is_file()
    folder = (package_of(path.parent).parent if is_part else path.parent).relative_to(top).as_posix()
    start = f'sys.path.insert(0, "{folder}"); runpy.run_path("{relative}", run_name="__main__")'
    return f"{_WHERE}: give a script that lies in {top} and starts it: import runpy, sys; {start}"


def _command_problem(tree: ast.Module, words: Sequence[str]) -> StartProblem | None:
    """Of a parser with subcommands, that none is given, or one that it does not have."""
    calls = [node for node in nodes_of(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)]
    subparsers = [call for call in calls if last_name(call.func) == "add_subparsers"]
    parsers = [call for call in calls if last_name(call.func) == "add_parser"]
    names = [literal(call.args[0]) if call.args else None for call in parsers]
    alias_lists = [literal(word.value) for call in parsers for word in call.keywords if word.arg == "aliases"]
    if len(subparsers) != 1 or not names or not all(isinstance(aliases, list | tuple) for aliases in alias_lists):
        return None
    names += [name for aliases in alias_lists for name in aliases]
    if not all(isinstance(name, str) for name in names):
        return None
    commands = [str(name) for name in names]
    is_needed = any(keyword.arg == "required" and literal(keyword.value) is True for keyword in subparsers[0].keywords)
    if not words and is_needed:
        names_of_commands = ", ".join(commands)
        return StartProblem(
            True, f"does not start without one of its commands: {names_of_commands}", f"words: [ {commands[0]} ]"
        )
    has_places = any(
        last_name(call.func) == "add_argument" and not str(literal(call.args[0]) if call.args else "").startswith("-")
        for call in calls
    )
    first = words[0] if words else ""
    # what its commands take by place, or a value of an option before it, is not told from a command
    if first and not first.startswith("-") and first not in commands and "{" not in first and not has_places:
        return StartProblem(True, f"has no command {first}", nearest(first, commands))
    return None


def _group_problem(tree: ast.Module, words: Sequence[str]) -> StartProblem | None:
    """Of several commands of click's or typer's, that none is given."""
    imported = {alias.name for node in nodes_of(tree) if isinstance(node, ast.Import) for alias in node.names}
    functions = [node for node in nodes_of(tree) if isinstance(node, ast.FunctionDef)]
    marks = [(function, mark) for function in functions for mark in function.decorator_list]
    decorated = [(function, mark, _callee_name(mark)) for function, mark in marks]
    commands = [entry for entry in decorated if entry[2] == "command"]
    does_without = any(
        isinstance(node, ast.keyword) and node.arg == "invoke_without_command" for node in nodes_of(tree)
    )
    does_without |= any(name == "callback" for _, _, name in decorated)
    if words or len(commands) < _SEVERAL or does_without or not imported & {"click", "typer"}:
        return None
    names = []
    for function, mark, _ in commands:
        name = literal(mark.args[0]) if isinstance(mark, ast.Call) and mark.args else None
        names.append(str(name or function.name.replace("_", "-")))
    names_of_commands = ", ".join(names)
    return StartProblem(
        True, f"does not start without one of its commands: {names_of_commands}", f"words: [ {names[0]} ]"
    )


def _lightning_problem(tree: ast.Module, words: Sequence[str]) -> StartProblem | None:
    """Of Lightning's own command line, that no command is given."""
    calls = [node for node in nodes_of(tree) if isinstance(node, ast.Call) and last_name(node.func) == "LightningCLI"]
    if words or not calls or any({"run", "args", None} & {word.arg for word in call.keywords} for call in calls):
        return None
    return StartProblem(
        True, f"does not start without one of its commands: {', '.join(_OF_LIGHTNING)}", "words: [ fit ]"
    )


def _callee_name(mark: ast.expr) -> str:
    """``command`` of ``@app.command()``."""
    node = mark.func if isinstance(mark, ast.Call) else mark
    return node.attr if isinstance(node, ast.Attribute) else ""


def _missing_words(tree: ast.Module, words: Sequence[str]) -> StartProblem | None:
    """Of ``sys.argv``, that a word is taken of it by its place, whatever else happens, which is not there.

    A script that looks at it in any other way may well know how many there are.
    """
    nodes = nodes_of(tree)
    argv_nodes = [
        node
        for node in nodes
        if isinstance(node, ast.Attribute) and node.attr == "argv" and ast.unparse(node.value) == "sys"
    ]
    subscripts = {id(node.value): node for node in nodes if isinstance(node, ast.Subscript)}
    places = {id(node): literal(subscripts[id(node)].slice) for node in argv_nodes if id(node) in subscripts}
    if len(places) < len(argv_nodes) or not all(type(place) is int and place >= 0 for place in places.values()):
        return None
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    statements = _reached(tree.body, functions)
    certain = [node for statement in statements for node in parts_of(statement) if id(node) in places]
    last = max(certain, key=lambda node: places[id(node)], default=None)
    if last is None or places[id(last)] <= len(words):
        return None
    which = f"takes sys.argv[{places[id(last)]}] (line {last.lineno})"  # type: ignore[attr-defined]
    count = f"only {len(words)} of its words" if words else "none of its words"
    return StartProblem(True, f"{which}, and {count} is given", "words: [ ... ] in the blueprint, or -- and the words")


def _reached(body: Sequence[ast.stmt], functions: Mapping[str, ast.FunctionDef]) -> Generator[ast.stmt, None, bool]:
    """The statements that are carried out from end to end whenever a script is run, one after another.

    Args:
        functions: of the script, whose bodies stand for their calls.

    Returns:
        Whether what follows is reached for certain, too.
    """
    for statement in body:
        inner = _body_of(statement, functions)
        if inner is not None:
            if not (yield from _reached(inner, {name: node for name, node in functions.items() if node.body != inner})):
                return False
        elif isinstance(statement, ast.Assign | ast.AnnAssign | ast.AugAssign | ast.Expr) and not any(
            isinstance(node, ast.IfExp | ast.BoolOp | ast.Lambda) for node in parts_of(statement)
        ):
            yield statement
        elif not isinstance(statement, ast.Import | ast.ImportFrom | ast.FunctionDef | ast.ClassDef):
            return False  # it may end there
    return True


def _body_of(statement: ast.stmt, functions: Mapping[str, ast.FunctionDef]) -> Sequence[ast.stmt] | None:
    """What is carried out of a statement that only holds others; None of one that does something itself."""
    if isinstance(statement, ast.If) and ast.unparse(statement.test) == "__name__ == '__main__'":
        return statement.body
    if isinstance(statement, ast.With):
        return statement.body
    call = statement.value if isinstance(statement, ast.Expr) else None
    function = functions.get(call.func.id) if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) else None
    return function.body if function and not function.decorator_list else None
