"""Today's architectures, in the real framework: each learns, or its script ends with 1."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "architectures" / "pytorch.py"

pytestmark = pytest.mark.thorough


def run(python: str, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [python, str(SCRIPT), "--threads", "1", "--metrics", "metrics.json", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=600)


@pytest.mark.parametrize("model", ["encoder", "decoder", "lora", "vit", "graph", "rows"])
def test_it_learns(pytorch_python, tmp_path, model):
    done = run(
        pytorch_python, tmp_path, "--model", model, "--epochs", "2", "--images", "2048", "--learning-rate", "2e-3"
    )
    assert done.returncode == 0, done.stderr
    metrics = json.loads((tmp_path / "metrics.json").read_text())
    assert metrics["finished"]
    assert metrics["network"]["gflop_per_image"] > 0


def test_what_learns_nothing_fails(pytorch_python, tmp_path):
    done = run(pytorch_python, tmp_path, "--model", "vit", "--epochs", "2", "--images", "64", "--learning-rate", "0")
    assert done.returncode == 1
    assert "it has learnt nothing: the test loss is" in done.stderr
