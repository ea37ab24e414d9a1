#!/usr/bin/python
"""Stages, submits, watches, holds, requeues and cancels the jobs of deployments on a target."""

from __future__ import annotations

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.modak.hpc.plugins.module_utils.schedulers.registry import SCHEDULERS
from ansible_collections.modak.hpc.plugins.module_utils.target.core.answer import answer
from ansible_collections.modak.hpc.plugins.module_utils.target.jobs.actions import ACTIONS, act

DOCUMENTATION = """
module: modak_job
short_description: Keeps the jobs of deployments
description: >-
  Submits the jobs of one deployment or of many exactly once, whatever is killed and run again, and tells how they are
  or how they ended, by the markers that the jobs themselves write and by the scheduler's word. The scheduler is asked
  for all jobs at once, and jobs are submitted to begin after others.
options:
  workspace: {type: str, required: true, description: The folder of images, datasets and deployments.}
  scheduler:
    type: str
    required: true
    choices: [slurm, torque, pbspro, lsf, kubernetes, none]
    description: Who starts jobs there.
  action:
    type: str
    required: true
    choices: [look, stage, submit, watch, skip, set_aside, remove, cancel, hold, release, requeue]
    description: >-
      What to do; watch comes back when there is news, or when its time is over. What attempts without success left is
      set aside to make room for others.
  deployments:
    type: str
    required: true
    description: >-
      The deployments, as a JSON list of mappings; Ansible takes long over lists of a thousand. Each has its name as
      deployment, and its job_name; to look and to stage the digest of the plan; to submit after, behind, again, array,
      node, parallel and barrier; to watch the state and explanation that the caller knows; to skip the reason; to set
      aside the id of the job that the caller saw ended.
  folder:
    type: str
    default: ''
    description: 'To stage, also what is to be submitted: the folder of plans and archives, below the deployments.'
  images:
    type: list
    elements: str
    default: []
    description: The paths of images that go when deployments are removed, unless others use them.
  leave: {type: bool, default: false, description: 'To remove: whether also folders of jobs that cannot be ended.'}
  log:
    type: str
    default: ''
    description: >-
      To watch the job of one deployment: what is read on of what it writes, such as error.log, or ranks/1/error.log of
      another of its ranks than the first.
  offset: {type: int, default: 0, description: How many bytes of the log the caller knows.}
  seconds: {type: float, default: 0, description: How long to watch.}
  directives:
    type: str
    default: ''
    description: 'To look at one that was not submitted: when would a job with these lines of its script begin?'
  quietly: {type: bool, default: false, description: 'To watch: whether jobs are looked at seldom, to their ends.'}
author: modak-ansible
"""


def main():
    module = AnsibleModule(
        argument_spec={
            "workspace": {"type": "str", "required": True},
            "scheduler": {"type": "str", "required": True, "choices": list(SCHEDULERS)},
            "action": {"type": "str", "required": True, "choices": list(ACTIONS)},
            "deployments": {"type": "str", "required": True},
            "folder": {"type": "str", "default": ""},
            "images": {"type": "list", "elements": "str", "default": []},
            "leave": {"type": "bool", "default": False},
            "log": {"type": "str", "default": ""},
            "offset": {"type": "int", "default": 0},
            "seconds": {"type": "float", "default": 0},
            "directives": {"type": "str", "default": ""},
            "quietly": {"type": "bool", "default": False},
        },
        required_if=[("action", "stage", ["folder"])],
        supports_check_mode=True,
    )
    answer(module, lambda: act("look" if module.check_mode else module.params["action"], module.params))


if __name__ == "__main__":
    main()
