"""An installed wheel works as a checkout does, without one, and so does the collection where it is installed."""

from __future__ import annotations

import json
import sys
import sysconfig
import zipfile
from collections import Counter
from pathlib import Path

from cluster import ROOT, SCRIPTS, modak, run

from modak_ansible.runtime import STUB


def test_a_wheel_plans_as_a_checkout_does(tmp_path):
    built = run(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", tmp_path, ROOT)
    assert built.returncode == 0, built.stderr
    (wheel,) = tmp_path.glob("*.whl")
    assert wheel.stat().st_size < 3.0 * 10**6  # of which a fifth are the model and its records
    held = zipfile.ZipFile(wheel).namelist()
    contents = Counter(zipfile.ZipFile(wheel).read(name) for name in held)
    alone = [path for path in (ROOT / "modak_ansible").rglob("*.py") if path.stem != "__init__" and path != STUB]
    package = (path.read_bytes() for path in alone)
    assert {contents[each] for each in package if len(each) > 300} == {1}
    assert contents[STUB.read_bytes()] == 2  # what goes into images is beside the package, too, for scripts run by hand
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


def test_the_collection_runs_where_it_is_installed(tmp_path):
    built = run(SCRIPTS / "ansible-galaxy", "collection", "build", "--output-path", tmp_path, ROOT)
    assert built.returncode == 0, built.stderr
    (archive,) = tmp_path.glob("modak-hpc-*.tar.gz")
    installed = run(
        SCRIPTS / "ansible-galaxy", "collection", "install", "--offline", archive, cwd=tmp_path, HOME=str(tmp_path)
    )
    assert installed.returncode == 0, installed.stderr
    collection = tmp_path / ".ansible/collections/ansible_collections/modak/hpc"
    assert {path.name for path in collection.iterdir()} == {
        "FILES.json", "LICENSE", "MANIFEST.json", "README.md", "modak_ansible", "playbooks", "plugins", "roles",
    }  # fmt: skip
    on_targets = {"errors.py", "schedulers", "target"}
    assert {path.name for path in (collection / "modak_ansible").iterdir()} == on_targets
    for name in on_targets:
        assert (collection / "plugins/module_utils" / name).samefile(collection / "modak_ansible" / name)
    assert not [path for path in collection.rglob("*") if path.is_symlink() and not path.exists()]

    blueprint = ("-e", "blueprint=mnist-pytorch-local")
    probed = run(SCRIPTS / "ansible-playbook", "modak.hpc.probe", *blueprint, "-vv", cwd=tmp_path, HOME=str(tmp_path))
    assert probed.returncode == 0, probed.stdout + probed.stderr
    assert f"task path: {collection}/roles/probe/tasks/main.yml" in probed.stdout
