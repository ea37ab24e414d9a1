"""Whether images can be built and run on the target: the runtime, user namespaces, and the user's range of ids."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Callable, List, Optional, TypedDict

from ...errors import ModakError
from ...schedulers.containers import CONTAINER_RUNTIMES
from ..core.commands import TimedRun, find_program
from ..core.container import check_fakeroot, check_signing_key
from ..core.files import read_text
from ..core.probe import version_of

_SWITCHES = {
    "/proc/sys/user/max_user_namespaces": "0",
    "/proc/sys/kernel/unprivileged_userns_clone": "0",
    "/proc/sys/kernel/apparmor_restrict_unprivileged_userns": "1",
}
_TOOLS = {tool for runtime in CONTAINER_RUNTIMES.values() for tool in runtime.tools}
_BUILDERS = ("debootstrap", "mmdebstrap", *sorted(_TOOLS))


class ContainerFacts(TypedDict):
    """What there is to build and run images with."""

    runtime: Optional[str]  # its path, or None
    version: str
    suid: bool  # whether it may do without namespaces
    namespaces: str  # what stands in their way; empty when nothing does
    range: str  # likewise, for --fakeroot
    range_hint: str
    signing: str  # likewise, for the key
    signing_hint: str
    missing: List[str]  # programs of a build


def container_facts(preference: str, signing_key: str = "") -> ContainerFacts:
    """Looks for what images are built and run with.

    Args:
        preference: any, apptainer, singularity, or none.
        signing_key: what images are signed with; empty where they are not.
    """
    runtime = find_program(*CONTAINER_RUNTIMES.get(preference, CONTAINER_RUNTIMES["any"]).programs)
    problem, hint = _problem(check_fakeroot)
    key_problem = _problem(lambda: check_signing_key(runtime, signing_key)) if runtime and signing_key else ("", "")
    return {
        "runtime": runtime,
        "version": version_of(runtime) if runtime else "",
        "suid": runtime is not None and _is_suid(runtime),
        "namespaces": _namespace_problem(),
        "range": problem,
        "range_hint": hint,
        "signing": key_problem[0],
        "signing_hint": key_problem[1],
        "missing": [name for name in _BUILDERS if find_program(name) is None],
    }


def _is_suid(runtime: str) -> bool:
    """Whether the runtime was installed with a starter that runs as root."""
    folder = TimedRun(timeout=20)([runtime, "buildcfg", "LIBEXECDIR"])
    if folder.code != 0:
        return False
    # singularity may be a link to apptainer, whose starter that then is
    starter = Path(folder.out.strip()) / Path(runtime).resolve().name / "bin" / "starter-suid"
    try:
        return bool(starter.stat().st_mode & stat.S_ISUID)
    except OSError:
        return False


def _problem(check: Callable[[], None]) -> tuple[str, str]:
    """What a check has to say, and its hint; empty where all is well."""
    try:
        check()
    except ModakError as error:
        return error.message, error.hint
    return "", ""


def _namespace_problem() -> str:
    """Tried, and where that fails the switch of the kernel that is to blame."""
    switch = next((f"{path} is {value}" for path, value in _SWITCHES.items() if read_text(Path(path)) == value), "")
    if find_program("unshare") is None:
        return switch
    result = TimedRun(timeout=20)(["unshare", "--user", "--map-root-user", "true"])
    return "" if result.code == 0 else switch or result.message
