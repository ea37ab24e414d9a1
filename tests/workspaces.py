"""Workspaces with images, datasets and deployments that are so old."""

from __future__ import annotations

import os
import time

from modak_ansible.target.core.files import write_json
from modak_ansible.target.datasets.dataset import manifest_of

DAY = 86400.0
BASE, TOP, OTHER = ("b" * 64, "f" * 64, "0" * 64)
DATA = "mnist-0123456789ab"
DEPLOYMENT = "example-0123456789ab"


def old(path, days=30):
    """Lets a file, or all of a folder, be so old."""
    for entry in [*path.rglob("*"), path] if path.is_dir() else [path]:
        os.utime(entry, (time.time() - days * DAY,) * 2)
    return path


def image(workspace, digest, name="pytorch", days=30):
    path = workspace.images / f"{digest}.sif"
    path.write_bytes(b"x" * 100)
    write_json(path.with_suffix(".json"), {"name": name, "size": 100})
    (workspace.images / f"{digest}.log").write_text("built\n")
    write_json(workspace.images / f"{digest}.status.json", {"state": "done"})
    (workspace.images / f".{digest}.lock").touch()
    for entry in workspace.images.glob(f"*{digest}*"):
        old(entry, days)
    return path


def dataset(workspace, name=DATA, days=30):
    path = workspace.datasets / name
    path.mkdir()
    (path / "a.gz").write_bytes(b"x" * 50)
    write_json(manifest_of(path), {"files": []})
    old(manifest_of(path), days)
    return old(path, days)


def plan(*digests, data=DATA):
    layers = [{"path": f"images/{digest}.sif"} for digest in digests]
    return {"image": {"layers": layers}, "dataset": {"path": f"datasets/{data}"} if data else None}


def deploy(workspace, name=DEPLOYMENT, **more):
    folder = workspace.deployments / name
    folder.mkdir()
    write_json(folder / "plan.json", plan(BASE, TOP, **more))
    (folder / "job.sh").write_text(f"apptainer exec ~/modak/images/{TOP}.sif x ~/modak/datasets/{DATA}\n")
    return folder
