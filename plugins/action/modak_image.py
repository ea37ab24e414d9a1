"""The image stage of a deployment."""

from __future__ import annotations

from ansible.module_utils.parsing.convert_bool import boolean

from modak_ansible.stages.action import StageAction
from modak_ansible.stages.image import (
    ensure_image,
    look_into_image,
    push_image,
    show_build_log,
    sign_image,
    verify_image,
)
from modak_ansible.target.images.actions import acted


class ActionModule(StageAction):
    """Runs the stage for the plan in ``plan_file``; ``state`` as the role's image_state."""

    stage_name = "image"
    looks = {("modak_image", action): acted for action in ("look", "wait")}

    def perform(self, stage):
        arguments = self._task.args
        state = arguments.get("state", "present")
        if state == "pushed":
            return push_image(stage, arguments["place"], arguments.get("tags") or [])
        if state in ("signed", "verified"):
            return (sign_image if state == "signed" else verify_image)(stage, arguments["key"])
        if state == "logged":
            last, within = int(arguments.get("last", -1)), float(arguments.get("within", -1))
            return show_build_log(
                stage,
                follow=boolean(arguments.get("follow", False)),
                last=None if last < 0 else last,
                within=None if within < 0 else within,
            )
        if boolean(arguments.get("inside", False)):
            return look_into_image(stage)
        again = boolean(arguments.get("again", False))
        return ensure_image(stage, again=again, found_only=state == "found")

    def subject(self, plan):
        return plan["image"]["digest"] if plan["image"]["layers"] else ""
