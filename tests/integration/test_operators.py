"""PyTorch's operators, compiled and tried against PyTorch's own in an environment of the testbed."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from modak_ansible.catalogue import load_catalogue
from modak_ansible.recipes.libraries import FOLDER, PYTHON, library_commands

pytestmark = pytest.mark.testbed
ENTRY = next(each for each in load_catalogue().entries if each.name == "pytorch-2.13-cpu-ops")


@pytest.fixture(scope="module")
def built(pytorch_python, tmp_path_factory):
    """A folder with the library, and one with what has PyTorch load it: by the recipe's own commands, elsewhere."""
    folder = tmp_path_factory.mktemp("operators")
    torch_site = subprocess.run(
        [pytorch_python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
        capture_output=True, text=True, check=True,
    ).stdout.strip()  # fmt: skip
    script = ["set -e", *library_commands("operators", "x86_64_v3")]
    text = "\n".join(script).replace('torch="$site/torch"', f"torch={torch_site}/torch; site={folder}/site")
    text = text.replace(PYTHON, pytorch_python).replace(str(Path(FOLDER).parent), str(folder))
    (folder / "site").mkdir()
    done = subprocess.run(["sh", "-c", text], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


def run(python, built, code, **environment):
    variables = {"PATH": "/usr/bin:/bin", "PYTHONPATH": f"{built}/site", **environment}
    return subprocess.run([python, "-c", code], env=variables, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("threads", ["1", "2"])
def test_the_operators_agree_with_pytorch_s(pytorch_python, built, threads):
    probe = ENTRY.probe.replace(FOLDER, f"{built}/lib")
    done = run(pytorch_python, built, probe, OMP_NUM_THREADS=threads)
    assert done.returncode == 0, done.stderr
    assert "relative error" in done.stdout


def test_parts_are_switched_off_by_name(pytorch_python, built):
    code = "import torch; torch.manual_seed(1); print(torch.empty(100_000).bernoulli_(0.5).sum().item())"
    every, none, pooling = (
        run(pytorch_python, built, code, MODAK_OPERATORS=value) for value in ("all", "none", "pooling")
    )
    assert not every.stderr and not none.stderr
    assert none.stdout == pooling.stdout != every.stdout


def test_without_its_library_the_training_goes_on(pytorch_python, built):
    library = built / "lib" / "libmodak_operators.so"
    moved = library.rename(library.with_suffix(".away"))
    done = run(pytorch_python, built, "import torch; print(torch.ones(2).sum().item())")
    moved.rename(library)
    assert done.stdout == "2.0\n"
    assert done.stderr.startswith("modak: PyTorch keeps its own operators")
