"""The workloads that there are: folders of benchmarks/ with a workload.yaml."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import yaml
from pydantic import ValidationError

from modak_ansible.catalogue.reader import from_yaml
from modak_ansible.errors import ModakError
from modak_ansible.model.measured.workload import Workload, WorkloadScript
from modak_ansible.performance.stock import suite_switches
from modak_ansible.store.project import shipped


def workloads_folder() -> Path:
    return shipped("benchmarks")


def load_workloads() -> dict[str, Workload]:
    """All workloads by name.

    Raises:
        ModakError: a workload.yaml is not what it must be.
    """
    workloads = (_read(path) for path in sorted(workloads_folder().glob("*/workload.yaml")))
    return {workload.name: workload for workload in workloads}


def switch_problem(script: WorkloadScript, settings: Mapping[str, str], name: str) -> tuple[str, str]:
    """What is wrong with a script's own switch in a set of them, and what would be right; empty when nothing is."""
    values = script.switches.get(name)
    if values is None:
        return f"{script.script} has no switch {name}", ", ".join([*script.switches, *suite_switches()])
    if settings[name] not in values:
        return f"{name} of {script.script} cannot be {settings[name]}", ", ".join(values)
    return "", ""


def _read(path: Path) -> Workload:
    try:
        return Workload(**from_yaml(path.read_text(encoding="utf-8")))
    except (OSError, yaml.YAMLError, TypeError, ValidationError) as error:
        raise ModakError(f"{path} does not describe a workload: {error}") from error
