"""What this process is among several that train together, as whoever started it says in its environment."""

import functools
import os
import sys

STRATEGIES = ("ddp", "fsdp", "tensor", "pipeline")
ALIKE = ("tensor", "pipeline")  # of these, those in which all ranks are given the same samples
PIECES = 4  # of a batch that goes through the stages of a pipeline, for each rank
_TIMEOUT = 300.0  # seconds of a rendezvous, where nobody says


def parts_of(way):
    """The strategy in the name of a way, such as ``tensor_2``, and the number behind it; empty where there is none."""
    strategy, _, number = way.partition("_")
    return strategy, number


class Rank:
    """One process of a training that prepare makes parallel.

    Attributes:
        number: of this process, from 0.
        world: how many there are.
        address: of rank 0; port: its own.
        timeout: seconds in which all of them are to come.
    """

    def __init__(self, environment):
        try:
            self.number, self.world = int(environment["RANK"]), int(environment["WORLD_SIZE"])
            self.address, self.port = environment["MASTER_ADDR"], int(environment["MASTER_PORT"])
        except KeyError as error:
            self.end("%s is not set, so this process cannot know where the others are" % error)
        except ValueError as error:
            self.end("RANK, WORLD_SIZE and MASTER_PORT must be numbers: %s" % error)
        try:
            self.timeout = max(1.0, float(environment.get("MODAK_RENDEZVOUS_TIMEOUT") or _TIMEOUT))
        except ValueError:
            self.timeout = _TIMEOUT

    def way(self, name):
        """The strategy of a name, and how many ranks have one copy of a model between them.

        Args:
            name: a strategy's, by which all ranks have one, or each has its own (``ddp``); or with a number behind it,
                such as ``tensor_2``: so many neighbours have one, and the copies are data parallel.
        """
        strategy, number = parts_of(name)
        if strategy not in STRATEGIES:
            self.end("prepare does not know the strategy %s; it knows %s" % (strategy, ", ".join(STRATEGIES)))
        degree = int(number) if number.isdigit() else 1 if strategy == "ddp" else self.world
        if not degree or self.world % degree:
            self.end("%s: model copies of %d ranks each do not add up to %d ranks" % (name, degree, self.world))
        return strategy, degree

    def end(self, reason):
        """Ends this process as one that failed, with words in place of a traceback."""
        sys.stdout.flush()
        sys.exit("modak: rank %s: %s" % (os.environ.get("RANK", "?"), reason))

    def say(self, words, by_all=False):
        """Writes a line to standard error, by the first rank alone or by each."""
        if self.number == 0 or by_all:
            sys.stderr.write("modak: %s\n" % words)


def is_parallel(environment=os.environ):
    """Whether prepare is to make this process one of several."""
    return bool(environment.get("MODAK_STRATEGY")) and environment.get("WORLD_SIZE", "1") != "1"


def prepared():
    """What prepare has made of this process, as parallel.processes.Ranks; None where it is not one of several."""
    processes = sys.modules.get("modak_runtime.parallel.processes")
    return processes.here() if processes else None


def begin():
    """Prepares a process, as it begins, for being one of several."""
    if is_parallel():
        import random

        seed_alike(random.seed)
    if os.environ.get("MODAK_RENDEZVOUS_TIMEOUT") and os.environ.get("WORLD_SIZE", "1") != "1":
        _list_alike()


def _list_alike():
    """Has folders list what is in them by its name: file systems of two nodes may have an order of their own.

    What a script makes of that order, such as numbers of classes or a split of its data, is then the same in all ranks.
    """
    # no functions, which pathlib of Python 3.8 would make methods of its own
    os.listdir, os.scandir = functools.partial(_listed, os.listdir), functools.partial(_Scanned, os.scandir)
    os.supports_fd.update((os.listdir, os.scandir))


def _listed(plain, path=None):
    return sorted(plain(path))


class _Scanned:
    """What os.scandir gives, in the order of names."""

    def __init__(self, plain, path=None):
        with plain(path) as entries:
            self._entries = iter(sorted(entries, key=lambda entry: entry.name))

    def __iter__(self):
        return self

    def __next__(self):
        return next(self._entries)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        """Ends it, as where a loop over it is left."""
        self._entries = iter(())


def numpy_imported(numpy, _report, _steps):
    """Acts as soon as NumPy is imported."""
    seed_alike(numpy.random.seed)
    if is_parallel():
        _seed_generators(numpy.random.bit_generator)


def seed_alike(seed):
    """Has a stream of Python's, NumPy's or PyTorch's that a script does not seed begin alike in all ranks.

    What it draws, such as a split of its data, is then the same in each.
    """
    if is_parallel():
        import zlib

        address = "%s:%s" % (os.environ.get("MASTER_ADDR"), os.environ.get("MASTER_PORT"))
        seed(zlib.crc32(address.encode()))


def _seed_generators(module):
    """Has NumPy's generators without a seed, which ask the system for one, begin alike, until ranks draw apart."""
    import random

    original, common = module.randbits, random.Random()  # noqa: S311 - seeds of generators
    seed_alike(common.seed)

    def randbits(bits):
        ranks, children = prepared(), sys.modules.get("multiprocessing.process")
        if (ranks and ranks.draws_own()) or (children and children.parent_process()):  # which would all begin alike
            return original(bits)
        return common.getrandbits(bits)

    module.randbits = randbits
