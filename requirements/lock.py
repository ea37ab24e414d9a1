"""Writes what pip may install: every package in one version, with the SHA-256 of its files.

    make lock                                  # all but what needs Python 2.7; versions stay as far as they can
    python requirements/lock.py --upgrade      # the newest versions of what is not pinned otherwise
    python requirements/lock.py --files FOLDER tensorflow-1.14-pip

Our own environments are locked by uv, for every Python and platform. A catalogue's entry is locked by uv and pip, for
x86-64 and the Pythons that its packages have wheels for, the base image's first; so is what the image of a tuned
training has besides. What needs an older Python than pip knows is locked by the files that
``pip download --dest FOLDER`` has fetched in its base image. The indexes are those that pip and uv are configured for.
"""

from __future__ import annotations

import argparse
import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

from packaging.utils import parse_sdist_filename, parse_wheel_filename

from modak_ansible.catalogue.locking import PYTHONS, File, LockRequest, NotFound, resolved, text_of_lock
from modak_ansible.catalogue.locks import FOLDER, TUNER, TUNER_REQUIREMENTS, PackageLock, lock_of
from modak_ansible.catalogue.reader import shipped_catalogue

HERE = Path(__file__).parent
# A new environment has nothing to build a package's sources with: a release that has no wheel is passed over.
WHEELS = ["--only-binary", ":all:"]
# What is locked for our own environments: the file, and what it holds as uv is told.
OWN = {
    "modak": ["pyproject.toml", "--extra", "test", "--group", "build", *WHEELS],
    "opera": ["pyproject.toml", "requirements/opera.in", "--extra", "hf", "--extra", "s3", "--group", "build"],
    "opera-build": ["requirements/opera-build.in"],
    "tools": ["requirements/tools.in", *WHEELS],
    "docs": ["requirements/docs.in", *WHEELS],
}


def main() -> None:
    """Writes the locks that are asked for, and says which."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "entries", nargs="*", help=f"of the catalogue, or {TUNER}; all, and our own environments, where none is named"
    )
    parser.add_argument("--files", type=Path, help="what the pip of an older Python has downloaded for an entry")
    parser.add_argument("--upgrade", action="store_true", help="take newer versions of what is not pinned")
    options = parser.parse_args()
    if not options.files and not shutil.which("uv"):
        sys.exit("uv is not here: make lock brings it")
    catalogue = shipped_catalogue()
    if not options.entries:
        for name, words in OWN.items():
            lock_own(name, words, ["--upgrade"] if options.upgrade else [])
    requests = [
        LockRequest(entry.name, entry.requirements, catalogue.bases[entry.base].python, entry.index)
        for entry in catalogue.entries
        if entry.requirements
    ]
    for request in (*requests, LockRequest(TUNER, TUNER_REQUIREMENTS, PYTHONS[0])):
        if request.name in (options.entries or [request.name]):
            lock(request, options)


def lock(request: LockRequest, options: argparse.Namespace) -> None:
    """Writes a lock of the catalogue's, where all that it knows is found again."""
    name, python = request.name, request.python
    if options.files:
        releases = {python: [file_at(path) for path in options.files.glob("*")]}
    elif python.startswith("2."):
        print(f"{name}: left as it is, it needs --files of Python {python}")
        return
    else:
        try:
            releases = resolved(request, [] if options.upgrade else pins_of(name))
        except NotFound as error:
            print(f"{name}: left as it is, its packages are not found: {error}")
            return
    if lost := sorted(set(known_lock(name).pythons) - set(releases)):
        print(f"{name}: left as it is, its wheels for Python {', '.join(lost)} are not found from here")
        return
    path = FOLDER / f"{name}.txt"
    path.write_text(text_of_lock(releases, "requirements/lock.py"), encoding="utf-8")
    print(f"{path.relative_to(HERE.parent)}: {len(releases[python])} packages, for Python {', '.join(releases)}")


def lock_own(name: str, words: list[str], options: list[str]) -> None:
    """Has uv write the lock of one of our own environments; its versions stay where they may."""
    path = HERE / f"{name}.txt"
    command = ["uv", "pip", "compile", *words, "--universal", "--python-version", PYTHONS[0], "--generate-hashes"]
    command += ["--no-annotate", "--quiet", "--custom-compile-command", "make lock", *options]
    subprocess.run([*command, "--output-file", str(path.relative_to(HERE.parent))], cwd=HERE.parent, check=True)
    print(f"{path.relative_to(HERE.parent)}: {path.read_text().count('==')} packages")


def known_lock(name: str) -> PackageLock:
    """An entry's lock as it is; an empty one where it has none."""
    return lock_of(name) if (FOLDER / f"{name}.txt").exists() else PackageLock((), ())


def pins_of(name: str) -> list[str]:
    """The releases in an entry's lock, as constraints; none where it has none."""
    return [line.partition(" --hash=")[0] for line in known_lock(name).lines]


def file_at(path: Path) -> File:
    """A wheel or an archive of sources."""
    name, version = (parse_wheel_filename if path.suffix == ".whl" else parse_sdist_filename)(path.name)[:2]
    return File(name, str(version), hashlib.sha256(path.read_bytes()).hexdigest())


if __name__ == "__main__":
    main()
