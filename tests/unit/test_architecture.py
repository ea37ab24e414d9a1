"""The house keeps its rooms: who may import whom, and what runs where."""

from __future__ import annotations

import ast
import re
import sys
from importlib import import_module
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "modak_ansible"
# These know what a plan holds; targets get the script that comes out.
NOT_ON_TARGETS = ("script.py", "directives.py")
ON_TARGETS = [
    PACKAGE / "errors.py",
    *sorted((PACKAGE / "target").rglob("*.py")),
    *sorted(path for path in (PACKAGE / "schedulers").rglob("*.py") if path.name not in NOT_ON_TARGETS),
    *sorted(PACKAGE.parent.glob("plugins/modules/*.py")),
]


@pytest.mark.parametrize("path", ON_TARGETS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_what_runs_on_targets_is_python_3_8_and_its_standard_library(path):
    tree = ast.parse(path.read_text(), feature_version=(3, 8))
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            assert {name.name.split(".")[0] for name in node.names} <= sys.stdlib_module_names
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            assert node.module.split(".")[0] in {*sys.stdlib_module_names, "ansible", "ansible_collections"}
            assert not node.module.startswith("ansible") or ".module_utils." in node.module
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "zip":
            assert not node.keywords, "zip knows strict since 3.10"


@pytest.mark.parametrize(
    ("path", "module", "name"),
    [
        (path, node.module, name.name)
        for path in ON_TARGETS
        if "ansible_collections.modak." in (text := path.read_text())
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("ansible_collections.modak.")
        for name in node.names
    ],
)
def test_what_ansibles_modules_import_is_there(path, module, name):
    there = import_module(module.replace("ansible_collections.modak.hpc.plugins.module_utils", PACKAGE.name))
    assert hasattr(there, name) or (Path(there.__file__).parent / f"{name}.py").exists(), path


def test_every_optimisation_has_its_page():
    folder = PACKAGE / "optimisations"
    modules = {path for path in folder.glob("*/*.py") if path.stem not in {"__init__", "data_costs"}}
    assert {path.with_suffix(".py") for path in folder.rglob("*.md")} == modules


def test_folders_are_small():
    """A reader finds a file by its folder's name; pages of entries and generated templates are data."""
    folders = {path.parent for path in PACKAGE.rglob("*.py")}
    crowded = {str(each.relative_to(PACKAGE)): len([*each.glob("[!_]*.py")]) for each in folders}
    assert {name: count for name, count in crowded.items() if count > 15} == {}


def test_files_are_short():
    """What is generated out of templates is data, and nobody reads it."""
    written = [path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "schedulers" / "rendered.py"]
    long = {str(path.relative_to(PACKAGE)): len(path.read_text().splitlines()) for path in written}
    assert {name: lines for name, lines in long.items() if lines > 500} == {}


def test_the_page_names_places_that_there_are():
    page = (PACKAGE.parent / "docs" / "architecture.md").read_text()
    places = {each for each in re.findall(r"`([\w./]+)`", page) if "/" in each}
    assert [
        place for place in sorted(places) if not ((PACKAGE / place).exists() or (PACKAGE.parent / place).exists())
    ] == []


def test_the_models_of_a_plan_have_their_annotations_evaluated():
    """pydantic evaluates them in any case, and those that are text one by one, with a compiler's run for each."""
    paths = [
        *(PACKAGE / "model").rglob("*.py"),
        PACKAGE / "catalogue" / "entry.py",
        PACKAGE / "performance" / "stored.py",
    ]
    models = [path for path in paths if re.search(r"^class \w+\((Model|BaseModel)\):", path.read_text(), re.MULTILINE)]
    assert len(models) > 15
    assert not [path for path in models if "import annotations" in path.read_text()]
