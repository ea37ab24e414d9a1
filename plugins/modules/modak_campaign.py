#!/usr/bin/python
"""Stages, submits, watches and removes the jobs of several deployments on a target."""

from __future__ import annotations

import json

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.modak.hpc.plugins.module_utils.target.core.answer import answer
from ansible_collections.modak.hpc.plugins.module_utils.target.jobs.campaign import Campaign
from ansible_collections.modak.hpc.plugins.module_utils.target.garbage.garbage import Garbage
from ansible_collections.modak.hpc.plugins.module_utils.target.jobs.verbs import DEEDS, OperatedDeployment, act_on_all
from ansible_collections.modak.hpc.plugins.module_utils.target.core.workspace import Workspace

DOCUMENTATION = """
module: modak_campaign
short_description: Keeps the jobs of several deployments
description: >-
  What modak_job does for one deployment, for many in one call. The scheduler is asked for all jobs at once, and jobs
  are submitted to begin after others.
options:
  workspace: {type: str, required: true, description: The folder of images, datasets and deployments.}
  scheduler: {type: str, required: true, choices: [slurm, torque, none], description: Who starts jobs there.}
  action:
    type: str
    required: true
    choices: [look, stage, submit, watch, skip, remove, set_aside, cancel, hold, release, requeue]
    description: >-
      What to do; watch comes back when a state has changed, or when its time is over. What attempts without success
      left is set aside to make room for others.
  deployments:
    type: list
    elements: dict
    default: []
    description: >-
      The deployments by name, as deployment; to look with the digest of the plan, to submit with job_name, after,
      behind, again, array, parallel and barrier, to set aside with job_name and ended, the id of the job that the
      caller saw ended.
  images:
    type: list
    elements: str
    default: []
    description: The paths of images that go when deployments are removed, unless others use them.
  folder: {type: str, default: '', description: 'To stage: the folder of plans and archives, below the deployments.'}
  leave: {type: bool, default: false, description: 'To remove: whether also folders of jobs that cannot be ended.'}
  states: {type: dict, default: {}, description: 'To watch: the states that the caller knows, by deployment.'}
  said: {type: dict, default: {}, description: 'To watch: what the caller knows to be said of jobs, by deployment.'}
  reasons: {type: dict, default: {}, description: 'To skip: why a job is not to run, by deployment.'}
  seconds: {type: float, default: 0, description: How long to watch.}
author: modak-ansible
"""


def main():
    module = AnsibleModule(
        argument_spec={
            "workspace": {"type": "str", "required": True},
            "scheduler": {"type": "str", "required": True, "choices": ["slurm", "torque", "none"]},
            "action": {
                "type": "str",
                "required": True,
                "choices": [*DEEDS, "look", "stage", "submit", "watch", "skip", "remove", "set_aside"],
            },
            "deployments": {"type": "list", "elements": "dict", "default": []},
            "images": {"type": "list", "elements": "str", "default": []},
            "folder": {"type": "str", "default": ""},
            "leave": {"type": "bool", "default": False},
            "states": {"type": "dict", "default": {}},
            "said": {"type": "dict", "default": {}},
            "reasons": {"type": "dict", "default": {}},
            "seconds": {"type": "float", "default": 0},
        },
        required_if=[("action", "stage", ["folder"])],
        supports_check_mode=True,
    )
    answer(module, lambda: act(module, module.params))


def act(module, params):
    workspace = Workspace(params["workspace"])
    campaign = Campaign(workspace, params["scheduler"])
    action = "look" if module.check_mode else params["action"]
    names = [deployment["deployment"] for deployment in params["deployments"]]
    if action == "stage":
        return {"changed": True, "staged": campaign.stage(params["folder"])}
    if action == "submit":
        answered = campaign.submit(params["deployments"])
        return {"changed": any(job["submitted"] for job in answered["jobs"].values()), **answered}
    if action == "watch":
        return {"changed": False, "situations": campaign.watch(params["states"], params["seconds"], params["said"])}
    if action == "skip":
        skipped = campaign.skip(params["reasons"])
        return {"changed": any(skipped.values()), "skipped": skipped}
    if action == "remove":
        removed = campaign.remove(names, leave=params["leave"])
        # what another deployment uses, or is on its way to use, stays
        images = [str(workspace.place(path)) for path in params["images"]]
        gone = [each["name"] for each in Garbage(workspace, 0).remove(images)] if images else []
        return {"changed": bool(removed["removed"] or gone), "images": gone, **removed}
    if action in DEEDS:
        jobs = act_on_all(workspace, params["scheduler"], action, names)
        return {"changed": any(job["changed"] for job in jobs), "jobs": json.dumps(jobs)}
    if action == "set_aside":
        wanted = {
            deployment["deployment"]: (deployment["job_name"], deployment["ended"])
            for deployment in params["deployments"]
        }
        made = {
            name: deployment(workspace, name, params, job).set_aside(ended) for name, (job, ended) in wanted.items()
        }
        return {"changed": any(made.values()), "attempts": {name: each for name, each in made.items() if each}}
    return {
        "changed": False,
        "folder": str(workspace.deployments),
        "known": campaign.look(params["deployments"]),
    }


def deployment(workspace, name, params, job_name):
    return OperatedDeployment(workspace, name, params["scheduler"], job_name)


if __name__ == "__main__":
    main()
