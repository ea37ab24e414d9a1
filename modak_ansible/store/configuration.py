"""Where a user keeps what all their projects know, and where a centre keeps it for everybody."""

from __future__ import annotations

import os
from pathlib import Path

from modak_ansible.target.core.files import expanded

_CATALOGUE = "catalogue"


def own_folder() -> Path:
    """The user's, in the folder that the XDG base directory specification names."""
    return Path(os.environ.get("XDG_CONFIG_HOME") or expanded("~/.config")) / "modak"


def own_catalogue() -> Path:
    """Where the user's own entries of the catalogue are, and their locks."""
    return own_folder() / _CATALOGUE


def catalogue_folders() -> list[Path]:
    """Where entries are that do not ship: the user's own, and behind them those of the machine."""
    system_folders = (os.environ.get("XDG_CONFIG_DIRS") or "/etc/xdg").split(":")
    return [own_catalogue(), *(Path(folder) / "modak" / _CATALOGUE for folder in system_folders if folder)]


def own_entries() -> dict[str, Path]:
    """The files of entries that do not ship, by their names; a user's own comes before the machine's."""
    folders = reversed(catalogue_folders())
    return {path.stem: path for folder in folders if folder.is_dir() for path in sorted(folder.glob("[!.]*.yaml"))}
