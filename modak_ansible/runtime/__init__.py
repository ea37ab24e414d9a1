"""What acts in a training's process: the files sent with every job, and what images carry.

None of it runs where plans are made.
"""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

from modak_ansible.model.application import SourceFile

FILES = Path(__file__).resolve().parent / "files"
TUNER, NOTEBOOK = "modak_tuner", "modak_notebook"
STUB = Path(__file__).resolve().parent / "stub" / "modak_runtime.py"
TRY_REQUIREMENTS = STUB.with_name("try_requirements.py")


@cache
def runtime_files(*, tuner: bool = False, notebook: bool = False) -> tuple[SourceFile, ...]:
    """The files, by their paths below FILES; a plan names them by their digests.

    Args:
        tuner: whether those are among them that try candidates in the job.
        notebook: whether that is which has JupyterLab listen there.
    """
    excluded = {name for name, is_there in ((TUNER, tuner), (NOTEBOOK, notebook)) if not is_there}
    paths = [path for path in sorted(FILES.rglob("*.py")) if not excluded & {path.parent.name, path.stem}]
    return tuple(
        SourceFile(
            path=path.relative_to(FILES).as_posix(),
            size=path.stat().st_size,
            sha256=hashlib.sha256(path.read_bytes()).hexdigest(),
        )
        for path in paths
    )
