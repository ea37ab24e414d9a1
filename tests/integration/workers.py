"""What the workers of one run share, and what each has of its own.

Each worker of pytest-xdist has a testbed of its own: what a test does to a cluster, the tests beside it do not see.
Images of frameworks are made once for all: they are kept in the caller's cache folder under what makes them.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cluster import ROOT, SCRIPTS, Testbed, modak, run

FIRST = "gw0"
WORKER = os.environ.get("PYTEST_XDIST_WORKER", FIRST)
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "modak"
STARTING = CACHE / "tests" / "starting.lock"  # packages and the root file system are made ready once
ENTRY = "pytorch-2.13-cpu"  # of nearly all jobs of the tests
FORGOTTEN = 7 * 24 * 3600


@contextmanager
def own_testbed() -> Iterator[Testbed]:
    """The checkout's testbed, which stays, for the first worker; each other brings up one, which goes with it."""
    if WORKER == FIRST:
        with _locked(STARTING):
            started = modak("testbed", "up")
        assert started.returncode == 0, started.stderr
        yield Testbed()
        return
    name = f"testbed-{hashlib.sha256(f'{ROOT} {WORKER}'.encode()).hexdigest()[:8]}"
    made = Testbed(ROOT / ".modak" / "workers" / name)
    made.folder.parent.mkdir(parents=True, exist_ok=True)
    try:
        with _locked(STARTING):
            _play("up", name, made.folder)
        yield made
    finally:
        _play("purged", name, made.folder)


def _play(state: str, name: str, folder: Path) -> None:
    variables = {"testbed_state": state, "testbed_name": name, "testbed_directory": str(folder)}
    done = run(
        SCRIPTS / "ansible-playbook", "playbooks/testbed.yml", "-e", json.dumps(variables),
        ANSIBLE_CONFIG=str(ROOT / "ansible.cfg"),
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def provide_images(testbed: Testbed, project: Path) -> None:
    """Has a testbed hold the image of PyTorch: another run's or worker's, or a new one, which the cache then keeps.

    Args:
        testbed: where it is to lie.
        project: an empty folder.
    """
    cache = _cache(testbed)
    with _locked(cache.with_suffix(".lock")):
        there = set(testbed.ssh("mkdir -p -m 700 modak/images && ls modak/images").split())
        files = {path.name for path in cache.iterdir()}
        if missing := sorted(name for name in files - there if name.partition(".")[0] + ".sif" in files):
            _copy(testbed, [str(cache / name) for name in missing], "testbed:modak/images/")
        (project / ".modak").mkdir(parents=True)
        (project / ".modak" / "testbed").symlink_to(testbed.folder)
        built = modak("catalogue", "build", ENTRY, cwd=project)
        assert built.returncode == 0, built.stdout + built.stderr
        _keep(testbed, cache)


def keep_images(testbed: Testbed) -> None:
    """Keeps for later runs what else of the catalogue's has been built meanwhile."""
    cache = _cache(testbed)
    with _locked(cache.with_suffix(".lock")):
        _keep(testbed, cache)


def _cache(testbed: Testbed) -> Path:
    """Where images are kept that this code makes with this testbed's runtime; they are named by their definitions."""
    builder = hashlib.sha256(testbed.ssh("apptainer --version").encode())
    for path in sorted((ROOT / "modak_ansible" / "target").glob("*.py")):
        builder.update(path.read_bytes())
    kept = CACHE / "tests"
    mine = kept / f"images-{builder.hexdigest()[:16]}"
    mine.mkdir(parents=True, exist_ok=True)
    mine.touch()
    for other in kept.glob("images-*/"):
        if other.stat().st_mtime < time.time() - FORGOTTEN:
            for each in other.iterdir():
                each.unlink()
            other.rmdir()
    return mine


def _keep(testbed: Testbed, cache: Path) -> None:
    """Copies the images of whole entries and of their bases; the image comes last, and only as it was made."""
    listed = testbed.ssh('cd modak/images && grep -lE \'"name": "(debian-|pytorch-|tensorflow-)\' *.json || true')
    digests = [name.removesuffix(".json") for name in listed.split()]
    new = [each for each in digests if not (cache / f"{each}.sif").exists()]
    if not new:
        return
    partial = cache.with_suffix(".partial")
    partial.mkdir(exist_ok=True)
    _copy(testbed, [f"testbed:modak/images/{each}.{kind}" for each in new for kind in ("json", "sif")], f"{partial}/")
    for each in new:
        image, known = partial / f"{each}.sif", partial / f"{each}.json"
        with image.open("rb") as file:
            is_whole = hashlib.file_digest(file, "sha256").hexdigest() == json.loads(known.read_text())["sha256"]
        if is_whole:
            known.rename(cache / known.name)
            image.rename(cache / image.name)
    for path in partial.iterdir():
        path.unlink()
    partial.rmdir()


def _copy(testbed: Testbed, sources: list[str], to: str) -> None:
    shell = f"ssh -F {testbed.folder / 'ssh_config'}"
    done = run("rsync", "--whole-file", "--perms", "-e", shell, *sources, to)
    assert done.returncode == 0, done.stderr


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
