"""PyTorch's operators, compiled and tried against PyTorch's own in an environment of the testbed."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from modak_ansible.catalogue import load_catalogue
from modak_ansible.recipes.libraries import library_commands
from modak_ansible.recipes.libraries.place import FOLDER, PYTHON

pytestmark = pytest.mark.testbed
ENTRY = next(entry for entry in load_catalogue().entries if entry.name == "pytorch-2.13-cpu-ops")


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


ANY_CONVOLUTIONS = """
import random, torch
random.seed(SEED)
for _ in range(60):
    cin, cout = random.choice([8, 16, 24, 64, 80, 320]), random.choice([8, 32, 48, 64, 112])
    window = random.choice([(1, 1), (1, 1), (3, 3), (3, 3), (2, 3), (5, 1), (1, 7)])
    more = [[random.choice(each) for _ in range(2)] for each in ([1, 1, 2, 3, 4], [0, 1, 2, 3], [1, 1, 2])]
    sides = [random.randint(1 + d * (k - 1), 24 + d * k) for d, k in zip(more[2], window)]
    form = random.choice([torch.channels_last, torch.channels_last, torch.contiguous_format])
    x = torch.randn(random.choice([1, 3, 16]), cin, *sides).contiguous(memory_format=form)
    inputs = [x, torch.randn(cout, cin, *window)] + [torch.randn(cout)] * random.randint(0, 1)
    def results(number):
        of = [each.to(number).requires_grad_() for each in inputs]
        y = torch.nn.functional.conv2d(*of[:2], of[2] if len(of) == 3 else None, *more)
        g = torch.randn(y.shape, generator=torch.Generator().manual_seed(1))
        return [y, *torch.autograd.grad(y, of, g.to(number))]
    for found, exact in zip(results(torch.float32), results(torch.float64)):
        error = float((found.double() - exact).norm() / (exact.norm() + 1e-9))
        assert found.shape == exact.shape and error < 1e-5, (error, cin, cout, window, more, sides, form)
print("agree")
"""


@pytest.mark.parametrize(("parts", "threads"), [("all", "2"), ("direct", "2"), ("winograd", "2"), ("winograd", "1")])
def test_any_convolution_agrees_with_double_precision(pytorch_python, built, parts, threads):
    code = ANY_CONVOLUTIONS.replace("SEED", str(len(parts)))
    done = run(pytorch_python, built, code, MODAK_OPERATORS=parts, OMP_NUM_THREADS=threads)
    assert done.stdout == "agree\n", done.stderr


def test_parts_are_switched_off_by_name(pytorch_python, built):
    code = """
import torch
torch.manual_seed(1)
x, w = torch.randn(8, 32, 26, 26), torch.randn(64, 32, 3, 3)
print(torch.nn.functional.conv2d(x, w).double().sum().item(), torch.nn.functional.dropout(x, 0.25).sum().item())
"""
    every, none, exact = (
        run(pytorch_python, built, code, MODAK_OPERATORS=value) for value in ("all", "none", "pooling,random")
    )
    assert not every.stderr and not none.stderr
    assert none.stdout == exact.stdout != every.stdout
    assert none.stdout.split()[1] == every.stdout.split()[1], "dropout's numbers"


def test_without_its_library_the_training_goes_on(pytorch_python, built):
    library = built / "lib" / "libmodak_operators.so"
    moved = library.rename(library.with_suffix(".away"))
    done = run(pytorch_python, built, "import torch; print(torch.ones(2).sum().item())")
    moved.rename(library)
    assert done.stdout == "2.0\n"
    assert done.stderr.startswith("modak: PyTorch keeps its own operators")
