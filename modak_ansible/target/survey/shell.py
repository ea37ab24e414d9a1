"""What the user's own shell knows: environment modules, and the variables that sites set for their folders."""

from __future__ import annotations

import re
from typing import Dict, List, TypedDict

from ..core.commands import TimedRun

_VARIABLES = ("SCRATCH", "WORK", "PROJECT", "LOCAL_SCRATCH", "LOCALSCRATCH", "TMPDIR", "LMOD_VERSION", "MODULES_CMD")
_MARK = "modak-survey "
_SCRIPT = """
for name in %s; do printf '%s%%s=%%s\\n' "$name" "$(printenv "$name")"; done
type module > /dev/null 2>&1 && printf '%smodule=yes\\n'
for name in "$@"; do
  if module load "$name" > /dev/null 2>&1; then printf '%sloads=%%s\\n' "$name"; fi
done
module -t avail 2>&1 | grep -iE '(^|[/_-])(apptainer|singularity)' | grep -v '[:/]$' | sed 's/^/%soffers=/' | head -n 5
exit 0
"""


class ShellFacts(TypedDict):
    variables: Dict[str, str]  # those that are set
    modules: str  # Lmod, Environment Modules, or empty where there are none
    loads: List[str]  # those of the wanted modules that can be loaded
    offers: List[str]  # modules with a container runtime
    problem: str  # why the shell did not come to its end; empty where it did


def shell_facts(modules: List[str]) -> ShellFacts:
    """Asks a login shell.

    Args:
        modules: those that the target's jobs load; each is tried.
    """
    marks = (" ".join(_VARIABLES), *[_MARK] * 4)
    result = TimedRun(timeout=40)(["bash", "-lc", _SCRIPT % marks, "bash", *modules])
    pairs = re.findall(rf"(?m)^{_MARK}(\w+)=(.*)$", result.out)
    variables = {name: value for name, value in pairs if name in _VARIABLES and value}
    return {
        "variables": variables,
        "modules": _system(variables) if ("module", "yes") in pairs else "",
        "loads": [value for name, value in pairs if name == "loads"],
        "offers": [re.split("[(<]", value)[0].strip() for name, value in pairs if name == "offers"],
        "problem": result.message if result.code else "",
    }


def _system(variables: Dict[str, str]) -> str:
    version = variables.get("LMOD_VERSION", "")
    return f"Lmod {version}" if version else "Environment Modules"
