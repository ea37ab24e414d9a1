"""What a script's folder tells of the training: the files that travel, workload.yaml, and whether choices reach it."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import takewhile, zip_longest
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from modak_ansible.errors import nearest
from modak_ansible.model.application import SourceFile
from modak_ansible.model.distributed import Parallelism
from modak_ansible.model.measured.work import Work
from modak_ansible.model.measured.workload import Workload, WorkloadScript
from modak_ansible.reading.blueprint import files
from modak_ansible.reading.blueprint.forms.forms import place_of
from modak_ansible.reading.blueprint.forms.kept_tree import read_kept_yaml
from modak_ansible.reading.blueprint.forms.mistakes import Mistakes
from modak_ansible.reading.blueprint.forms.text_rules import version_problem
from modak_ansible.reading.blueprint.forms.yaml_tree import Item
from modak_ansible.reading.blueprint.script.hydra import takes_overrides
from modak_ansible.reading.blueprint.script.option import EPOCHS, plain_name, whole_number
from modak_ansible.reading.blueprint.script.options import options_of
from modak_ansible.reading.blueprint.script.parallelism import parallelism_of
from modak_ansible.reading.blueprint.script.syntax import nodes_of, syntax_of

WORKLOAD_FILE = "workload.yaml"
_RUNTIME = "modak_runtime"
# Libraries whose trainers run the loop, and tell the runtime what a line in the script would.
_TRAINERS = {"transformers", "lightning", "pytorch_lightning", "trl"}
_TRAINS = re.compile(rb"Trainer\b|\bLightningCLI\b")
# Options by which scripts are told what they compute, with _ for -.
_ARGUMENTS = {"epochs": EPOCHS, "batch_size": ("batch_size",), "samples": ("images", "limit")}
_KNOWN_OPTIONS = {name for names in _ARGUMENTS.values() for name in names}


class ScriptFolders:
    """The folders of a blueprint's scripts; each is looked at once, however many trainings share it."""

    def __init__(self) -> None:
        self._files: dict[object, list[SourceFile]] = {}
        self._workloads: dict[Path, Workload | None] = {}
        self._is_reached, self._options, self._parallelism = cache(is_reached), cache(options_of), cache(parallelism_of)
        self.takes_overrides = cache(takes_overrides)

    def files(
        self, folder: Path, patterns: list[str] | None, *, top: Path, data: Mapping[Path, bool]
    ) -> list[SourceFile]:
        """The files that travel; see :func:`files.code_files`."""
        key = (folder, None if patterns is None else tuple(patterns), top, tuple(data.items()))
        if key not in self._files:
            self._files[key] = files.code_files(folder, patterns, top=top, is_blueprint=folder == top, data=data)
        return self._files[key]

    def workload(self, folder: Path, mistakes: Mistakes) -> Workload | None:
        """What workload.yaml in the folder says; None where there is none, or where it is damaged, which is noted."""
        if folder not in self._workloads:
            path = folder / WORKLOAD_FILE
            self._workloads[folder] = read_workload(path, mistakes) if path.is_file() else None
        return self._workloads[folder]

    def names_of(self, script: Path, name: str) -> frozenset[str]:
        """All names of the option that a name of a script's command line stands for, such as its letter."""
        options = self._options(script)
        name_sets = [option.plain_names for option in options.meant(name)] if options else []
        return frozenset.intersection(*name_sets) if name_sets else frozenset()

    def prepares(self, folder: Path, code: Iterable[SourceFile]) -> bool:
        """Whether one of the files imports the runtime, to call prepare, or trains with a trainer that is reached."""
        return any(self._is_reached(folder / path) for path in _python_files(code))

    def parallelism(self, folder: Path, code: Iterable[SourceFile]) -> Parallelism | None:
        """What makes the script parallel by itself, by these files; see :func:`parallelism_of`."""
        return self._parallelism(folder, tuple(_python_files(code)))


def _python_files(code: Iterable[SourceFile]) -> Iterator[str]:
    return (file.path for file in code if file.path.endswith(".py"))


def is_reached(path: Path) -> bool:
    """Whether a Python file imports modak_runtime, or a library's trainer; one that cannot be parsed does not."""
    try:
        text = path.read_bytes()
        trains = _TRAINS.search(text) is not None
        if _RUNTIME.encode() not in text and not trains:
            return False
    except OSError:
        return False
    tree = syntax_of(path)
    names: set[str] = set()
    for node in nodes_of(tree) if tree else ():
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names.add(node.module.split(".")[0])
    return _RUNTIME in names or (trains and not names.isdisjoint(_TRAINERS))


def read_workload(path: Path, mistakes: Mistakes) -> Workload | None:
    """A workload.yaml; what is wrong in it is noted with its place."""
    root = read_kept_yaml(path, mistakes)
    if root is None:
        return None
    if not root.is_map:
        mistakes.add(root.location, "workload", f"{WORKLOAD_FILE} must be a mapping", "name, title, kind and scripts")
        return None
    before = len(mistakes)
    try:
        workload = Workload(**root.plain())
    except (ValidationError, TypeError) as error:
        _note(root, error, mistakes)
        return None
    for name in ("parameters", "gflop_per_image"):
        value = getattr(workload, name)
        if value is not None and not value > 0:
            mistakes.add(place_of(root, (name,)), "workload", f"{name}: {value} is not above 0")
    for item, script in zip(root.entries["scripts"].elements, workload.scripts, strict=True):
        if script.versions and (problem := version_problem(script.versions)):
            mistakes.add(place_of(item, ("versions",)), "workload", f"versions: {problem}")
    return workload if len(mistakes) == before else None


def _note(root: Item, error: Exception, mistakes: Mistakes) -> None:
    if not isinstance(error, ValidationError):
        mistakes.add(root.location, "workload", f"its names must be texts: {error}")
        return
    for problem in error.errors():
        place, names = root, tuple(Workload.model_fields)
        for step in problem["loc"]:
            child = place.elements[step] if isinstance(step, int) and step < len(place.elements) else None
            child = child or (place.entries.get(step) if isinstance(step, str) else None)
            names = tuple(WorkloadScript.model_fields) if isinstance(step, int) else names
            place = child or place
        name = ".".join(map(str, problem["loc"]))
        last = str(problem["loc"][-1])
        hint = nearest(last, names) if problem["type"] == "extra_forbidden" else ""
        what = "there is no such name" if problem["type"] == "extra_forbidden" else problem["msg"]
        mistakes.add(place.location, "workload", f"{name}: {what}", hint)


def _numbers_in(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The options among the words of a command line that have whole numbers, in the same word or in the next."""
    for word, following in zip_longest(takewhile(lambda word: word != "--", words), words[1:], fillvalue=""):
        name, equals, value = word.partition("=")
        if word.startswith("--"):
            option = name[2:], value if equals else following
        elif word.startswith("-"):
            option = word[1:2], word[2:] or following
        else:  # as hydra has them
            option = name if equals else "", value
        if option[0] and whole_number(option[1]):
            yield option


def work_of(
    stated: Mapping[str, Any], workload: Workload | None, arguments: Iterable[tuple[str, str | bool]],
    words: Sequence[str] = (), names_of: Callable[[str], Iterable[str]] = lambda name: (),  # noqa: ARG005
) -> Work:  # fmt: skip
    """What a training computes: as the user says, else as its arguments say, else as workload.yaml says.

    Args:
        words: of the command line, behind the arguments.
        names_of: an option's name gives all that it has, with _ for -.
    """
    facts: dict[str, Any] = {}
    if workload is not None:
        facts = {
            "workload": workload.name,
            "parameters": workload.parameters,
            "gflop_per_sample": workload.gflop_per_image,
        }
    values_by_option: dict[str, str | bool] = {}
    for name, value in (*arguments, *_numbers_in(words)):
        plain = plain_name(name)
        values_by_option |= dict.fromkeys((plain,) if plain in _KNOWN_OPTIONS else (plain, *names_of(name)), value)
    for fact, options in _ARGUMENTS.items():
        values = [values_by_option[option] for option in options if option in values_by_option]
        if values and (number := whole_number(values[0])):
            facts[fact] = number
    facts.update({name: value for name, value in stated.items() if value not in (None, "")})
    return Work(**facts)
