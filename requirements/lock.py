"""Writes what pip may install: every package in one version, with the SHA-256 of its files.

    make lock                                  # all but what needs Python 2.7; versions stay as far as they can
    python requirements/lock.py --upgrade      # the newest versions of what is not pinned otherwise
    python requirements/lock.py --files FOLDER tensorflow-1.14-pip

Our own environments are locked by uv, for every Python and platform. A catalogue's entry is locked by pip, for
x86-64 and the Pythons that its packages have wheels for, the base image's first. What needs an older Python than pip
knows is locked by the files that ``pip download --dest FOLDER`` has fetched in its base image. The indexes are those
that pip and uv are configured for.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from packaging.utils import canonicalize_name, parse_sdist_filename, parse_wheel_filename

from modak_ansible.catalogue import Entry, load_catalogue
from modak_ansible.catalogue.locks import FOLDER, lock_of

HERE = Path(__file__).parent
# What is locked for our own environments: the file, and what it holds as uv is told.
OWN = {
    "modak": ["pyproject.toml", "--extra", "test", "--group", "build"],
    "opera": ["pyproject.toml", "requirements/opera.in", "--group", "build"],
    "opera-build": ["requirements/opera-build.in"],
    "tools": ["requirements/tools.in"],
}
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
# The C library of Debian 12, and what it is compatible with.
PLATFORMS = [f"manylinux_2_{minor}_x86_64" for minor in range(36, 4, -1)]
PLATFORMS += [f"manylinux{name}_x86_64" for name in ("2014", "2010", "1")]


class File(NamedTuple):
    """What pip takes of a package."""

    name: str
    version: str
    sha256: str


def main() -> None:
    """Writes the locks that are asked for, and says which."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "entries", nargs="*", help="of the catalogue; all, and our own environments, where none is named"
    )
    parser.add_argument("--files", type=Path, help="what the pip of an older Python has downloaded for an entry")
    parser.add_argument("--upgrade", action="store_true", help="take newer versions of what is not pinned")
    options = parser.parse_args()
    catalogue = load_catalogue()
    if not options.entries:
        for name, words in OWN.items():
            lock_own(name, words, ["--upgrade"] if options.upgrade else [])
    for entry in catalogue.entries:
        if entry.name not in (options.entries or [entry.name]) or not entry.requirements:
            continue
        python = catalogue.bases[entry.base].python
        if options.files:
            found = {python: [file_at(path) for path in options.files.glob("*")]}
        elif python.startswith("2."):
            print(f"{entry.name}: left as it is, it needs --files of Python {python}")
            continue
        else:
            found = resolved(entry, python, "" if options.upgrade else pins_of(entry.name))
        if not found.get(python):
            sys.exit(f"{entry.name}: its packages are not found; try: pip download {shlex.join(entry.requirements)}")
        path = FOLDER / f"{entry.name}.txt"
        lost = set(lock_of(entry.name).pythons) - set(found) if path.exists() else ()
        if lost:
            print(
                f"{entry.name}: left as it is, its wheels for Python {', '.join(sorted(lost))} are not found from here"
            )
            continue
        path.write_text("".join(f"{line}\n" for line in lines(found)), encoding="utf-8")
        print(f"{path.relative_to(HERE.parent)}: {len(found[python])} packages, for Python {', '.join(found)}")


def lock_own(name: str, words: list[str], options: list[str]) -> None:
    """Has uv write the lock of one of our own environments; its versions stay where they may."""
    path = HERE / f"{name}.txt"
    command = ["uv", "pip", "compile", *words, "--universal", "--python-version", PYTHONS[0], "--generate-hashes"]
    command += ["--no-annotate", "--quiet", "--custom-compile-command", "make lock", *options]
    subprocess.run([*command, "--output-file", str(path.relative_to(HERE.parent))], cwd=HERE.parent, check=True)
    print(f"{path.relative_to(HERE.parent)}: {path.read_text().count('==')} packages")


def pins_of(name: str) -> str:
    """The releases in an entry's lock, as pip's constraints; nothing where it has none."""
    known = lock_of(name).lines if (FOLDER / f"{name}.txt").exists() else ()
    return "".join(f"{line.partition(' --hash=')[0]}\n" for line in known)


def resolved(entry: Entry, python: str, known: str) -> dict[str, list[File]]:
    """What pip would install, by the versions of Python for which it finds wheels of the same releases.

    Args:
        entry: the framework.
        python: the base image's version, which is asked for first.
        known: constraints.
    """
    with tempfile.TemporaryDirectory() as folder:
        pins, report = Path(folder) / "pins.txt", Path(folder) / "report.json"
        pins.write_text(known)
        found = {}
        for each in (python, *(other for other in PYTHONS if other != python)):
            command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed"]
            command += ["--target", folder, "--only-binary", ":all:", "--python-version", each]
            command += [word for platform in PLATFORMS for word in ("--platform", platform)]
            command += ["--constraint", str(pins), "--retries", "0", "--report", str(report), *entry.requirements]
            # as a build does it: the framework's own index is asked where the configured ones have not got it
            attempts = [command, *([[*command, "--extra-index-url", entry.index]] if entry.index else [])]
            if not any(_works(attempt) for attempt in attempts):
                print(f"{entry.name}: not for Python {each}")
                continue
            found[each] = list(files_of(json.loads(report.read_text())))
            pins.write_text(known or "".join(f"{file.name}=={file.version}\n" for file in found[each]))
    return found


def _works(command: list[str]) -> bool:
    return subprocess.run(command, check=False, stderr=subprocess.DEVNULL).returncode == 0


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
    return [f'python_version == "{each}"' for each in sorted(pythons, key=_order)]


def _order(python: str) -> tuple[int, ...]:
    return tuple(map(int, python.split(".")))


if __name__ == "__main__":
    main()
