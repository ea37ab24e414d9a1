"""The target: it answers, it is the host that it was, and it has what every deployment needs."""

from __future__ import annotations

from collections.abc import Sequence

from modak_ansible.model.quantities import format_size
from modak_ansible.stages.base import Outcome, Stage
from modak_ansible.transport.rsync import require_rsync

# The fact of a target that names deployments there whose job has completed.
COMPLETED = "modak_completed"


def probe_target(stage: Stage, deployments: Sequence[str] = ()) -> Outcome:
    """Looks at the target, and which of some deployments have completed there: those need no image and no data.

    Raises:
        TargetUnreachable: it cannot be entered.
        ModakError: the scheduler or rsync is missing, or the disk is full.
    """
    require_rsync()
    plan = stage.plan
    answer = stage.call(
        "modak_probe",
        workspace=plan["target"]["workspace"],
        scheduler=plan["job"]["scheduler"],
        container_runtime=plan["image"]["container_runtime"],
        deployments="\n".join(deployments),
    )
    facts = answer["facts"]
    if not stage.check:
        stage.record.update(target=facts)
    parts = [facts["scheduler"], facts["container_runtime"], f"{format_size(facts['free_bytes'])} free"]
    words = ", ".join(part for part in parts if part and part != "none")
    return Outcome(
        False,
        f"{facts['user']}@{facts['hostname']}: {words}",
        {"facts": facts, "ansible_facts": {COMPLETED: answer["completed"]}},
    )
