"""Garbage on the other hosts of a target that has no scheduler: what trainings were brought there, and nobody needs.

What the deployments of the first host use stays there, too, and beside it what those of the other host itself use.
"""

from __future__ import annotations

import subprocess
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, TypedDict

from ...errors import ModakError
from ...schedulers.base import by_ssh
from ..core.sending import READER, WORD, answer_in, call_of
from ..core.workspace import Workspace
from .garbage import Garbage, GarbageItem, Needs
from .uses import Uses


class Collected(NamedTuple):
    """What there is on hosts, with the host's name before each path; and why some of them could not be asked."""

    removed: List[GarbageItem]
    garbage: List[GarbageItem]
    kept: List[GarbageItem]
    problems: List[str]


class GarbageRequest(TypedDict):
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
            paths = [path[len(host) + 1 :] for path in only or () if path.startswith(f"{host}:")]
            request: GarbageRequest = {
                "workspace": str(workspace.path),
                "older_than": older_than,
                "mark": mark,
                "needs": needs._asdict(),
                "remove": remove and (only is None or bool(paths)),
                "only": paths,
            }
            try:
                return run_there(host, answer, request)
            except ModakError as error:
                return error

        with ThreadPoolExecutor(len(hosts)) as pool:
            answers = dict(zip(hosts, pool.map(ask, hosts)))
    collected = Collected([], [], [], [])
    for host, host_items in answers.items():
        if isinstance(host_items, ModakError):
            collected.problems.append(host_items.message)
            continue
        for name in ("removed", "garbage", "kept"):
            getattr(collected, name).extend(_on_host(host, item) for item in host_items[name])
    return collected


def answer(request: GarbageRequest) -> Dict[str, List[GarbageItem]]:
    """On the other host: what is removed, what may be, and what stays with the reason."""
    workspace = Workspace(request["workspace"])
    if (workspace.path / request["mark"]).exists():  # it is the first one's, which was looked at there
        return {"removed": [], "garbage": [], "kept": []}
    garbage = Garbage(workspace, request["older_than"], Needs(**request["needs"]))
    return garbage.collect(remove=request["remove"], only=request["only"] or None)


def _on_host(host: str, item: GarbageItem) -> GarbageItem:
    return {**item, "name": f"{item['name']} on {host}", "path": f"{host}:{item['path']}"}


# A host that has died can hang for ever; whoever removes much takes its time.
_SECONDS = 300.0


def run_there(host: str, function: Callable[[Any], Any], arguments: Mapping[str, Any]) -> Any:
    """What a function gives on another host, of arguments and with an answer that JSON can hold.

    Args:
        function: of a module of the target side.

    Raises:
        ModakError: the host cannot be entered, or it fails there.
    """
    try:
        result = subprocess.run(
            by_ssh(host, ["python3", "-c", READER, WORD]), input=call_of(function, arguments), stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, timeout=_SECONDS, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise ModakError(f"the host {host} did not answer within {_SECONDS:.0f} s") from error
    if result.returncode != 0:
        error_text = (
            result.stderr.decode(errors="replace").strip().rpartition("\n")[2] or f"exit code {result.returncode}"
        )
        raise ModakError(
            f"the host {host} cannot be queried: {error_text}", hint=f"ssh -o BatchMode=yes {host} python3 -V"
        )
    reply = answer_in(result.stdout)
    if reply is None:
        raise ModakError(f"the host {host} cannot be queried: it gave no answer", hint=f"ssh {host} python3 -V")
    return reply
