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
# How it tells a package that it has not found, with what needs that and the versions that there are ...
_NOT_THERE = re.compile(
    r"ERROR: Could not find a version that satisfies the requirement ([^\s(]+(?:\s?[<>=!~][^(]*?)?)"
    r"(?: \(from (?!versions)([^)]*)\))? \(from versions: ([^)]*)\)"
)
_NOT_REACHED = re.compile(r"WARNING: Retrying \(Retry\(total=0")
# ... and one whose sources it could not build, in the words of several releases
_NOT_BUILT = re.compile(r"ERROR: Failed building wheel for (\S+)|ERROR: Failed to build '([^\s']+)'")
_NO_BUILD = re.compile(r"metadata-generation-failed|^\W .* did not run successfully")  # of what it collected last
_COLLECTING = re.compile(r"Collecting (\S+)")  # and not, further in, what is to build that
_LACKS = re.compile(r"(error|fatal): |command '[^']+' failed", re.IGNORECASE)
# What a definition has in the place of a Debian mirror.
MIRROR = "{{ apt_mirror }}"


class NoCompanion(ModakError):
    """No index has the build of a package for the framework's own build; ``lacks`` is its name."""

    def __init__(self, message: str, lacks: str, *, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.lacks = lacks


def filled(definition: str, **values: str) -> str:
    """A definition with values in place of their names in braces."""
    for name, value in values.items():
        definition = definition.replace(f"{{{{ {name} }}}}", value)
    return definition


def pip_environment(settings: Site) -> dict[str, str]:
    environment = {"PIP_" + name.upper().replace("-", "_"): value for name, value in settings.pip.items()}
    return {**environment, **({"PIP_CERT": settings.bundle} if settings.bundle else {})}


def build_error(activity: Activity, code: int, about: str = "") -> ModakError:
    """What a failed build says, from the end of its log; ``about`` is the address of an image that it is about."""
    lines = tail(activity.log, 60)
    text = "\n".join(lines)
    if lack := lack_in(text) or lack_of_room(activity.log.parent):
        hint = f"make room in the workspace, in /tmp and in ~/.apptainer/cache; see {activity.log}"
        return ModakError(lack, hint=hint)
    if refused := refused_image(lines, about):
        return refused
    whole = tail(activity.log, _CONFLICT_LINES)
    if of_packages := conflict_error(whole) or requirement_error(whole):
        of_packages.hint += f"; the whole log is {activity.log} on the target"
        return of_packages
    telling = [line for line in lines if re.search(r"error|fatal|failed|not found|no matching", line, re.IGNORECASE)]
    said = " | ".join(dict.fromkeys(telling[-4:] or lines[-2:]))
    return ModakError(
        f"the build ended with code {code}: {said}", hint=f"the whole log is {activity.log} on the target"
    )


def requirement_error(lines: List[str]) -> Optional[ModakError]:
    """What pip says at the end of its log of a package that is not there, or that it could not build."""
    for line in reversed(lines):
        if found := _NOT_THERE.search(line):
            name, brings, versions = found.group(1), found.group(2), found.group(3).split(", ")
            asked = f", which {brings} needs" if brings else ""
            # what the site's index has told counts, whether or not one that was asked behind it was reached
            asking = itertools.takewhile(lambda line: not _NOT_THERE.search(line), lines)
            if any(map(_NOT_REACHED.search, asking)) and versions == ["none"]:
                text = f"the package index could not be reached to look for {name}{asked}"
                hint = (
                    "name another one as the site's pip_index_url, or set proxy in pip.conf, or https_proxy, on the "
                    "target"
                )
                return ModakError(text, hint=hint)
            if versions == ["none"]:
                text = f"the package index has no {name}{asked}, or none for this Python"
                return ModakError(text, hint="correct its name where it is asked for, or leave it out")
            text = f"the package index has no {name}{asked}, for this Python: it has {', '.join(versions[:-6:-1])}"
            more = " and earlier ones" if len(versions) > 5 else ""
            return ModakError(text + more, hint="ask for one of those, or leave the version to pip")
        if found := _NOT_BUILT.search(line):
            return _unbuilt(found.group(1) or found.group(2), lines)
        if _NO_BUILD.search(line):
            return _unbuilt(
                next((each.group(1) for each in map(_COLLECTING.match, reversed(lines)) if each), "it"), lines
            )
    return None


def _unbuilt(name: str, lines: List[str]) -> ModakError:
    text = f"{name} has no wheel for this Python, and cannot be built from its sources in the image"
    said = [line.strip(" |\t") for line in lines if _LACKS.search(line) and "subprocess-exited" not in line]
    said = [each for each in said if not each.startswith(("ERROR: ", "FATAL: ", "error: metadata"))]
    text += f": {said[-1][:200]}" if said else ""
    return ModakError(text, hint="ask for a version that has wheels, or give an image of your own")


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
    text = "the packages that are asked for are incompatible with each other"
    hint = "ask for other versions of them, or leave the versions to pip"
    if kept:
        text = "the packages that are asked for are incompatible with the framework's build"
        hint = "ask for other versions, leave them to pip, take another build, or give an image of your own"
    if any(each.endswith("<0") for each in kept):
        said = [
            re.sub(r"^the build allows (.*)<0$", r"\1 would replace the framework or was not built for it", each)
            for each in said
        ]
        hint = "leave out what brings it, take a build of another framework, or give an image of your own"
    told = "; ".join(dict.fromkeys(said))
    asked = [name for name in names if any(each.endswith((" is " + name, " on " + name)) for each in said)]
    if asked and not any(each.endswith("<0") for each in kept):
        text = "pip finds no build of {} for the framework's own build".format(" or ".join(names))
        hint = "name an index or folder with it in the site's pip_extra_index_urls or pip_find_links; or leave it out"
        return NoCompanion(f"{text}: {told}", asked[0], hint=hint)
    return ModakError(f"{text}: {told}", hint=hint)
