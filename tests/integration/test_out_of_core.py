"""A training whose state lies in files: less memory, the same numbers, and nothing left behind."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from modak_ansible.runtime import FILES

SCRIPT = Path(__file__).parent / "runtime" / "out_of_core.py"
MIB = 1 << 20
Train = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def group(tmp_path: Path) -> Iterator[Path]:
    """A memory cgroup of the test's own; files count in it, too."""
    top = Path("/sys/fs/cgroup")
    is_first = (top / "memory").is_dir()
    if not is_first and "memory" not in (top / "cgroup.subtree_control").read_text().split():
        pytest.skip("the memory of cgroups is not controlled here")
    folder = (top / "memory" if is_first else top) / f"modak-{os.getpid()}"
    folder.mkdir()
    yield folder
    folder.rmdir()


def limit(group: Path, size: int) -> None:
    name = "memory.limit_in_bytes" if (group / "memory.limit_in_bytes").exists() else "memory.max"
    (group / name).write_text(str(size))


@pytest.fixture
def train(pytorch_python: str, tmp_path: Path) -> Train:
    def trained(choices: str, *arguments: str, group: Path | None = None, scratch: Path = tmp_path / "scratch"):
        (tmp_path / "scratch").mkdir(exist_ok=True)
        ours = {name: value for name, value in os.environ.items() if not name.startswith(("MODAK", "PYTHON"))}
        ours |= {"PYTHONPATH": str(FILES), "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
        ours |= {
            "MODAK_CHOICES": choices,
            "MODAK_SCRATCH": str(scratch),
            "MODAK_APPLIED": str(tmp_path / "applied.json"),
        }
        entered = f'echo $$ > {group}/cgroup.procs && exec "$@"' if group else 'exec "$@"'
        command = ["sh", "-c", entered, "sh", pytorch_python, str(SCRIPT), *arguments]
        return subprocess.run(command, check=False, env=ours, capture_output=True, text=True, timeout=600)

    return trained


def choice(tmp_path: Path) -> dict[str, str]:
    found: dict[str, str] = json.loads((tmp_path / "applied.json").read_text())["choices"]["memory"]
    return found


@pytest.mark.parametrize("optimizer", ["AdamW", "SGD", "Adagrad", "Adafactor"])
def test_the_numbers_are_the_same_to_the_bit(train: Train, tmp_path: Path, optimizer: str) -> None:
    plain = train("memory=fits", "384", "1", optimizer)
    assert plain.returncode == 0, plain.stderr
    files = train("memory=out-of-core", "384", "1", optimizer)
    assert (files.returncode, files.stdout) == (0, plain.stdout), files.stderr
    assert choice(tmp_path)["applied"] == "out-of-core"
    assert not any((tmp_path / "scratch").iterdir())  # the files have no names


def test_what_is_killed_in_memory_trains_out_of_core(train: Train, group: Path) -> None:
    """28 million parameters with AdamW need 450 MiB, and PyTorch itself 150."""
    limit(group, 330 * MIB)
    size = ("768", "6", "AdamW")
    assert train("memory=fits", *size, group=group).returncode == -9
    trained = train("memory=out-of-core", *size, group=group)
    assert trained.returncode == 0, trained.stderr
    assert trained.stdout == train("memory=fits", *size).stdout


def test_a_full_disk_ends_it_with_a_message(train: Train, tmp_path: Path) -> None:
    """A disk of 24 MiB has room for the parameters and their gradients, and not for what the optimizer keeps."""
    disk = tmp_path / "disk"
    disk.mkdir()
    (tmp_path / "image").touch()
    os.truncate(tmp_path / "image", 32 * MIB)
    subprocess.run(["mkfs.ext4", "-q", "-O", "^has_journal", tmp_path / "image"], check=True)
    subprocess.run(["mount", "-o", "loop", tmp_path / "image", disk], check=True)
    try:
        full = train("memory=out-of-core", "512", "1", "AdamW", scratch=disk)
        assert (full.returncode, full.stderr.count("\n")) == (73, 1)
        assert f"modak: {disk} has no room for" in full.stderr
    finally:
        subprocess.run(["umount", disk], check=True)


def test_a_folder_in_memory_is_refused(train: Train, tmp_path: Path) -> None:
    assert train("memory=out-of-core", "256", "1", "SGD", scratch=Path("/dev/shm")).returncode == 0
    assert choice(tmp_path)["applied"] is None
    assert "is itself in memory" in choice(tmp_path)["reason"]


def test_an_optimizer_that_computes_parameters_together_is_left_alone(train: Train, tmp_path: Path) -> None:
    assert train("memory=out-of-core", "256", "1", "LBFGS").returncode != 0  # the script gives it no closure
    assert "may update several parameters together" in choice(tmp_path)["reason"]
