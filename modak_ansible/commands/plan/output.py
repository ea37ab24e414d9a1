"""A plan's texts as files: the job script, the definitions of the image, and the plan itself."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from modak_ansible.errors import UsageError
from modak_ansible.target.core.files import exists, is_folder

if TYPE_CHECKING:
    from modak_ansible.model.plan import Plan


def write_output(plan: Plan, folder: Path) -> list[Path]:
    """Writes the files of a plan into a folder that is new or empty, all of them or none; gives their paths.

    A folder that holds the very same files stays as it is.

    Raises:
        UsageError: the folder holds something else.
        OSError: it cannot be written.
    """
    texts = output_files(plan)
    paths = [folder / name for name in texts]
    if exists(folder) and not is_folder(folder):
        raise UsageError(f"{folder} exists, and is not a folder", hint="give another folder")
    if is_folder(folder) and any(folder.iterdir()):
        if {path.name: _read(path) for path in folder.iterdir()} == texts:
            return paths
        raise UsageError(f"{folder} holds other files, which are left alone", hint="give a new folder")
    with filling(folder) as part:
        for name, text in texts.items():
            (part / name).write_text(text, encoding="utf-8")
        (part / "job.sh").chmod(0o755)
    return paths


@contextmanager
def filling(folder: Path) -> Iterator[Path]:
    """A folder to write into, whose files are in that one, which is new or empty, at the end: all of them or none.

    Raises:
        OSError: it cannot be written.
    """
    is_there = is_folder(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    part = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder if is_there else folder.parent))
    try:
        yield part
        if is_there:  # it may be a link, the current folder, or where a disk is mounted
            for path in part.iterdir():
                path.replace(folder / path.name)
        else:
            part.chmod(0o777 & ~_umask())
            part.rename(folder)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def output_files(plan: Plan) -> dict[str, str]:
    """The texts by their files' names: job.sh, plan.json, and one definition a layer of the image, from the base up."""
    endings = {"venv": "sh"}
    layers = [layer for layer in plan.image.layers if layer.definition]
    names = [
        f"{number}-{_plain(layer.name)}.{endings.get(layer.kind, 'def')}"
        for number, layer in enumerate(layers, start=1)
    ]
    return {
        "plan.json": plan.model_dump_json(indent=2) + "\n",
        "job.sh": plan.job.script,
        **{name: layer.definition for name, layer in zip(names, layers, strict=True)},
    }


def _plain(name: str) -> str:
    return "".join(letter if letter.isalnum() or letter in "._-" else "-" for letter in name).strip("-.") or "image"


def _read(path: Path) -> str | None:
    return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else None


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
