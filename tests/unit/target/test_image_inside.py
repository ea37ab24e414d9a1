"""What an image tells of itself, by the Python that runs here."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from modak_ansible.target.images.inside import look_inside

pytestmark = pytest.mark.component


@pytest.fixture
def runtime(tmp_path):
    """A stand-in for Apptainer that runs the command itself, with a folder of modules."""
    (tmp_path / "torch.py").write_text(
        "__version__ = '2.13.0+cpu'\nclass _T:\n    def sin(self): return self\n    cos = sin\n"
        "    def __add__(self, other): return self\n    def sum(self): return 64.0\n"
        "def compile(f): return f\ndef zeros(n): return _T()\n"
    )
    (tmp_path / "jax.py").write_text("__version__ = '0.10.2'\ndef jit(f): raise RuntimeError('no compiler')\n")
    (tmp_path / "tensorflow.py").write_text("raise SystemError('broken')\n")
    path = tmp_path / "apptainer"
    path.write_text(f'#!/bin/sh\nshift 2\nPYTHONPATH={tmp_path} exec "$@"\n')
    path.chmod(0o755)
    return str(path)


def test_it_tells_what_is_there_and_works(runtime, tmp_path):
    found = look_inside(runtime, tmp_path / "mine.sif", sys.executable)
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    frameworks = {
        name: each for name, each in found["frameworks"].items() if name in ("pytorch", "jax", "python", "tensorflow")
    }
    assert frameworks == {"pytorch": "2.13.0+cpu", "jax": "0.10.2", "python": version}
    assert found["version"] == version
    assert found["compilers"] == ["inductor"]
    assert "pytest" in found["packages"]


@pytest.mark.parametrize("is_whole", [True, False])
def test_an_allocator_counts_where_it_can_be_preloaded(runtime, tmp_path, is_whole):
    (tmp_path / "env" / "bin").mkdir(parents=True)
    python = tmp_path / "env" / "bin" / "python"
    python.symlink_to(sys.executable)
    (tmp_path / "env" / "pyvenv.cfg").write_text(f"home = {Path(sys.executable).resolve().parent}\n")
    library = tmp_path / "env" / "lib" / "libjemalloc.so.2"
    library.parent.mkdir()
    loaded = Path("/proc/self/maps").read_text().split()
    library.write_bytes(Path(next(each for each in loaded if "/libm.so" in each)).read_bytes() if is_whole else b"x")
    found = look_inside(runtime, tmp_path / "mine.sif", str(python))
    of_this_machine = {"libjemalloc.so.2"}
    assert {found["preloads"].get("jemalloc")} - of_this_machine <= {str(library) if is_whole else None}


def test_an_image_without_that_python_says_so(runtime, tmp_path):
    found = look_inside(runtime, tmp_path / "mine.sif", "/none/python3")
    assert list(found) == ["problem"]
    assert "not found" in found["problem"]
