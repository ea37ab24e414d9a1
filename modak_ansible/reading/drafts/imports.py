"""What a script imports, and which files beside it are its own."""

from __future__ import annotations

import ast
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from glob import escape
from itertools import pairwise
from pathlib import Path, PurePosixPath

from modak_ansible.errors import INVALID_BLUEPRINT, Location, ModakError, UsageError
from modak_ansible.reading.blueprint.forms.text_rules import script_problem
from modak_ansible.reading.blueprint.script.starting import module_of, other_program
from modak_ansible.reading.blueprint.script.syntax import last_name, nodes_of, parsed, parts_of, syntax_of
from modak_ansible.reading.drafts.configured import NamedClass
from modak_ansible.reading.drafts.texts import ANY, Texts, below
from modak_ansible.store.project import no_script, project_root

# What travels with every job.
_OURS = ("modak_runtime", "modak_checkpoint")
_HERE = f"{sys.version_info.major}.{sys.version_info.minor}"
_MOST_FILES = 2000
_MOST_LISTED = 4  # files of one folder that are named one by one
_MOST_BYTES = 4 * 2**20
_STARTING = ("system", "run", "call", "check_call", "check_output", "Popen")  # of another program
_BINARY = "this is not Python 3: it has null bytes, as UTF-16 and programs have"
_UTF8 = "save it as UTF-8"
_OTHER_ENCODING = "save it as UTF-8, or say in its first line what it is: # -*- coding: latin-1 -*-"
_DOTTED = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+", re.ASCII)


class BrokenScript(ModakError):
    """A script that is no Python."""

    exit_code = INVALID_BLUEPRINT


@dataclass(frozen=True)
class Imported:
    """A module that is none of the script's own."""

    name: str  # in full, as it is written
    place: str  # the file, as its path below the script's folder, and the line
    is_optional: bool  # whether the script goes on without it
    is_late: bool = False  # whether functions alone import it, of other files than the script, or what these import
    extras: frozenset[str] = frozenset()  # of its package, without which it does not do what it is imported for


@dataclass
class Code:
    script: Path  # its path
    # the syntax of each of its own files; the script comes first
    trees: dict[Path, ast.Module] = field(default_factory=dict)
    # what else it imports, by the first part of the name and without Python's own library
    modules: dict[str, Imported] = field(default_factory=dict)
    dotted: set[str] = field(default_factory=set)  # the full names of all that is imported
    search_path: list[Path] = field(default_factory=list)  # folders outside of its own that it has Python look in

    @property
    def folder(self) -> Path:
        return self.script.parent

    @property
    def files(self) -> list[str]:
        """Its own files, as paths below the script's folder."""
        return sorted(path.relative_to(self.folder).as_posix() for path in self.trees)


def read_code(script: Path, classes: Sequence[NamedClass] = ()) -> Code:
    """A script and the files beside it that it imports, directly or not.

    Args:
        classes: what it imports by names that stand in files of its configuration.

    Raises:
        UsageError: it is no script of Python's.
        BrokenScript: one of the files is no Python, with its place.
    """
    _check(script)
    script = Path(os.path.normpath(script))
    root = project_root(script.parent.resolve())
    code, bases = Code(script), [script.parent]
    by_class = {named: _imported_files(bases, named.name, script.parent, root) for named in classes}
    later: list[Path] = []
    waiting = [*(file for files in by_class.values() for file in files if syntax_of(file)), script]  # taken first
    while (waiting or later) and len(code.trees) < _MOST_FILES:
        is_later = not waiting  # nothing but functions import it, or what does
        path = later.pop() if is_later else waiting.pop()
        if path in code.trees:
            continue
        code.trees[path] = tree = _parsed(path, is_kept=path != script)  # which its command line may change
        if path == script and all(isinstance(node, ast.Expr | ast.Pass) and _is_idle(node) for node in tree.body):
            raise BrokenScript(f"{script} has nothing that would run", hint="give the script that trains")
        calls = [node for node in nodes_of(tree) if isinstance(node, ast.Call) and node.args]
        texts = Texts(tree, {}, path.relative_to(script.parent).as_posix())
        paths = list(_searched_folders(calls, texts))
        bases += [script.parent / own_folder for folder in paths if (own_folder := below(folder))]
        code.search_path += [Path(os.path.normpath(script.parent / folder)) for folder in paths if not below(folder)]
        for module, level, is_optional, is_inner in [*_imports_of(tree), *_dynamic_imports(calls, texts)]:
            is_late = is_later or (is_inner and path != script)
            folders = [path.parent.joinpath(*[".."] * (level - 1))] if level else bases
            own_paths = _imported_files(folders, module, script.parent, root)
            (later if is_late else waiting).extend(own_paths)
            if not level and not own_paths and not any(_has_module(base, module) for base in bases):
                _note(code, module, (is_optional, is_late), partial(_place, path, tree, script))
        (later if is_later else waiting).extend(_named_in(tree, bases, script.parent, root))
    for named, files in by_class.items():
        if named.is_sure and not files and not any(_has_module(base, named.name) for base in bases):
            _note(code, named.name, (True, True), named.place_of)
    return code


def _check(script: Path) -> None:
    """
    Raises:
        UsageError: it is no script of Python's.
    """
    problem, hint = other_program(script)
    if problem:
        raise UsageError(f"{script} {problem}", hint=hint)
    if not script.is_file():
        raise no_script(script)
    if problem := script_problem(PurePosixPath(script.name)):
        raise UsageError(problem, hint="rename it")


def _imported_files(bases: Sequence[Path], module: str, top: Path, root: Path) -> list[Path]:
    """The files below the first of some folders that has them which an import runs, and that travel with a script.

    Args:
        top: the script's folder.
        root: the project's, of which is what a link beside the script may lead to.
    """
    files = next(filter(None, (_files_of(base, module, top) for base in bases)), [])
    return [path for path in files if path.is_relative_to(top) and path.resolve().is_relative_to(root)]


def _has_module(base: Path, module: str) -> bool:
    """Whether what a module's name begins with lies in a folder: a package, or the file of which all is imported."""
    first = base / module.partition(".")[0]
    return has_code(first) or (ANY in module and first.with_suffix(".py").is_file())


def _is_idle(node: ast.stmt) -> bool:
    return not isinstance(node, ast.Expr) or isinstance(node.value, ast.Constant)


def _place(path: Path, tree: ast.Module, script: Path, name: str) -> str:
    return f"{path.relative_to(script.parent).as_posix()}:{_line_of(tree, name)}"


def _note(code: Code, name: str, doubts: tuple[bool, bool], place_of: Callable[[str], str]) -> None:
    first = name.partition(".")[0]
    if first in sys.stdlib_module_names or not first.isidentifier():
        return
    code.dotted.add(name)
    if first in _OURS:
        return
    earlier = code.modules.get(first)
    if earlier is None or doubts < (earlier.is_optional, earlier.is_late):
        code.modules[first] = Imported(name, place_of(name), *doubts)


def _parsed(path: Path, *, is_kept: bool) -> ast.Module:
    """The syntax of a file, which may be the one that others have of it, too.

    Raises:
        BrokenScript: it is no Python.
    """
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise BrokenScript(f"{path} is larger than 4 MiB: no script is", location=None)
        return (syntax_of(path) if is_kept else None) or parsed(path.read_bytes(), str(path))
    except UnicodeDecodeError as error:
        before = error.object[: error.start]
        place = Location(str(path), before.count(b"\n") + 1, len(before) - before.rfind(b"\n"))
        raise BrokenScript(f"this is not UTF-8: {error.reason}", location=place, hint=_OTHER_ENCODING) from error
    except SyntaxError as error:
        place = Location(str(path), error.lineno or 0, error.offset or 0)
        if "null bytes" in error.msg:
            raise BrokenScript(_BINARY, location=Location(str(path)), hint=_UTF8) from error
        if "codec can't decode" in error.msg or "utf-8" in error.msg.lower():
            raise BrokenScript(f"this is not UTF-8: {error.msg}", location=place, hint=_OTHER_ENCODING) from error
        hint = (
            f"fix it; or, if a later Python accepts it, run modak with that one: it reads scripts with its own, {_HERE}"
        )
        raise BrokenScript(f"this is not Python {_HERE}: {error.msg}", location=place, hint=hint) from error
    except (ValueError, RecursionError, MemoryError) as error:
        has_nulls = "null bytes" in str(error)
        message = _BINARY if has_nulls else f"this is not Python {_HERE}: {error}"
        raise BrokenScript(
            message, location=Location(str(path)), hint=_UTF8 if has_nulls else "fix the script first"
        ) from error
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error


def _imports_of(tree: ast.Module) -> Iterator[tuple[str, int, bool, bool]]:
    """The modules that are imported, and what may be modules: name, level, whether it may be missing, and whether it is
    imported when a function is called."""
    waiting: list[tuple[ast.AST, bool, bool]] = [(tree, False, False)]
    while waiting:
        node, is_optional, is_late = waiting.pop()
        children = list(ast.iter_child_nodes(node))
        if isinstance(node, ast.Import):
            yield from ((alias.name, 0, is_optional, is_late) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            if module:
                yield module, node.level, is_optional, is_late
            if not module or node.level or "." not in module or module.partition(".")[0] not in sys.stdlib_module_names:
                for alias in node.names:
                    yield f"{module}.{alias.name}".lstrip("."), node.level, is_optional, is_late
        elif isinstance(node, ast.If) and ast.unparse(node.test).rpartition(".")[2] == "TYPE_CHECKING":
            children = list(node.orelse)
        elif isinstance(node, ast.Try):
            caught_names = {name for handler in node.handlers for name in _names(handler.type)}
            is_optional = is_optional or bool(caught_names & {"ImportError", "ModuleNotFoundError", "Exception", ""})
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            is_late = True
        waiting += [(child, is_optional, is_late) for child in children]


def _searched_folders(calls: list[ast.Call], texts: Texts) -> Iterator[str]:
    """The folders that a file has Python look for modules in, from the script's."""
    for call in calls:
        extends_path = last_name(call.func) in ("append", "insert") and ast.unparse(call.func).startswith("sys.path.")
        folder = texts.of(call.args[-1]) if extends_path else None
        if folder and ANY not in folder:
            yield folder


def _named_in(tree: ast.Module, bases: Sequence[Path], top: Path, root: Path) -> Iterator[Path]:
    """The files of the classes and functions that texts of a file name in full, by which something makes or calls them;
    see :func:`_imported_files`."""
    texts = (node.value for node in nodes_of(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str))
    for name in filter(_DOTTED.fullmatch, texts):
        files = [file for file in _imported_files(bases, name, top, root) if syntax_of(file)]
        if files and files[-1].parent not in bases and files[-1].name != "__init__.py":  # else utils.log may be a file
            yield from files


def _dynamic_imports(calls: list[ast.Call], texts: Texts) -> Iterator[tuple[str, int, bool, bool]]:
    """The modules that are imported by a text, or started by another Python, as those of _imports_of; ANY stands for
    what is not known of a name."""
    for call in calls:
        function = last_name(call.func)
        text = texts.of(call.args[0]) if function in ("import_module", "__import__", "run_module", "run_path") else None
        if text and function == "run_path":
            yield module_of(text), 0, True, False
        elif text:
            keywords = {keyword.arg: keyword.value for keyword in call.keywords}
            package = texts.of(call.args[1] if len(call.args) > 1 else keywords.get("package"))
            text = f"{package}{text}" if package and text.startswith(".") else text
            name = text.lstrip(".")
            yield name, len(text) - len(name), True, False
        elif function in _STARTING:
            nodes = (node.value for node in parts_of(call.args[0]) if isinstance(node, ast.Constant))
            words = [word.strip("'\"") for value in nodes if isinstance(value, str) for word in value.split()]
            yield from ((module_of(word), 0, True, False) for word in words if word.endswith(".py"))
            yield from ((word, 0, True, False) for option, word in pairwise(words) if option == "-m")


def _names(node: ast.expr | None) -> list[str]:
    if node is None:
        return [""]
    parts = node.elts if isinstance(node, ast.Tuple) else [node]
    return [ast.unparse(part).rpartition(".")[2] for part in parts]


def _files_of(base: Path, module: str, top: Path) -> list[Path]:
    """The files below a folder that an import may run: of a name that is known in part all of the package, which is not
    the script's own folder."""
    if ANY not in module:
        return [Path(os.path.normpath(path)) for path in _own_files(base, module.split(".") if module else [])]
    package = Path(os.path.normpath(base.joinpath(*module.partition(ANY)[0].split(".")[:-1])))
    paths = sorted(package.rglob("*.py")) if package != top and package.is_relative_to(top) else ()
    return [path for path in paths if syntax_of(path)]


def _own_files(base: Path, parts: list[str]) -> list[Path]:
    """The files below a folder that importing a name runs; none where nothing of that name lies there."""
    files = []
    place = base
    for number, part in enumerate(parts, 1):
        module, package = place / f"{part}.py", place / part / "__init__.py"
        if package.is_file():
            files.append(package)
        elif module.is_file():
            return [*files, module]
        elif not (place / part).is_dir() or number == len(parts):
            break
        place = place / part
    else:
        if not parts and (base / "__init__.py").is_file():
            files.append(base / "__init__.py")
    return files


def has_code(folder: Path) -> bool:
    """Whether it is a package, be it without an __init__.py."""
    return folder.is_dir() and any(folder.glob("*.py"))


def _line_of(tree: ast.Module, name: str) -> int:
    first = name.partition(".")[0]
    for node in nodes_of(tree):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module] if isinstance(node, ast.ImportFrom) and node.module and not node.level else []
        if any(name.partition(".")[0] == first for name in names):
            return getattr(node, "lineno", 1)
    return 1


def patterns_of(files: list[str]) -> list[str]:
    """Patterns for some files of code: of many in one folder, one for them all."""
    folders: dict[str, list[str]] = {}
    for file in map(escape, files):
        folders.setdefault(PurePosixPath(file).parent.as_posix(), []).append(file)
    patterns: list[str] = []
    for folder, inner_files in sorted(folders.items()):
        is_many = len(inner_files) > _MOST_LISTED and folder != "."
        covered = any(folder == other or folder.startswith(f"{other.removesuffix('/*.py')}/") for other in patterns)
        patterns += [] if covered and is_many else [f"{folder}/*.py"] if is_many else inner_files
    return patterns
