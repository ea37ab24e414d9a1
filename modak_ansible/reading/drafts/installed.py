"""What is installed where the user works: packages with their versions, and the names that they are imported by."""

from __future__ import annotations

import csv
import importlib.metadata
import json
import os
import sys
from functools import cached_property
from pathlib import Path

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version


def environment_folders(folders: list[Path]) -> list[str]:
    """Where the packages are that the user's scripts find: of the environment that is active, or of one that lies in
    some folder, or of this Python."""
    active = [os.environ.get(name, "") for name in ("VIRTUAL_ENV", "CONDA_PREFIX")]
    beside = [str(folder / name) for folder in folders for name in (".venv", "venv")]
    for home in (*active, *beside):
        if paths := [str(path) for path in Path(home).glob("lib/python3*/site-packages")] if home else []:
            return paths
    return [path for path in sys.path if path]


class Installed:
    """The packages of some folders.

    Args:
        paths: site-packages, and folders like it.
    """

    def __init__(self, paths: list[str]) -> None:
        self._paths = paths

    @cached_property
    def _distributions(self) -> dict[str, importlib.metadata.Distribution]:
        distributions: dict[str, importlib.metadata.Distribution] = {}
        for distribution in importlib.metadata.distributions(path=self._paths):
            name = distribution.metadata["Name"]
            if name:
                distributions.setdefault(canonicalize_name(name), distribution)
        return distributions

    @cached_property
    def _packages(self) -> dict[str, str]:
        packages: dict[str, str] = {}
        for name, distribution in self._distributions.items():
            for module in _modules_of(distribution):
                # of several that share one, such as those of a namespace, the one that is called so
                if module not in packages or name == canonicalize_name(module):
                    packages[module] = name
        return packages

    def version(self, package: str) -> str:
        """Its version without the label of whoever built it; empty where it is not installed, or from a folder."""
        distribution = self._distributions.get(canonicalize_name(package))
        if distribution is None or self.is_own(package):
            return ""
        try:
            return Version(distribution.version).public
        except (InvalidVersion, TypeError):
            return ""

    def is_own(self, package: str) -> bool:
        """Whether it is installed from a folder of this machine, which no index has."""
        distribution = self._distributions.get(canonicalize_name(package))
        try:
            origin = json.loads((distribution.read_text("direct_url.json") if distribution else "") or "{}")
        except ValueError:
            return False
        return isinstance(origin, dict) and "dir_info" in origin

    def package_of(self, module: str) -> str:
        """The package that brings a module; empty where none is installed."""
        direct = canonicalize_name(module)
        return direct if direct in self._distributions and module != "google" else self._packages.get(module, "")


def _modules_of(distribution: importlib.metadata.Distribution) -> set[str]:
    top_level = distribution.read_text("top_level.txt")
    if top_level is not None and top_level.split():
        return set(top_level.split())
    modules = set()
    for file in _files_of(distribution):
        first, *rest = file.split("/", 1)
        if rest and first.isidentifier():
            modules.add(first)
        elif not rest and first.endswith(".py"):
            modules.add(first.removesuffix(".py"))
    return modules


def _files_of(distribution: importlib.metadata.Distribution) -> list[str]:
    """Its files as its record has them; Distribution.files makes a path of each, which takes three times as long."""
    record = distribution.read_text("RECORD")
    if record is None:
        return [file.as_posix() for file in distribution.files or ()]
    return [row[0] for row in csv.reader(record.splitlines()) if row]
