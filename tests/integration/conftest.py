"""Fixtures around the real testbed."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from cluster import ROOT, Project, Testbed, has_root, modak, play_testbed
from workers import keep_images, locked, own_testbed, provide_images

# What takes longest begins first; what needs no testbed does, while the testbeds' images are built.
FIRST = (
    "test_deployment", "test_runtime", "test_mnist_cnn", "test_checkpoints", "test_programs", "test_gc", "test_verbs",
    "test_ranks", "test_three_doors", "test_strategies", "test_check", "test_testbed_role", "test_tuning", "test_bench",
    "test_arrays", "test_campaigns", "test_bad_targets",
)  # fmt: skip


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Workers take the files of tests in their order here."""
    order = {name: number for number, name in enumerate(FIRST)}
    items.sort(key=lambda item: order.get(item.path.stem, len(FIRST)))


@pytest.fixture(scope="session")
def testbed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Testbed]:
    if not has_root():
        pytest.skip("the testbed needs root, or sudo without a password")
    with own_testbed() as box:
        shared = provide_images(box, tmp_path_factory.mktemp("images") / "project")
        yield box
        keep_images(box, shared)


@pytest.fixture(scope="session")
def linked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Testbed]:
    """A testbed whose nodes have links of their own."""
    if not has_root():
        pytest.skip("the testbed needs root, or sudo without a password")
    box = Testbed(tmp_path_factory.mktemp("linked") / "testbed")
    name = f"linked-{box.folder.parent.stat().st_ino}"
    try:
        play_testbed("up", name, box.folder, testbed_links=True)
        yield box
    finally:
        play_testbed("purged", name, box.folder)


@pytest.fixture
def project(tmp_path: Path, testbed: Testbed) -> Iterator[Project]:
    new_project = Project(tmp_path / "project", testbed)
    yield new_project
    new_project.clear()


@pytest.fixture(scope="session")
def mnist() -> Path:
    """A folder with MNIST's own files, or the half of them that is tested on."""
    folder = Path(os.environ.get("MODAK_MNIST") or ROOT.parent / "shared" / "data" / "mnist")
    if not folder.is_dir():
        pytest.skip("MODAK_MNIST names no folder with MNIST's files")
    return folder


def make_environment(folder: Path, framework: str, packages: Sequence[str] = ()) -> str:
    """The interpreter of an environment with a framework and packages, made as the local blueprint makes it."""
    (folder / ".modak").mkdir(parents=True)
    for name, target in (("types", "tosca/types"), ("train", "benchmarks/mnist_cnn")):
        (folder / name).symlink_to(ROOT / target)
    template = f"""\
tosca_definitions_version: tosca_simple_yaml_1_3
imports: [ types/modak.yaml ]
metadata: {{ template_name: environment }}
topology_template:
  node_templates:
    machine: {{ type: modak.nodes.Local, properties: {{ container_runtime: none }} }}
    training:
      type: modak.nodes.Training
      properties:
        framework: {framework}
        script: train/output.py
        files: [ output.py ]
        requirements_txt: {json.dumps(list(packages))}
      requirements: [ {{ host: machine }} ]
"""
    (folder / "service.yaml").write_text(template)
    result = modak("deploy", folder, "--json", cwd=folder)
    assert result.returncode == 0, result.stderr
    (plan,) = folder.glob(".modak/deployments/*/plan.json")
    path = json.loads(plan.read_text())["image"]["path"]
    assert modak("undeploy", folder, cwd=folder).returncode == 0
    return str(Path.home() / "modak" / path / "bin" / "python")


def shared_environment(factory: pytest.TempPathFactory, name: str, framework: str, packages: Sequence[str] = ()) -> str:
    """As :func:`make_environment`; what one worker of a run has made serves the others."""
    folder = factory.getbasetemp()
    path = (folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder) / f"{name}-python"
    with locked(path.with_suffix(".lock")):
        if not path.exists():
            path.write_text(make_environment(factory.mktemp(name) / "project", framework, packages))
    return path.read_text()


@pytest.fixture(scope="session")
def pytorch_python(tmp_path_factory: pytest.TempPathFactory) -> str:
    return shared_environment(tmp_path_factory, "pytorch", "pytorch")


@pytest.fixture(scope="session")
def trainers_python(tmp_path_factory: pytest.TempPathFactory) -> str:
    packages = ["transformers==5.23.0", "accelerate==1.15.0", "lightning==2.6.6"]
    return shared_environment(tmp_path_factory, "trainers", "pytorch", packages)


@pytest.fixture(scope="session")
def tensorflow_python(tmp_path_factory: pytest.TempPathFactory) -> str:
    return shared_environment(tmp_path_factory, "tensorflow", "tensorflow")
