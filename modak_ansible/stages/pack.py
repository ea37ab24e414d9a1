"""A dataset as one image: there already, or packed on the target of the folder that was brought."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from modak_ansible.errors import ModakError
from modak_ansible.model.quantities import format_size
from modak_ansible.stages.base import Outcome, Stage, until_ended
from modak_ansible.target.core.plan import PlannedDataset
from modak_ansible.target.datasets.pack import Packed


def ensure_packed(stage: Stage, dataset: PlannedDataset, bring: Callable[[], Outcome]) -> Outcome:
    """Makes sure that the image of a dataset is on the target; its folder is brought where it is not.

    Raises:
        ModakError: the folder cannot be brought, or there is no mksquashfs, or no room.
    """
    known = _call(stage, dataset, "look")["packed"]
    if known:
        return Outcome(False, _message(dataset, known), {"packed": known})
    if stage.check:
        return Outcome(True, f"would bring {dataset['name']} and pack it")
    brought = bring()
    stage.say(f"packing {dataset['name']} into one image on the target")
    answer = _call(stage, dataset, "pack")
    answer = until_ended(stage.say, partial(_call, stage, dataset), answer)
    if answer["packed"] is None:
        status = answer["status"]
        if status["state"] != "failed":
            raise ModakError(f"packing {dataset['name']} was cut short", hint="deploy again: it begins anew")
        raise ModakError(status["message"], hint=status.get("hint", ""))
    _call(stage, dataset, "tidy")
    return Outcome(True, _message(dataset, answer["packed"]), {**brought.data, "packed": answer["packed"]})


def _call(stage: Stage, dataset: PlannedDataset, action: str, **arguments: Any) -> dict[str, Any]:
    return stage.call(
        "modak_pack",
        workspace=stage.plan["target"]["workspace"],
        deployment=stage.deployment,
        dataset=dataset,
        action=action,
        **arguments,
    )


def _message(dataset: PlannedDataset, known: Packed) -> str:
    return f"{dataset['name']}: {known['files']:,} files in one image of {format_size(known['packed'])}"
