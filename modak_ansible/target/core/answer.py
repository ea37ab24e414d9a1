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
        return act()
    except SchedulerSilent as error:
        return _failed(SchedulerAway(f"the scheduler does not answer: {error}", hint="try again when it answers"))
    except ActionRefused as error:
        return _failed(ModakError(f"the scheduler refuses: {error}"))
    except ModakError as error:
        return _failed(error)
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        return {"failed": True, "msg": f"on the target, {place}{error.strerror or error}", "hint": mend_of(error)}


def _failed(error: ModakError) -> Mapping[str, object]:
    return {"failed": True, "msg": error.message, "hint": error.hint, "exit_code": error.exit_code}
