"""Looks into an image of the user's own: which framework it has, and which of the plan's choices can act in it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from .probe import start, telling_line

_SECONDS = 600
_MARK = "modak.inside "
# It runs in whatever Python the image has, 2.7 among them; what is not there, or does not work, is left out.
_LOOK = """\
import importlib, json, os, platform, subprocess, sys

found = {"version": "%d.%d" % sys.version_info[:2], "glibc": platform.libc_ver()[1], "frameworks": {}}
found.update({"compilers": [], "preloads": {}, "libraries": [], "packages": []})

for name, module in (("pytorch", "torch"), ("tensorflow", "tensorflow"), ("jax", "jax"), ("keras", "keras"),
                     ("mxnet", "mxnet"), ("cntk", "cntk")):
    try:
        found["frameworks"][name] = str(importlib.import_module(module).__version__)
    except Exception:
        pass
found["frameworks"]["python"] = found["version"]

def inductor():
    import torch
    return float(torch.compile(lambda x: x.sin() + x.cos())(torch.zeros(64)).sum()) == 64.0

def xla():
    if "jax" in sys.modules:
        import jax
        return float(jax.jit(lambda x: x + 1)(1.0)) == 2.0
    import tensorflow
    return float(tensorflow.function(lambda x: x + 1, jit_compile=True)(tensorflow.constant(1.0))) == 2.0

for name, needs, works in (("inductor", ("pytorch",), inductor), ("xla", ("tensorflow", "jax"), xla)):
    if any(each in found["frameworks"] for each in needs):
        try:
            if works():
                found["compilers"].append(name)
        except Exception:
            pass
def preloads(library):
    # loading it later would not do: allocators need room that a process has only at its start
    name = os.path.basename(library)
    asked = subprocess.Popen([sys.executable, "-c", "print(open('/proc/self/maps').read())"],
                             env=dict(os.environ, LD_PRELOAD=library), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    told = asked.communicate()[0]
    return asked.returncode == 0 and name.encode() in told

folders = ["", os.path.join(sys.prefix, "lib"), "/opt/conda/lib", "/usr/local/lib"]
allocators = {"tcmalloc": ("libtcmalloc_minimal.so.4", "libtcmalloc.so.4"), "jemalloc": ("libjemalloc.so.2",)}
for name, libraries in sorted(allocators.items()):
    for library in [os.path.join(folder, each) for folder in folders for each in libraries]:
        if (os.path.isfile(library) or "/" not in library) and preloads(library):
            found["preloads"][name] = library
            break

try:
    import torch
    for name, there in (("onednn", torch.backends.mkldnn), ("mkl", torch.backends.mkl)):
        if there.is_available():
            found["libraries"].append(name)
except Exception:
    pass
maps = open("/proc/self/maps").read()
found["libraries"] += [each for each in ("libgomp", "libiomp5", "libomp") if "/" + each in maps]
try:
    from importlib import metadata
    found["packages"] = sorted(set(str(each.metadata["Name"]) for each in metadata.distributions()))
except Exception:
    pass
print("modak.inside " + json.dumps(found))
"""


def look_inside(runtime: str, image: Path, python: str) -> dict[str, Any]:
    """What an image holds, as SeenImage has it; ``problem`` alone where it cannot be looked into."""
    result = start(runtime, image, [python, "-c", _LOOK], [], _SECONDS)
    lines = (result.out + result.err).splitlines()
    marked = [line for line in result.out.splitlines() if line.startswith(_MARK)]
    if result.timed_out:
        return {"problem": f"it did not answer within {_SECONDS // 60} minutes"}
    if result.code != 0:
        return {"problem": telling_line(lines) or f"{python} ended with code {result.code} in it"}
    if not marked:
        return {"problem": f"{python} is not a Python that answers"}
    found: dict[str, Any] = json.loads(marked[-1][len(_MARK) :])
    return found
