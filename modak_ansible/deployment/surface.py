"""What ``import modak_ansible as modak`` gives: plans, deployments, how they are, and what they have left."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from modak_ansible.deployment.comparison import Comparison, fetched
from modak_ansible.deployment.comparison import compare as compare_all
from modak_ansible.deployment.exporting.exported import TOOLS
from modak_ansible.deployment.exporting.exported import export as export_all
from modak_ansible.deployment.fetching import fetch_results
from modak_ansible.deployment.playbook import Listener
from modak_ansible.deployment.results import Results, results_of
from modak_ansible.deployment.searches.searching import deploy_all as run_all
from modak_ansible.deployment.status import StatusEntry, StatusRow, rows_of
from modak_ansible.deployment.status_query import ask_targets
from modak_ansible.errors import ModakError, UsageError, nearest
from modak_ansible.planning.service import Planned, plan_all
from modak_ansible.reading.blueprint.inputs import Inputs
from modak_ansible.store.deployments import find_all, find_trainings, glance, not_superseded
from modak_ansible.store.project import find_blueprint, state_folder
from modak_ansible.store.targets import target_file

__all__ = [
    "Comparison", "Listener", "ModakError", "Planned", "Results", "StatusRow", "__version__",
    "compare", "deploy", "export", "plan", "results", "status",
]  # fmt: skip
__version__ = version("modak-ansible")


def plan(
    blueprint: str | Path,
    *,
    inputs: str | Path | None = None,
    values: Mapping[str, Any] | None = None,
    target: str | Path | None = None,
    training: str | None = None,
    strict: bool = False,
) -> list[Planned]:
    """Plans the deployments of a blueprint or a request: one per training, and one per point of a sweep.

    Nothing is changed, and no network is needed.

    Args:
        blueprint: its folder, its service.yaml, a package, the name of a shipped one, or a request.
        inputs: a YAML file with values for the inputs.
        values: single values for inputs, which take precedence over the file.
        target: where, by its name in ``modak targets`` or as a target file.
        training: only this one, with all points of its sweep, or only one point.
        strict: whether a setting that cannot be honoured is an error instead of a note in the plan.

    Raises:
        ModakError: there is no such blueprint, or it is wrong: with every mistake and its place.
    """
    pairs = [
        (name, str(value) if isinstance(value, str | Path) else json.dumps(value, default=_plain))
        for name, value in (values or {}).items()
    ]
    file, where = Path(inputs) if inputs else None, target_file(str(target)) if target else None
    return plan_all(find_blueprint(str(blueprint)), Inputs(file, tuple(pairs), where, strict), training)


def _plain(value: Any) -> Any:
    """A path, or a number or an array of NumPy's or a framework's, as a blueprint has it."""
    if isinstance(value, Path):
        return str(value)
    if hasattr(value, "tolist"):
        return value.tolist()
    raise UsageError(
        f"no input can be of the type {type(value).__name__}", hint="give texts, numbers, lists and mappings"
    )


def deploy(
    planned: Planned | Sequence[Planned],
    *,
    wait: bool = True,
    time_limit: float | None = None,
    listener: Listener | None = None,
) -> list[StatusRow]:
    """Carries plans out: builds images, stages data, submits each job once, and fetches the results.

    Run again, it continues where it was, and changes nothing if everything is done.

    Args:
        planned: as :func:`plan` gives them.
        wait: whether to stay until all have ended.
        time_limit: seconds after which to stop waiting; what runs on the target goes on.
        listener: is told about the progress.

    Returns:
        How each of them is, as :func:`status` tells it.

    Raises:
        ModakError: a stage failed, a training did not complete, or the time was over.
    """
    deadline = None if time_limit is None else time.monotonic() + time_limit
    plans = [planned] if isinstance(planned, Planned) else list(planned)
    deployed = run_all(plans, wait=wait, deadline=deadline, listener=listener)
    return rows_of([StatusEntry(store) for store in deployed.stores])


def status(deployment: str | None = None, *, training: str | None = None, ask: bool = True) -> list[StatusRow]:
    """The state of deployments, those that need attention first.

    Args:
        deployment: one, or a blueprint; None for all of the project that the current folder is in.
        training: for a blueprint, only this one.
        ask: whether to ask targets about jobs that may still run; otherwise it is what is known here.

    Raises:
        UsageError: a training is named, and no deployment.
        ModakError: there is no such deployment, or Ansible could not be run. A target that does not answer is no
            error: its rows say it.
    """
    if deployment is not None or training:
        stores = find_trainings(deployment, training)
    else:
        stores = not_superseded(glance(state_folder(Path.cwd())))
    entries = [StatusEntry(store) for store in stores]
    if ask:
        ask_targets(entries)
    return rows_of(entries)


def results(deployment: str, *, training: str | None = None, to: str | Path | None = None) -> list[Results]:
    """Fetches the results of deployments, whatever has become of their jobs; what is here is not fetched again.

    Args:
        deployment: one, or a blueprint for the newest deployment of each of its trainings.
        training: for a blueprint, only this one.
        to: a folder to copy the files to as well.

    Raises:
        ModakError: there is no such deployment, its target cannot be asked and not all is here, or a file is not what
            came from there.
    """
    return results_of(find_trainings(deployment, training), Path(to) if to else None)


def compare(
    *deployments: str,
    by: str | None = None,
    training: str | None = None,
    rising: bool | None = None,
    ask: bool = True,
) -> Comparison:
    """Compares trainings by one of their numbers, the best first.

    Args:
        deployments: or blueprints, for the newest deployment of each of their trainings and points.
        by: the number's name; by default what a search optimised, or a loss.
        training: for blueprints, only this one.
        rising: whether higher is better; by default judged by its name.
        ask: whether to fetch what is not here; what prevents it is among the comparison's remarks.

    Raises:
        ModakError: there is no such deployment, or none has a number of that name.
    """
    return compare_all(find_all(deployments, training), by, rising=rising, fetch=fetch_results if ask else None)


def export(*deployments: str, tool: str, to: str | Path, training: str | None = None, ask: bool = True) -> int:
    """Writes the numbers and arguments of trainings in the format of another tool; returns how many have any.

    Args:
        deployments: or blueprints, as :func:`compare` has them.
        tool: mlflow, tensorboard or wandb.
        to: its folder, which may contain other runs.
        training: for blueprints, only this one.
        ask: whether to fetch what is not here, as far as possible.

    Raises:
        ModakError: there is no such deployment, no such tool, or the folder cannot be written.
    """
    if tool not in TOOLS:
        raise UsageError(f"runs cannot be exported to {tool}", hint=nearest(tool, TOOLS))
    stores = find_all(deployments, training)
    fetched(stores, fetch_results if ask else None)
    return export_all(tool, stores, Path(to))[0]
