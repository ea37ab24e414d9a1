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
from modak_ansible.deployment.status import Entry, StatusRow, rows_of
from modak_ansible.deployment.status_query import ask_targets
from modak_ansible.errors import ModakError, UsageError, nearest
from modak_ansible.planning.service import Planned, plan_all
from modak_ansible.reading.blueprint.inputs import Inputs
from modak_ansible.store.deployments import find_all, find_trainings, glance, not_superseded
from modak_ansible.store.project import find_blueprint, state_folder

__all__ = [
    "Comparison", "ModakError", "Planned", "Results", "StatusRow", "__version__",
    "compare", "deploy", "export", "plan", "results", "status",
]  # fmt: skip
__version__ = version("modak-ansible")


def plan(
    blueprint: str | Path,
    *,
    inputs: Path | None = None,
    values: Mapping[str, Any] | None = None,
    target: Path | None = None,
    training: str | None = None,
    strict: bool = False,
) -> list[Planned]:
    """What deployments of a blueprint or a request would be: of each training one, and of a sweep one for each point.

    Nothing is changed, and no network is needed.

    Args:
        blueprint: its folder, its service.yaml, a package, the name of a shipped one, or a request.
        inputs: a YAML file with values for the inputs.
        values: single values for inputs, which go before those of the file.
        target: a target file.
        training: the only one that is meant, with all points of its sweep, or one point.
        strict: whether a wish that cannot be kept is an error, and no note of the plan.

    Raises:
        ModakError: there is no such blueprint, or it is wrong: with every mistake and its place.
    """
    pairs = [(name, value if isinstance(value, str) else json.dumps(value)) for name, value in (values or {}).items()]
    return plan_all(find_blueprint(str(blueprint)), Inputs(inputs, tuple(pairs), target, strict), training)


def deploy(
    planned: Planned | Sequence[Planned],
    *,
    wait: bool = True,
    time_limit: float | None = None,
    listener: Listener | None = None,
) -> list[StatusRow]:
    """Carries plans out: builds images, stages data, submits each job once, and fetches the results.

    Run again, it goes on where it was, and changes nothing where all is done.

    Args:
        planned: as :func:`plan` gives them.
        wait: whether to stay until all have ended.
        time_limit: seconds after which it is given up; what runs on the target goes on.
        listener: is told how it gets on.

    Returns:
        How each of them is, as :func:`status` tells it.

    Raises:
        ModakError: a stage failed, a training did not complete, or the time was over.
    """
    deadline = None if time_limit is None else time.monotonic() + time_limit
    plans = [planned] if isinstance(planned, Planned) else list(planned)
    done = run_all(plans, wait=wait, deadline=deadline, listener=listener)
    return rows_of([Entry(store) for store in done.stores])


def status(deployment: str | None = None, *, training: str | None = None, ask: bool = True) -> list[StatusRow]:
    """How deployments are: what needs a look first comes first.

    Args:
        deployment: one, or a blueprint; None for all of the project that the current folder is in.
        training: of a blueprint only this one.
        ask: whether targets are asked for jobs that may still run; otherwise it is what is known here.

    Raises:
        UsageError: a training is named, and no deployment.
        ModakError: there is no such deployment, or Ansible could not be run. A target that does not answer is no
            error: its rows say it.
    """
    if deployment is not None or training:
        known = find_trainings(deployment, training)
    else:
        known = not_superseded(glance(state_folder(Path.cwd())))
    entries = [Entry(store) for store in known]
    if ask:
        ask_targets(entries)
    return rows_of(entries)


def results(deployment: str, *, training: str | None = None, to: Path | None = None) -> list[Results]:
    """Fetches what deployments have left, whatever has become of their jobs; what is here is not fetched again.

    Args:
        deployment: one, or a blueprint for the newest one of each of its trainings.
        training: of a blueprint only this one.
        to: a folder that the files are copied to, too.

    Raises:
        ModakError: there is no such deployment, its target cannot be asked and not all is here, or a file is not what
            came from there.
    """
    return results_of(find_trainings(deployment, training), to)


def compare(
    *deployments: str,
    by: str | None = None,
    training: str | None = None,
    rising: bool | None = None,
    ask: bool = True,
) -> Comparison:
    """Holds trainings against each other by one of their numbers, the best first.

    Args:
        deployments: or blueprints, for the newest one of each of their trainings and points.
        by: the number's name; without it what a search looked for, or a loss.
        training: of blueprints only this one.
        rising: whether more of it is better; by its name where that is not said.
        ask: whether what is not here is fetched; what stands in the way is among the comparison's remarks.

    Raises:
        ModakError: there is no such deployment, or none has a number of that name.
    """
    return compare_all(find_all(deployments, training), by, rising=rising, fetch=fetch_results if ask else None)


def export(*deployments: str, tool: str, to: str | Path, training: str | None = None, ask: bool = True) -> int:
    """Writes the numbers and the arguments of trainings in the form of another tool; gives how many have any.

    Args:
        deployments: or blueprints, as :func:`compare` has them.
        tool: mlflow, tensorboard or wandb.
        to: its folder, in which other runs may lie.
        training: of blueprints only this one.
        ask: whether what is not here is fetched, as far as that can be done.

    Raises:
        ModakError: there is no such deployment, no such tool, or the folder cannot be written.
    """
    if tool not in TOOLS:
        raise UsageError(f"runs cannot be exported to {tool}", hint=nearest(tool, TOOLS))
    stores = find_all(deployments, training)
    fetched(stores, fetch_results if ask else None)
    return export_all(tool, stores, Path(to))[0]
