"""What the workers of one run share, and what each has of its own.

Each worker of pytest-xdist has a testbed of its own: what a test does to a cluster, the tests beside it do not see.
Images of frameworks are made once for all: they are kept in the caller's cache folder under what makes them.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cluster import ROOT, Testbed, modak, play_testbed, run

FIRST = "gw0"
WORKER = os.environ.get("PYTEST_XDIST_WORKER", FIRST)
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "modak"
STARTING = CACHE / "tests" / "starting.lock"  # packages and the root file system are made ready once
ENTRY = "pytorch-2.13-cpu"  # of nearly all jobs of the tests
SHARED = ("mnist-pytorch-slurm", "mnist-tensorflow-slurm")
KINDS = ("json", "sif")
FORGOTTEN = 3 * 24 * 3600


@contextmanager
def own_testbed() -> Iterator[Testbed]:
    """The checkout's testbed, which stays, for the first worker; each other brings up one, which goes with it."""
    if WORKER == FIRST:
        with locked(STARTING):
            result = modak("testbed", "up")
        assert result.returncode == 0, result.stderr
        yield Testbed()
        return
    name = f"testbed-{hashlib.sha256(f'{ROOT} {WORKER}'.encode()).hexdigest()[:8]}"
    box = Testbed(ROOT / ".modak" / "workers" / name)
    box.folder.parent.mkdir(parents=True, exist_ok=True)
    try:
        with locked(STARTING):
            play_testbed("up", name, box.folder)
        yield box
    finally:
        play_testbed("purged", name, box.folder)


def provide_images(testbed: Testbed, project: Path) -> set[str]:
    """Has a testbed hold the image of PyTorch: another run's or worker's, or a new one, which the cache then keeps.

    Args:
        testbed: where it is to lie.
        project: an empty folder.

    Returns:
        The digests of the images that are kept.
    """
    (project / ".modak").mkdir(parents=True)
    (project / ".modak" / "testbed").symlink_to(testbed.folder)
    shared = {digest for blueprint in SHARED for digest in _layers(blueprint, project)}
    cache = _cache(testbed)
    with locked(cache.with_suffix(".lock")):
        _bring(testbed, cache, shared)
        result = modak("catalogue", "build", ENTRY, cwd=project)
        assert result.returncode == 0, result.stdout + result.stderr
        _keep(testbed, cache, shared)
    return shared


@contextmanager
def borrowed_images(testbed: Testbed, digests: set[str]) -> Iterator[None]:
    """Has a testbed hold such images as the cache keeps, and the cache those that are made meanwhile."""
    cache = _cache(testbed)
    with locked(cache.with_suffix(".lock")):
        _bring(testbed, cache, digests)
    yield
    with locked(cache.with_suffix(".lock")):
        _keep(testbed, cache, digests)


def keep_images(testbed: Testbed, shared: set[str]) -> None:
    """Keeps for later runs what else of the shared images has been built meanwhile."""
    cache = _cache(testbed)
    with locked(cache.with_suffix(".lock")):
        _keep(testbed, cache, shared)


def _layers(blueprint: str, project: Path) -> list[str]:
    result = modak("plan", blueprint, "--json", cwd=project)
    assert result.returncode == 0, result.stderr
    return [layer["digest"] for layer in json.loads(result.stdout)["image"]["layers"]]


def _cache(testbed: Testbed) -> Path:
    """Where images are kept that this code makes with this testbed's runtime; each is named by its definition."""
    builder = hashlib.sha256(testbed.ssh("apptainer --version").encode())
    for path in sorted((ROOT / "modak_ansible" / "target" / "images").glob("*.py")):
        builder.update(path.read_bytes())
    folder = CACHE / "tests"
    cache = folder / f"images-{builder.hexdigest()[:16]}"
    cache.mkdir(parents=True, exist_ok=True)
    for image in folder.glob("images-*/*"):
        if image.stat().st_mtime < time.time() - FORGOTTEN:
            image.unlink()
    return cache


def _bring(testbed: Testbed, cache: Path, digests: set[str]) -> None:
    """Copies what is kept and is not there."""
    files = testbed.ssh("mkdir -p -m 700 modak/images && ls modak/images").split()
    kept_digests = [digest for digest in digests if (cache / f"{digest}.sif").exists() and f"{digest}.sif" not in files]
    _copy(
        testbed, [str(cache / f"{digest}.{kind}") for digest in kept_digests for kind in KINDS], "testbed:modak/images/"
    )


def _keep(testbed: Testbed, cache: Path, shared: set[str]) -> None:
    """Copies what is not kept yet; an image comes after what is known of it, and only as it was made."""
    files = testbed.ssh("ls modak/images").split()
    for digest in shared:
        image_path = cache / f"{digest}.sif"
        if not image_path.exists() and f"{digest}.sif" in files:
            partial = cache.with_suffix(".partial")
            _copy(testbed, [f"testbed:modak/images/{digest}.{kind}" for kind in KINDS], f"{partial}/")
            image, record = partial / f"{digest}.sif", partial / f"{digest}.json"
            with image.open("rb") as file:
                is_whole = hashlib.file_digest(file, "sha256").hexdigest() == json.loads(record.read_text())["sha256"]
            if is_whole:
                record.rename(cache / record.name)
                image.rename(image_path)
            shutil.rmtree(partial)
        for kind in KINDS:
            if (file := cache / f"{digest}.{kind}").exists():
                os.utime(file)


def _copy(testbed: Testbed, sources: list[str], destination: str) -> None:
    if not sources:
        return
    shell = f"ssh -F {testbed.folder / 'ssh_config'}"
    result = run("rsync", "--whole-file", "--perms", "-e", shell, *sources, destination)
    assert result.returncode == 0, result.stderr


@contextmanager
def locked(path: Path) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
