"""The other hosts of a target without a scheduler, as its first one enters them: what their ranks need, seen by sh."""

from __future__ import annotations

import re
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from typing import List, Optional, TypedDict

from ...schedulers.base import by_ssh
from ..core.commands import TimedRun
from ..core.workspace import Workspace

_SECONDS = 30.0
# Its words: the workspace, the first host's container runtime, and a file that hosts see which share the workspace.
_LOOK = """\
echo "clock=$(date +%s.%N)"
echo "machine=$(uname -m)"
command -v rsync > /dev/null && echo rsync=yes
[ -n "$2" ] && [ -x "$2" ] && echo runtime=yes
[ -n "$3" ] && [ -e "$3" ] && echo shared=yes
python3 -c 'import platform; print("python=" + platform.python_version())' 2> /dev/null
path=$1
while ! [ -e "$path" ]; do path=$(dirname "$path"); done
[ -d "$path" ] && [ -w "$path" ] && [ -x "$path" ] && echo writable=yes
echo "free=$(df -Pk "$path" | awk 'NR == 2 {print $4}')"
echo ended=yes
"""


class HostFacts(TypedDict):
    host: str  # as the target names it
    place: str  # where the first host's ssh goes for that: user@address:port
    problem: str  # why it cannot be entered, in the words of ssh; empty where it can
    ahead: Optional[float]  # seconds that its clock is ahead of the first host's
    machine: str
    rsync: bool
    runtime: bool  # whether the container runtime is where the first host has it
    python: str  # its version; empty where there is none
    shared: bool  # whether it has the first host's workspace
    writable: bool  # whether there may be a workspace
    free_bytes: Optional[int]


def host_facts(hosts: List[str], workspace: Workspace, runtime: Optional[str]) -> List[HostFacts]:
    """Looks at all of some hosts at once, and changes nothing there.

    Args:
        workspace: of the first host, which is this one.
        runtime: the path of its container runtime; None where there is none.
    """
    if not hosts:
        return []
    mark = ""
    with ExitStack() as stack, ThreadPoolExecutor(len(hosts)) as pool:
        with suppress(OSError):  # nobody may write there, which is told of the workspace
            mark = stack.enter_context(workspace.marked())
        return list(pool.map(lambda host: _look(host, [str(workspace.path), runtime or "", mark]), hosts))


def _look(host: str, words: List[str]) -> HostFacts:
    run = TimedRun(timeout=_SECONDS)
    ssh_options = dict(line.partition(" ")[::2] for line in run(["ssh", "-G", host]).out.splitlines())
    began = time.time()
    result = run(by_ssh(host, ["sh", "-c", _LOOK, "sh", *words]))
    middle = (began + time.time()) / 2
    facts = dict(re.findall(r"(?m)^(\w+)=(.*)$", result.out))
    clock = re.fullmatch(r"\d{9,12}(\.\d{1,9})?", facts.get("clock", ""), re.ASCII)
    free = facts.get("free", "")
    return {
        "host": host,
        "place": f"{ssh_options.get('user', '?')}@{ssh_options.get('hostname', host)}:{ssh_options.get('port', '22')}",
        "problem": "" if facts.get("ended") else result.said_by("ssh"),
        "ahead": round(float(clock.group(0)) - middle, 2) if clock else None,
        "machine": facts.get("machine", ""),
        "rsync": "rsync" in facts,
        "runtime": "runtime" in facts,
        "python": facts.get("python", ""),
        "shared": "shared" in facts,
        "writable": "writable" in facts,
        "free_bytes": int(free) * 1024 if re.fullmatch(r"\d{1,18}", free, re.ASCII) else None,
    }
