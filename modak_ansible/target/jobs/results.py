"""What a job leaves behind, with checksums."""

from __future__ import annotations

import os
import re
from fnmatch import translate
from functools import lru_cache
from pathlib import Path
from typing import Any, Dict, Iterable, List, Mapping, Pattern, TypedDict

from ...schedulers.registry import SCHEDULERS
from ..core.answer import answered
from ..core.commands import TimedRun
from ..core.files import changed_at, files_below, is_file, is_text, read_json, sha256_of
from ..core.staging import ATTEMPTS, CODE, PLAN, RANKS, SCRIPT, STATE, WRITTEN
from ..core.workspace import Workspace
from ..metrics.files import LARGEST, found_in
from . import query
from .markers import known_job, noted_code
from .progress import crowded
from .situation import LeftFiles

# Folders in which Python keeps what it has compiled.
_COMPILED = "__pycache__"
_MOST_NAMED = 5
# Seconds that an accounting may take to answer.
_PATIENCE = 20.0
# The pattern of whatever a job writes, which may be nothing.
ALL = "*"


class ResultFile(TypedDict):
    """A file that is brought back: its path below the deployment's folder, and its size in bytes."""

    path: str
    size: int
    sha256: str


class JobResults(TypedDict, total=False):
    """What a job has left in its folder."""

    folder: str
    files: list[ResultFile]
    missing: list[str]  # the declared outputs that no file fits
    unnamed: list[str]  # files that cannot be brought, for their names are no text
    left: LeftFiles  # files that the job wrote and no output names: how many they are, their bytes, and some of them
    crowded: str  # which ranks have fewer cores between them than threads; empty where none have
    joules: float  # by the scheduler's accounting, where that has any


class ResultsQuestion(TypedDict):
    """What is asked of a target."""

    workspace: str
    scheduler: str  # slurm, torque, pbspro, lsf, kubernetes or none
    job_ids: Dict[str, str]  # as ``query.Asked`` has them
    outputs: Mapping[str, List[str]]  # of deployments, by their names, as ``results_of`` takes them


def left_by(question: ResultsQuestion) -> Mapping[str, Any]:
    """How jobs are, and what they left: what ``queried`` and ``list_results`` give; or ``answered``."""
    query_question: query.JobsQuestion = {
        "workspace": question["workspace"],
        "scheduler": question["scheduler"],
        "deployments": [*question["outputs"]],
        "job_ids": question["job_ids"],
        "inside": "",
    }
    return answered(
        lambda: {"jobs": query.jobs_of(query_question), **list_results(question["workspace"], question["outputs"])}
    )


def listed_by(question: Mapping[str, Any]) -> Mapping[str, Any]:
    """What ``list_results`` gives of a ``workspace`` and ``outputs``, or ``answered``."""
    return answered(lambda: list_results(question["workspace"], question["outputs"]))


def list_results(workspace: str, outputs: Mapping[str, List[str]]) -> Mapping[str, Any]:
    """Of deployments ``listed``, JobResults by their names, and the ``folder`` that theirs are in.

    Args:
        outputs: by the deployments' names, as ``results_of`` takes them.
    """
    deployments = Workspace(workspace).deployments
    results = {name: results_of(deployments / name, patterns) for name, patterns in outputs.items()}
    for name, joules in joules_of(deployments, results).items():
        results[name]["joules"] = joules
    return {"changed": False, "folder": str(deployments), "listed": results}


def results_of(deployment: Path, outputs: list[str]) -> JobResults:
    """What a job has left in its deployment's folder.

    Brought back are metrics, logs, the script, what ranks and earlier attempts left, and declared outputs; files of
    metrics are those that the script has written anywhere beside its code, in a form that is read.

    Args:
        outputs: patterns below the folder of the user's code.
    """
    written_files, metrics = _written(deployment), _metrics(deployment)
    paths = [deployment / name for name in (*WRITTEN, SCRIPT) if (deployment / name).is_file()]
    paths += [path for name in (RANKS, ATTEMPTS) for path in sorted(files_below(deployment / name)) if is_file(path)]
    paths += [*metrics, *(path for relative, path in written_files.items() if _fits_any(relative, outputs))]
    names = {path.relative_to(deployment).as_posix(): path for path in paths}
    unfetched = [
        relative for relative, path in written_files.items() if path not in metrics and not _fits_any(relative, outputs)
    ]
    return {
        "folder": str(deployment),
        "files": [file for name, path in names.items() if is_text(name) for file in _file(name, path)],
        "missing": [
            output for output in outputs if output != ALL and not any(_fits(name, output) for name in written_files)
        ],
        # no JSON can tell names that are not UTF-8: escapes stand in their places
        "unnamed": [os.fsencode(name).decode("utf-8", "backslashreplace") for name in names if not is_text(name)],
        "left": _left({relative: written_files[relative] for relative in filter(is_text, unfetched)}),
        "crowded": crowded(deployment / STATE / "cores"),
    }


def joules_of(deployments: Path, names: Iterable[str]) -> dict[str, float]:
    """The energy of those jobs that have ended by the accounting of their schedulers, which are asked once each."""
    jobs: dict[str, dict[str, str]] = {}
    for name in names:
        state, plan = deployments / name / STATE, read_json(deployments / name / PLAN) or {}
        scheduler = plan.get("job", {}).get("scheduler", "")
        if scheduler in SCHEDULERS and noted_code(state) is not None and known_job(state):
            jobs.setdefault(scheduler, {})[name] = known_job(state)
    energies: dict[str, float] = {}
    for scheduler, ids in jobs.items():
        joules = SCHEDULERS[scheduler].joules(TimedRun(timeout=_PATIENCE), list(ids.values()))
        energies.update({name: joules[job_id] for name, job_id in ids.items() if job_id in joules})
    return energies


def _file(name: str, path: Path) -> list[ResultFile]:
    """A file that is brought back; none where the job, which may go on, has removed it meanwhile."""
    try:
        return [{"path": name, "size": path.stat().st_size, "sha256": sha256_of(path)}]
    except FileNotFoundError:
        return []


def _metrics(deployment: Path) -> list[Path]:
    """The files of metrics beside the code that are brought without being asked for."""
    return [path for path in (deployment / name for name in found_in(deployment)) if _size(path) <= LARGEST]


def _left(files: Mapping[str, Path]) -> LeftFiles:
    return {"count": len(files), "size": sum(map(_size, files.values())), "names": [*files][:_MOST_NAMED]}


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:  # it went away meanwhile
        return 0


def _written(deployment: Path) -> dict[str, Path]:
    """What the job wrote below the folder of the user's code, by relative paths; links that lead out of it are none.

    What travelled there is none of it, as long as nobody has written it anew.
    """
    code = deployment / CODE
    top = code.resolve()
    sent, sent_at = _brought(deployment)
    files = {}
    for path in sorted(files_below(code)):
        relative = path.relative_to(code).as_posix()
        if not is_file(path) or top not in path.resolve().parents or _COMPILED in path.parts:
            continue
        if relative not in sent or (changed_at(path) or 0.0) > sent_at:
            files[relative] = path
    return files


def _brought(deployment: Path) -> tuple[set[str], float]:
    """The user's files that travelled, and when the last of them had arrived."""
    plan = read_json(deployment / PLAN) or {}
    files = [*plan.get("application", {}).get("files", []), *plan.get("beside", [])]
    return {file["path"] for file in files}, (deployment / PLAN).stat().st_mtime if plan else 0.0


def _fits(relative: str, pattern: str) -> bool:
    return _meaning(pattern).match(relative) is not None


@lru_cache(maxsize=None)  # there may be very many files
def _meaning(pattern: str) -> Pattern[str]:
    """Of ``./out/`` that is out and all below it; in the place of ``**/`` there may be no folder."""
    path = os.path.normpath(pattern)
    if path == os.curdir:
        return re.compile("")
    return re.compile("|".join([translate(path), translate(path.replace("**/", "")), re.escape(f"{path}/")]))


def _fits_any(relative: str, patterns: Iterable[str]) -> bool:
    return any(_fits(relative, pattern) for pattern in patterns)
