"""PyTorch's operators: what is compiled, and how it gets into the process."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from modak_ansible.catalogue import load_catalogue
from modak_ansible.errors import ModakError
from modak_ansible.recipes.libraries import library_commands
from modak_ansible.recipes.libraries.operators import modak_operators, sources


@pytest.mark.parametrize(
    ("architecture", "flags"),
    [
        ("zen5", "-march=x86-64-v4"),
        ("skylake_avx512", "-march=skylake-avx512"),
        ("zen2", "-march=znver2"),
        ("x86_64_v3", "-march=x86-64-v3"),
    ],
)
def test_the_library_is_compiled_for_its_processor(architecture, flags):
    compiling = [command for command in library_commands("operators", architecture) if "g++" in command]
    assert any(flags in each for each in compiling)
    assert ["-fopenmp" in each for each in compiling] == [True, False], "PyTorch's threads, and no second OpenMP"
    assert any("-o /opt/modak/lib/libmodak_operators.so" in each for each in compiling)


def test_a_processor_without_avx2_keeps_the_wheel_s():
    with pytest.raises(ModakError, match="PyTorch's operators for x86_64_v2 would be no faster"):
        library_commands("operators", "x86_64_v2")


def test_nothing_in_the_sources_means_something_to_a_template():
    """Definitions and Ansible's files are templates."""
    for path in sources():
        assert not re.search(r"\{\{|\}\}\}|\{%|\{#", path.read_text()), path.name


@pytest.mark.component
def test_the_sources_arrive_whole(tmp_path):
    """Their lines pass the quotes of a shell."""
    writing = [
        command for command in library_commands("operators", "zen5") if "> /opt/modak/source/operators/" in command
    ]
    assert len(writing) == len(sources()) > 3
    for command in writing:
        subprocess.run(["sh", "-c", command.replace("/opt/modak/source/operators", str(tmp_path))], check=True)
    for path in sources():
        assert (tmp_path / path.name).read_text() == path.read_text()


def test_the_commands_fit_a_shell():
    """A Dockerfile's step is one argument of a program, which Linux limits to 128 KiB."""
    assert len(" && ".join(library_commands("operators", "skylake_avx512"))) < 120_000


@pytest.mark.component
def test_pytorch_finds_what_loads_the_library(tmp_path):
    """Importing the entry point's module, as importlib.metadata sees what the recipe installs."""
    commands = [
        command
        for command in library_commands("operators", "zen5")
        if "dist-info" in command or "modak_operators.py" in command
    ]
    script = "\n".join([f"site={tmp_path}", *commands])
    subprocess.run(["sh", "-ec", script], check=True)
    look = (
        "from importlib.metadata import entry_points\nfor each in entry_points(group='torch.backends'): each.load()()\n"
    )
    environment = {"PYTHONPATH": str(tmp_path), "MODAK_OPERATORS": "all"}
    found = subprocess.run([sys.executable, "-c", look], env=environment, capture_output=True, text=True, check=True)
    assert found.stderr.startswith("modak: PyTorch keeps its own operators: /opt/modak/lib/libmodak_operators.so")
    environment["MODAK_OPERATORS"] = "none"
    assert not subprocess.run([sys.executable, "-c", look], env=environment, capture_output=True, check=True).stderr


def test_the_entry_loads_what_the_recipe_makes():
    entry = next(entry for entry in load_catalogue().entries if entry.name == "pytorch-2.13-cpu-ops")
    assert modak_operators.LIBRARY in entry.probe
    assert any(modak_operators.LIBRARY in command for command in library_commands("operators", "zen5"))
