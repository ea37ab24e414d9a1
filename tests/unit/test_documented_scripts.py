"""The scripts in docs/ are sound shell."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from example_blueprint import ROOT

pytestmark = pytest.mark.component

SHELLCHECK = Path(sys.executable).parent / "shellcheck"


@pytest.mark.parametrize("path", sorted((ROOT / "docs" / "example").glob("*.sh")), ids=lambda path: path.name)
def test_scripts_are_sound(path):
    checked = subprocess.run([SHELLCHECK, path], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout


def test_the_smoke_script_says_how_it_is_used():
    said = subprocess.run(
        ["bash", ROOT / "docs" / "example" / "ci-smoke.sh"], capture_output=True, text=True, check=False
    )
    assert said.returncode == 2
    assert said.stderr.startswith("usage: ")
