"""A deployment's folder on the target: its script, the user's files and what acts in their process, whole or absent."""

from __future__ import annotations

import io
import os
import re
import shutil
import tarfile
from pathlib import Path
from typing import List

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

_LOG = re.compile(rf"({RANKS}/\d+/)?({'|'.join(map(re.escape, LOGS))})", re.ASCII)


def is_log(path: str) -> bool:
    """Whether a path below a deployment's folder is a log of its job, or of one of its ranks."""
    return _LOG.fullmatch(path) is not None


def has_completed(folder: Path) -> bool:
    """Whether the job of a deployment's folder has completed, by the marker that it writes itself."""
    return read_text(folder / STATE / "finished") == "0"


def is_staged(folder: Path, plan: Plan) -> bool:
    """Whether the script and all files are there as the plan has them."""
    return read_text(folder / SCRIPT) == plan["job"]["script"].strip() and not _differing(folder, plan)


def stage(folder: Path, plan: Plan, archive: bytes, lock: Lock) -> None:
    """Brings a deployment's folder into being in one step.

    Args:
        folder: where; what is there is replaced, unless a job has begun in it. What earlier attempts left stays.
        plan: with the script, and the digests of the files.
        archive: those files, as a tar archive with the folders code and runtime.

    Raises:
        ModakError: a file is not what the plan says, a job has begun there, or there is no room.
    """
    part = folder.with_name(f".{folder.name}.{os.getpid()}.part")
    shutil.rmtree(part, ignore_errors=True)
    try:
        _unpack(archive, part)
        differing = _differing(part, plan)
        if differing:
            raise ModakError(f"{differing[0]} has changed since the plan was made", hint="deploy again")
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


def _unpack(archive: bytes, folder: Path) -> None:
    make_private(folder / CODE)
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        for member in tar.getmembers():
            file = tar.extractfile(member)
            if file is None or ".." in Path(member.name).parts or Path(member.name).is_absolute():
                raise ModakError(f"the archive holds {member.name}, which is no plain file below its folder")
            path = folder / member.name
            make_private(path.parent)
            with open_private(path) as whole:
                shutil.copyfileobj(file, whole)
            path.chmod(0o700 if member.mode & 0o100 else 0o600)


def _differing(folder: Path, plan: Plan) -> list[str]:
    """The files that are not there as the plan has them."""
    differing = []
    for name, files in ((CODE, plan["application"]["files"]), (RUNTIME, plan.get("runtime", ()))):
        for file in files:
            path = folder / name / file["path"]
            if not path.is_file() or sha256_of(path) != file["sha256"]:
                differing.append(file["path"])
    return differing


def datasets_of(plan: Plan) -> List[PlannedDataset]:
    """What a training reads.

    Raises:
        KeyError: it is no whole plan.
    """
    return [plan["dataset"], *plan.get("more_datasets", [])] if plan["dataset"] else []
