"""Tries the packages that were installed on top of a framework: in its image, or its environment.

Arguments: the file with what was there before, as pip lists it, or ""; a JSON object with the names of what the user
asked for (asked), the framework's modules (modules), code that runs an operator of a package, by its name
(tries), and whether accelerators are there (accelerated). Ends with 1 and a line that begins with "error:".
Its Python is that of the image, from 2.7 on.
"""

from __future__ import print_function

import ctypes
import importlib
import json
import os
import re
import sys

LIBRARY = re.compile(r"\.so(\.\d+)*$")
OTHER_MODULES = ("test", "tests", "doc", "docs", "example", "examples", "benchmark", "benchmarks", "scripts", "tools")
ACCELERATED = re.compile(r"cuda|cudnn|cublas|nccl|nvidia|hip|roc|gpu|tpu", re.IGNORECASE)
KEYS = ("CPU", "CompositeImplicitAutograd", "CompositeExplicitAutograd", "CompositeExplicitAutogradNonFunctional")


class Distribution(object):
    """An installed package: its name and version, and the paths of its files."""

    def __init__(self, information):
        lines = read(information, "METADATA") or read(information, "PKG-INFO")
        fields = dict(line.split(": ", 1) for line in reversed(lines) if re.match(r"(Name|Version): ", line))
        self.name, self.version = plain(fields.get("Name", "")), fields.get("Version", "")
        top = os.path.dirname(information)
        listed = [line.split(",")[0].strip('"') for line in read(information, "RECORD")]
        older = [os.path.join(os.path.basename(information), path) for path in read(information, "installed-files.txt")]
        self.files = [os.path.normpath(os.path.join(top, path)) for path in listed or older]
        self._below = [
            path for path in (os.path.relpath(path, top) for path in self.files) if not path.startswith("..")
        ]

    def modules(self):
        """What can be imported, the package's own name first."""
        modules = set()
        for path in self._below:
            first, is_folder = path.split(os.sep)[0], os.sep in path
            if not is_folder and path.endswith((".py", ".so")):
                first = first.split(".")[0]
            elif not (is_folder and path.endswith((".py", ".so"))):
                continue
            if re.match(r"[A-Za-z]\w*$", first) and first not in OTHER_MODULES:
                modules.add(first)
        return sorted(modules, key=lambda module: (plain(module) != self.name, module))

    def libraries(self):
        """The compiled files, without those of others that are packed with them."""
        libraries = [path for path in self.files if LIBRARY.search(path) and os.path.isfile(path)]
        return [path for path in libraries if not os.path.dirname(path).endswith(".libs")]


def plain(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def read(folder, name):
    path = os.path.join(folder, name)
    if not os.path.isfile(path):
        return []
    with open(path, "rb") as file:
        return file.read().decode("utf-8", "replace").splitlines()


def installed():
    distributions = {}
    for folder in sys.path:
        for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else ():
            if name.endswith((".dist-info", ".egg-info")) and os.path.isdir(os.path.join(folder, name)):
                distribution = Distribution(os.path.join(folder, name))
                distributions.setdefault(distribution.name, distribution)
    return distributions


def pinned(path):
    """The version of each package that was there before."""
    pairs = [line.strip().split("==", 1) for line in read(*os.path.split(path)) if "==" in line] if path else []
    return {plain(name): version for name, version in pairs}


def check_versions(distributions, before):
    for name, version in sorted(before.items()):
        if name in distributions and distributions[name].version != version:
            fail("%s is %s now, and the framework's build has %s" % (name, distributions[name].version, version))


def check_files(distributions, new, before):
    """Two names of one package write over each other's files, and pip says nothing."""
    owners = {path: name for name in before if name in distributions for path in distributions[name].files}
    for name in sorted(new):
        overwritten = [path for path in distributions[name].files if path in owners and path.endswith((".py", ".so"))]
        if len(overwritten) > 4 or any(path.endswith(".so") for path in overwritten):
            fail("%s has written over files of %s, such as %s" % (name, owners[overwritten[0]], overwritten[0]))


def import_all(distribution, say):
    """Imports what a package has; what is only beside it may want what is not there, such as a plugin of pytest's."""
    modules, has_one = distribution.modules(), False
    for name in modules:
        say("importing " + name)
        try:
            importlib.import_module(name)
            has_one = True
        except ImportError as error:
            if not has_one or not str(error).startswith("No module named"):
                raise


def load_all(libraries, accelerated):
    """Loads the compiled files that no import has loaded: what they lack would be missed in a training."""
    with open("/proc/self/maps") as file:
        loaded = {line.split(None, 5)[5].strip() for line in file if len(line.split(None, 5)) > 5}
    for path in libraries:
        if os.path.realpath(path) in loaded:
            continue
        try:
            ctypes.CDLL(path)
        except OSError as error:
            if not accelerated and ACCELERATED.search(os.path.basename(path)):
                continue  # it says that it is for what is not here
            raise RuntimeError("%s cannot be loaded beside the framework: %s" % (path, error))  # noqa: B904


def operators():
    """The names of PyTorch's operators, where it is there."""
    listed = getattr(getattr(sys.modules.get("torch"), "_C", None), "_dispatch_get_all_op_names", list)
    return set(listed())


def check_operators(names):
    has_kernel = sys.modules["torch"]._C._dispatch_has_kernel_for_dispatch_key
    for space in sorted({name.split("::")[0] for name in names}):
        own_names = [name for name in names if name.split("::")[0] == space]
        if not any(has_kernel(name, key) for name in own_names for key in KEYS):
            raise RuntimeError("no operator of %s, such as %s, runs on a processor" % (space, sorted(own_names)[0]))


def compiled_in(names, libraries):
    """The operators whose namespace a compiled file for PyTorch spells out: importing a package also loads parts of
    PyTorch that have operators of their own, and not all of those run everywhere."""
    compiled = set()
    for path in libraries:
        with open(path, "rb") as file:
            content = file.read()
        if b"libc10" in content or b"libtorch" in content:
            compiled |= {name for name in names if name.split("::")[0].encode("utf-8") in content}
    return compiled


def attempt(distributions, new, request, say):
    for name in request["modules"]:
        say("importing " + name)
        importlib.import_module(name)
    operators_before = operators()
    for name in request["asked"]:
        if name in distributions:
            import_all(distributions[name], say)
    added = operators() - operators_before
    libraries = [path for name in sorted(new) for path in distributions[name].libraries()]
    say("loading what was compiled")
    load_all(libraries, request["accelerated"])
    if added and not request["accelerated"]:
        check_operators(compiled_in(added, libraries))
    for name in sorted(set(request["tries"]) & set(new)):
        say("running an operator of " + name)
        exec(request["tries"][name], {})  # noqa: S102


def in_a_process(function):
    """Runs a function in a process of its own; what it says last tells what it did when it crashed."""
    sys.stdout.flush()
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        code = 1
        try:
            os.close(reading)
            function(lambda words: os.write(writing, (words + "\n").encode("utf-8")))
            code = 0
        except BaseException as error:
            words = " ".join(("%s: %s" % (type(error).__name__, error)).split())
            os.write(writing, ("!" + words + "\n").encode("utf-8"))
        finally:
            os._exit(code)
    os.close(writing)
    with os.fdopen(reading, "rb") as file:
        lines = file.read().decode("utf-8", "replace").splitlines()
    status = os.waitpid(child, 0)[1]
    if status:
        steps = [line for line in lines if not line.startswith("!")]
        words = lines[-1][1:] if lines and lines[-1].startswith("!") else "it ended with signal %d" % (status & 127)
        fail("%s: %s" % (steps[-1] if steps else "trying the packages", words))


def fail(words):
    print("error: " + words, file=sys.stderr)  # noqa: T201
    sys.exit(1)


def main(arguments):
    sys.path.pop(0)  # the folder of this script
    before, request = pinned(arguments[0]), json.loads(arguments[1])
    distributions = installed()
    request["asked"] = [plain(name) for name in request["asked"]]
    new = [name for name in distributions if (name not in before if before else name in request["asked"])]
    check_versions(distributions, before)
    check_files(distributions, new, before)
    in_a_process(lambda say: attempt(distributions, new, request, say))
    print("tried: " + " ".join("%s==%s" % (name, distributions[name].version) for name in sorted(new)))  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[1:])
