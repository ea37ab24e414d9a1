"""What is staged for jobs: the plans, the user's files, and what acts in their processes."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Sequence
from pathlib import Path

from modak_ansible.errors import ModakError
from modak_ansible.runtime import FILES
from modak_ansible.stages.base import Stage
from modak_ansible.target.core.files import sha256_of
from modak_ansible.target.core.plan import Plan, SourceFile
from modak_ansible.target.core.staging import CODE, RUNTIME
from modak_ansible.target.jobs.campaign import PLANS


def pack_code(stages: Sequence[Stage], folder: Path) -> list[Path]:
    """The plans in one file, and an archive for each different set of files; the same bytes for the same plans.

    Raises:
        ModakError: a file is gone, or is not what it was when the plan was made.
    """
    archives: dict[str, Path] = {}
    plans = []
    for stage in stages:
        application = stage.plan["application"]
        beside, runtime = stage.plan.get("beside", []), stage.plan.get("runtime", [])
        files = json.dumps([application["folder"], application["files"], beside, runtime])
        key = hashlib.sha256(files.encode()).hexdigest()[:16]
        if key not in archives:
            archives[key] = folder / f"{key}.tar.gz"
            archives[key].write_bytes(code_archive(stage.plan, stage.blueprint_folder))
        plans.append({"deployment": stage.deployment, "archive": archives[key].name, "plan": stage.plan})
    plans_file = folder / PLANS
    plans_file.write_bytes(gzip.compress(json.dumps(plans).encode(), compresslevel=6, mtime=0))
    return [plans_file, *archives.values()]


def code_archive(plan: Plan, blueprint_folder: Path) -> bytes:
    """The user's files, and what acts in their process, as a tar archive; the same bytes for the same files.

    Raises:
        ModakError: a file is gone, or is not what it was when the plan was made.
    """
    folder = blueprint_folder / plan["application"]["folder"]
    buffer = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=buffer, mode="wb", compresslevel=6, mtime=0) as compressed,
        tarfile.open(fileobj=compressed, mode="w") as tar,
    ):
        for name, source, files in (
            (CODE, folder, [*plan["application"]["files"], *plan.get("beside", [])]),
            (RUNTIME, FILES, plan.get("runtime", [])),
        ):
            for file in files:
                _add(tar, source / file["path"], f"{name}/{file['path']}", file)
    return buffer.getvalue()


def _add(tar: tarfile.TarFile, path: Path, name: str, file: SourceFile) -> None:
    if not path.is_file() or sha256_of(path) != file["sha256"]:
        raise ModakError(f"{path} has changed since the plan was made", hint="deploy again")
    info = tarfile.TarInfo(name)
    info.size, info.mode = file["size"], 0o700 if file["executable"] else 0o600
    with path.open("rb") as content:
        tar.addfile(info, content)
