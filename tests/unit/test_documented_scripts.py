"""The scripts in docs/ are sound shell."""

from __future__ import annotations

import os
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


# Stands in for modak, of a blueprint whose files are all that lies in its folder: plans differ where these do.
MODAK = """\
#!/bin/sh
digest=$(find . -type f -size +0 ! -path './.*' | sort | sha256sum | cut -c -12)
case $1 in
plan) printf '%s\\n' '{' "\\"digest\\": \\"$digest\\"," '"name": "mine",' '"blueprint": "service.yaml"' '}' ;;
deploy)
    mkdir -p ".there/mine-$digest"
    echo '<testsuites/>' > "$9"
    echo '{}'
    exit "$CODE" ;;
undeploy) rmdir ".there/$2" || { echo "error: there is no deployment $2"; exit 1; } ;;
esac
"""


@pytest.mark.parametrize("code", [0, 5])
def test_the_smoke_script_leaves_nothing_of_a_blueprint_that_its_reports_lie_in(tmp_path, code):
    """What travels with the training included the plan, so that another one was deployed, and stayed."""
    modak = tmp_path / ".bin" / "modak"
    modak.parent.mkdir()
    modak.write_text(MODAK)
    modak.chmod(0o755)
    (tmp_path / "train.py").write_text("pass\n")
    environment = {**os.environ, "MODAK": str(modak), "CODE": str(code)}
    smoke = ["bash", ROOT / "docs" / "example" / "ci-smoke.sh", "."]
    for _ in range(2):  # the second time reports lie there from the beginning
        done = subprocess.run(smoke, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == code, done.stderr
        assert list((tmp_path / ".there").iterdir()) == []
        reports = {path.name for path in (tmp_path / "reports").iterdir()}
        assert reports == {"plan.json", "deployment.json", "junit.xml", "undeploy.log"}
