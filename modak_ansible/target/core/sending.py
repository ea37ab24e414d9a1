"""Runs a function of ours on another machine: its Python is sent what that imports, and nothing is written there."""

from __future__ import annotations

import inspect
import json
import sys
import zlib
from functools import lru_cache
from typing import Any, Callable, Dict, Mapping

# Any login shell takes this for one word, so that there is no quote, dollar sign or line's end in it.
READER = (
    "import io,json,os,sys,zlib;asked=io.BufferedReader(io.FileIO(os.dup(0)));"
    "given=json.loads(zlib.decompress(asked.read(int(asked.readline()))));exec(given[sys.argv[1]])"
)
WORD = "begin"  # what is read there and run, by its name
# What the answer's line begins with: shells say other things when they start, and may end them without a new line.
_ANSWER = "modak-answer "
# What is of ours and may run there.
_PARTS = ("errors", "schedulers", "target")
# There: modules come from what is read, and so do packages, which are those that something is in.
_BEGIN = f"""\
import importlib, importlib.abc, importlib.util, json, os, sys
if sys.version_info < (3, 8):
    sys.exit("its python3 is %d.%d, and 3.8 or later is needed" % sys.version_info[:2])
class Sent(importlib.abc.MetaPathFinder, importlib.abc.InspectLoader):
    def find_spec(self, name, path=None, target=None):
        if name not in given["sources"]:
            return None
        spec = importlib.util.spec_from_loader(name, self, origin=name)
        spec.has_location = True  # else nobody finds the text of a module
        return spec
    def is_package(self, name):
        return any(other.startswith(name + ".") for other in given["sources"])
    def get_source(self, name):
        return given["sources"][name]
sys.meta_path.insert(0, Sent())
function = getattr(importlib.import_module(given["module"]), given["function"])
os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # what is asked is for nothing that it starts
for line in asked:
    print("\\n{_ANSWER}" + json.dumps(function(json.loads(line))), flush=True)
"""


def call_of(function: Callable[[Any], Any], arguments: Mapping[str, Any]) -> bytes:
    """What READER reads, to run a function of the target side once.

    Args:
        arguments: what it is called with; they, and its answer, are such that JSON can hold them.
    """
    return opening(function) + question(arguments)


def opening(function: Callable[[Any], Any]) -> bytes:
    """What READER reads first, to run a function of the target side as often as it is asked."""
    program = {
        "sources": sources_for(function),
        "module": function.__module__,
        "function": function.__name__,
        WORD: _BEGIN,
    }
    packed = zlib.compress(json.dumps(program).encode(), 1)
    return b"%d\n%s" % (len(packed), packed)


def question(arguments: Mapping[str, Any]) -> bytes:
    """What it reads next, each time."""
    return b"%s\n" % json.dumps(arguments).encode()


def answer_in(output: bytes) -> Any:
    """What a function gave, of all that was written; None where there is no such line, or half of one."""
    lines = output.decode(errors="replace").splitlines()
    line = next((line for line in reversed(lines) if line.startswith(_ANSWER)), "")
    try:
        return json.loads(line[len(_ANSWER) :])
    except ValueError:
        return None


@lru_cache(maxsize=None)
def sources_for(function: Callable[[Any], Any]) -> Dict[str, str]:
    """The texts of our modules that are loaded, by their names, and of the packages around them, which need none."""
    root = function.__module__.partition(".target.")[0]
    names = [name for name in sys.modules if name.startswith(tuple(f"{root}.{part}" for part in _PARTS))]
    sources = {
        name: inspect.getsource(sys.modules[name]) for name in names if not hasattr(sys.modules[name], "__path__")
    }
    for name in list(sources):
        parts = name.split(".")
        sources.update({".".join(parts[:count]): "" for count in range(1, len(parts))})
    return sources
