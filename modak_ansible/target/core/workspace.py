"""The folder on the target that holds everything of ours."""

from __future__ import annotations

import errno
import os
import re
import subprocess
import tempfile
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Iterator

from ...errors import ModakError
from .files import expanded, free_bytes, make_private, nearest_folder

# What a dataset holds, in a file beside it; and what is in a virtual environment that is whole.
MANIFEST = ".manifest.json"
COMPLETE = ".complete"
_SHELL_SECONDS = 20


class Workspace:
    """Images, datasets and deployments below one folder, private to the user."""

    def __init__(self, path: str) -> None:
        self.path = expanded("~") / resolved(path)
        self.images = self.path / "images"
        self.datasets = self.path / "datasets"
        self.deployments = self.path / "deployments"

    def create(self) -> None:
        """Makes the folders.

        A workspace that was there before keeps its permissions, which may let a group in; what is in it is the user's
        alone.

        Raises:
            ModakError: a folder cannot be made, is another user's, or is not the user's to write in.
        """
        for folder in (self.path, self.images, self.datasets, self.deployments):
            try:
                make_private(folder)
                if folder != self.path:
                    _keep_private(folder)
            except OSError as error:
                raise ModakError(
                    f"the workspace {folder} cannot be created: {error.strerror}", hint=_hint(error)
                ) from error
        if not os.access(self.path, os.W_OK):
            raise ModakError(f"the workspace {self.path} cannot be written", hint="give the target another workspace")

    @contextmanager
    def marked(self) -> Iterator[str]:
        """The path of a file that hosts see which share the workspace, or the folder that it is to be in.

        Raises:
            OSError: there may be none.
        """
        with tempfile.NamedTemporaryFile(dir=nearest_folder(self.path), prefix=".modak-seen-") as file:
            yield file.name

    def place(self, path: str) -> Path:
        """A path of a plan: below the workspace unless it is absolute, or begins with ~ or a variable."""
        return self.path / resolved(path)

    def require_space(self, needed: int, what: str) -> None:
        """
        Raises:
            ModakError: fewer bytes are free than are needed.
        """
        free = free_bytes(self.path)
        if free < needed:
            raise ModakError(
                f"{what} needs {_megabytes(needed)} MB, and {self.path} has {_megabytes(free)} MB left",
                hint="make room there, or give the target another workspace",
            )


def resolved(location: str) -> Path:
    """A path of the target with what a login shell of the user's has in place of ``~`` and a variable at its beginning.

    Raises:
        ModakError: the variable has no value there.
    """
    variable = re.match(r"\$(\w+)", location, re.ASCII)
    if variable is None:
        return expanded(location)
    name = variable[1]
    value = os.environ.get(name) or _of_login_shell(name)
    if not value:
        raise ModakError(f"${name} is not set on the target", hint="write the path itself")
    return Path(value + location[variable.end() :])


@lru_cache(maxsize=None)
def _of_login_shell(name: str) -> str:
    try:
        process = subprocess.run(
            ["bash", "-lc", f'printf "\\n%s" "${{{name}:-}}"'],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL, timeout=_SHELL_SECONDS,
            check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return os.fsdecode(process.stdout).rpartition("\n")[2]


def manifest_of(dataset: Path) -> Path:
    return dataset.with_name(dataset.name + MANIFEST)


def _keep_private(folder: Path) -> None:
    stat_result = folder.stat()
    if stat_result.st_uid != os.getuid():
        raise ModakError(f"{folder} belongs to another user", hint="give the target a workspace of your own")
    if stat_result.st_mode & 0o077:
        folder.chmod(0o700)


def _megabytes(count: int) -> int:
    return count // 10**6


def _hint(error: OSError) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "make room there"
    return "give the target a workspace that you may write in"
