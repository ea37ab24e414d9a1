"""A function of ours, run on another host that has Python alone: the sources of what is loaded here travel with it."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from typing import Any, Callable, Dict, Mapping

from ...errors import ModakError
from ...schedulers.base import by_ssh

# A host that has died can hang for ever; whoever removes much takes its time.
_SECONDS = 300.0
# What is of ours and may run there.
_PARTS = ("errors", "schedulers", "target")
# There: modules come from what is read, and so do packages, which are those that something is in.
_BEGINS = """\
import importlib, importlib.abc, importlib.util, json, sys
if sys.version_info < (3, 8):
    sys.exit("its python3 is %d.%d, and 3.8 or later is needed" % sys.version_info[:2])
given = json.loads(sys.stdin.read())
class Sent(importlib.abc.MetaPathFinder, importlib.abc.InspectLoader):
    def find_spec(self, name, path=None, target=None):
        return importlib.util.spec_from_loader(name, self) if name in given["sources"] else None
    def is_package(self, name):
        return any(other.startswith(name + ".") for other in given["sources"])
    def get_source(self, name):
        return given["sources"][name]
sys.meta_path.insert(0, Sent())
function = getattr(importlib.import_module(given["module"]), given["function"])
print(json.dumps(function(given["arguments"])))
"""


def run_there(host: str, function: Callable[[Any], Any], arguments: Mapping[str, Any]) -> Any:
    """What a function gives on another host, of arguments and with an answer that JSON can hold.

    Args:
        function: of a module of the target side.

    Raises:
        ModakError: the host cannot be entered, or it fails there.
    """
    given = {
        "sources": _sources(function.__module__),
        "module": function.__module__,
        "function": function.__name__,
        "arguments": arguments,
    }
    try:
        done = subprocess.run(
            by_ssh(host, ["python3", "-c", _BEGINS]), input=json.dumps(given).encode(), stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, timeout=_SECONDS, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise ModakError(f"the host {host} did not answer within {_SECONDS:.0f} s") from error
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip().rpartition("\n")[2] or f"exit code {done.returncode}"
        raise ModakError(f"the host {host} cannot be asked: {said}", hint=f"ssh -o BatchMode=yes {host} python3 -V")
    # whatever a site's profile greets with comes before
    return json.loads(done.stdout.decode(errors="replace").strip().rpartition("\n")[2])


def _sources(module: str) -> Dict[str, str]:
    """The texts of our modules that are loaded, by their names, and of the packages around them, which need none."""
    root = module.partition(".target.")[0]
    names = [name for name in sys.modules if name.startswith(tuple(f"{root}.{part}" for part in _PARTS))]
    found = {name: inspect.getsource(sys.modules[name]) for name in names if not hasattr(sys.modules[name], "__path__")}
    for name in list(found):
        parts = name.split(".")
        found.update({".".join(parts[:count]): "" for count in range(1, len(parts))})
    return found
