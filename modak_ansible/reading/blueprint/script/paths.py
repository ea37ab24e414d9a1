"""Paths among a script's options that are not there, and look like a slip for one that is: in its name, or in where it
begins."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from modak_ansible.store.project import project_root
from modak_ansible.target.core.files import exists

OF_OUTPUT = re.compile(
    r"(^|_)(out|outputs?|saved?|checkpoints?|ckpts?|logs?|results?|runs?|work|tb|tensorboard|export|cache)(_?dir)?(_|$)"
)
# Of those the options that name a folder for all that is written, and no part of it.
OF_OUTPUT_FOLDER = re.compile(
    r"(^|_)(out|outputs?|saved?|checkpoints?|ckpts?|logs?|logging|results?|runs?|work|experiments?)_?(dir|folder|root|directory)$"
    r"|^(output|outf)$"
)
_ALIKE = 0.8  # as difflib counts it
_MOST_LETTERS, _MOST_BESIDE = 200, 1000


class PathSlip(NamedTuple):
    option: str  # that names it; empty where a word of the command line does
    path: str
    meant: str  # what is there


def path_slips(
    folder: Path, options: Iterable[tuple[str, object]], words: Sequence[str], outputs: Sequence[str]
) -> Iterator[PathSlip]:
    """The paths of a command line that are not there while something with almost their names is, or that lie so below
    a folder above the script's, as where people start it from their project's root.

    Args:
        folder: the script's.
        options: with their values, by names without dashes; those for what is written are left out.
        words: that are no options, or follow them.
        outputs: what the script writes.
    """
    for name, value in [*options, *named_words(words)]:
        if OF_OUTPUT.search(name.replace("-", "_")):
            continue
        for path in value if isinstance(value, list | tuple) else (value,):
            if isinstance(path, str) and path not in outputs and (likely := _likely_path(folder, path)):
                yield PathSlip(name, path, likely)


def named_words(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The values among words, with the name that stands before = or in the word before; empty where none does."""
    for before, word in zip(("", *words), words, strict=False):
        name, is_given, value = word.partition("=")
        if is_given:
            yield name.lstrip("-"), value
        elif not word.startswith("-"):
            yield before.lstrip("-") if before.startswith("-") and "=" not in before else "", word


def _likely_path(folder: Path, value: str) -> str:
    """What lies in a script's folder and is called almost as a path of its options, or lies so below one above it;
    empty where that is there.

    So it is where nothing is like it: the script may make it. Names that differ in their numbers alone are no slips.

    Args:
        value: of an option, or a word of the command line.
    """
    path = PurePosixPath(value)
    is_path = len(path.parts) > 1 or re.fullmatch(r"\.\w*[A-Za-z]\w*", path.suffix)
    if not is_path or path.is_absolute() or len(value) > _MOST_LETTERS or re.search(r"[{}*?\n]|://|^~", value):
        return ""
    place, likely = folder, PurePosixPath()
    try:
        if path_above := lies_above(folder, value):
            return path_above
        for part in path.parts:
            name = part if (place / part).exists() else _similar_name(part, place)
            place, likely = place / name, likely / name
            if not name or not place.exists():
                return ""
    except OSError:
        return ""
    return str(likely) if likely != path else ""


def lies_above(folder: Path, value: str) -> str:
    """What a path that is not there is from a script's folder, where it lies so below one above it in the project."""
    above = [parent for parent in folder.resolve().parents if parent.is_relative_to(project_root(folder))]
    for level, parent in enumerate(above if not exists(folder / value) else (), 1):
        if exists(parent / value):
            return PurePosixPath(*[".."] * level, value).as_posix()
    return ""


def _similar_name(name: str, folder: Path) -> str:
    """What is called almost so in a folder that has not too much in it."""
    names = [path.name for path in islice(folder.iterdir(), _MOST_BESIDE)] if folder.is_dir() else []
    close = difflib.get_close_matches(name, names, n=1, cutoff=_ALIKE)
    return close[0] if close and _without_numbers(close[0]) != _without_numbers(name) else ""


def _without_numbers(name: str) -> str:
    return re.sub(r"\d+", "", name)
