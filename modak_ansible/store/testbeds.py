"""The testbeds of this user, found from any folder: each belongs to the project that started it.

``modak testbed up`` notes its folder among the user's state. A note only says where to look: a testbed is taken for one
that runs when a process has the name that follows from its folder.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import TypedDict, cast

from modak_ansible.errors import ModakError
from modak_ansible.target.core.files import expanded, make_private, read_json, write_whole

# The address by which blueprints and requests mean the testbed that runs.
TESTBED = "testbed"


class Testbed(TypedDict, total=False):
    """What a running testbed says of itself."""

    name: str
    pid: int
    address: str
    port: int
    user: str
    nodes: list[str]


def name_of(folder: Path) -> str:
    """A name of its own for every checkout."""
    return "testbed-" + hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:8]


def state_of(folder: Path) -> Testbed:
    """What a testbed says of itself; empty where it does not run."""
    state = cast(Testbed, read_json(folder / "state.json") or {})
    try:
        words = Path(f"/proc/{int(state['pid'])}/cmdline").read_bytes().split(b"\0")
    except (OSError, KeyError, TypeError, ValueError):
        return {}
    return state if str(state.get("name")).encode() in words else {}


def note(folder: Path) -> None:
    """Has a testbed found from anywhere; where that cannot be written, it is found from its own project."""
    notes = _notes()
    try:
        make_private(notes)
        write_whole(notes / name_of(folder), f"{folder.resolve()}\n")
    except OSError:
        return


def running() -> list[Path]:
    """The folders of all testbeds of this user that run."""
    notes = _notes()
    try:
        status = notes.stat()
        if status.st_uid != os.getuid() or status.st_mode & 0o022:  # what others may write says nothing
            return []
        folders = [Path(path.read_text(encoding="utf-8").strip()) for path in sorted(notes.glob("testbed-*"))]
    except (OSError, UnicodeDecodeError):
        return []
    return [folder for folder in folders if state_of(folder).get("name") == name_of(folder)]


def owner_of(folder: Path) -> Path:
    return folder.resolve().parent.parent


def usual(own: Path) -> Path:
    """The testbed that a project uses: its own, or else the only one that runs; its own where there is none."""
    testbeds = [] if own.exists() else running()
    return testbeds[0] if len(testbeds) == 1 else own


def chosen(own: Path, of: Path | None = None) -> Path:
    """The testbed that a user means.

    Args:
        own: the folder of the testbed that this project has or may have.
        of: a project, or the folder of a testbed, whose testbed is meant instead.

    Raises:
        ModakError: there is none there, or several run and none is this project's.
    """
    if of is not None:
        testbed = next((folder for folder in (of / ".modak" / "testbed", of) if (folder / "ssh_config").exists()), None)
        if testbed is None:
            raise ModakError(f"{of} has no testbed that is up", hint=_choice(running()) or "modak testbed status")
        return testbed
    folder = usual(own)
    if not folder.exists() and (several := running()):
        raise ModakError("several testbeds run, and none is this project's", hint=_choice(several))
    return folder


def _choice(folders: list[Path]) -> str:
    return " or ".join(f"--of {owner_of(folder)}" for folder in folders)


def _notes() -> Path:
    """Below the folder for state that the XDG base directory specification names."""
    return Path(os.environ.get("XDG_STATE_HOME") or expanded("~/.local/state")) / "modak" / "testbeds"
