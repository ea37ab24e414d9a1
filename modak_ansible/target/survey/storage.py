"""Folders of the target as a deployment will find them: file system, room, inodes, quotas."""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path
from typing import Dict, List, Optional, Tuple, TypedDict

from ..core.commands import TimedRun, find_program
from ..core.files import nearest_folder, read_text

# What several machines see alike, as mounts have it and as stat -f calls it, whose fhgfs is BeeGFS; a fuse file system
# may be anything.
NETWORK = ("nfs", "nfs4", "lustre", "gpfs", "beegfs", "fhgfs", "ceph", "cifs", "smb", "smb2", "smb3", "afs", "k-afs",
           "glusterfs", "panfs", "orangefs", "pvfs2", "wekafs", "9p", "v9fs", "dvs", "gfs2", "gfs/gfs2", "ocfs2",
           "cvfs", "snfs")  # fmt: skip
_TRIAL_BYTES = 1 << 20
_ESCAPED = re.compile(r"\\(\d{3})")


class FolderFacts(TypedDict):
    """What a folder is like, or the nearest one above it that is there."""

    path: str
    there: bool
    writable: bool
    problem: str  # of the trial; empty where there was none
    # type, source: of the file system
    type: str
    source: str
    network: Optional[bool]  # whether other machines see it, too; None where nobody knows
    noexec: bool
    free_bytes: int
    # inodes, free_inodes: None where the file system does not count them
    inodes: Optional[int]
    free_inodes: Optional[int]


class Quota(TypedDict):
    """A limit of the user's on one place; sizes are in bytes, and a limit of None is none."""

    place: str
    used: int
    limit: Optional[int]
    files: int
    most_files: Optional[int]


class QuotaFacts(TypedDict):
    """The user's quotas, as far as the command ``asked`` tells them; it is empty where there is none."""

    asked: str
    limits: List[Quota]


def folder_facts(path: Path, *, trial: bool = False) -> FolderFacts:
    """Looks at a folder.

    Args:
        trial: whether a megabyte is written there and removed again: a quota shows itself in no other way everywhere.
    """
    existing = nearest_folder(path)
    source, kind, options = mount_of(str(existing.resolve()), _mounts())
    numbers = os.statvfs(existing)
    counts = numbers.f_files > 0
    return {
        "path": str(path),
        "there": os.path.isdir(path),
        "writable": os.access(existing, os.W_OK | os.X_OK),
        "problem": _try_to_write(existing) if trial else "",
        "type": kind,
        "source": source,
        "network": is_network(kind),
        "noexec": "noexec" in options or bool(numbers.f_flag & os.ST_NOEXEC),
        "free_bytes": numbers.f_bavail * numbers.f_frsize,
        "inodes": numbers.f_files if counts else None,
        "free_inodes": numbers.f_favail if counts else None,
    }


def is_network(kind: str) -> Optional[bool]:
    """Whether other machines may see the same files; None where the type does not say."""
    if kind in NETWORK or kind.startswith(("fuse.ceph", "fuse.gluster", "fuse.sshfs", "fuse.beegfs")):
        return True
    return None if not kind or kind.lower().startswith(("fuse", "unknown")) else False


def mount_of(path: str, mounts: str) -> Tuple[str, str, List[str]]:
    """Source, type and options of the file system that a path is on, in the words of /proc/self/mounts."""
    best, mount = -1, ("", "", [""])
    for line in mounts.splitlines():
        fields = [_ESCAPED.sub(lambda code: chr(int(code.group(1), 8)), field) for field in line.split()]
        if len(fields) < 4:
            continue
        point = fields[1].rstrip("/")
        is_above = path == point or path.startswith(f"{point}/")
        if is_above and len(point) >= best:  # the last one that is mounted there is the one that is seen
            best, mount = len(point), (fields[0], fields[2], fields[3].split(","))
    return mount


def quotas(*folders: Path) -> QuotaFacts:
    """Asks the usual commands for the user's quotas on the file systems of some folders, each once."""
    run = TimedRun(timeout=20)
    commands: Dict[str, Tuple[str, List[str]]] = {}  # the commands and their names, by whom they ask
    for folder in folders:
        path = str(nearest_folder(folder).resolve())  # a home folder is a link at some sites
        source, kind, _ = mount_of(path, _mounts())
        gpfs = find_program("mmlsquota", "/usr/lpp/mmfs/bin/mmlsquota") if kind == "gpfs" else None
        if kind == "lustre" and find_program("lfs"):
            commands[source] = "lfs quota", ["lfs", "quota", "-q", "-u", str(os.getuid()), path]
            # many sites limit what is in a folder, whoever wrote it
            project = re.match(r"\s*([1-9]\d*)\s", run(["lfs", "project", "-d", path]).out, re.ASCII)
            if project:
                words = ["lfs", "quota", "-q", "-p", project.group(1), path]
                commands[f"{source} {project.group(1)}"] = "lfs quota", words
        elif gpfs:
            commands[kind] = "mmlsquota", [gpfs, "-Y"]
        elif find_program("quota"):
            commands[""] = "quota", ["quota", "-w", "-p"]  # which tells of all others
    limits = [limit for _, command in commands.values() for limit in read_quotas(run(command).out)]
    return {"asked": " and ".join(dict.fromkeys(name for name, _ in commands.values())), "limits": limits}


def _rows_of_gpfs(text: str) -> str:
    """What ``mmlsquota -Y`` prints, in the form of quota: which columns there are, its first line tells."""
    head, *rows = [line.split(":") for line in text.splitlines() if line.startswith("mmlsquota:")] or [[]]
    columns = ("blockUsage", "blockQuota", "blockLimit", "", "filesUsage", "filesQuota", "filesLimit", "")
    lines = []
    for row in rows:
        values = dict(zip(head, row))
        owner = "" if values.get("quotaType") == "USR" else values.get("name", "")
        place = ":".join(filter(None, (values.get("filesystemName"), values.get("filesetname"), owner)))
        lines.append(" ".join([place, *(values.get(name) or "-" for name in columns)]))
    return "\n".join(lines)


def read_quotas(text: str) -> List[Quota]:
    """The rows of ``quota -w -p``, ``lfs quota -q`` or ``mmlsquota -Y``: a place, then kilobytes and files, each with
    two limits.

    The first two print used, soft, hard and a time of grace; a ``*`` behind a number says that it is over its limit,
    brackets that some servers of Lustre's do not answer, and a limit of 0 is none.
    """
    rows: List[Quota] = []
    text = _rows_of_gpfs(text) if text.startswith("mmlsquota:") else text
    # lfs gives a long place a line of its own
    for line in re.sub(r"(?m)^[ \t]*(/\S*)[ \t]*\n[ \t]+(?=[\d\[])", r"\1 ", text).splitlines():
        fields = line.split()
        numbers = [field.strip("[]*") for field in fields[1:]]
        if len(numbers) < 7 or not all(
            re.fullmatch(r"\d{1,18}", numbers[index], re.ASCII) for index in (0, 1, 2, 4, 5, 6)
        ):
            continue
        used, soft, hard, files, soft_files, hard_files = (int(numbers[index]) for index in (0, 1, 2, 4, 5, 6))
        limit, most_files = hard or soft, hard_files or soft_files
        rows.append(
            {
                "place": fields[0],
                "used": used * 1024,
                "limit": limit * 1024 if limit else None,
                "files": files,
                "most_files": most_files or None,
            }
        )
    return rows


def _mounts() -> str:
    return read_text(Path("/proc/self/mounts"))


def _try_to_write(folder: Path) -> str:
    """What stands in the way of writing a megabyte; empty when nothing does."""
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(os.urandom(_TRIAL_BYTES))
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        return error.strerror or str(error)
    return ""
