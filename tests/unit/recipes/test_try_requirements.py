"""The script that tries a user's packages, run by Python itself on packages that are made for it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys

import pytest

from modak_ansible.runtime import TRY_REQUIREMENTS

pytestmark = pytest.mark.component

GCC = shutil.which("gcc") or shutil.which("cc")
# A framework that knows operators as PyTorch does.
TORCH = """\
import sys, types
_C = types.ModuleType("torch._C")
_C.operators = {"aten::add": ["CPU"]}
_C._dispatch_get_all_op_names = lambda: list(_C.operators)
_C._dispatch_has_kernel_for_dispatch_key = lambda name, key: key in _C.operators[name]
"""


class Site:
    """A folder of installed packages."""

    def __init__(self, folder):
        self.folder = folder / "site"
        self.folder.mkdir()
        self.before = folder / "installed.txt"

    def install(self, name, version="1.0", **files):
        information = self.folder / f"{name.replace('-', '_')}-{version}.dist-info"
        information.mkdir()
        for path, content in files.items():
            place = self.folder / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content if isinstance(content, bytes) else content.encode())
        (information / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n\nName: words\n"
        )
        (information / "RECORD").write_text("".join(f"{path},sha256=x,1\n" for path in files))

    def note(self):
        """Takes what is installed now for the framework's build."""
        names = [path.name.removesuffix(".dist-info").rsplit("-", 1) for path in self.folder.glob("*.dist-info")]
        self.before.write_text("".join(f"{name}=={version}\n" for name, version in names))

    def run(self, *asked, modules=(), tries=None, accelerated=False):
        words = {"asked": asked, "modules": modules, "tries": tries or {}, "accelerated": accelerated}
        before = str(self.before) if self.before.exists() else ""
        done = subprocess.run(
            [sys.executable, "-S", str(TRY_REQUIREMENTS), before, json.dumps(words)], capture_output=True, text=True,
            env={**os.environ, "PYTHONPATH": str(self.folder)}, check=False,
        )  # fmt: skip
        assert "Traceback" not in done.stderr
        return done.stdout.strip() if done.returncode == 0 else done.stderr.strip()


@pytest.fixture
def site(tmp_path):
    return Site(tmp_path)


@pytest.fixture
def torch(site):
    site.install("torch", "2.13.0+cpu", **{"torch/__init__.py": TORCH})
    site.note()
    return site


def library(folder, code, *options):
    """A compiled file."""
    source, made = folder / "a.c", folder / "made.so"
    source.write_text(code)
    subprocess.run([GCC, "-shared", "-fPIC", str(source), "-o", str(made), *options], check=True)
    return made.read_bytes()


def test_what_works_is_named(torch):
    torch.install("Tiny_Thing", "3.1", **{"tiny/__init__.py": "x = 1", "tests/__init__.py": "raise SystemExit"})
    assert torch.run("tiny-thing", modules=["torch"]) == "tried: tiny-thing==3.1"


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("raise ImportError('libGL.so.1: cannot open')", "error: importing tiny: ImportError: libGL.so.1: cannot open"),
        ("raise SystemExit(0)", "error: importing tiny: SystemExit: 0"),
        ("import os; os.kill(os.getpid(), 4)", "error: importing tiny: it ended with signal 4"),
        ("import missing_module", "error: importing tiny: ModuleNotFoundError: No module named 'missing_module'"),
    ],
)
def test_what_cannot_be_imported_is_refused(torch, code, said):
    torch.install("tiny", **{"tiny.py": code})
    assert torch.run("tiny") == said


def test_a_plugin_of_what_is_not_there_is_no_harm(torch):
    torch.install("tiny", **{"tiny.py": "x = 1", "zz_plugin.py": "import pytest_that_is_not_there"})
    assert torch.run("tiny") == "tried: tiny==1.0"


def test_a_framework_that_was_replaced_is_refused(torch):
    shutil.rmtree(next(torch.folder.glob("torch-*")))
    torch.install("torch", "2.14.1", **{"torch/__init__.py": TORCH})
    assert torch.run() == "error: torch is 2.14.1 now, and the framework's build has 2.13.0+cpu"


def test_two_names_of_one_package_are_refused(site):
    files = {f"tensorflow/{name}.py": "" for name in ("__init__", "a", "b", "c", "d")}
    site.install("tensorflow-cpu", "2.21.0", **files)
    site.note()
    site.install("tensorflow", "2.21.0", **files)
    assert site.run().startswith("error: tensorflow has written over files of tensorflow-cpu, such as ")


@pytest.mark.skipif(not GCC, reason="no compiler")
def test_every_compiled_file_is_loaded(torch, tmp_path):
    """As torchvision's, which it does without when it is imported, and then has no operators."""
    (tmp_path / "libmodak_missing.so").write_bytes(library(tmp_path, "int gone(void) { return 1; }"))
    lacking = library(tmp_path, "int gone(void); int f(void) { return gone(); }", f"-L{tmp_path}", "-lmodak_missing")
    package = {"vision/__init__.py": "try:\n    import vision._C\nexcept ImportError:\n    pass\n"}
    torch.install("vision", **package, **{"vision/_C.so": lacking})
    assert "vision/_C.so cannot be loaded beside the framework: libmodak_missing.so: cannot open" in torch.run("vision")


@pytest.mark.skipif(not GCC, reason="no compiler")
def test_what_says_that_it_is_for_accelerators_is_left_alone(torch, tmp_path):
    (tmp_path / "libmodak_missing.so").write_bytes(library(tmp_path, "int gone(void) { return 1; }"))
    lacking = library(tmp_path, "int gone(void); int f(void) { return gone(); }", f"-L{tmp_path}", "-lmodak_missing")
    torch.install("bits", **{"bits/__init__.py": "", "bits/libbits_cuda118.so": lacking})
    assert torch.run("bits") == "tried: bits==1.0"


@pytest.mark.skipif(not GCC, reason="no compiler")
@pytest.mark.parametrize(
    ("kernel", "accelerated", "said"),
    [
        ("CPU", False, "tried: vision==1.0"),
        ("CUDA", True, "tried: vision==1.0"),
        ("CUDA", False, "RuntimeError: no operator of vision, such as vision::nms, runs on a processor"),
    ],
)
def test_operators_that_a_package_adds_have_to_run_here(torch, tmp_path, kernel, accelerated, said):
    """Importing it also loads a part of PyTorch whose own operators need not."""
    code = f"import torch\ntorch._C.operators['vision::nms'] = ['{kernel}']\ntorch._C.operators['symm_mem::get'] = ['CUDA']\n"
    compiled = library(tmp_path, 'const char *needs = "libtorch", *space = "vision";')
    torch.install("vision", **{"vision/__init__.py": code, "vision/_C.so": compiled})
    assert torch.run("vision", modules=["torch"], accelerated=accelerated).endswith(said)


def test_an_operator_is_run(torch):
    torch.install("vision", **{"vision.py": "def nms(): raise RuntimeError('operator vision::nms does not exist')"})
    tries = {"vision": "import vision; vision.nms()", "another": "1 / 0"}
    assert torch.run(tries=tries).endswith(
        "running an operator of vision: RuntimeError: operator vision::nms does not exist"
    )


def test_of_an_unknown_image_what_is_asked_for_is_tried(site):
    site.install("other", **{"other.py": "raise ValueError"})
    site.install("tiny", **{"tiny.py": "x = 1"})
    assert site.run("tiny") == "tried: tiny==1.0"
