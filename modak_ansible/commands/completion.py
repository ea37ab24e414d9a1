"""What the shell offers when somebody presses Tab: names that are looked up in a moment, and no file is read for."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from modak_ansible.store.configuration import own_entries
from modak_ansible.store.project import SERVICE_FILES, shipped_blueprints, state_folder
from modak_ansible.target.core.files import expanded


def blueprints(incomplete: str) -> list[str]:
    """Shipped blueprints, and folders and files of this machine that may be one."""
    shipped = (name for name in shipped_blueprints() if name.startswith(incomplete))
    return sorted({*shipped, *_paths(incomplete)})


def deployments(incomplete: str) -> list[str]:
    """The deployments of the project, and blueprints, for their newest one."""
    from modak_ansible.store.deployment import FOLDER

    folder = state_folder(Path.cwd()) / FOLDER
    names = [path.name for path in folder.glob("*/")] if folder.is_dir() else []
    return sorted({*(name for name in names if name.startswith(incomplete)), *blueprints(incomplete)})


def entries(incomplete: str) -> list[str]:
    """The catalogue's entries, which are named like their files."""
    folder = Path(__file__).resolve().parents[1] / "catalogue" / "entries"
    names = {*(path.stem for path in folder.glob("*.yaml")), *own_entries()}
    return sorted(name for name in names if name.startswith(incomplete))


def added_entries(incomplete: str) -> list[str]:
    """Those of the catalogue's entries that somebody added."""
    return [name for name in own_entries() if name.startswith(incomplete)]


def targets(incomplete: str) -> list[str]:
    """Targets that have names, and target files."""
    from modak_ansible.store.targets import known_targets

    names = [name for name in known_targets() if name.startswith(incomplete)]
    return sorted({*names, *_paths(incomplete)})


def own_targets(incomplete: str) -> list[str]:
    """The targets that the user has given names."""
    from modak_ansible.store.targets import own_targets as known

    return [name for name in known() if name.startswith(incomplete)]


def _paths(incomplete: str) -> Iterator[str]:
    """Folders, with a slash where no blueprint is in them, and files that may be a blueprint or a package."""
    head, _, begin = incomplete.rpartition("/")
    prefix = f"{head}/" if "/" in incomplete else ""
    try:
        paths = list(expanded(prefix or ".").iterdir())
    except OSError:
        return
    for path in paths:
        if not path.name.startswith(begin) or (path.name.startswith(".") and not begin.startswith(".")):
            continue
        if os.path.isdir(path):  # noqa: PTH112 - pathlib's raises where a folder may not be entered
            is_blueprint = os.path.isfile(path / "service.yaml")  # noqa: PTH113
            yield f"{prefix}{path.name}" if is_blueprint else f"{prefix}{path.name}/"
        elif path.suffix in SERVICE_FILES:
            yield f"{prefix}{path.name}"
