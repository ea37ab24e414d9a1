"""Builds the wheel: what a checkout has beside the package goes in as modak_ansible/share, links as what they mean."""

from __future__ import annotations

import lzma
import shutil
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

STUB = "modak_ansible/runtime/stub/modak_runtime.py"
SHARED = ("ansible.cfg", "benchmarks", "playbooks", "tosca")
LEFT_OUT = (
    "__pycache__", "blueprints/*/playbooks", "blueprints/*/types", "targets/types",
    "benchmarks/figures", "benchmarks/memory", "benchmarks/shared", "benchmarks/tuning", "benchmarks/records/*/*",
    "benchmarks/*.md", "benchmarks/*.py",
)  # fmt: skip
RECORDS = "benchmarks/records/*.jsonl"
SHARE = "modak_ansible/share"


class CustomBuildHook(BuildHookInterface):
    """Lists every file of the shared folders, those behind links too; an editable install needs none of them.

    The playbooks that a blueprint links are for opera, which works in a checkout or with what modak package makes; the
    types that it links are built in, and there once; what is for readers of a checkout stays there:
    figures and pages, scripts that no workload has, what workloads link, and records that no model is fitted to.
    """

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        root = Path(self.root)
        self._folder = tempfile.mkdtemp()
        # at home a script that calls prepare needs the module, too
        build_data["force_include"][str(self._copied(root / STUB))] = "modak_runtime.py"
        for name in SHARED:
            for file in _files(root / name):
                # what targets are given is there once, where Ansible looks for it: modak_ansible/__init__.py says so
                is_ours = file.resolve().is_relative_to(root / "modak_ansible")
                source = file.resolve() if is_ours else file
                if not file.match(RECORDS):
                    build_data["force_include"][str(source)] = f"{SHARE}/{file.relative_to(root)}"
        build_data["force_include"][str(self._records(root))] = f"{SHARE}/benchmarks/records/measured.jsonl.xz"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002
        if self._folder:
            shutil.rmtree(self._folder)

    _folder = ""

    def _copied(self, file: Path) -> Path:
        """A copy, because hatchling leaves a file that is named here out of its own package."""
        return Path(shutil.copy(file, self._folder))

    def _records(self, root: Path) -> Path:
        """All records in one file: their lines are nearly alike, and a wheel by itself compresses each file alone."""
        compressed = Path(self._folder, "measured.jsonl.xz")
        compressed.write_bytes(lzma.compress(b"".join(file.read_bytes() for file in sorted(root.glob(RECORDS)))))
        return compressed


def _files(path: Path) -> list[Path]:
    if any(map(path.match, LEFT_OUT)):
        return []
    return [file for each in sorted(path.iterdir()) for file in _files(each)] if path.is_dir() else [path]
