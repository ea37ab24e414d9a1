"""A deployment's folder on the target: its script, the user's files and what acts in their process, whole or absent."""

from __future__ import annotations

import io
import os
import re
import shutil
import tarfile
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Callable, Dict, List, Optional, Tuple

from ...errors import ModakError
from .files import NO_ROOM, Lock, lack_of, make_private, open_private, read_text, sha256_of, write_json, write_whole
from .plan import Plan, PlannedDataset

SCRIPT = "job.sh"
PLAN = "plan.json"
CODE = "code"
RUNTIME = "runtime"
STATE = "state"
ATTEMPTS = "attempts"
# With a folder for each rank of a training but the first, whose are the deployment's own.
RANKS = "ranks"
# What a job writes beside its markers: modak shows the logs, and reads what the training says of itself.
LOGS = ("output.log", "error.log", "scheduler.log")
LOGGED = "metrics.jsonl"  # what a script gives to modak_runtime.log
WRITTEN = (*LOGS, "metrics.json", LOGGED, "applied.json", "tuning.json")

# How lines begin that a container's runtime writes into a job's log of errors, whatever runs in it.
RUNTIMES_OWN = "INFO:    "

_LOG = re.compile(rf"({RANKS}/\d+/)?({'|'.join(map(re.escape, LOGS))})", re.ASCII)


def is_log(path: str) -> bool:
    """Whether a path below a deployment's folder is a log of its job, or of one of its ranks."""
    return _LOG.fullmatch(path) is not None


def has_completed(folder: Path) -> bool:
    """Whether the job of a deployment's folder has completed, by the marker that it writes itself."""
    return read_text(folder / STATE / "finished") == "0"


def is_staged(folder: Path, plan: Plan) -> bool:
    """Whether the script and all files are there as the plan has them."""

    def digest(path: str) -> str:
        return sha256_of(folder / path) if (folder / path).is_file() else ""

    return read_text(folder / SCRIPT) == plan["job"]["script"].strip() and not _differing(digest, plan)


class Files:
    """What a controller sent for deployments that have the same files, unpacked once for all of them.

    What acts in a training's process is nobody's to change: after the first deployment it is linked, where the file
    system can, so that a thousand of them take no thousand times its inodes of a quota.

    Args:
        archive: a tar archive with the folders code and runtime.

    Raises:
        ModakError: it holds something that is no plain file below its folder.
    """

    def __init__(self, archive: bytes) -> None:
        self._contents: Dict[str, Tuple[bytes, bool]] = {}  # and whether it can be executed
        with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
            for member in tar:
                file = tar.extractfile(member)
                if file is None or ".." in Path(member.name).parts or Path(member.name).is_absolute():
                    raise ModakError(f"the archive holds {member.name}, which is not a plain file below its folder")
                self._contents[member.name] = file.read(), bool(member.mode & 0o100)
        self._digests = {name: sha256(content).hexdigest() for name, (content, _) in self._contents.items()}
        self._folders = sorted({CODE, *(os.path.dirname(name) for name in self._contents)})
        self.staged: Optional[Path] = None  # the first deployment that has them

    def digest(self, path: str) -> str:
        """The SHA-256 of a file, by its path in the archive; empty where it is not there."""
        return self._digests.get(path, "")

    def write(self, folder: Path) -> None:
        """Writes them so that nobody else may read them."""
        for name in self._folders:
            make_private(folder / name)
        for name, (content, is_executable) in self._contents.items():
            if self.staged and name.startswith(f"{RUNTIME}/"):
                with suppress(OSError):
                    os.link(self.staged / name, folder / name)
                    continue
            with open_private(folder / name) as file:
                file.write(content)
            if is_executable:
                (folder / name).chmod(0o700)


def stage(folder: Path, plan: Plan, files: Files, lock: Lock) -> None:
    """Brings a deployment's folder into being in one step.

    Args:
        folder: where; what is there is replaced, unless a job has begun in it. What earlier attempts left stays.
        plan: with the script, and the digests of the files.
        files: the user's, and what acts in their process.

    Raises:
        ModakError: a file is not what the plan says, a job has begun there, or there is no room.
    """
    differing = _differing(files.digest, plan)
    if differing:
        raise ModakError(f"{differing[0]} has changed since the plan was made", hint="deploy again")
    part = folder.with_name(f".{folder.name}.{os.getpid()}.part")
    shutil.rmtree(part, ignore_errors=True)
    try:
        files.write(part)
        write_whole(part / SCRIPT, plan["job"]["script"])
        make_private(part / STATE)
        write_json(part / PLAN, plan)
        with lock:
            if is_staged(folder, plan):  # another deployment of the same plan was quicker
                return
            if (folder / STATE / "claim").exists():
                raise ModakError(f"a job has begun in {folder}, which lacks files of the plan", hint="undeploy first")
            if (folder / ATTEMPTS).exists():
                _renew(folder, part)
                return
            shutil.rmtree(folder, ignore_errors=True)
            part.rename(folder)
            files.staged = files.staged or folder
    except OSError as error:
        if error.errno in NO_ROOM:
            raise ModakError(f"{lack_of(error, folder.parent)} at {folder.parent}", hint="make room there") from error
        raise
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _renew(folder: Path, part: Path) -> None:
    """Puts the files of the plan back in their places, beside what a training made there."""
    for path in sorted(part.rglob("*")):
        place = folder / path.relative_to(part)
        if path.is_dir():
            place.mkdir(mode=0o700, exist_ok=True)
        else:
            path.replace(place)


def _differing(digest: Callable[[str], str], plan: Plan) -> list[str]:
    """The files whose SHA-256, by their path below the deployment's folder, is not the plan's."""
    expected = ((CODE, plan["application"]["files"]), (RUNTIME, plan.get("runtime", ())))
    return [
        file["path"] for name, files in expected for file in files if digest(f"{name}/{file['path']}") != file["sha256"]
    ]


def datasets_of(plan: Plan) -> List[PlannedDataset]:
    """What a training reads.

    Raises:
        KeyError: it is no whole plan.
    """
    return [plan["dataset"], *plan.get("more_datasets", [])] if plan["dataset"] else []
