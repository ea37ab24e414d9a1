"""How what is asked on a target ends: with what was found, or with one clear message."""

from __future__ import annotations

from typing import Any, Callable, Mapping

from ...errors import ModakError, SchedulerAway
from ...schedulers.base import ActionRefused, SchedulerSilent
from .files import mend_of


def answer(module: Any, act: Callable[[], Mapping[str, object]]) -> None:
    """Does a module's work and gives its result to Ansible.

    Args:
        act: does the work; an error of ours or of the system becomes the module's failure.
    """
    result = answered(act)
    (module.fail_json if result.get("failed") else module.exit_json)(**result)


def answered(act: Callable[[], Mapping[str, object]]) -> Mapping[str, object]:
    """What some work gives; of an error of ours or of the system ``failed``, ``msg`` and ``hint``."""
    try:
        return _said(act)
    except ModakError as error:
        return {"failed": True, "msg": error.message, "hint": error.hint, "exit_code": error.exit_code}
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        return {"failed": True, "msg": f"on the target, {place}{error.strerror or error}", "hint": mend_of(error)}


def _said(act: Callable[[], Mapping[str, object]]) -> Mapping[str, object]:
    try:
        return act()
    except SchedulerSilent as error:
        raise SchedulerAway(f"the scheduler does not answer: {error}", hint="try again when it answers") from error
    except ActionRefused as error:
        raise ModakError(f"the scheduler refuses: {error}") from error
