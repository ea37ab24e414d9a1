"""What hydra makes of a script's configuration folder: names that may be overridden, values, and where outputs go."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from modak_ansible.errors import nearest
from modak_ansible.reading.blueprint.script.option import literal
from modak_ansible.reading.blueprint.script.syntax import nodes_of, syntax_of
from modak_ansible.target.core.files import exists

MISSING = "???"
_HYDRA = re.compile(rb"hydra")
_MAIN = "hydra.main"
_OVERRIDE = re.compile(r"([A-Za-z_][\w.@/:-]*)=(.*)", re.DOTALL | re.ASCII)
_FILE = re.compile(r"[\w-]+", re.ASCII)
_DEEPEST, _LONGEST = 6, 300  # of values that name others
_INTERPOLATED = re.compile(r"\$\{[^{}]*\}")
# A group within another, or one whose keys go elsewhere; hydra's own are its settings.
_IN_ANOTHER = re.compile(r"^(?!hydra/).*[/@]")
_OPENING = re.compile(r"@package|^defaults:", re.MULTILINE)
_OTHER_FILE = ("--config-name", "-cn", "--config-path", "-cp", "--config-dir", "-cd")
_MULTIRUN = ("-m", "--multirun")
_MOST_FILES = 500


class Hydra(NamedTuple):
    """A script's configuration, as far as files beside it say it."""

    folder: str = ""  # of the configuration, below the script's; empty where it is in no file beside it
    # the texts that it holds, by dotted names, with what is overridden; those of a group only where it is known which
    # of its files is taken
    values: Mapping[str, str] = {}
    # the first parts of the names that may be overridden; None where nobody can tell
    names: frozenset[str] | None = None
    # of each such name those below it, where they are known
    below: Mapping[str, frozenset[str]] = {}
    outputs: tuple[str, ...] = ()  # patterns of the folder that a run gets, below the script's
    changes_folder: bool = False  # whether the script runs in it
    missing: tuple[str, ...] = ()  # what has no value, and needs one
    # of each group that the list of defaults has, the files of which one is taken; none where others may be found, too
    groups: Mapping[str, frozenset[str]] = {}

    def problem(self, word: str) -> tuple[str, str]:
        """What hydra does not do with a word of the command line, and a hint; empty where nothing is known."""
        override = _OVERRIDE.fullmatch(word)
        if self.names is None or override is None:
            return "", ""
        first, _, rest = override[1].partition("@")[0].partition(".")
        names = self.names | {"hydra"}
        if first.partition("/")[0] not in names:
            return f"has no {first} in its configuration", nearest(first, names) or f"+{word} adds it"
        files = self.groups.get(first, ()) if not rest and _FILE.fullmatch(override[2]) else ()
        if files and override[2] not in (*files, "null"):
            return f"has no {first}/{override[2]}.yaml in its configuration", nearest(override[2], files)
        children, second = self.below.get(first), rest.partition(".")[0]
        if second and children is not None and second not in children:
            return f"has no {first}.{second} in its configuration", nearest(second, children) or f"+{word} adds it"
        return "", ""


def takes_overrides(script: Path) -> bool:
    """Whether a script has hydra read its command line."""
    return (tree := syntax_of(script, _HYDRA)) is not None and _main(tree) is not None


def hydra_of_script(script: Path, words: Sequence[str]) -> Hydra | None:
    """The same as :func:`hydra_of`, of a file; None where it cannot be read."""
    tree = syntax_of(script, _HYDRA)
    return hydra_of(script, tree, words) if tree is not None else None


def hydra_of(script: Path, tree: ast.AST, words: Sequence[str] = (), top: Path | None = None) -> Hydra | None:
    """What a script tells hydra; None where it does not.

    Args:
        top: the folder below which that of the configuration is named; the script's without it.
    """
    call = _main(tree)
    if call is None:
        return None
    keywords = {keyword.arg: literal(keyword.value) for keyword in call.keywords if keyword.arg}
    keywords |= dict(zip(("config_path", "config_name"), map(literal, call.args), strict=False))
    # what hydra does where nobody says a version is what 1.1 did
    is_old = "version_base" not in keywords or str(keywords["version_base"]) in ("1.0", "1.1")
    overrides = {match[1]: match[2] for word in words if (match := _OVERRIDE.fullmatch(word.lstrip("+")))}
    path, name = keywords.get("config_path") or ("." if is_old else None), keywords.get("config_name")
    is_told_otherwise = any(word.partition("=")[0] in _OTHER_FILE for word in words)
    folder = script.parent / path if isinstance(path, str) and ":" not in path and not path.startswith("/") else None
    main = _read(folder, name) if folder and isinstance(name, str) and not is_told_otherwise else None
    is_there = folder is not None and exists(folder) and folder.is_dir()
    relative = PurePosixPath(os.path.relpath(folder, top or script.parent)).as_posix() if folder and is_there else ""
    relative = "" if relative == "." else relative
    if folder is None or main is None:
        return Hydra(relative, overrides, outputs=_outputs(overrides, words), changes_folder=is_old)
    stores_more = any(isinstance(node, ast.Attribute) and node.attr == "store" for node in nodes_of(tree))
    return _with_values(folder, main, overrides, words, Hydra(relative, changes_folder=is_old), is_open=stores_more)


def _with_values(
    folder: Path, main: dict[str, Any], overrides: dict[str, str], words: Sequence[str], base: Hydra, *, is_open: bool
) -> Hydra:
    default_list = main.pop("defaults", None) or []
    defaults = default_list if isinstance(default_list, list) else []
    choices = {**dict(_choices(defaults)), **overrides}
    places = sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))
    is_open |= default_list != defaults or any(isinstance(default, str) and default != "_self_" for default in defaults)
    is_open |= any(_IN_ANOTHER.search(group) for group in choices) or any(map(_is_open, places))
    values, groups = dict(_flat(main)), dict(_choices(defaults))
    files_by_group: dict[str, frozenset[str]] = {}
    names, below = set(map(str, main)), {key: set(value) for key, value in main.items() if isinstance(value, dict)}
    for place in places:
        group = place.name
        files = {path.stem: _read(place, path.name) or {} for path in sorted(place.glob("*.yaml"))[:_MOST_FILES]}
        if not files:
            continue
        names.add(group)
        if group in groups:
            files_by_group[group] = frozenset(files)
        below.setdefault(group, set()).update(key for file in files.values() for key in file)
        for key, value in _flat(files.get(str(choices.get(group)), {}), f"{group}."):
            if values.get(key, MISSING) == MISSING:  # which takes no other file's value away
                values[key] = value
    values |= overrides
    missing = sorted(key for key, value in values.items() if value == MISSING and not is_open)
    texts = _filled(values)
    return Hydra(
        base.folder,
        texts,
        None if is_open else frozenset(names),
        {} if is_open else {key: frozenset(map(str, value)) for key, value in below.items() if value},
        _outputs(texts, words),
        texts.get("hydra.job.chdir", str(base.changes_folder)).lower() == "true",
        tuple(missing),
        {} if is_open or "hydra.searchpath" in values else files_by_group,
    )


def _choices(defaults: Iterable[Any]) -> Iterator[tuple[str, Any]]:
    """The groups of a list of defaults, and which file of each is taken."""
    for default in defaults:
        for key, value in default.items() if isinstance(default, dict) else ():
            yield str(key).rpartition(" ")[2], value  # behind "optional" or "override"


def _is_open(group: Path) -> bool:
    """Whether files of a group may put keys elsewhere than below its name, or take others by defaults of their own."""
    texts = [path.read_text(encoding="utf-8", errors="replace") for path in group.glob("*.yaml") if path.is_file()]
    is_named_otherwise = bool(texts) and not group.name.isidentifier()
    return is_named_otherwise or any(map(_OPENING.search, texts)) or any(group.glob("*/*.yaml"))


def _main(tree: ast.AST) -> ast.Call | None:
    """The call of hydra's decorator."""
    full: dict[str, str] = {}
    for node in nodes_of(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "hydra":
            full |= {alias.asname or alias.name: f"hydra.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            full |= {alias.asname: alias.name for alias in node.names if alias.asname}
    for node in nodes_of(tree):
        for decorator in node.decorator_list if isinstance(node, ast.FunctionDef) else ():
            name = ast.unparse(decorator.func) if isinstance(decorator, ast.Call) else ""
            first, dot, rest = name.partition(".")
            if isinstance(decorator, ast.Call) and f"{full.get(first, first)}{dot}{rest}" == _MAIN:
                return decorator
    return None


def _read(folder: Path, name: str) -> dict[str, Any] | None:
    """A file of the configuration; None where it is none."""
    import yaml  # noqa: PLC0415 - slow to import, and few scripts have a configuration

    path = folder / (name if name.endswith((".yaml", ".yml")) else f"{name}.yaml")
    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
        dict(_flat(data if isinstance(data, dict) else {}))  # of which there is no end where an alias holds itself
    except (OSError, ValueError, yaml.YAMLError, RecursionError):
        return None
    return {} if data is None else data if isinstance(data, dict) else None


def _flat(values: Mapping[Any, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in values.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{before}{key}.")
        else:
            yield f"{before}{key}", value


def _filled(values: Mapping[str, Any]) -> dict[str, str]:
    """Values with what they name in its place: another value, or what a variable is where nobody sets it; else *."""
    texts = {key: str(value) for key, value in values.items() if isinstance(value, str | int | float)}

    def value_of(match: re.Match[str]) -> str:
        name, is_given, default = match[0][2:-1].partition(",")
        return (default if is_given and name.startswith("oc.env:") else texts.get(name)) or "*"

    for _ in range(_DEEPEST):
        texts = {key: _INTERPOLATED.sub(value_of, text)[:_LONGEST] for key, text in texts.items()}
    return {key: _INTERPOLATED.sub("*", texts[key]) for key, value in values.items() if isinstance(value, str | bool)}


def _outputs(values: Mapping[str, str], words: Iterable[str]) -> tuple[str, ...]:
    """Where a run's files go: the part of the folder's name that is known."""
    is_many = any(word in _MULTIRUN for word in words)
    name, default = ("hydra.sweep.dir", "multirun") if is_many else ("hydra.run.dir", "outputs")
    text = _INTERPOLATED.sub("*", values.get(name, default))
    text = _INTERPOLATED.sub("*", text)  # of one in another
    prefix = text.partition("*")[0]
    return (prefix.rstrip("/") if "*" not in text or prefix.endswith("/") else f"{prefix}*",)
