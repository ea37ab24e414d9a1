"""A deployment's record: what each stage did, for status, summary and the next run.

The truth about the target is on the target; this is the controller's memory of it.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from modak_ansible.schedulers.base import LIVING, UNKNOWN
from modak_ansible.store.stage_log import note
from modak_ansible.target.core.files import Lock, read_json, write_json

NAME = "state.json"
# How the explanation of a job begins that was not submitted, for what it comes after.
NOT_RUN = "not run: "
# What the stage that asks for jobs says as an answer comes in.
ANSWERED = "answered"
# As they follow each other in a deployment.
STAGES = ("target", "dataset", "image", "job", "results", "report")


def latest(known: dict[str, Any] | None, now: dict[str, Any]) -> dict[str, Any]:
    """What is known of a job: how it is now, or the end that was known before, where nobody says how it is now."""
    if not known or now["state"] != UNKNOWN or known.get("job_id") != now["job_id"]:
        return now
    return now if known.get("state") in (None, "NONE", *LIVING) else known


class Record:
    """The file of the record in a deployment's folder, which two commands may write in turn."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / NAME
        self._lock_path = folder / ".state.lock"  # two deploys of one plan note in turn

    def read(self) -> dict[str, Any]:
        return read_json(self.path) or {}

    def update(self, **values: Any) -> None:
        """Sets top-level values."""
        with Lock(self._lock_path):
            self._write({**self.read(), **values})

    def begin(self, name: str) -> None:
        """Forgets how this stage, and those behind it, failed before: all of it is being tried again.

        What was undeployed has neither a job nor its metrics any more when its first stage begins.
        """
        behind = STAGES[STAGES.index(name) :]
        if not _is_stale(self.read(), behind):
            return
        with Lock(self._lock_path):
            state = self.read()
            if behind == STAGES and state.get("undeployed"):
                state = {key: state[key] for key in state if key not in ("undeployed", "job", "metrics")}
            failed = [each for each in behind if state.get("stages", {}).get(each, {}).get("state") == "failed"]
            stages = {key: each for key, each in state.get("stages", {}).items() if key not in failed}
            self._write({**state, "stages": stages, "stage": name})

    def note_job(self, situation: dict[str, Any], **values: Any) -> dict[str, Any]:
        """Sets what is known of the job, and other top-level values; gives what is known now.

        A known end stays: that its scheduler does not answer any more is no news of a job.
        """
        with Lock(self._lock_path):
            state = self.read()
            job = latest(state.get("job"), situation)
            if {**state, **values, "job": job} != state:
                self._write({**state, **values, "job": job})
        return job

    def note_stage(self, name: str, **values: Any) -> None:
        """Sets values of one stage; those of its last run that changed something are kept beside it."""
        with Lock(self._lock_path):
            state = self.read()
            stages = state.get("stages", {})
            previous = stages.get(name, {})
            worked = previous.get("worked") if not values.get("changed") else None
            if values.get("changed"):
                worked = {key: values[key] for key in ("seconds", "message") if key in values}
            stages[name] = {**values, **({"worked": worked} if worked else {})}
            self._write({**state, "stages": stages, "stage": name})
        failed = "failed: " if values.get("state") == "failed" else ""
        note(self.path.parent, name, f"{failed}{values.get('message', '')}")

    def take_over(self, name: str, other: dict[str, Any], shared: tuple[str, ...]) -> None:
        """Sets what another deployment's record says of a stage that was done for both, unless nothing is new in it.

        Args:
            name: the stage.
            other: the other's record.
            shared: top-level values of it that count for both.
        """
        done = other.get("stages", {}).get(name)
        with Lock(self._lock_path):
            state = self.read()
            known = state.get("stages", {}).get(name, {})
            if done and (done.get("changed") or known.get("state") != done.get("state")):
                found = {each: other[each] for each in shared if each in other}
                stages = {**state.get("stages", {}), name: done}
                self._write({**state, **found, "stages": stages, "stage": name})

    def _write(self, state: dict[str, Any]) -> None:
        write_json(self.path, {**state, "updated": time.time()})


def _is_stale(state: dict[str, Any], behind: tuple[str, ...]) -> bool:
    stages = state.get("stages", {})
    has_failed = any(stages.get(each, {}).get("state") == "failed" for each in behind)
    return has_failed or (behind == STAGES and bool(state.get("undeployed")))
