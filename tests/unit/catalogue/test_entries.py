"""What every entry and base of the catalogue must say."""

from __future__ import annotations

import ast
import re

import archspec.cpu
import pytest
from packaging.version import Version

from modak_ansible.catalogue import load_catalogue

CATALOGUE = load_catalogue()
ENTRIES = {entry.name: entry for entry in CATALOGUE.entries}
FROM_PACKAGES = [entry for entry in CATALOGUE.entries if entry.origin != "hub"]
PAPER = {
    "tensorflow-1.14-pip", "tensorflow-2.1-pip", "pytorch-1.4-pip", "mxnet-1.6-pip", "cntk-2.7-pip",
    "tensorflow-1.14-ngraph-pip", "pytorch-1.4-glow",
    "tensorflow-1.14-hub", "tensorflow-2.1-hub", "tensorflow-2.1-hub-cuda", "pytorch-1.4-hub", "mxnet-1.6-hub", "cntk-2.7-hub",
}  # fmt: skip
TODAY = {
    "pytorch-2.13-cpu", "pytorch-2.13-cpu-opt", "pytorch-2.13-cpu-ops", "pytorch-2.13-cuda",
    "pytorch-2.14-cuda", "pytorch-2.15-cuda", "pytorch-2.10-rocm-hub",
    "tensorflow-2.21-cpu", "tensorflow-2.20-cpu", "tensorflow-2.12-horovod", "tensorflow-2.19-cpu", "tensorflow-2.21-cuda",
    "keras-3.14-tensorflow-cpu", "keras-3.13-tensorflow-cpu",
    "jax-0.12-cpu", "jax-0.11-cpu",
    "jax-0.10-cpu", "jax-0.9-cpu", "jax-0.8-cpu", "jax-0.10-cuda", "keras-3.15-tensorflow-cpu", "keras-3.15-pytorch-cpu", "keras-3.15-jax-cpu",
    "python-3.13", "python-3.11", "openmpi-mpi4py", "openmpi-dev", "mpich-dev", "measuring-tools",
}  # fmt: skip


def test_the_catalogue_is_the_paper_s_and_today_s():
    assert set(ENTRIES) == PAPER | TODAY


@pytest.mark.parametrize("entry", CATALOGUE.entries, ids=ENTRIES)
def test_an_entry_says_what_it_is(entry):
    assert entry.version and Version(entry.version)
    assert entry.provenance and entry.licence
    assert all(name in archspec.cpu.TARGETS for name in (*entry.architectures, *entry.refusals))
    assert (entry.origin == "hub") == bool(entry.source) == (not entry.base)
    assert (entry.origin == "hub") == bool(entry.python), "only an image of a hub has an interpreter of its own"
    assert not entry.base or entry.base in CATALOGUE.bases


@pytest.mark.parametrize("entry", CATALOGUE.entries, ids=ENTRIES)
def test_a_probe_is_python_that_both_languages_read(entry):
    tree = ast.parse(entry.probe)
    base = CATALOGUE.bases.get(entry.base)
    if base is None or base.python.startswith("2."):
        assert not any(isinstance(node, ast.JoinedStr | ast.AnnAssign) for node in ast.walk(tree))
    assert any(isinstance(node, ast.Assert) or "check" in ast.dump(node) for node in ast.walk(tree))


@pytest.mark.parametrize(
    "entry", [each for each in CATALOGUE.entries if each.accelerator], ids=lambda entry: entry.name
)
def test_a_probe_asks_for_an_accelerator_only_where_there_is_one(entry):
    """A front end has none, and images are made there."""
    driver = {"nvidia": "/proc/driver/nvidia/version", "amd": "/dev/kfd"}[entry.accelerator]
    asked = [line for line in entry.probe.splitlines() if re.search(r"cuda\b|\bgpu\b", line, re.IGNORECASE)]
    assert asked
    assert [line for line in asked if f'os.path.exists("{driver}")' not in line] == []


@pytest.mark.parametrize("entry", FROM_PACKAGES, ids=lambda entry: entry.name)
def test_requirements_begin_with_pins(entry):
    """Only what a framework drags along may be a range: the last releases that an old Python reads."""
    assert "==" in entry.requirements[0] if entry.requirements else entry.framework == "python"
    assert CATALOGUE.bases[entry.base].python == "2.7" or all("==" in requirement for requirement in entry.requirements)


def test_a_base_that_may_leave_the_mirrors_says_so():
    assert "apt_mirror" in CATALOGUE.bases["debian-bullseye-python2.7"].remark


def test_no_base_is_without_an_entry():
    assert {entry.base for entry in CATALOGUE.entries if entry.base} == set(CATALOGUE.bases)


def test_hub_twins_have_the_version_of_what_pip_installs():
    for name, entry in ENTRIES.items():
        twin = ENTRIES.get(name.removesuffix("-cuda").removesuffix("-hub") + "-pip")
        if entry.origin == "hub" and name in PAPER:
            assert twin is not None
            assert Version(twin.version).release[:2] == Version(entry.version).release[:2]
