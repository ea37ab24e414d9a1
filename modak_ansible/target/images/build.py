"""What a build is told, and what a failed one says."""

from __future__ import annotations

import itertools
import re
from typing import List, Optional

from ...errors import ModakError
from ..core.background import Activity
from ..core.files import lack_in, lack_of_room, tail
from ..core.site import Site
from .logins import refused_image

# More than pip says of packages of which it has tried every release.
_CONFLICT_LINES = 1000
# How pip tells which packages do not go together.
_REASON = re.compile(r"The user requested |\S+ \S+ (depends on|requires) ")
# What a definition has in the place of a Debian mirror.
MIRROR = "{{ apt_mirror }}"


def filled(definition: str, **values: str) -> str:
    """A definition with values in place of their names in braces."""
    for name, value in values.items():
        definition = definition.replace(f"{{{{ {name} }}}}", value)
    return definition


def pip_environment(settings: Site) -> dict[str, str]:
    environment = {"PIP_" + name.upper().replace("-", "_"): value for name, value in settings.pip.items()}
    return {**environment, **({"PIP_CERT": settings.bundle} if settings.bundle else {})}


def build_error(activity: Activity, code: int) -> ModakError:
    """What a failed build says, from the end of its log."""
    lines = tail(activity.log, 60)
    text = "\n".join(lines)
    if lack := lack_in(text) or lack_of_room(activity.log.parent):
        return ModakError(lack, hint=f"make room in the workspace and in /tmp; see {activity.log}")
    if refused := refused_image(lines):
        return refused
    if conflict := conflict_error(tail(activity.log, _CONFLICT_LINES)):
        return conflict
    telling = [line for line in lines if re.search(r"error|fatal|failed|not found|no matching", line, re.IGNORECASE)]
    said = " | ".join(dict.fromkeys(telling[-4:] or lines[-2:]))
    return ModakError(
        f"the build ended with code {code}: {said}", hint=f"the whole log is {activity.log} on the target"
    )


def conflict_error(lines: List[str]) -> Optional[ModakError]:
    """What pip says at the end of its log of packages that do not go with each other, or with the framework's build."""
    starts = [number for number, line in enumerate(lines) if line.strip() == "The conflict is caused by:"]
    if not starts:
        return None
    reasons = itertools.takewhile(_REASON.match, (line.strip() for line in lines[starts[-1] + 1 :] if line.strip()))
    # pip names every release of a package that it has tried
    said = list(
        {reason if "requested" in reason else reason.split()[0]: reason for reason in reversed(list(reasons))}.values()
    )
    said = [each.replace("The user requested (constraint)", "the build allows") for each in reversed(said)]
    said = [each.replace("The user requested", "asked for is") for each in said]
    kept = [each[len("the build allows ") :] for each in said if each.startswith("the build allows ")]
    names = [re.split(r"[^A-Za-z0-9_.-]", each)[0] for each in kept]
    text = "the packages that are asked for do not go together"
    hint = "ask for other versions of them, or leave the versions to pip"
    if kept:
        text = "the packages that are asked for do not go with the framework's build"
        hint = "ask for other versions, leave them to pip, take another build, or give an image of your own"
    if any(each.endswith("<0") for each in kept):
        said = [
            re.sub(r"^the build allows (.*)<0$", r"\1 would take the framework's place or was not made for it", each)
            for each in said
        ]
        hint = "leave out what brings it, take a build of another framework, or give an image of your own"
    elif any(each.endswith((" is " + name, " on " + name)) for each in said for name in names):
        text = "pip finds no build of {} that was made for the framework's".format(" or ".join(names))
        hint = "name an index or folder with it in the site's pip_extra_index_urls or pip_find_links; or leave it out"
    return ModakError("{}: {}".format(text, "; ".join(dict.fromkeys(said))), hint=hint)
