"""Runs a function of ours on another machine: its Python is sent what that imports, and nothing is written there.

Python compiles what it is sent, which takes half a second for all that asks a scheduler. Whoever asks often sends the
code along, as a Python of the same version compiled it, and is told the code of another one for the next time.
"""

from __future__ import annotations

import inspect
import json
import sys
import zlib
from functools import lru_cache
from typing import Any, Callable, Dict, Mapping, NamedTuple

# Any login shell takes this for one word, so that there is no quote, dollar sign or line's end in it.
READER = "import json,sys,zlib;given=json.loads(zlib.decompress(sys.stdin.buffer.read()));exec(given[sys.argv[1]])"
WORD = "begin"  # what is read there and run, by its name
# What lines begin with: shells say other things when they start, and may end them without a new line.
ANSWER, COMPILED = "modak-answer ", "modak-compiled "
# What is of ours and may run there.
_PARTS = ("errors", "schedulers", "target")
# There: modules come from what is read, and so do packages, which are those that something is in.
_BEGIN = f"""\
import base64, importlib, importlib.abc, importlib.util, json, marshal, sys
if sys.version_info < (3, 8):
    sys.exit("its python3 is %d.%d, and 3.8 or later is needed" % sys.version_info[:2])
magic = importlib.util.MAGIC_NUMBER.hex()
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
    def get_code(self, name):
        if given["magic"] == magic and name in given["code"]:
            return marshal.loads(base64.b64decode(given["code"][name]))
        return super().get_code(name)
sent = Sent()
sys.meta_path.insert(0, sent)
function = getattr(importlib.import_module(given["module"]), given["function"])
print("\\n{ANSWER}" + json.dumps(function(given["arguments"])))
if given["magic"] not in ("", magic):
    code = {{name: base64.b64encode(marshal.dumps(sent.get_code(name))).decode() for name in given["sources"]}}
    print("{COMPILED}" + json.dumps({{"magic": magic, "code": code}}))
"""


class Code(NamedTuple):
    """What modules are, compiled by a Python of one version."""

    magic: str = ""  # the number of that version, in hexadecimal digits; empty where nobody asks for code
    code: Mapping[str, str] = {}  # by the modules' names, in base 64


_NO_CODE = Code()


def sent(function: Callable[[Any], Any], arguments: Mapping[str, Any], code: Code = _NO_CODE) -> bytes:
    """What READER reads, to run a function of the target side.

    Args:
        arguments: what it is called with; they, and its answer, are such that JSON can hold them.
    """
    given = {
        "sources": sources_for(function),
        "module": function.__module__,
        "function": function.__name__,
        "arguments": arguments,
        WORD: _BEGIN,
        **code._asdict(),
    }
    return zlib.compress(json.dumps(given).encode(), 1)


def told(said: bytes, word: str = ANSWER) -> Any:
    """What a function gave, of all that was printed; None where there is no such line, or half of one."""
    lines = said.decode(errors="replace").splitlines()
    line = next((each for each in reversed(lines) if each.startswith(word)), "")
    try:
        return json.loads(line[len(word) :])
    except ValueError:
        return None


@lru_cache(maxsize=None)
def sources_for(function: Callable[[Any], Any]) -> Dict[str, str]:
    """The texts of our modules that are loaded, by their names, and of the packages around them, which need none."""
    root = function.__module__.partition(".target.")[0]
    names = [name for name in sys.modules if name.startswith(tuple(f"{root}.{part}" for part in _PARTS))]
    found = {name: inspect.getsource(sys.modules[name]) for name in names if not hasattr(sys.modules[name], "__path__")}
    for name in list(found):
        parts = name.split(".")
        found.update({".".join(parts[:count]): "" for count in range(1, len(parts))})
    return found
