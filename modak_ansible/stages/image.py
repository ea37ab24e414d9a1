"""The image: there already, or built or pulled on the target while its progress is shown."""

from __future__ import annotations

import time
from typing import Any

from modak_ansible.errors import ModakError
from modak_ansible.model.quantities import format_seconds, format_size
from modak_ansible.stages.base import LOOK_SECONDS, Outcome, Stage
from modak_ansible.target.site import package_sources


def ensure_image(stage: Stage) -> Outcome:
    """Makes sure that the plan's image is on the target.

    Raises:
        ModakError: it cannot be built or pulled, with the end of the log.
    """
    arguments = {
        "workspace": stage.plan["target"]["workspace"],
        "image": stage.plan["image"],
        "site": stage.plan["target"]["site"],
    }
    answer = stage.call("modak_image", **arguments, action="look")
    if not answer["missing"]:
        return Outcome(False, _message(stage.plan, answer), {"image": answer["image"]})
    names = ", ".join(answer["missing"])
    if stage.check:
        return Outcome(True, f"would make {names}")
    began = time.monotonic()
    # apt and pip are asked only where something is to be built
    site = {**arguments["site"], "otherwise": package_sources()}
    answer = stage.call("modak_image", **{**arguments, "site": site}, action="start")
    stage.say(
        f"making {names} on the target" if answer["started"] else f"joining the build of {names} that is going on"
    )
    line = ""
    while True:
        answer = stage.call("modak_image", **arguments, action="wait", seconds=LOOK_SECONDS, seen=line)
        status = answer["status"]
        if status["state"] != "running":
            break
        line = status.get("line", "")
        stage.say(f"{status['step']}, {format_seconds(status['seconds'])}: {line[:100]}")
    if status["state"] != "done" or answer["missing"]:
        raise _failure(status)
    return Outcome(
        True,
        f"{_message(stage.plan, answer)}, made in {format_seconds(time.monotonic() - began)}",
        {"image": answer["image"]},
    )


def _message(plan: dict[str, Any], answer: dict[str, Any]) -> str:
    size = answer["image"].get("size")
    detail = f", {format_size(size)}" if size else ""
    return f"{plan['image']['entry']} ({plan['image']['digest'][:12]}){detail}"


def _failure(status: dict[str, Any]) -> ModakError:
    if status["state"] == "failed":
        return ModakError(f"{status['step']}: {status['message']}", hint=status.get("hint", ""))
    return ModakError(
        f"{status.get('step', 'the build')} was cut short",
        hint="deploy again: it begins anew, and nothing half-made is used",
    )
