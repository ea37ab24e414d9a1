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
import json
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from packaging.utils import canonicalize_name, parse_sdist_filename, parse_wheel_filename

from modak_ansible.catalogue import load_catalogue
from modak_ansible.catalogue.locks import FOLDER, Lock, lock_of
from modak_ansible.planning.tuning import REQUIREMENTS, TUNER

HERE = Path(__file__).parent
# What is locked for our own environments: the file, and what it holds as uv is told.
OWN = {
    "modak": ["pyproject.toml", "--extra", "test", "--group", "build"],
    "opera": ["pyproject.toml", "requirements/opera.in", "--group", "build"],
    "opera-build": ["requirements/opera-build.in"],
    "tools": ["requirements/tools.in"],
    "docs": ["requirements/docs.in"],
}
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
# The C library of Debian 12, and what it is compatible with.
PLATFORMS = [f"manylinux_2_{minor}_x86_64" for minor in range(36, 4, -1)]
PLATFORMS += [f"manylinux{name}_x86_64" for name in ("2014", "2010", "1")]


class Wanted(NamedTuple):
    """What is to be locked; ``python`` is the version that it must be locked for."""

    name: str
    requirements: tuple[str, ...]
    python: str
    index: str = ""


class File(NamedTuple):
    """What pip takes of a package."""

    name: str
    version: str
    sha256: str


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
    catalogue = load_catalogue()
    if not options.entries:
        for name, words in OWN.items():
            lock_own(name, words, ["--upgrade"] if options.upgrade else [])
    all_wanted = [
        Wanted(entry.name, entry.requirements, catalogue.bases[entry.base].python, entry.index)
        for entry in catalogue.entries
        if entry.requirements
    ]
    for wanted in (*all_wanted, Wanted(TUNER, REQUIREMENTS, PYTHONS[0])):
        if wanted.name in (options.entries or [wanted.name]):
            lock(wanted, options)


def lock(wanted: Wanted, options: argparse.Namespace) -> None:
    """Writes a lock of the catalogue's, where all that it knows is found again."""
    name, python = wanted.name, wanted.python
    if options.files:
        found = {python: [file_at(path) for path in options.files.glob("*")]}
    elif python.startswith("2."):
        print(f"{name}: left as it is, it needs --files of Python {python}")
        return
    else:
        found = resolved(wanted, [] if options.upgrade else pins_of(name))
    if not found.get(python):
        words = shlex.join(wanted.requirements)
        print(f"{name}: left as it is, its packages are not found; try: pip download {words}")
        return
    if lost := sorted(set(known_lock(name).pythons) - set(found)):
        print(f"{name}: left as it is, its wheels for Python {', '.join(lost)} are not found from here")
        return
    path = FOLDER / f"{name}.txt"
    path.write_text("".join(f"{line}\n" for line in lines(found)), encoding="utf-8")
    print(f"{path.relative_to(HERE.parent)}: {len(found[python])} packages, for Python {', '.join(found)}")


def lock_own(name: str, words: list[str], options: list[str]) -> None:
    """Has uv write the lock of one of our own environments; its versions stay where they may."""
    path = HERE / f"{name}.txt"
    command = ["uv", "pip", "compile", *words, "--universal", "--python-version", PYTHONS[0], "--generate-hashes"]
    command += ["--no-annotate", "--quiet", "--custom-compile-command", "make lock", *options]
    subprocess.run([*command, "--output-file", str(path.relative_to(HERE.parent))], cwd=HERE.parent, check=True)
    print(f"{path.relative_to(HERE.parent)}: {path.read_text().count('==')} packages")


def known_lock(name: str) -> Lock:
    """An entry's lock as it is; an empty one where it has none."""
    return lock_of(name) if (FOLDER / f"{name}.txt").exists() else Lock((), ())


def pins_of(name: str) -> list[str]:
    """The releases in an entry's lock, as constraints; none where it has none."""
    return [line.partition(" --hash=")[0] for line in known_lock(name).lines]


def resolved(wanted: Wanted, known: list[str]) -> dict[str, list[File]]:
    """What is to be installed, by the versions of Python for which there are wheels of the same releases.

    uv says which releases, for it reads the conditions of a requirement for another Python than its own, and pip
    which files.

    Args:
        wanted: its own version of Python is asked for first.
        known: constraints.
    """
    found: dict[str, list[File]] = {}
    name, requirements, python, index = wanted
    for each in (python, *(other for other in PYTHONS if other != python)):
        files = _resolved(requirements, each, known) or (index and _resolved(requirements, each, known, index))
        releases = dict(file[:2] for file in found.get(python, []))
        if not files or any(releases.get(file.name, file.version) != file.version for file in files):
            print(f"{name}: not for Python {each}")
            if each == python:
                break
            continue
        found[each] = files
        known = known or [f"{file.name}=={file.version}" for file in files]
    return found


def _resolved(requirements: Iterable[str], python: str, known: list[str], index: str = "") -> list[File]:
    more = ["--extra-index-url", index] if index else []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for file, words in (("asked.in", requirements), ("known.txt", known)):
            (folder / file).write_text("".join(f"{word}\n" for word in words))
        compiling = ["uv", "pip", "compile", folder / "asked.in", "--constraint", folder / "known.txt", *more]
        compiling += ["--quiet", "--python-version", python, "--python-platform", "x86_64-manylinux_2_36"]
        compiling += ["--only-binary", ":all:", "--output-file", folder / "pins.txt"]
        installing = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--no-deps"]
        installing += ["--ignore-installed", "--ignore-requires-python"]
        installing += ["--target", folder, "--only-binary", ":all:", "--python-version", python, *more]
        installing += [word for platform in PLATFORMS for word in ("--platform", platform)]
        installing += ["--retries", "0", "--report", folder / "report.json", "-r", folder / "pins.txt"]
        if not _works(compiling) or not _works(installing):
            return []
        return list(files_of(json.loads((folder / "report.json").read_text())))


def _works(command: list[str | Path]) -> bool:
    done = subprocess.run(command, check=False, capture_output=True)
    return done.returncode == 0


def files_of(report: dict) -> Iterator[File]:
    """The files in a report of pip's, see https://pip.pypa.io/en/stable/reference/installation-report/."""
    for each in report["install"]:
        digest = each["download_info"]["archive_info"]["hashes"]["sha256"]
        yield File(canonicalize_name(each["metadata"]["name"]), each["metadata"]["version"], digest)


def file_at(path: Path) -> File:
    """A wheel or an archive of sources."""
    name, version = (parse_wheel_filename if path.suffix == ".whl" else parse_sdist_filename)(path.name)[:2]
    return File(name, str(version), hashlib.sha256(path.read_bytes()).hexdigest())


def lines(found: dict[str, list[File]]) -> Iterator[str]:
    """The lines of a catalogue's lock: what is the same for several Pythons stands there once."""
    yield f"# written by requirements/lock.py for Python {' '.join(sorted(found, key=_order))}"
    releases = sorted({(file.name, file.version) for files in found.values() for file in files})
    for name, version in releases:
        having = {python: file for python, files in found.items() for file in files if file[:2] == (name, version)}
        marker = "" if len(having) == len(found) else " ; " + " or ".join(_markers(having))
        hashes = sorted({file.sha256 for file in having.values()})
        yield f"{name}=={version}{marker}" + "".join(f" --hash=sha256:{digest}" for digest in hashes)


def _markers(pythons: Iterable[str]) -> list[str]:
    return [f'python_version == "{python}"' for python in sorted(pythons, key=_order)]


def _order(python: str) -> tuple[int, ...]:
    return tuple(map(int, python.split(".")))


if __name__ == "__main__":
    main()
