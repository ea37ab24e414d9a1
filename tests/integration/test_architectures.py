"""Today's architectures, in the real framework: each learns, or its script ends with 1."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
import yaml

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
SCRIPT = BENCHMARKS / "architectures" / "pytorch.py"
SUITE = yaml.safe_load((BENCHMARKS / "suites" / "architectures.yaml").read_text())

pytestmark = pytest.mark.thorough


def run(python: str, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [python, str(SCRIPT), "--threads", "1", "--metrics", "metrics.json", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=600)


@pytest.mark.parametrize("group", SUITE["groups"], ids=lambda group: group["name"])
def test_it_learns_as_the_suite_runs_it(pytorch_python, tmp_path, group):
    given = {**SUITE["arguments"], **group["arguments"]}
    done = run(pytorch_python, tmp_path, *(word for name, value in given.items() for word in (f"--{name}", str(value))))
    assert done.returncode == 0, done.stderr
    metrics = json.loads((tmp_path / "metrics.json").read_text())
    assert metrics["finished"]
    assert metrics["network"]["gflop_per_image"] > 0


def test_what_learns_nothing_fails(pytorch_python, tmp_path):
    done = run(pytorch_python, tmp_path, "--model", "vit", "--epochs", "2", "--images", "64", "--learning-rate", "0")
    assert done.returncode == 1
    assert "it has learnt nothing: the test loss is" in done.stderr
