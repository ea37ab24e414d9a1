"""Which files beside a script its training depends on: what it imports, and what it or its arguments name.

All of them travel; a change of one that counts is another training, a change of another is none.
"""

from __future__ import annotations

import ast
import json
import posixpath
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatch
from functools import cache
from pathlib import Path, PurePosixPath

from modak_ansible.model.application import SourceFile
from modak_ansible.reading.blueprint.script import syntax
from modak_ansible.reading.blueprint.script.syntax import last_name, nodes_of, syntax_of
from modak_ansible.store.cache import kept_text
from modak_ansible.target.core.files import sha256_of

# Where one of these is called, what is imported is known only when the script runs.
_DYNAMIC = {"import_module", "__import__", "exec", "eval", "run_path", "run_module", "iter_modules", "walk_packages"}
# Libraries that find files by rules of their own.
_FINDING = {"hydra", "gin", "mmengine", "detectron2"}
_WORDS = re.compile(r"[^\s=,;:'\"()\[\]{}|&<>]+")
_LONGEST = 300


def counting(
    folder: Path, script: str, files: Sequence[SourceFile], words: Iterable[str]
) -> tuple[list[SourceFile], list[SourceFile]]:
    """The files that count, and those that only travel; all count where nobody can tell.

    Args:
        words: arguments, variables and shell lines of the training, which may name files.
    """
    digests = {file.path: file.sha256 for file in files}
    counted = _Counted(folder, [*digests])
    named_paths = sorted(counted.named(words))  # the points of a sweep name the same files: what follows is found once
    paths: frozenset[str] = frozenset()

    def find() -> str | None:
        nonlocal paths
        paths = counted.of(script, named_paths)
        return json.dumps(sorted(paths)) if _are_unchanged(folder, digests) else None

    cached = kept_text("counting", json.dumps([_version(), script, digests, named_paths]), find)
    paths = paths if cached is None else frozenset(json.loads(cached))
    return [file for file in files if file.path in paths], [file for file in files if file.path not in paths]


@cache
def _version() -> list[str]:
    """What decides here, besides what is asked; what a process has imported stays as it is."""
    return [sys.version, *(Path(path).read_text("utf-8") for path in (__file__, syntax.__file__))]


def _are_unchanged(folder: Path, files: Mapping[str, str]) -> bool:
    """Whether the files of a folder still have these digests: what was found is of these files."""
    try:
        return all(sha256_of(folder / path) == digest for path, digest in files.items() if path.endswith(".py"))
    except OSError:
        return False


class _Counted:
    """Follows imports and names from file to file."""

    def __init__(self, folder: Path, paths: Sequence[str]) -> None:
        self._folder, self._paths = folder, frozenset(paths)
        self._names: dict[str, set[str]] = {}
        self._folders: set[str] = set()  # the names of all folders
        for path in paths:
            *above, name = path.split("/")
            self._names.setdefault(name, set()).add(path)
            self._folders.update(above)

    def named(self, words: Iterable[str]) -> set[str]:
        """The paths that some texts name."""
        return {path for text in words for word in _WORDS.findall(text) for path in self._named(word)}

    def of(self, script: str, named_paths: Iterable[str]) -> frozenset[str]:
        """The paths that count, of a script and files that are named beside it."""
        if script not in self._paths:
            return self._paths
        paths: set[str] = set()
        waiting = {script, *named_paths}
        while waiting:
            path = waiting.pop()
            paths.add(path)
            if not path.endswith(".py"):
                continue
            tree = syntax_of(self._folder / path)
            if tree is None or _is_dynamic(tree):
                return self._paths
            waiting |= set(self._of_tree(tree, PurePosixPath(path).parent)) - paths
        return frozenset(paths)

    def _of_tree(self, tree: ast.AST, here: PurePosixPath) -> Iterator[str]:
        for node in nodes_of(tree):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    yield from self._modules(alias.name, here)
            elif isinstance(node, ast.ImportFrom):
                above = here.joinpath(*[".."] * max(0, node.level - 1)) if node.level else None
                for name in ("", *(f".{alias.name}" for alias in node.names)):
                    yield from self._modules(f"{node.module or ''}{name}".strip("."), here, above)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield from self._named(node.value)

    def _modules(self, dotted: str, here: PurePosixPath, only: PurePosixPath | None = None) -> Iterator[str]:
        """The files that an import runs: those of a module and of the packages above it."""
        parts = dotted.split(".") if dotted else []
        for start in (only,) if only is not None else (PurePosixPath(), here):
            for length in range(len(parts) + 1):
                # as if the folder were the root, above which steps lead nowhere
                place = posixpath.normpath(f"/{start.joinpath(*parts[:length])}").removeprefix("/")
                yield from self._paths & {f"{place}.py", f"{place}/__init__.py" if place else "__init__.py"}

    def _named(self, text: str) -> Iterator[str]:
        """The files that a text names: by a path or its end, by a folder above them, by a pattern, or as a module."""
        name = text.strip().removeprefix("./").rstrip("/")
        if not name or len(name) > _LONGEST or "\n" in name or name in {".", ".."}:
            return
        last = PurePosixPath(name).name
        yield from (path for path in self._names.get(last, ()) if path == name or path.endswith(f"/{last}"))
        if name.partition("/")[0] in self._folders:
            yield from (path for path in self._paths if path.startswith(f"{name}/") or f"/{name}/" in path)
        if any(letter in name for letter in "*?["):
            yield from (path for path in self._paths if fnmatch(path, name) or fnmatch(path, f"*/{name}"))
        if "." in name and "/" not in name:
            yield from self._paths & {f"{name.replace('.', '/')}.py"}


def _is_dynamic(tree: ast.AST) -> bool:
    for node in nodes_of(tree):
        if isinstance(node, ast.Call):
            called = node.func
            name = last_name(called)
            is_method = isinstance(called, ast.Attribute) and name in {"eval", "exec"}  # such as model.eval()
            if name in _DYNAMIC and not is_method:
                return True
        elif isinstance(node, ast.Attribute):
            if node.attr == "path" and getattr(node.value, "id", "") == "sys":
                return True
        elif isinstance(node, ast.Import | ast.ImportFrom) and not _FINDING.isdisjoint(_imported(node)):
            return True
    return False


def _imported(node: ast.Import | ast.ImportFrom) -> list[str]:
    names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
    return [name.partition(".")[0] for name in names]
