"""What the module modak_job does to the jobs of deployments, by the names of its actions."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any, Callable, Mapping

from ...errors import ModakError
from ...schedulers.base import has_no_room
from ..core.answer import answered
from ..core.staging import is_log
from ..core.workspace import Workspace
from ..garbage.garbage import Garbage
from .campaign import Campaign, JobRequest
from .operations import OPERATIONS, operate

# Ansible takes long over structures with a thousand parts: what is wanted and what is answered are texts of JSON.
Answer = Mapping[str, Any]


@dataclass
class Arguments:
    """Of the module, but for its action."""

    workspace: str  # the folder of images, datasets and deployments
    scheduler: str  # slurm, torque, pbspro, lsf, kubernetes or none
    requests: list[JobRequest]  # the deployments
    folder: str = ""  # to stage, also before it is submitted: of plans and archives, below the deployments
    # to remove: the paths of images that go, too, unless others use them
    images: list[str] = field(default_factory=list)
    leave: bool = False  # to remove: whether also folders of jobs that cannot be ended
    # log, offset: to watch one: which log is read on, and how many bytes of it the caller knows
    log: str = ""
    offset: int = 0
    seconds: float = 0.0  # to watch: how long
    directives: str = ""  # to look at one that has no job: when would one with these lines of its script begin?
    quietly: bool = False  # to watch: whether jobs are looked at seldom, and waited for to their ends

    @property
    def names(self) -> list[str]:
        return [request.deployment for request in self.requests]


def act(action: str, parameters: Mapping[str, Any]) -> Answer:
    """Does what the module is asked, and gives ``changed`` and the ``answer``, which is JSON.

    Args:
        parameters: as Arguments has them, with ``deployments``: a JSON list of what JobRequest has.

    Raises:
        ModakError: it cannot be done.
    """
    options = {name: value for name, value in parameters.items() if name not in ("action", "deployments")}
    arguments = Arguments(
        **options, requests=[JobRequest(**request) for request in json.loads(parameters["deployments"])]
    )
    workspace = Workspace(arguments.workspace)
    names = {request.deployment: request.job_name for request in arguments.requests}
    ids = {request.deployment: request.job_id for request in arguments.requests if request.job_id}
    changed, answer = ACTIONS[action](Campaign(workspace, arguments.scheduler, names, ids), workspace, arguments)
    return {"changed": changed, "answer": json.dumps(answer)}


def acted(parameters: Mapping[str, Any]) -> Answer:
    """The same for whoever asks without the module: what that would answer, errors included."""
    return answered(lambda: act(parameters["action"], parameters))


def _look(campaign: Campaign, workspace: Workspace, arguments: Arguments) -> tuple[bool, Answer]:
    deployments = {name: asdict(deployment) for name, deployment in campaign.look(arguments.requests).items()}
    is_new = arguments.directives and any(
        deployment["situation"]["state"] == "NONE" for deployment in deployments.values()
    )
    starts = campaign.forecast(arguments.directives) if is_new else None
    return False, {"folder": str(workspace.deployments), "known": deployments, "forecast": starts}


def _stage(campaign: Campaign, _: Workspace, arguments: Arguments) -> tuple[bool, Answer]:
    staged = campaign.stage(arguments.folder, arguments.requests)
    return bool(staged), {"staged": staged}


def _submit(campaign: Campaign, _: Workspace, arguments: Arguments) -> tuple[bool, Answer]:
    if arguments.folder:
        campaign.stage(arguments.folder, arguments.requests)
    submitted = campaign.submit(arguments.requests)
    situations = {name: asdict(situation) for name, situation in campaign.situations(submitted.jobs).items()}
    jobs = {
        name: {"situation": {**situations[name], "job_id": job_id}, "submitted": is_new}
        for name, (job_id, is_new) in submitted.jobs.items()
    }
    refused = None
    if submitted.refused:
        name, error = submitted.refused
        refused = {
            "deployment": name,
            "message": error.message,
            "hint": error.hint,
            "exit_code": error.exit_code,
            "is_full": has_no_room(error.message),
        }
    return any(job["submitted"] for job in jobs.values()), {"jobs": jobs, "refused": refused}


def _watch(campaign: Campaign, _: Workspace, arguments: Arguments) -> tuple[bool, Answer]:
    if arguments.log and not is_log(arguments.log):
        raise ModakError(f"a job has no log {arguments.log}")
    news = campaign.watch(
        arguments.requests, arguments.seconds, log=arguments.log, offset=arguments.offset, quietly=arguments.quietly
    )
    return False, asdict(news)


def _skip(campaign: Campaign, _: Workspace, arguments: Arguments) -> tuple[bool, Answer]:
    skipped = campaign.skip({request.deployment: request.reason for request in arguments.requests})
    return any(skipped.values()), {"skipped": skipped}


def _set_aside(campaign: Campaign, _: Workspace, arguments: Arguments) -> tuple[bool, Answer]:
    attempts = campaign.set_aside(arguments.requests)
    return bool(attempts), {"attempts": attempts}


def _remove(campaign: Campaign, workspace: Workspace, arguments: Arguments) -> tuple[bool, Answer]:
    removed = campaign.remove(arguments.names, leave=arguments.leave)
    # what another deployment uses, or is on its way to use, stays
    images = [str(workspace.place(path)) for path in arguments.images]
    removed_images = [image["name"] for image in Garbage(workspace, 0).remove(images)] if images else []
    return bool(removed.removed or removed_images), {**asdict(removed), "images": removed_images}


def _operate(operation: str) -> Callable[[Campaign, Workspace, Arguments], tuple[bool, Answer]]:
    def perform(campaign: Campaign, _: Workspace, arguments: Arguments) -> tuple[bool, Answer]:
        jobs = operate(campaign, operation, arguments.names)
        return any(job.changed for job in jobs), {"jobs": [asdict(job) for job in jobs]}

    return perform


ACTIONS: dict[str, Callable[[Campaign, Workspace, Arguments], tuple[bool, Answer]]] = {
    "look": _look,
    "stage": _stage,
    "submit": _submit,
    "watch": _watch,
    "skip": _skip,
    "set_aside": _set_aside,
    "remove": _remove,
    **{operation: _operate(operation) for operation in OPERATIONS},
}
