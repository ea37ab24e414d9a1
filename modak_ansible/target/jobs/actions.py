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
from .campaign import Campaign, Wanted
from .operations import OPERATIONS, operate

# Ansible takes long over structures with a thousand parts: what is wanted and what is answered are texts of JSON.
Answer = Mapping[str, Any]


@dataclass
class Arguments:
    """Of the module, but for its action."""

    workspace: str  # the folder of images, datasets and deployments
    scheduler: str  # slurm, torque, pbspro, lsf, kubernetes or none
    wanted: list[Wanted]  # the deployments
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
        return [each.deployment for each in self.wanted]


def act(action: str, parameters: Mapping[str, Any]) -> Answer:
    """Does what the module is asked, and gives ``changed`` and the ``answer``, which is JSON.

    Args:
        parameters: as Arguments has them, with ``deployments``: a JSON list of what Wanted has.

    Raises:
        ModakError: it cannot be done.
    """
    given = {name: value for name, value in parameters.items() if name not in ("action", "deployments")}
    arguments = Arguments(**given, wanted=[Wanted(**each) for each in json.loads(parameters["deployments"])])
    workspace = Workspace(arguments.workspace)
    names = {each.deployment: each.job_name for each in arguments.wanted}
    ids = {each.deployment: each.job_id for each in arguments.wanted if each.job_id}
    changed, answer = ACTIONS[action](Campaign(workspace, arguments.scheduler, names, ids), workspace, arguments)
    return {"changed": changed, "answer": json.dumps(answer)}


def acted(parameters: Mapping[str, Any]) -> Answer:
    """The same for whoever asks without the module: what that would answer, errors included."""
    return answered(lambda: act(parameters["action"], parameters))


def _look(campaign: Campaign, workspace: Workspace, given: Arguments) -> tuple[bool, Answer]:
    known = {name: asdict(each) for name, each in campaign.look(given.wanted).items()}
    is_new = given.directives and any(each["situation"]["state"] == "NONE" for each in known.values())
    starts = campaign.forecast(given.directives) if is_new else None
    return False, {"folder": str(workspace.deployments), "known": known, "forecast": starts}


def _stage(campaign: Campaign, _: Workspace, given: Arguments) -> tuple[bool, Answer]:
    staged = campaign.stage(given.folder, given.wanted)
    return bool(staged), {"staged": staged}


def _submit(campaign: Campaign, _: Workspace, given: Arguments) -> tuple[bool, Answer]:
    if given.folder:
        campaign.stage(given.folder, given.wanted)
    submitted = campaign.submit(given.wanted)
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


def _watch(campaign: Campaign, _: Workspace, given: Arguments) -> tuple[bool, Answer]:
    if given.log and not is_log(given.log):
        raise ModakError(f"a job has no log {given.log}")
    news = campaign.watch(given.wanted, given.seconds, log=given.log, offset=given.offset, quietly=given.quietly)
    return False, asdict(news)


def _skip(campaign: Campaign, _: Workspace, given: Arguments) -> tuple[bool, Answer]:
    skipped = campaign.skip({each.deployment: each.reason for each in given.wanted})
    return any(skipped.values()), {"skipped": skipped}


def _set_aside(campaign: Campaign, _: Workspace, given: Arguments) -> tuple[bool, Answer]:
    attempts = campaign.set_aside(given.wanted)
    return bool(attempts), {"attempts": attempts}


def _remove(campaign: Campaign, workspace: Workspace, given: Arguments) -> tuple[bool, Answer]:
    removed = campaign.remove(given.names, leave=given.leave)
    # what another deployment uses, or is on its way to use, stays
    images = [str(workspace.place(path)) for path in given.images]
    gone = [image["name"] for image in Garbage(workspace, 0).remove(images)] if images else []
    return bool(removed.removed or gone), {**asdict(removed), "images": gone}


def _operate(operation: str) -> Callable[[Campaign, Workspace, Arguments], tuple[bool, Answer]]:
    def perform(campaign: Campaign, _: Workspace, given: Arguments) -> tuple[bool, Answer]:
        jobs = operate(campaign, operation, given.names)
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
