"""Runs a script of an infrastructure benchmark as a job does, and reads what it measured."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import jsonschema

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


def run(script: str, metrics: Path, *options: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Runs WORKLOAD/SCRIPT, with variables in its environment, and waits for its end."""
    path = BENCHMARKS / script
    environment = {**os.environ, "MODAK_METRICS": str(metrics), "OMP_NUM_THREADS": "1", **variables}
    command = [sys.executable, path.name, *options]
    return subprocess.run(
        command, cwd=path.parent, env=environment, capture_output=True, text=True, timeout=60, check=False
    )


def measured(metrics: Path) -> dict[str, dict[str, Any]]:
    """Returns the measures of a finished run by name (of several, the last) and checks the file's form."""
    content = json.loads(metrics.read_text())
    jsonschema.validate(content, json.loads((BENCHMARKS / "measures.schema.json").read_text()))
    assert content["finished"]
    return {measure["name"]: measure for measure in content["measures"]}


def module(script: str) -> ModuleType:
    """Imports WORKLOAD/SCRIPT under a name of its own; what it shares lies beside the trainings' scripts, too."""
    if (shared := str(BENCHMARKS / "shared")) not in sys.path:
        sys.path.insert(1, shared)
    name = f"infrastructure_{Path(script).stem}"
    spec = importlib.util.spec_from_file_location(name, BENCHMARKS / script)
    assert spec and spec.loader
    made = importlib.util.module_from_spec(spec)
    sys.modules[name] = made  # dataclasses look themselves up there
    spec.loader.exec_module(made)
    return made
