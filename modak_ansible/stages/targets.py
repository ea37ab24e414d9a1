"""The targets of plans, as Ansible knows hosts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from modak_ansible.model.target import Target
from modak_ansible.planning.service import Planned, planned_from_file
from modak_ansible.store.deployment import DeploymentStore
from modak_ansible.store.machines import host_name
from modak_ansible.transport.ssh import connect


def targets_of(plans: Iterable[Planned], save: Callable[[Planned], Path] = Planned.save) -> list[dict[str, Any]]:
    """The targets of some plans, each with the files of its own.

    Args:
        save: writes a plan into its deployment's folder, and gives that.

    Returns:
        For each a ``name``, the ``plan_files`` of what is deployed on it, whether it is a ``cloud``, its
        ``connection``, and its ``hosts`` where they are to become a cluster, by ``name`` and ``address``.
    """
    groups: dict[str, list[Planned]] = {}
    for planned in plans:
        groups.setdefault(planned.plan.target.model_dump_json(), []).append(planned)
    targets = []
    for number, group in enumerate(groups.values(), 1):
        folders = [save(planned) for planned in group]
        first = group[0]
        connection = connect(first.plan.target, first.testbed, first.blueprint.parent, folders[0], first.state)
        name = "modak_target" if number == 1 else f"modak_target_{number}"
        targets.append(
            {
                "name": name,
                "plan_files": [str(DeploymentStore(folder).plan_file) for folder in folders],
                "cloud": first.plan.target.cloud is not None,
                "connection": connection.ansible_variables(),
                "hosts": _hosts(name, first.plan.target),
            }
        )
    return targets


def inventory_of(plan_files: Sequence[str]) -> dict[str, Any]:
    """What the plan role adds to the inventory, for plans that were made already.

    Raises:
        ModakError: one is damaged, or was changed since.
    """
    hosts: dict[str, Any] = {"localhost": {"ansible_connection": "local"}}
    groups: dict[str, list[str]] = {"modak": [], "modak_clouds": [], "modak_hosts": []}
    for target in targets_of(planned_from_file(Path(file)) for file in plan_files):
        name, files, connection = target["name"], target["plan_files"], target["connection"]
        about = {"modak_plan_file": files[0], "modak_plan_files": files, "modak_cloud": target["cloud"]}
        hosts[name] = {**about, **connection}
        for group in ("modak", "modak_clouds") if target["cloud"] else ("modak",):
            groups[group].append(name)
        for host in target["hosts"]:
            hosts[host["name"]] = {**connection, "modak_cluster": name, "ansible_host": host["address"]}
            groups["modak_hosts"].append(host["name"])
            groups.setdefault(f"{name}_hosts", []).append(host["name"])
    members = {group: {"hosts": dict.fromkeys(names)} for group, names in groups.items() if names}
    return {"all": {"hosts": hosts, "children": {"modak_planned": {}, **members}}}


def _hosts(name: str, target: Target) -> list[dict[str, str]]:
    """Each machine that is to be part of a cluster; none of a target that is none, or is there."""
    count = target.cloud.machines if target.cloud else 0
    return [
        {"name": f"{name}_host_{number}", "address": host_name(target.address, number)}
        for number in range(1, count + 1)
    ]
