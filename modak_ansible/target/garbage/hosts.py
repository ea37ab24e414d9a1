"""Garbage on the other hosts of a target that has no scheduler: what trainings were brought there, and nobody needs.

What the deployments of the first host use stays there, too, and beside it what those of the other host itself use.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any, Dict, List, NamedTuple, TypedDict

from ...errors import ModakError
from ..core.workspace import Workspace
from .elsewhere import run_there
from .garbage import Garbage, GarbageItem, Needs
from .uses import Uses


class Collected(NamedTuple):
    """What there is on hosts, with the host's name before each path; and why some of them could not be asked."""

    removed: List[GarbageItem]
    garbage: List[GarbageItem]
    kept: List[GarbageItem]
    problems: List[str]


class Asked(TypedDict):
    """Of another host."""

    workspace: str  # its path, the same as here
    older_than: float
    mark: str  # a file that is in the first host's workspace just now
    needs: Dict[str, Any]  # Needs of the first host
    remove: bool
    only: List[str]  # the paths of what may go; all where it is empty


def collect(
    workspace: Workspace, hosts: List[str], older_than: float, *, remove: bool = False, only: List[str] | None = None
) -> Collected:
    """Asks all of some hosts at once; while they remove, no deployment of this one takes anything into use.

    Args:
        only: ``host:path`` of what may go, as it was told before; None for all.
    """
    if not hosts:
        return Collected([], [], [], [])
    workspace.create()
    with workspace.marked() as mark, Uses(workspace).lock():
        needs = Garbage(workspace, older_than).needs()

        def ask(host: str) -> Any:
            own = [path.partition(":")[2] for path in only or () if path.startswith(f"{host}:")]
            asked: Asked = {
                "workspace": str(workspace.path),
                "older_than": older_than,
                "mark": mark,
                "needs": needs._asdict(),
                "remove": remove and (only is None or bool(own)),
                "only": own,
            }
            try:
                return run_there(host, answer, asked)
            except ModakError as error:
                return error

        with ThreadPoolExecutor(len(hosts)) as pool:
            answers = dict(zip(hosts, pool.map(ask, hosts)))  # noqa: B905 - Python 3.8
    found = Collected([], [], [], [])
    for host, told in answers.items():
        if isinstance(told, ModakError):
            found.problems.append(told.message)
            continue
        for name in ("removed", "garbage", "kept"):
            getattr(found, name).extend(_of(host, each) for each in told[name])
    return found


def answer(asked: Asked) -> Dict[str, List[GarbageItem]]:
    """On the other host: what is removed, what may be, and what stays with the reason."""
    workspace = Workspace(asked["workspace"])
    if (workspace.path / asked["mark"]).exists():  # it is the first one's, which was looked at there
        return {"removed": [], "garbage": [], "kept": []}
    garbage = Garbage(workspace, asked["older_than"], Needs(**asked["needs"]))
    removed = garbage.remove(asked["only"] or None) if asked["remove"] else []
    found = [each.as_dict() for each in garbage.survey()]
    return {
        "removed": removed,
        "garbage": [each for each in found if not each["keep"]],
        "kept": [each for each in found if each["keep"]],
    }


def _of(host: str, item: GarbageItem) -> GarbageItem:
    return {**item, "name": f"{item['name']} on {host}", "path": f"{host}:{item['path']}"}
