"""How a module of ours ends: with what it found, or with one clear message."""

from __future__ import annotations

from typing import Any, Callable

from ..errors import ModakError
from .files import mend_of


def answer(module: Any, act: Callable[[], dict[str, Any]]) -> None:
    """Does a module's work and gives its result to Ansible.

    Args:
        module: the AnsibleModule.
        act: does the work; an error of ours or of the system becomes the module's failure.
    """
    try:
        result = act()
    except ModakError as error:
        module.fail_json(msg=error.message, hint=error.hint)
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        module.fail_json(msg=f"on the target, {place}{error.strerror or error}", hint=mend_of(error))
    else:
        module.exit_json(**result)
