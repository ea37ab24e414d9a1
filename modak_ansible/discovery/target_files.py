"""Where a description goes: one file, or a folder with all its forms; whole or not at all, and never over another."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from modak_ansible.discovery.description import Description
from modak_ansible.discovery.writing import BLUEPRINTS, inputs_text, template_text
from modak_ansible.errors import UsageError
from modak_ansible.store.project import shipped
from modak_ansible.target.core.files import expanded, make_private, write_whole

INPUTS = "site.yaml"
TEMPLATE = "target.yaml"
_SUFFIXES = (".yaml", ".yml")


@dataclass(frozen=True)
class TargetFiles:
    """The files that a user asks for.

    Args:
        output: a .yaml file, or a folder; None to write nothing.
        force: whether files that are there are written over.
        name: that of the target file among the user's; empty for none.
    """

    output: str | None
    force: bool = False
    name: str = ""

    @property
    def path(self) -> Path:
        return expanded(self.output or "")

    @property
    def is_folder(self) -> bool:
        return self.path.is_dir() or (self.output or "").endswith("/") or self.path.suffix not in _SUFFIXES

    def check(self) -> None:
        """Tells before anything is looked at what would make the writing fail.

        Raises:
            UsageError: a file is there, or its folder is not.
        """
        if self.output is None:
            return
        if self.is_folder and self.path.exists() and not self.path.is_dir():
            raise UsageError(f"{self.path} is not a folder", hint="a target file ends in .yaml")
        if not self.name and not self.is_folder and not self.path.parent.is_dir():
            raise UsageError(f"there is no folder {self.path.parent}", hint="make it first")
        paths = [self.path / INPUTS, self.path / TEMPLATE] if self.is_folder else [self.path]
        existing = [str(path) for path in paths if path.exists() or path.is_symlink()]
        if existing and not self.force:
            raise UsageError(f"already there: {', '.join(existing)}", hint="--force overwrites")

    def text(self, description: Description) -> str:
        """The form that a single file has: a target file."""
        return inputs_text(description, time.strftime("%Y-%m-%d %H:%M"))

    def write(self, description: Description) -> list[Path]:
        """Writes what is asked for; the paths of what was written."""
        if self.output is None:
            return []
        if not self.is_folder:
            if self.name:
                make_private(self.path.parent)
            write_whole(self.path, self.text(description))
            return [self.path]
        self.path.mkdir(parents=True, exist_ok=True)
        texts = {TEMPLATE: template_text(description, time.strftime("%Y-%m-%d %H:%M")), INPUTS: self.text(description)}
        for name, text in texts.items():
            write_whole(self.path / name, text)
        link_types(self.path)
        return [self.path / name for name in sorted(texts)]

    def next_steps(self, description: Description) -> list[str]:
        """What may be done with what was written."""
        if self.name:
            return [f"next: modak check {self.name}", f"any blueprint or request takes it: --on {self.name}"]
        path = self.path / INPUTS if self.is_folder else self.path
        step = f"check {BLUEPRINTS.get(description.scheduler, 'BLUEPRINT')} -i {path}"
        return [f"next: modak {step}", f"any blueprint or request takes it: modak plan mine -i {path}"]


def link_types(folder: Path) -> None:
    """Has the types beside a service template, where it imports them from."""
    link = folder / "types"
    if not link.exists() and not link.is_symlink():
        link.symlink_to(shipped("tosca") / "types")
