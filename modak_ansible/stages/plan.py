"""From a blueprint to a plan file and a way to the target, for each of the three doors."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from fnmatch import fnmatch
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ansible import constants
from ansible.errors import AnsibleActionFail
from ansible.inventory.manager import split_host_pattern
from ansible.module_utils.parsing.convert_bool import boolean

from modak_ansible.errors import ModakError
from modak_ansible.model.quantities import some_of
from modak_ansible.planning.service import Planned, plan_all, plan_node, planned_from_file
from modak_ansible.reading.blueprint.reader import Inputs
from modak_ansible.reading.blueprint.training_reader import inputs_as_text
from modak_ansible.stages.base import words_of_disk
from modak_ansible.stages.opera import find_opera_deployment, is_run_by_opera
from modak_ansible.stages.targets import targets_of
from modak_ansible.store.project import COLLECTION, find_blueprint, shipped
from modak_ansible.store.targets import target_file
from modak_ansible.target.core.files import expanded

GROUP = "modak"  # of the targets, for which the plays are


def left_out(tags: Iterable[str], variables: Mapping[str, Any], playbooks: Iterable[str]) -> bool:
    """Whether --tags or --skip-tags leave out all that would follow on the plan, in a playbook with plays of others.

    Args:
        tags: of the task that makes the plan: those of whoever includes it, and always.
        variables: the variables of the task.
        playbooks: that Ansible was told to run.

    Raises:
        AnsibleActionFail: they do in a playbook of ours, which would do nothing and end well.
    """
    own = {*tags} - {"always"} or {"untagged"}
    words = own | {"all"} | ({"tagged"} if own != {"untagged"} else set())
    if words & {*variables.get("ansible_run_tags", ["all"])} and not words & {*variables.get("ansible_skip_tags", [])}:
        return False
    if all(_is_ours(playbook) for playbook in playbooks):
        raise AnsibleActionFail("--tags and --skip-tags leave out all that this playbook does: run it without them")
    return True


def _is_ours(playbook: str) -> bool:
    return playbook.startswith(f"{COLLECTION}.") or Path(playbook).resolve().parent == shipped("playbooks").resolve()


def plan_deployment(
    arguments: dict[str, Any], *, check: bool, variables: Mapping[str, Any] = MappingProxyType({})
) -> dict[str, Any]:
    """What the plan role hands to the plays behind it.

    Args:
        arguments: ``file`` or ``files`` (plans that were made already), or ``blueprint`` with ``inputs``,
            ``inputs_file``, ``target``, ``training`` and ``strict``, or ``node`` for a node of the blueprint that opera
            deploys.
        check: whether nothing may be written but Ansible's own temporary files.
        variables: the variables of the task.

    Returns:
        ``targets`` as ``targets_of`` gives them, and of the first plan ``plan_file`` and ``digest``.
    """
    try:
        plans = _plans(arguments)
        if not plans:
            return {"plan_file": "", "targets": [], "changed": False}
        check_no_search(plans)
        targets = targets_of(plans, partial(_saved, check=check))
        _check_hosts([target["name"] for target in targets], variables)
    except ModakError as error:
        raise AnsibleActionFail(str(error)) from None  # Ansible would show behind it what it came from
    except OSError as error:
        raise AnsibleActionFail(words_of_disk(error)) from None
    first = plans[0].plan
    notes = [f"{note.path} is not kept: {note.reason}" for note in first.notes]
    return {
        "changed": False,
        **({"warnings": notes} if notes and not is_run_by_opera() else {}),
        "msg": f"plan {first.digest[:12]} for {some_of([planned.plan.name for planned in plans], 1)}",
        "plan_file": targets[0]["plan_files"][0],
        "digest": first.digest,
        "notes": notes,
        "targets": targets,
    }


def _check_hosts(names: list[str], variables: Mapping[str, Any]) -> None:
    """
    Args:
        names: of the targets.

    Raises:
        ModakError: the plays that follow, which are for the group modak, would run on others, or on none of them.
    """
    if other_hosts := sorted({*variables.get("groups", {}).get(GROUP, ())} - {*names}):
        hint = "give the inventory's group another name, and run blueprints with other targets one by one"
        raise ModakError(
            f"the group {GROUP} has hosts that are not targets of this plan: {', '.join(other_hosts)}", hint=hint
        )
    limit = variables.get("ansible_limit")
    if limit and not any(
        fnmatch(name, pattern) for pattern in split_host_pattern(limit) for name in [*names, GROUP, "all"]
    ):
        raise ModakError(
            f"--limit {limit} leaves out {', '.join(names)}",
            hint=f"give it without --limit, or: --limit 'localhost,{GROUP}'",
        )


def check_no_search(plans: list[Planned]) -> None:
    """
    Raises:
        ModakError: one is a search, whose trials are chosen one after another.
    """
    if search := next((planned.node for planned in plans if planned.search), None):
        hint = "modak deploy BLUEPRINT does; its trials are known here by their names: modak status"
        raise ModakError(f"{search} is a search, and a playbook cannot choose its trials", hint=hint)


def _saved(planned: Planned, *, check: bool) -> Path:
    """The folder of a deployment with its plan in it."""
    if check and planned.store.plan_file.exists():
        return planned.folder
    return planned.save(Path(constants.DEFAULT_LOCAL_TMP) / "modak" if check else None)


def _plans(arguments: dict[str, Any]) -> list[Planned]:
    if arguments.get("file") or arguments.get("files"):
        files = arguments.get("files") or _word(arguments, "file")
        return [planned_from_file(Path(file)) for file in ([files] if isinstance(files, str) else files)]
    if blueprint := _word(arguments, "blueprint"):
        inputs_file, target = _word(arguments, "inputs_file"), _word(arguments, "target")
        inputs = Inputs(
            expanded(inputs_file) if inputs_file else None,
            inputs_as_text(_mapping(arguments.get("inputs"))),
            target_file(target) if target else None,
            boolean(arguments.get("strict") or False),
        )
        return plan_all(find_blueprint(blueprint), inputs, _word(arguments, "training") or None)
    if arguments.get("node"):
        deployment = find_opera_deployment()
        return plan_node(deployment.blueprint, Inputs(None, inputs_as_text(deployment.inputs)), arguments["node"])
    raise ModakError("no blueprint is named", hint="-e blueprint=tosca/blueprints/mnist-pytorch-slurm")


def _word(arguments: dict[str, Any], name: str) -> str:
    """A name or a path, as one of Ansible's extra variables gives it; empty where it is not given."""
    value = arguments.get(name)
    if isinstance(value, list | dict):
        raise ModakError(f"{name} must be one name or path, not {value}", hint=f"-e {name}=...")
    return str(value) if value else ""


def _mapping(value: Any) -> dict[str, Any]:
    """Inputs as Ansible's extra variables give them: a mapping, or its JSON."""
    if not value:
        return {}
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            value = None
    if not isinstance(value, dict):
        raise ModakError("inputs is not a mapping", hint='-e \'{"inputs": {"epochs": 4}}\'')
    return value
