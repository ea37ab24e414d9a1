"""The job: staged, submitted exactly once, watched to its end."""

from __future__ import annotations

import gzip
import hashlib
import io
import platform
import tarfile
import time
from pathlib import Path
from typing import Any

from modak_ansible.errors import ModakError
from modak_ansible.runtime import FILES
from modak_ansible.schedulers.base import LIVING
from modak_ansible.stages.base import LOOK_SECONDS, Outcome, Stage
from modak_ansible.store.log_times import note_look
from modak_ansible.store.record import JobNote
from modak_ansible.target.core.files import Lock, sha256_of
from modak_ansible.target.core.staging import CODE, RUNTIME
from modak_ansible.transport.lifeline import passing_folder
from modak_ansible.transport.rsync import push

# What is shown of a line, in characters, and of what a job wrote before its end was seen, in bytes.
_LINE = 2000
_DRAIN = 4 << 20
# How long a job that is measured is left alone; a dropped connection costs no more than this.
_QUIET_SECONDS = 60


def deployment_arguments(plan: dict[str, Any]) -> dict[str, Any]:
    """What every call of the job's module says of its deployment."""
    name = f"{plan['name']}-{plan['digest'][:12]}"
    return {
        "workspace": plan["target"]["workspace"],
        "deployment": name,
        "scheduler": plan["job"]["scheduler"],
        "job_name": plan["job"]["options"]["job_name"] or name,
    }


def run_job(stage: Stage, *, wait: bool = True, quietly: bool = False) -> Outcome:
    """Stages and submits the plan's job unless that was done, and watches it to its end.

    Quietly means that nothing is shown of what it writes, and that looking takes as little of the machine as it can.

    Raises:
        ModakError: it cannot be staged, or the scheduler refuses it. How the job itself ended is no error here.
    """
    arguments = deployment_arguments(stage.plan)
    answer = stage.call("modak_job", **arguments, action="look", plan=stage.plan)
    if stage.check:
        known = answer["situation"]["job_id"]
        return Outcome(not known, f"job {known}" if known else "would submit the job")
    submitted = False
    if not answer["situation"]["job_id"]:
        if not answer["staged"]:
            _stage_code(stage, arguments, answer["folder"])
        answer = stage.call("modak_job", **arguments, action="submit")
        submitted = answer["submitted"]
        words = "submitted" if submitted else "was submitted before"
        stage.tell("job", f"job {answer['situation']['job_id']} {words}")
    situation = stage.record.note_job(answer["situation"], undeployed=None)
    if wait and (submitted or situation["state"] in LIVING):
        situation = (_await if quietly else _watch)(stage, arguments, situation)
    return Outcome(submitted, describe(situation), {"situation": situation})


def code_archive(plan: dict[str, Any], blueprint_folder: Path) -> bytes:
    """The user's files, and what acts in their process, as a tar archive; the same bytes for the same files.

    Raises:
        ModakError: a file is gone, or is not what it was when the plan was made.
    """
    folder = blueprint_folder / plan["application"]["folder"]
    buffer = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=buffer, mode="wb", compresslevel=6, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w") as tar,
    ):
        for name, source, files in (
            (CODE, folder, [*plan["application"]["files"], *plan.get("beside", [])]),
            (RUNTIME, FILES, plan.get("runtime", [])),
        ):
            for file in files:
                _add(tar, source / file["path"], f"{name}/{file['path']}", file)
    return buffer.getvalue()


def _add(tar: tarfile.TarFile, path: Path, name: str, file: dict[str, Any]) -> None:
    if not path.is_file() or sha256_of(path) != file["sha256"]:
        raise ModakError(f"{path} has changed since the plan was made", hint="deploy again")
    info = tarfile.TarInfo(name)
    info.size, info.mode = file["size"], 0o700 if file["executable"] else 0o600
    with path.open("rb") as content:
        tar.addfile(info, content)


def _stage_code(stage: Stage, arguments: dict[str, Any], folder: str) -> None:
    # the same name each time, so that a transfer that was cut short is gone on with, and for each controller its own
    mine = hashlib.sha256(f"{platform.node()}:{stage.folder.resolve()}".encode()).hexdigest()[:32]
    lock = Lock(stage.folder / ".code.lock")  # two deploys of one plan send in turn
    is_first = lock.take(wait=False)
    if not is_first:
        lock.take(wait=True)
    try:
        if not is_first and stage.call("modak_job", **arguments, action="look", plan=stage.plan)["staged"]:
            return
        with passing_folder("modak-code-") as temporary:
            archive = Path(temporary) / f".{arguments['deployment']}.{mine}.tar.gz"
            archive.write_bytes(code_archive(stage.plan, stage.blueprint_folder))
            push(stage.connection, [archive], folder, stage.say)
        stage.call("modak_job", **arguments, action="stage", plan=stage.plan, archive=archive.name)
    finally:
        lock.release()


def _watch(
    stage: Stage, arguments: dict[str, Any], situation: JobNote, log: str = "output.log", offset: int = 0
) -> JobNote:
    """Shows a job's states and what it writes behind an offset in bytes, up to its end."""
    said, drained = "", 0
    while True:
        words = describe(situation)
        if words != said and situation["state"] in LIVING:
            stage.tell("job", words)
            said = words
        is_over = situation["state"] not in LIVING
        seconds = 0 if is_over else LOOK_SECONDS
        known = {"seen": situation["state"], "said": situation["explanation"]}
        answer = stage.call("modak_job", **arguments, action="watch", **known, offset=offset, seconds=seconds, log=log)
        for line in _shown_lines(answer["output"]):
            stage.say(line[:_LINE])
        drained += answer["offset"] - offset if is_over else 0
        if is_over and (answer["offset"] == offset or drained > _DRAIN):
            if drained > _DRAIN:
                stage.say(f"the rest of what it wrote comes in {log}")
            stage.say(words)
            return situation
        offset = answer["offset"]
        note_look(stage.folder, situation["job_id"], log, offset)
        if answer["situation"] and not is_over:
            situation = stage.record.note_job(answer["situation"])


def _await(stage: Stage, arguments: dict[str, Any], situation: JobNote) -> JobNote:
    said = ""
    while situation["state"] in LIVING:
        answer = stage.call("modak_job", **arguments, action="await", seconds=_QUIET_SECONDS)
        situation = stage.record.note_job(answer["situation"])
        if situation.get("down") and describe(situation) != said:
            said = describe(situation)
            stage.say(said)
    stage.say(describe(situation))
    return situation


def _shown_lines(output: str) -> list[str]:
    """The lines of a terminal: of what a carriage return writes over, only the last is left."""
    lines = [line.rstrip().rsplit("\r", 1)[-1].rstrip() for line in output.split("\n")]
    return [line for line in lines if line]


def describe(situation: JobNote) -> str:
    """A job's state in words: ``job 12 is running on node01``."""
    if not situation["job_id"]:
        return "no job was submitted"
    state = situation["state"].lower().replace("_", " ")
    words = f"job {situation['job_id']} is {state}"
    if situation["nodes"] and situation["state"] == "RUNNING":
        words += f" on {situation['nodes']}"
    return f"{words} ({situation['explanation']})" if situation["explanation"] else words


def query_job(stage: Stage) -> Outcome:
    """How the job is now."""
    answer = stage.call("modak_job", **deployment_arguments(stage.plan), action="look", plan=stage.plan)
    situation = stage.record.note_job(answer["situation"])
    return Outcome(False, describe(situation), {"situation": situation})


def follow_job(stage: Stage, log: str = "output.log", offset: int = 0) -> Outcome:
    """What the job writes into a log, from its beginning, or behind so many bytes, to its end.

    Raises:
        ModakError: no job was submitted.
    """
    situation: JobNote = query_job(stage).data["situation"]
    if not situation["job_id"]:
        raise ModakError("no job was submitted", hint="modak deploy submits it")
    situation = _watch(stage, deployment_arguments(stage.plan), situation, log, offset)
    return Outcome(False, describe(situation), {"situation": situation})


def cancel_job(stage: Stage, *, remove_images: bool = False, leave: bool = False) -> Outcome:
    """Cancels the job and removes the deployment's folder on the target; data stays for others, and so do images.

    Args:
        stage: the deployment.
        remove_images: whether those of its images go that no other deployment on the target uses.
        leave: whether a job that cannot be ended, such as one on a dead node, is left alone.

    Raises:
        ModakError: the job cannot be ended, and is not to be left alone.
    """
    arguments = deployment_arguments(stage.plan)
    if stage.check:
        there = stage.call("modak_job", **arguments, action="look", plan=stage.plan)["there"]
        return Outcome(there, "would remove the deployment" if there else "nothing is deployed")
    images = images_of(stage.plan) if remove_images else []
    answer = stage.call("modak_job", **arguments, action="remove", images=images, leave=leave)
    words = [f"the job is left alone: {answer['left']}"] if answer.get("left") else []
    words += [f"job {answer['job_id']} cancelled"] if answer["cancelled"] else []
    words += ["its folder removed"] if answer["removed"] else []
    words += images_gone(answer["images"]) if images else []
    if answer["removed"]:
        stage.record.update(undeployed=time.time())
    return Outcome(bool(answer["removed"] or answer["images"]), ", ".join(words) or "nothing was deployed")


def images_of(plan: dict[str, Any]) -> list[str]:
    """The paths of the images that were made for a plan."""
    return [layer["path"] for layer in plan["image"]["layers"] if layer["kind"] != "file"]


def images_gone(names: list[str]) -> list[str]:
    """What is said of images that were to be removed, given those that were."""
    return [f"removed {', '.join(names)}" if names else "no image removed: others use them, or they are gone"]
