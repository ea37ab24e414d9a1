"""A catalogue of a test's own: the shipped one, and an entry more."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from cluster import ROOT

_SITE = """\
import pathlib
import modak_ansible.catalogue.locks as locks
import modak_ansible.catalogue.reader as reader
reader._FOLDER = pathlib.Path({catalogue!r})
locks.FOLDER = reader._FOLDER / "locks"
"""


def path_of_catalogue_with(folder: Path, name: str, entry: str, lock: str) -> str:
    """The PYTHONPATH of processes that know an entry more.

    Args:
        folder: where the catalogue is made.
        name: the entry's.
        entry: the text of its file.
        lock: that of its lock, for Debian 13's Python.
    """
    shutil.copytree(ROOT / "modak_ansible" / "catalogue", folder / "catalogue")
    (folder / "catalogue" / "entries" / f"{name}.yaml").write_text(entry)
    (folder / "catalogue" / "locks" / f"{name}.txt").write_text(f"# for Python 3.13\n{lock}\n")
    (folder / "site").mkdir()
    (folder / "site" / "sitecustomize.py").write_text(_SITE.format(catalogue=str(folder / "catalogue")))
    return os.pathsep.join(filter(None, [str(folder / "site"), os.environ.get("PYTHONPATH")]))
