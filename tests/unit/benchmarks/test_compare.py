"""The comparison's rounds, ratios and failures, with a training that only says how long it took."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.component

COMPARE = Path(__file__).parents[3] / "benchmarks" / "compare.py"
TRAINING = """
import json, os
seconds = float(os.environ["SECONDS"])
json.dump({"epochs": [{"seconds": 99}, {"seconds": seconds}]}, open(os.environ["MODAK_METRICS"], "w"))
"""


def compare(*options: str, training: str = TRAINING) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, COMPARE, *options, "--", sys.executable, "-c", training]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def test_ratios_are_held_against_the_first_setting() -> None:
    done = compare("--setting", "slow", "SECONDS=3", "--setting", "fast", "SECONDS=1.5", "--rounds", "2")
    assert done.returncode == 0, done.stderr
    slow, fast = (line.split() for line in done.stdout.splitlines()[1:])
    assert slow == ["slow", "3.00s", "3.00s", "3.00s", "1.00", "(1.00", "to", "1.00)"]
    assert fast == ["fast", "1.50s", "1.50s", "1.50s", "2.00", "(2.00", "to", "2.00)"]
    order = [line.split()[2] for line in done.stderr.splitlines()]
    assert order == ["slow", "fast", "fast", "slow"]


def test_a_training_that_fails_ends_the_comparison() -> None:
    done = compare("--setting", "only", "SECONDS=1", training="raise SystemExit(7)")
    assert done.returncode == 1
    assert "ended with the exit code 7" in done.stderr
    assert done.stdout == ""


def test_two_settings_of_one_name() -> None:
    done = compare("--setting", "same", "A=1", "--setting", "same", "A=2")
    assert done.returncode == 2
    assert "two settings have one name" in done.stderr


def test_a_setting_without_a_value_is_said() -> None:
    done = compare("--setting", "only", "LD_PRELOAD")
    assert done.returncode == 2
    assert "error: LD_PRELOAD is no VARIABLE=VALUE" in done.stderr
