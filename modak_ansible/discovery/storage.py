"""Findings about folders: room, inodes, quotas, and whether a build may run in them. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from modak_ansible.discovery.aim import Aim
from modak_ansible.discovery.finding import Finding, missing, ok, warning
from modak_ansible.model.quantities import format_size
from modak_ansible.target.images.runtimes import NEEDED_BYTES
from modak_ansible.target.survey.storage import FolderFacts, QuotaFacts
from modak_ansible.target.survey.survey import SurveyFacts

_FEW_INODES = 20_000  # a framework in a virtual environment, or unpacked while it is built
_FULL_SHARE = 0.95


def storage_findings(aim: Aim, facts: SurveyFacts) -> Iterator[Finding]:
    """What stands in the way of keeping images, data and results on the target."""
    folders = facts["folders"]
    yield from _workspace(aim, folders["workspace"])
    yield from _quota(facts["quotas"])
    if aim.target.container_runtime != "none" and not aim.target.pods:
        yield from _build(folders["build"])
    if aim.target.scratch:
        yield from _scratch(aim.target.scratch.path, folders)


def _workspace(aim: Aim, folder: FolderFacts) -> Iterator[Finding]:
    where, free = folder["path"], folder["free_bytes"]
    elsewhere = "make room there, or give the target another workspace"
    if folder["problem"] or not folder["writable"]:
        yield missing("workspace", f"{where}: {folder['problem'] or 'not writable'}", elsewhere)
        return
    kind = f"{folder['type']}, {format_size(free)} free"
    if free < NEEDED_BYTES:
        seen = f"{where} ({kind}): building an image needs {format_size(NEEDED_BYTES)}"
        yield missing("workspace", seen, elsewhere)
    else:
        yield ok("workspace", f"{where} ({kind})")
    if folder["free_inodes"] is None:
        yield ok("inodes", f"{where}: the file system does not count them")
    elif folder["free_inodes"] < _FEW_INODES:
        yield warning(
            "inodes", f"{folder['free_inodes']} are left in {where}", "remove files there; a build makes many"
        )
    else:
        yield ok("inodes", f"{folder['free_inodes']} free")
    if folder["noexec"] and aim.target.container_runtime == "none":
        seen = f"{where} is mounted noexec: the environment there cannot run"
        yield missing("workspace", seen, "give the target another workspace")


def _quota(quota: QuotaFacts) -> Iterator[Finding]:
    limited = [limit for limit in quota["limits"] if limit["limit"] or limit["most_files"]]
    if not limited:
        seen = f"{quota['asked']} reports none" if quota["asked"] else "not known: there is no quota command"
        yield ok("quota", seen)
    for limit in limited:
        shares, words = [], []
        if limit["limit"]:
            shares.append(limit["used"] / limit["limit"])
            words.append(f"{format_size(limit['used'])} of {format_size(limit['limit'])}")
        if limit["most_files"]:
            shares.append(limit["files"] / limit["most_files"])
            words.append(f"{limit['files']} of {limit['most_files']} files")
        seen, share = f"{limit['place']}: {', '.join(words)}", max(shares)
        if share >= 1:
            yield missing("quota", seen, "make room: nothing more can be written")
        elif share >= _FULL_SHARE or (limit["limit"] and limit["limit"] - limit["used"] < NEEDED_BYTES):
            yield warning("quota", seen, f"building an image needs {format_size(NEEDED_BYTES)}")
        else:
            yield ok("quota", seen)


def _build(folder: FolderFacts) -> Iterator[Finding]:
    seen = f"{folder['path']} ({folder['type']}, {format_size(folder['free_bytes'])} free)"
    todo = "set APPTAINER_TMPDIR in the user's environment there to a folder on a local disk"
    if folder["noexec"]:
        yield missing("build folder", f"{seen} is mounted noexec", todo)
    elif not folder["writable"]:
        yield missing("build folder", f"{seen} cannot be written", todo)
    elif folder["free_bytes"] < NEEDED_BYTES:  # the user's own choice: another one is only taken with room
        yield missing("build folder", f"{seen}: a build needs {format_size(NEEDED_BYTES)}", todo)
    elif folder["network"]:
        yield warning("build folder", f"{seen} is a network file system, where --fakeroot may fail", todo)
    else:
        yield ok("build folder", seen)


def _scratch(path: str, folders: dict[str, FolderFacts]) -> Iterator[Finding]:
    folder = folders.get(path)
    if folder is None:
        yield ok("scratch", f"{path} is known in jobs only; --job asks a node")
    elif folder["there"]:
        yield ok("scratch", f"{folder['path']} ({folder['type']}, {format_size(folder['free_bytes'])} free here)")
    else:
        yield warning("scratch", f"{path} is not on the front end; the nodes may have it", "--job asks a node")
