"""What files of configuration tell of a script: its options, and the classes that it makes by their names."""

from __future__ import annotations

import json
import os
import posixpath
import re
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import yaml

from modak_ansible.reading.blueprint.script.paths import OF_OUTPUT
from modak_ansible.target.core.files import expanded, is_file

_INI = (".ini", ".cfg", ".conf", ".gin")
_ARGUMENT_FILES = (".json", ".yaml", ".yml", ".toml", *_INI)
_PAIR = re.compile(r"(?m)^[ \t]*([\w./]+)[ \t]*[=:][ \t]*['\"]?([^'\"\n#;]+)")  # a line of INI's kind
_YAML = (".yaml", ".yml")
_OF_PLACE = re.compile(r"(data|dataset|corpus|dir|path|root|folder|file)s?$")  # what paths are called
_MOST_TOLD = 4
_MOST_FILES, _MOST_BYTES, _MOST_READ = 500, 2**20, 2**18
# hydra's and Lightning's words for a class; others say target, as much else does
_OF_CLASS = re.compile(
    r"(?:^|[\s{,-])(_target_|class_path|target)\s*:\s*['\"]?([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+)['\"]?\s*(?:[},#]|$)"
)


class NamedClass(NamedTuple):
    """A class, or a function, that a file of configuration names in full."""

    name: str
    place: str  # the file, from the script's folder, and the line
    is_sure: bool  # whether it is named as nothing else is

    def place_of(self, _: str) -> str:
        return self.place


def options_in_files(folder: Path, words: Sequence[str]) -> dict[str, Any]:
    """What a script's options are by a file that takes the place of its command line."""
    options: dict[str, Any] = {}
    for word in words:
        content = _content(folder / word)
        options |= content if isinstance(content, dict) else {}
    return {str(name): value for name, value in options.items()}


def _content(path: Path) -> Any:
    """What a file of configuration holds; None for what is none, or is damaged, or is as large as data are."""
    try:
        if path.suffix not in _ARGUMENT_FILES or not is_file(path) or path.stat().st_size > _MOST_READ:
            return None
        text = path.read_text(encoding="utf-8")
        if path.suffix in _YAML:
            return yaml.safe_load(text)
        if path.suffix in _INI:
            return [{name: value.strip()} for name, value in _PAIR.findall(text)]
        return tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
    except (OSError, ValueError, yaml.YAMLError, RecursionError):
        return None


def paths_in(folder: Path, value: str) -> Iterator[tuple[str, str]]:
    """The texts that may be paths of a file of configuration that an option or a word names, each behind what it is
    called there: with a folder or an ending, or called as paths are."""
    waiting = [("", _content(folder / expanded(value)))] if value.endswith(_ARGUMENT_FILES) else []
    visited: set[int] = set()  # what a name of YAML's stands for again
    while waiting:
        name, node = waiting.pop()
        if isinstance(node, str) and ("/" in node or PurePosixPath(node).suffix or _OF_PLACE.search(name)):
            yield name, node
        elif isinstance(node, dict | list) and id(node) not in visited:
            visited.add(id(node))
            children = node.items() if isinstance(node, dict) else ((name, item) for item in node)
            waiting += [(str(key).replace("-", "_").lower(), value) for key, value in children]


def paths_elsewhere(folder: Path, file: str) -> list[str]:
    """The paths elsewhere that a file of configuration names, but for what is written; of many that are called alike
    the folder of them all, for such a file lists data."""
    groups: dict[tuple[str, str], dict[str, None]] = {}
    for name, text in paths_in(folder, file):
        start = next((prefix for prefix in ("../", "/", "~/") if text.startswith(prefix)), "")
        if start and not OF_OUTPUT.search(name):
            groups.setdefault((name, start), {})[text] = None
    return [
        path
        for texts in groups.values()
        for path in (texts if len(texts) <= _MOST_TOLD else [posixpath.commonpath(texts)])
    ]


def classes_named(folder: Path, configuration: str, words: Iterable[str]) -> list[NamedClass]:
    """The classes that a script's configuration names: such a script imports them by these names alone.

    Args:
        folder: the script's.
        configuration: the folder of hydra's files, below or beside it; empty where there is none.
        words: of the command line, which may name files, and the defaults of its options.
    """
    return [named_class for path in _files(folder, configuration, words) for named_class in _classes(path, folder)]


def _files(folder: Path, configuration: str, words: Iterable[str]) -> list[Path]:
    candidates = (folder / configuration).rglob("*") if configuration else ()
    in_folder = sorted(islice((path for path in candidates if path.suffix in _YAML), _MOST_FILES))
    values = (word.rpartition("=")[2] for word in words)
    named_files = [folder / expanded(value) for value in values if value.endswith(_YAML)]
    return [path for path in dict.fromkeys([*in_folder, *named_files]) if is_file(path)]


def _classes(path: Path, folder: Path) -> Iterator[NamedClass]:
    try:
        text = path.read_text(encoding="utf-8", errors="replace") if path.stat().st_size <= _MOST_BYTES else ""
    except OSError:
        return
    place = PurePosixPath(os.path.relpath(path, folder)).as_posix()
    for number, line in enumerate(text.splitlines(), 1):
        if not line.lstrip().startswith("#") and (match := _OF_CLASS.search(line)):
            yield NamedClass(match[2], f"{place}:{number}", match[1] != "target")
