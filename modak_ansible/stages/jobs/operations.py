"""What is done with the jobs of deployments on one target, of one or of many: run, asked for, ended, resumed."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence

from modak_ansible.errors import ModakError, SchedulerAway
from modak_ansible.model.quantities import counted
from modak_ansible.stages.base import Outcome, Stage
from modak_ansible.stages.jobs.campaign import Campaign
from modak_ansible.stages.jobs.members import Member
from modak_ansible.stages.jobs.output import Output
from modak_ansible.store.logs import note
from modak_ansible.target.jobs.campaign import JobRequest
from modak_ansible.target.jobs.operations import Operated, OperatedJob
from modak_ansible.target.jobs.situation import Situation

# The operation behind each state that jobs are to be in.
OPERATIONS = {"cancelled": "cancel", "held": "hold", "released": "release", "requeued": "requeue"}
# How long a resume waits for jobs that are about to end.
_ENDING_SECONDS = 30
_SHOWN = 8


def run_jobs(stages: Sequence[Stage], *, wait: bool = True, quietly: bool = False) -> Outcome:
    """Has all jobs run, each after those that it comes after; whatever was done before is not done again.

    Args:
        wait: whether to watch them to their ends.
        quietly: whether to show nothing of what jobs write, and take as little of the machine as it can.

    Raises:
        ModakError: something cannot be staged, or the scheduler refuses it. How the jobs end is no error here.
    """
    campaign = Campaign(stages, wait=wait, quietly=quietly)
    campaign.look()
    if stages[0].check:
        count, only = len(campaign.members.to_submit()), campaign.only
        if only and not only.is_not_run:
            job_id = only.status.situation.job_id
            expected = f"; {campaign.expected}" if campaign.expected else ""
            return Outcome(bool(count), f"job {job_id}" if job_id else f"would submit the job{expected}")
        return Outcome(bool(count), f"would submit {counted(count, 'job')}" if count else campaign.summary())
    campaign.run()
    return Outcome(campaign.submitted > 0, campaign.summary())


def query_jobs(stages: Sequence[Stage]) -> Outcome:
    campaign = Campaign(stages)
    campaign.look(alone=True)
    return Outcome(False, campaign.summary())


def follow_job(stage: Stage, log: str, offset: int) -> Outcome:
    """What a job writes into a log, from its beginning, or behind so many bytes, to its end.

    Raises:
        ModakError: no job was submitted.
    """
    campaign = Campaign([stage])
    campaign.look(alone=True)
    (member,) = campaign.members
    if not member.status.situation.job_id:
        raise ModakError("no job was submitted", hint="modak deploy submits it")
    output = Output(member, campaign.call, log, offset, is_whole=True)
    while member.status.situation.is_living:
        campaign.watch(output, alone=True)
    output.drain()
    return Outcome(False, campaign.summary())


def operate(stages: Sequence[Stage], state: str) -> Outcome:
    """Brings jobs into one of the states of OPERATIONS, as far as theirs permit it; gives an OperatedJob for each.

    Raises:
        ModakError: none of them permits it, or the scheduler refuses or does not answer.
    """
    campaign = Campaign(stages)
    if stages[0].check:
        campaign.look(alone=True)
        about = (
            campaign.summary() if campaign.only else f"{counted(len(stages), 'job')}, as far as their states permit it"
        )
        return Outcome(False, f"would {OPERATIONS[state]}{':' if campaign.only else ''} {about}")
    jobs = campaign.call(OPERATIONS[state], campaign.requests())["jobs"]
    answers = [Operated(**{**job, "situation": Situation(**job["situation"])}) for job in jobs]
    rows = [_noted(campaign, answer) for answer in answers]
    problems = [answer for answer in answers if answer.problem]
    if len(problems) == len(answers) or any(answer.permitted for answer in problems):
        raise _error(problems, campaign)
    changed = sum(row["changed"] for row in rows)
    message = rows[0]["message"] if campaign.only else f"{changed} of {len(rows)} jobs {state}"
    return Outcome(bool(changed), message, {"jobs": json.dumps(rows)})


def _noted(campaign: Campaign, answer: Operated) -> OperatedJob:
    """What became of a job, which its record gets to know, too."""
    member = campaign.members[answer.deployment]
    member.status.situation = answer.situation
    if answer.situation.job_id:  # of what is gone on the target, its record alone knows how it ended
        campaign.record(member)
    situation = member.status.situation
    message = answer.problem or ("" if answer.changed else "nothing changed: ") + situation.words
    note(member.stage.folder, stage="job", text=message)
    return {
        "training": member.training,
        "deployment": member.name,
        "job_id": situation.job_id,
        "state": situation.state,
        "changed": answer.changed,
        "message": message,
        "problem": answer.problem,
    }


def _error(problems: list[Operated], campaign: Campaign) -> ModakError:
    count = len(campaign.members)
    lines = [f"{len(problems)} of {count} jobs are not in the state that was asked for:"]
    lines += [f"  {campaign.members[problem.deployment].training}: {problem.problem}" for problem in problems[:_SHOWN]]
    lines += [f"  and {len(problems) - _SHOWN} more"] if len(problems) > _SHOWN else []
    error = ModakError(problems[0].problem if campaign.only else "\n".join(lines), hint=problems[0].hint)
    error.exit_code = problems[0].exit_code
    return error


def resume_jobs(stages: Sequence[Stage], *, wait: bool = True, quietly: bool = False) -> Outcome:
    """Goes on with jobs wherever they were: those that live are watched, and those that failed submitted once more.

    What a failed attempt wrote is kept in a folder of its own; what the training keeps beside its script, such as
    checkpoints, is there for the next one. What comes after them follows.

    Raises:
        ModakError: something cannot be staged, or the scheduler refuses it or does not answer.
    """
    if not stages[0].check:
        campaign = Campaign(stages)
        campaign.look(alone=True)
        deadline = time.monotonic() + _ENDING_SECONDS
        while campaign.members.count("ENDING") and time.monotonic() < deadline:  # it may be on its way to either end
            campaign.watch(alone=True)
        for member in campaign.members:
            _check_that_it_is_known(member)
        _set_aside(campaign)
    return run_jobs(stages, wait=wait, quietly=quietly)


def _check_that_it_is_known(member: Member) -> None:
    """
    Raises:
        SchedulerAway: the job was known to have ended, and whether it may be tried once more nobody says now.
    """
    if member.silence and member.status.situation.has_failed and not member.status.skipped:
        words = f"{member.status.situation.words}, and is not tried again now: {member.silence}"
        raise SchedulerAway(words, hint="resume when the scheduler answers")


def _set_aside(campaign: Campaign) -> None:
    ended = [
        member
        for member in campaign.members
        if not member.status.skipped and member.status.situation.job_id and member.status.situation.has_failed
    ]
    requests = [JobRequest(member.name, member.job_name, ended=member.status.situation.job_id) for member in ended]
    attempts = campaign.call("set_aside", requests)["attempts"] if requests else {}
    for member in ended:
        if member.name in attempts:
            words = f"{member.status.situation.words}; what it left is kept in attempts/{attempts[member.name]}"
            member.stage.tell("job", words if campaign.only else f"{member.training}: {words}")


def remove_jobs(stages: Sequence[Stage], *, remove_images: bool = False, leave: bool = False) -> Outcome:
    """Cancels the jobs that live and removes the deployments' folders; data stays for others, and so do images.

    Args:
        remove_images: whether those of their images go that no other deployment on the target uses.
        leave: whether jobs that cannot be ended, such as those on dead nodes, are left alone.

    Raises:
        ModakError: a job cannot be ended, and is not to be left alone.
    """
    campaign = Campaign(stages)
    only = campaign.only
    if stages[0].check:
        deployments = campaign.call("look", campaign.requests())["known"].values()
        count = sum(bool(deployment["there"]) for deployment in deployments)
        would = "would remove the deployment" if only else f"would remove {count} deployments"
        return Outcome(bool(count), would if count else "nothing is deployed")
    layers = [layer for stage in stages for layer in stage.plan["image"]["layers"]] if remove_images else []
    images = list(dict.fromkeys(layer["path"] for layer in layers if layer["kind"] != "file"))
    answer = campaign.call("remove", campaign.requests(), images=images, leave=leave)
    for member in campaign.members:  # those that had not come to the target, too
        if not member.stage.record.read().get("undeployed"):
            member.stage.record.update(undeployed=time.time())
    cancelled, left_alone = list(answer["cancelled"].values()), list(dict.fromkeys(answer["left"].values()))
    words = []
    if only:
        words += [f"the job is left alone: {left_alone[0]}"] if left_alone else []
        words += [f"job {cancelled[0]} cancelled"] if cancelled else []
        words += ["its folder removed"] if answer["removed"] else []
    else:
        words += [f"{counted(len(cancelled), 'job')} cancelled"] if cancelled else []
        words += [f"{counted(len(answer['left']), 'job')} left alone: {'; '.join(left_alone)}"] if left_alone else []
        words += [f"{len(answer['removed'])} folders removed"] if answer["removed"] else []
    words += [_gone(answer["images"])] if images else []
    return Outcome(bool(answer["removed"] or answer["images"]), ", ".join(words) or "nothing was deployed")


def _gone(names: list[str]) -> str:
    """What is said of images that were to be removed, given those that were."""
    return f"removed {', '.join(names)}" if names else "no image removed: others use them, or they are gone"
