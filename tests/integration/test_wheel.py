"""An installed wheel works as a checkout does, without one."""

from __future__ import annotations

import json
import sys
import sysconfig
import zipfile
from pathlib import Path

from cluster import ROOT, modak, run


def test_a_wheel_plans_as_a_checkout_does(tmp_path):
    built = run(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", tmp_path, ROOT)
    assert built.returncode == 0, built.stderr
    (wheel,) = tmp_path.glob("*.whl")
    assert wheel.stat().st_size < 3 * 10**6
    held = zipfile.ZipFile(wheel).namelist()
    assert sum(name.endswith("/planner.py") for name in held) == 1
    environment = tmp_path / "venv"
    assert run(sys.executable, "-m", "venv", environment).returncode == 0
    python = environment / "bin" / "python"
    assert run(python, "-m", "pip", "install", "-q", "--no-deps", wheel).returncode == 0
    # what it needs is lent by the environment of the tests; the package itself comes from the wheel
    packages = run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").stdout.strip()
    (Path(packages) / "lent.pth").write_text(sysconfig.get_path("purelib") + "\n")
    given = run(python, "-c", "import modak_runtime; print(modak_runtime.prepare(1), modak_runtime.prepare(1, 2))")
    assert given.stdout == "1 (1, 2)\n", given.stderr
    inputs = ("--input", "epochs=2", "--json")
    elsewhere = (*inputs, "--input", "frontend=login.example.org")  # the checkout's testbed is this very machine
    installed = run(environment / "bin" / "modak", "plan", "mnist-pytorch-slurm", *elsewhere, cwd=tmp_path)
    assert installed.returncode == 0, installed.stderr
    assert (
        json.loads(installed.stdout)["digest"]
        == json.loads(modak("plan", "mnist-pytorch-slurm", *elsewhere).stdout)["digest"]
    )
    shown = run(
        environment / "bin" / "modak", "deploy", "mnist-pytorch-slurm", *inputs, cwd=tmp_path, HOME=str(tmp_path)
    )
    assert "testbed is not up" in shown.stderr
    assert (tmp_path / ".modak" / "deployments").is_dir()

    (elsewhere := tmp_path / "elsewhere").mkdir()
    playbook = Path(packages) / "modak_ansible" / "share" / "playbooks" / "probe.yml"
    probed = run(
        python, "-m", "ansible", "playbook", "-i", "localhost,", playbook, "-e", "blueprint=mnist-pytorch-local",
        cwd=elsewhere, HOME=str(tmp_path), PYTHONWARNINGS="ignore",
    )  # fmt: skip
    assert probed.returncode == 0, probed.stdout + probed.stderr
    assert "Look at the target" in probed.stdout
