"""Measures how long Python takes to start, and the framework to be imported, with a cold and with a warm page cache.

Each sample is a fresh process. Cold means that the kernel was asked to drop from its cache the files of Python's
packages and the container's image; it keeps what another process has mapped. Python 2.7 must read this, too.
"""

from __future__ import absolute_import, division, print_function

import machine  # isort: skip - first: its import ends what counts as the launch
import ctypes
import glob
import os
import platform
import resource
import subprocess
import sys

from arguments import give_up
from measures import Measures, measuring_parser

MODULES = ("torch", "tensorflow", "jax", "mxnet", "cntk", "mpi4py")  # what an image is made for; the first one found
DONTNEED = 4  # POSIX_FADV_DONTNEED on Linux


def start(statement):
    """Runs a statement in a fresh Python; returns the seconds until it has ended, and its major page faults.

    Raises:
        RuntimeError: it failed; the text is the last line that it said.
    """
    faults = resource.getrusage(resource.RUSAGE_CHILDREN).ru_majflt
    started = machine.clock()
    process = subprocess.Popen([sys.executable, "-c", statement], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    _, complaint = process.communicate()
    seconds = machine.clock() - started
    if process.returncode:
        lines = complaint.decode("utf-8", "replace").strip().splitlines()
        raise RuntimeError(lines[-1] if lines else "it ended with %s" % process.returncode)
    return seconds, resource.getrusage(resource.RUSAGE_CHILDREN).ru_majflt - faults


def found(module):
    """Returns whether a fresh Python has a module, without importing it."""
    statement = "import pkgutil, sys; sys.exit(pkgutil.find_loader(%r) is None)" % module
    if sys.version_info >= (3,):
        statement = "import importlib.util as u, sys; sys.exit(u.find_spec(%r) is None)" % module
    return subprocess.call([sys.executable, "-c", statement]) == 0


def wanted_modules(asked):
    """Returns the modules to import: those that were asked for; else Keras where a backend is set; else the first."""
    if asked:
        return asked
    if os.environ.get("KERAS_BACKEND") and found("keras"):
        return ["keras"]
    return [module for module in MODULES if found(module)][:1]


def files_of_python():
    """Returns the files of the packages that this Python sees, of its libraries, and of the container's image."""
    folders = {os.path.realpath(folder) for folder in sys.path[1:] if os.path.isdir(folder)}
    paths = [os.path.realpath(sys.executable)]
    for folder in sorted(folders):
        if not any(folder != other and folder.startswith(other + os.sep) for other in folders):
            paths += [os.path.join(root, name) for root, _, names in os.walk(folder) for name in names]
    image = os.environ.get("APPTAINER_CONTAINER") or os.environ.get("SINGULARITY_CONTAINER")
    return paths + ([image] if image and os.path.isfile(image) else [])


def drop_from_cache(paths):
    """Asks the kernel to drop files from the page cache; returns the bytes of those that could be opened."""
    size = 0
    for path in paths:
        try:
            descriptor = os.open(path, os.O_RDONLY)
        except OSError:
            continue
        size += os.fstat(descriptor).st_size
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        else:  # Python 2.7
            ctypes.CDLL(None).posix_fadvise(descriptor, ctypes.c_long(0), ctypes.c_long(0), DONTNEED)
        os.close(descriptor)
    return size


def image_reader_seconds():
    """Returns the processor seconds so far of the programs that hand the container its image's files."""
    ticks = 0
    for path in glob.glob("/proc/[0-9]*/stat"):
        try:
            with open(path, "rb") as file:
                name, _, rest = file.read().partition(b"(")[2].rpartition(b")")
        except (IOError, OSError):  # it has ended
            continue
        if name.startswith(b"squashfuse"):
            ticks += sum(int(each) for each in rest.split()[11:13])  # utime and stime, proc(5)
    return ticks / os.sysconf("SC_CLK_TCK")


def measure(measures, name, statement, arguments, **about):
    """Measures a statement's warm starts, then its cold ones."""
    start(statement)
    warm = [start(statement) for _ in range(arguments.samples)]
    measures.add(name, [seconds for seconds, _ in warm], cache="warm", **about)
    paths, cold, size = files_of_python(), [], 0
    for _ in range(arguments.cold_samples):
        size = drop_from_cache(paths)
        cold.append(start(statement))
    faults = sum(each for _, each in cold) / len(cold)
    about.update(cache="cold", dropped_megabytes=round(size / 1e6, 1), major_faults=round(faults, 1))
    measures.add(name, [seconds for seconds, _ in cold], **about)


def main():
    """Measures and writes the measures."""
    parser = measuring_parser(__doc__.splitlines()[0], samples=3)
    parser.add_argument(
        "--cold-samples", metavar="N", type=int, choices=range(1, 101), default=2, help="default: %(default)s"
    )
    parser.add_argument(
        "--module",
        metavar="NAME",
        action="append",
        help="what to import, repeatable (default: the framework that is there; keras where KERAS_BACKEND is set)",
    )
    arguments = parser.parse_args()
    modules = wanted_modules(arguments.module)
    for module in modules:
        if not found(module):
            give_up(2, "Python has no module %s" % module)
    measures, read_before = Measures("startup", arguments), image_reader_seconds()
    about = {"container": int("SINGULARITY_NAME" in os.environ), "python": platform.python_version()}
    try:
        measure(measures, "python_start", "pass", arguments, **about)
        for module in modules:
            measure(measures, "import", "import " + module, arguments, module=module, **about)
    except RuntimeError as error:
        give_up(1, str(error))
    measures.belong(image_reader_seconds() - read_before)
    measures.finish()


if __name__ == "__main__":
    main()
