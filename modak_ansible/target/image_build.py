"""What a build is told, and what a failed one says."""

from __future__ import annotations

import re

from ..errors import ModakError
from .background import Activity
from .files import lack_in, lack_of_room, tail
from .site import Site

# What a definition has in the place of a Debian mirror.
MIRROR = "{{ apt_mirror }}"


def filled(definition: str, **values: str) -> str:
    """A definition with values in place of their names in braces."""
    for name, value in values.items():
        definition = definition.replace(f"{{{{ {name} }}}}", value)
    return definition


def pip_environment(settings: Site) -> dict[str, str]:
    """pip's settings as the variables that it reads."""
    environment = {"PIP_" + name.upper().replace("-", "_"): value for name, value in settings.pip.items()}
    return {**environment, **({"PIP_CERT": settings.bundle} if settings.bundle else {})}


def build_error(activity: Activity, code: int) -> ModakError:
    """What a failed build says, from the end of its log."""
    lines = tail(activity.log, 60)
    text = "\n".join(lines)
    if lack := lack_in(text) or lack_of_room(activity.log.parent):
        return ModakError(lack, hint=f"make room in the workspace and in /tmp; see {activity.log}")
    telling = [line for line in lines if re.search(r"error|fatal|failed|not found|no matching", line, re.IGNORECASE)]
    said = " | ".join(dict.fromkeys(telling[-4:] or lines[-2:]))
    return ModakError(
        f"the build ended with code {code}: {said}", hint=f"the whole log is {activity.log} on the target"
    )
