"""Targets under names: files of the user's own, and the two that are always there."""

from __future__ import annotations

from pathlib import Path

from modak_ansible.errors import UsageError, nearest
from modak_ansible.store.configuration import own_folder
from modak_ansible.store.project import check_name, shipped
from modak_ansible.target.core.files import expanded, is_file

SUFFIX = ".yaml"
_FOLDER = "known"
FILE_ENDINGS = (SUFFIX, ".yml", ".json")  # of what holds a target


def targets_folder() -> Path:
    return own_folder() / "targets"


def own_targets() -> dict[str, Path]:
    """The user's target files by their names, in order."""
    folder = targets_folder()
    paths = folder.iterdir() if folder.is_dir() else ()
    return {path.stem: path for path in sorted(paths) if path.suffix == SUFFIX and not path.name.startswith(".")}


def built_in_targets() -> dict[str, Path]:
    """The target files that ship: the testbed, and this machine."""
    return {path.stem: path for path in sorted((shipped("tosca") / _FOLDER).glob(f"*{SUFFIX}"))}


def known_targets() -> dict[str, Path]:
    return {**own_targets(), **built_in_targets()}


def target_file(text: str) -> Path:
    """The target file that a user means: that of a name, or the one at a path.

    Raises:
        UsageError: there is none.
    """
    check_name(text, "modak targets lists the named ones")
    targets = known_targets()
    if text in targets:
        return targets[text]
    path = expanded(text)
    if is_file(path):
        return path
    if "/" in text or path.suffix in FILE_ENDINGS:
        raise UsageError(f"there is no target file {text}", hint="modak targets lists the named ones")
    if "@" in text:
        hint = f"give it one: modak discover {text} --save NAME"
        raise UsageError(f"{text} is a host, not the name of a target", hint=hint)
    hint = f"{nearest(text, targets)}; modak discover USER@HOST --save {text} would write it"
    raise UsageError(f"there is no target {text}", hint=hint.removeprefix("; "))


def new_target(name: str) -> Path:
    """Where the target file of a name goes.

    Raises:
        UsageError: it cannot be one's name, or is that of one which is always there.
    """
    if name in built_in_targets():
        hint = f"choose another, or use that one: --on {name}"
        raise UsageError(f"{name} is the name of a target that is built in", hint=hint)
    if not name or not name.isprintable() or "/" in name or name.startswith((".", "-")) or "@" in name or " " in name:
        raise UsageError(f"{name!r} cannot be a target's name", hint="such as mycluster")
    return targets_folder() / f"{name}{SUFFIX}"
