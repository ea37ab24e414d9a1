#!/usr/bin/python
"""Stages, submits, watches, holds, requeues and cancels the job of a deployment on a target."""

from __future__ import annotations

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.modak.hpc.plugins.module_utils.target.core.answer import answer
from ansible_collections.modak.hpc.plugins.module_utils.target.jobs.arrays import remove_arrays
from ansible_collections.modak.hpc.plugins.module_utils.target.garbage.garbage import Garbage
from ansible_collections.modak.hpc.plugins.module_utils.target.garbage.uses import Uses, paths_of
from ansible_collections.modak.hpc.plugins.module_utils.target.jobs.verbs import OperatedDeployment
from ansible_collections.modak.hpc.plugins.module_utils.target.core.workspace import Workspace

DOCUMENTATION = """
module: modak_job
short_description: Keeps the job of a deployment
description: >-
  Submits a deployment's job exactly once, whatever is killed and run again, and tells how it is or how it ended by
  the marker that the job itself writes and by the scheduler's word.
options:
  workspace: {type: str, required: true, description: The folder of images, datasets and deployments.}
  deployment: {type: str, required: true, description: The deployment's name.}
  scheduler: {type: str, required: true, choices: [slurm, torque, none], description: Who starts jobs there.}
  job_name: {type: str, required: true, description: What the scheduler knows the job by.}
  action:
    type: str
    required: true
    choices: [look, stage, submit, watch, await, remove, cancel, hold, release, requeue, set_aside]
    description: >-
      What to do; watch comes back when there is news, await when the job has ended, or when its time is over.
      What an attempt without success left is set aside to make room for another one.
  plan: {type: dict, description: The plan, to look and to stage.}
  archive: {type: str, description: The name of the archive with the user's files, below the deployments.}
  ended: {type: str, default: '', description: The id of the job that the caller saw ended, to set aside.}
  images:
    type: list
    elements: str
    default: []
    description: The paths of images that go when the deployment is removed, unless another one uses them.
  leave: {type: bool, default: false, description: Whether to remove the folder of a job that cannot be ended.}
  seen: {type: str, default: '', description: The state that the caller knows.}
  said: {type: str, default: '', description: What the caller knows to be said of it.}
  log: {type: str, default: output.log, choices: [output.log, error.log, scheduler.log], description: What to read.}
  offset: {type: int, default: 0, description: How many bytes of the log the caller knows.}
  seconds: {type: float, default: 0, description: How long to watch.}
author: modak-ansible
"""

# What is done to a job, and gives the situation behind it.
DEEDS = {
    "cancel": OperatedDeployment.cancel_job,
    "hold": OperatedDeployment.hold,
    "release": OperatedDeployment.release,
    "requeue": OperatedDeployment.requeue,
}


def main():
    module = AnsibleModule(
        argument_spec={
            "workspace": {"type": "str", "required": True},
            "deployment": {"type": "str", "required": True},
            "scheduler": {"type": "str", "required": True, "choices": ["slurm", "torque", "none"]},
            "job_name": {"type": "str", "required": True},
            "action": {
                "type": "str",
                "required": True,
                "choices": [*DEEDS, "look", "stage", "submit", "watch", "await", "remove", "set_aside"],
            },
            "plan": {"type": "dict"},
            "archive": {"type": "str"},
            "ended": {"type": "str", "default": ""},
            "images": {"type": "list", "elements": "str", "default": []},
            "leave": {"type": "bool", "default": False},
            "seen": {"type": "str", "default": ""},
            "said": {"type": "str", "default": ""},
            "log": {"type": "str", "default": "output.log", "choices": ["output.log", "error.log", "scheduler.log"]},
            "offset": {"type": "int", "default": 0},
            "seconds": {"type": "float", "default": 0},
        },
        required_if=[("action", "look", ["plan"]), ("action", "stage", ["plan", "archive"])],
        supports_check_mode=True,
    )
    answer(module, lambda: act(module, module.params))


def act(module, params):
    workspace = Workspace(params["workspace"])
    deployment = OperatedDeployment(workspace, params["deployment"], params["scheduler"], params["job_name"])
    action = "look" if module.check_mode else params["action"]
    if action == "stage":
        archive = workspace.deployments / params["archive"]
        if not archive.exists() and deployment.is_staged(params["plan"]):
            return {"changed": False}  # asked again, as the connection broke before the answer
        try:
            deployment.stage(params["plan"], archive.read_bytes())
        finally:  # one that is no good is not gone on with
            archive.unlink()
        Uses(workspace).mark(paths_of(params["plan"]))
        return {"changed": True}
    if action == "submit":
        job_id, submitted = deployment.submit()
        situation = {**deployment.situation().as_dict(), "job_id": job_id}
        return {"changed": submitted, "submitted": submitted, "situation": situation}
    if action == "watch":
        news = deployment.watch(params["seen"], params["offset"], params["seconds"], params["log"], said=params["said"])
        return {"changed": False, **news}
    if action == "await":
        return {"changed": False, "situation": deployment.await_end(params["seconds"]).as_dict()}
    if action == "remove":
        return remove(deployment, workspace, params["images"], params["leave"])
    if action in DEEDS:
        situation, changed = DEEDS[action](deployment)
        return {"changed": changed, "situation": situation.as_dict()}
    if action == "set_aside":
        attempt = deployment.set_aside(params["ended"])
        return {"changed": attempt is not None, "attempt": attempt}
    return {
        "changed": False,
        "there": deployment.path.exists(),
        "folder": str(workspace.deployments),
        "staged": deployment.is_staged(params["plan"]),
        "situation": deployment.situation().as_dict(),
    }


def remove(deployment, workspace, images, leave):
    job_id = deployment.job_id()
    cancelled, left = deployment.end(leave=leave)
    removed = deployment.remove()
    remove_arrays(workspace.deployments)
    Uses(workspace).forget(deployment.path.name)
    # what another deployment uses, or is on its way to use, stays
    gone = Garbage(workspace, 0).remove([str(workspace.place(path)) for path in images]) if images else []
    return {
        "changed": cancelled or removed or bool(gone),
        "cancelled": cancelled,
        "left": left,
        "removed": removed,
        "job_id": job_id,
        "images": [each["name"] for each in gone],
    }


if __name__ == "__main__":
    main()
