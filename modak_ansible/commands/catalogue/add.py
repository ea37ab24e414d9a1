"""Adds an entry of the user's own to the catalogue: of an index, of an image, or of a file."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from modak_ansible.catalogue import Catalogue, Entry
from modak_ansible.catalogue.adding import (
    asked_for,
    framework_in,
    from_file,
    from_image,
    from_index,
    named_like,
    pattern_for,
    released,
)
from modak_ansible.catalogue.own import check_name, text_of_entry, write_entry
from modak_ansible.catalogue.reader import shipped_catalogue
from modak_ansible.commands.catalogue.build import Builder, Result, request_for_image, run_image_role
from modak_ansible.commands.options import PlanOptions
from modak_ansible.errors import ModakError, UsageError
from modak_ansible.model.measured.seen_image import SeenImage
from modak_ansible.model.quantities import counted
from modak_ansible.model.request import GivenImage
from modak_ansible.planning.plan import make_plan
from modak_ansible.planning.service import request_of
from modak_ansible.reading.blueprint.forms.text_rules import image_problem
from modak_ansible.store.configuration import own_entries
from modak_ansible.store.lists.seen_images import seen_images, seen_of
from modak_ansible.store.project import blueprint_state, find_blueprint
from modak_ansible.target.core.files import expanded, is_file

# Whose first training's target is replaced by the one that is named.
_BLUEPRINT = "mnist-pytorch-slurm"
_FILES = (".yaml", ".yml")


@dataclass(frozen=True)
class AddOptions:
    """What is to be added, as the command line has it."""

    what: str
    name: str
    like: str
    framework: str
    python: str
    on: str | None
    replace: bool
    dry_run: bool


@dataclass(frozen=True)
class AddedEntry:
    entry: Entry
    packages: int  # how many its lock has
    file: Path | None  # where it was written; None where nothing was
    built: Result | None = None  # what became of its build on the target, where one was asked for

    def as_json(self) -> dict[str, Any]:
        return {
            "entry": self.entry.model_dump(mode="json", exclude_defaults=True), "packages": self.packages,
            "file": str(self.file or ""), "built": self.built.as_json() if self.built else None,
        }  # fmt: skip

    def text(self) -> str:
        if self.file is None:
            return text_of_entry(self.entry).rstrip("\n")
        entry = self.entry
        locked = f", {counted(self.packages, 'package')} with hashes" if self.packages else ""
        lines = [f"added {entry.name}: {entry.framework} {entry.version}{locked}", f"  in {self.file}"]
        if self.built:
            reason = f": {self.built.reason}" if self.built.reason else ""
            lines.append(f"  {self.built.outcome} on the target{reason}")
        elif not entry.source:
            lines.append(f"next: modak catalogue build {entry.name} --on TARGET, or deploy with it")
        return "\n".join(lines)


def add_entry(asked: AddOptions, console: Console) -> AddedEntry:
    """Adds an entry, or shows what it would be.

    Raises:
        UsageError, InvalidBlueprint, ModakError: it cannot be added; nothing was written.
    """
    catalogue = shipped_catalogue()

    def say(text: str) -> None:
        console.print(f"  {text}", style="dim", markup=False)

    lock = ""
    if asked.what.endswith(_FILES):
        path = expanded(asked.what)
        _refuse_options(asked, "a file", name=asked.name, like=asked.like, framework=asked.framework)
        if not is_file(path):
            raise UsageError(f"there is no file {asked.what}")
        _check(path.stem, asked, catalogue)
        entry, lock = from_file(path, catalogue, say)
    elif _is_image(asked.what):
        entry = _of_image(asked, catalogue, console)
    else:
        _refuse_options(asked, "a release of the index", framework=asked.framework)
        framework, version = asked_for(asked.what, catalogue)
        pattern = pattern_for(framework, asked.like, version, catalogue)
        base, release = released(version, pattern, catalogue, say)
        name = asked.name or named_like(pattern, framework, release)
        _check(name, asked, catalogue)
        entry, lock = from_index(release, base, pattern, name, catalogue, say)
    packages = sum(1 for line in lock.splitlines() if not line.startswith("#"))
    if asked.dry_run:
        return AddedEntry(entry, packages, None)
    file = write_entry(entry, lock)
    return AddedEntry(entry, packages, file, _built(entry, asked, console))


def _check(name: str, asked: AddOptions, catalogue: Catalogue) -> None:
    if not (asked.replace and name in own_entries()):
        check_name(name, catalogue)


def _refuse_options(asked: AddOptions, kind: str, **options: str) -> None:
    for name, value in options.items():
        if value:
            raise UsageError(f"--{name} does not apply to {kind}, which {asked.what} is")


def _built(entry: Entry, asked: AddOptions, console: Console) -> Result | None:
    """What becomes of a build where a target is named; an image was looked into there already."""
    if not asked.on or entry.source:
        return None
    builder = Builder(find_blueprint(_BLUEPRINT), PlanOptions(on=asked.on).all_inputs, console, again=False)
    builder.build([entry])
    return builder.results[0]


# --- an image


def _is_image(text: str) -> bool:
    return "://" in text or "/" in text or text.endswith((".sif", ".img", ".simg"))


def _of_image(asked: AddOptions, catalogue: Catalogue, console: Console) -> Entry:
    problem = image_problem(asked.what)
    if "://" not in asked.what and not asked.what.startswith("/"):
        problem = f"{asked.what} is not an absolute path on the target"
    if problem:
        raise UsageError(problem, hint="an image is a path on the target, docker://, oras:// or library://")
    if not asked.on:
        raise UsageError(f"{asked.what} has to be inspected on a target", hint="--on NAME, one of modak targets")
    name = asked.name or _named_after(asked.what)
    _check(name, asked, catalogue)
    if asked.framework:
        pattern_for(asked.framework, asked.like, "", catalogue)
    seen_image = _look(asked, name, console)
    if seen_image.problem:
        raise ModakError(
            f"{asked.what} cannot be an entry: {seen_image.problem}", hint="--python names another interpreter in it"
        )
    framework = framework_in(seen_image, asked.framework)
    version = seen_image.frameworks[framework]
    return from_image(seen_image, framework, pattern_for(framework, asked.like, version, catalogue), name)


def _named_after(source: str) -> str:
    """The end of an image's address or path: /images/Torch-2.13.sif and docker://some/torch:2.13 are torch-2.13."""
    last = source.rstrip("/").rpartition("/")[2].partition("@")[0]
    return re.sub(r"[^a-z0-9._+-]+", "-", re.sub(r"\.(sif|s?img)$", "", last).lower()).strip("-._+")


def _look(asked: AddOptions, name: str, console: Console) -> SeenImage:
    """What is in an image, by a look into it on the target."""
    blueprint = find_blueprint(_BLUEPRINT)
    request = request_of(blueprint, PlanOptions(on=asked.on).all_inputs)
    image = GivenImage(source=asked.what, python=asked.python)
    plan = make_plan(request_for_image(name, "python", image, request))
    run_image_role(plan, blueprint, console, image_inside=True)
    seen_image = seen_of(seen_images(blueprint_state(blueprint)), image, plan.target.address)
    if seen_image is None:
        raise ModakError(f"the target reported nothing about {asked.what}", hint="try again")
    return seen_image
