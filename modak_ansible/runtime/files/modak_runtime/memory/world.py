"""A process that takes itself for one of several ranks, while it is traced: whatever others would say, it says itself.

What the runtime does to make one training of ranks is done as ever, with tensors that have sizes alone: buckets, parts
of parameters, what is gathered and what goes to other stages are in the trace. Nothing is sent.
"""

import functools
import importlib
import os
import resource
import sys

from modak_runtime.malloc import NO_CACHES
from modak_runtime.memory import fake
from modak_runtime.memory.copies import Copies
from modak_runtime.memory.heap import serve_copies
from modak_runtime.ranks import STRATEGIES, Rank, parts_of
from modak_runtime.tensors import size_of

# What of its arguments gloo copies besides, as it was measured in PyTorch 2.13: all that a gather gives, and all of
# what is summed and scattered; a sum has a scratch of its own.
_COPIED = {"all_gather": 0, "all_gather_single": 0, "all_gather_into_tensor": 0, "reduce_scatter_single": 1,
           "reduce_scatter_tensor": 1}  # fmt: skip
_SCRATCH = 1900 << 10  # bytes
_SENT = ("all_reduce", "broadcast", "isend", "recv", *_COPIED)
# In which ways begin: those with many ranks, and then those that take longest, as the last rank runs alone.
_ORDER = "pipeline", "fsdp", "tensor", "ddp"
_LONGEST = 480  # seconds of a processor in which one rank is traced: recurrent layers in pieces, on a busy machine


def asked_for():
    """In which ways this process is to be traced as ranks, and as how many: MODAK_TRACE_WAYS, MODAK_TRACE_RANKS."""
    world = int(os.environ.pop("MODAK_TRACE_RANKS", "") or 1)
    ways = os.environ.pop("MODAK_TRACE_WAYS", "").split() or STRATEGIES
    return sorted(ways, key=lambda way: _ORDER.index(parts_of(way)[0])) if world > 1 else [], world


def go_on(ways, world, prepare):
    """Has copies of this process go on as ranks; in each of them this one becomes it.

    A way counts only if all of its ranks were traced: the largest may be the one that was not.

    Args:
        prepare: does what all of them begin with.
    """

    def begin():
        _make_ready()
        serve_copies()
        prepare()
        importlib.import_module("modak_runtime.parallel.processes")

    copies = Copies([[(way, number) for number in _numbers(way, world)] for way in ways], begin)
    if copies.name:
        _become(*copies.name, world)
    return copies


def found(copies, first_times):
    """What they have found as ranks, simple ways first."""
    ranks = [rank for way in copies.answers() for rank in way]
    for rank in ranks:
        rank["computing"] += first_times.sizes(rank.pop("operators"), parts_of(rank["strategy"])[0])
    return sorted(ranks, key=lambda rank: STRATEGIES.index(parts_of(rank["strategy"])[0]))


def _numbers(way, world):
    """Of ranks that differ: of a pipeline the first, the last, and one between them."""
    strategy, number = parts_of(way)
    stages = int(number or world) if strategy == "pipeline" else 1
    return sorted({0, stages // 2, stages - 1})


def _make_ready():
    """Gives this process the environment of ranks, of which nothing is seen."""
    os.environ["MODAK_MEMORY_LIMIT"] = "1"  # a byte: what is traced is how little a rank can do with
    os.environ.setdefault("GLIBC_TUNABLES", NO_CACHES)  # as plans have it, where the user has nothing else
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for descriptor in (1, 2):
        os.dup2(nowhere, descriptor)


def _become(strategy, number, world):
    """Makes this process one rank."""
    os.environ.update(
        RANK=str(number), WORLD_SIZE=str(world), MASTER_ADDR="127.0.0.1", MASTER_PORT="1", MODAK_STRATEGY=strategy
    )
    used = sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    resource.setrlimit(resource.RLIMIT_CPU, (int(used) + _LONGEST, hard))  # whose signal ends it


def as_rank(memory, operators):
    """What a copy has found as a rank, with the names of its operators."""
    kept = {name: memory[name] for name in ("computing", "setup", "loops")}
    identity = {
        "strategy": os.environ["MODAK_STRATEGY"],
        "ranks": int(os.environ["WORLD_SIZE"]),
        "rank": int(os.environ["RANK"]),
    }
    return {**identity, "operators": sorted(operators), **kept}


def begin(torch, trace):
    """Has prepare make this process the rank of MODAK_STRATEGY that RANK and WORLD_SIZE say."""
    from modak_runtime.parallel import consistency, norm, processes
    from modak_runtime.parallel.alive import watched
    from modak_runtime.parallel.stages import call
    from modak_runtime.parallel.stages.placed import Flow

    for name in _SENT:
        if hasattr(torch.distributed, name):
            setattr(torch.distributed, name, _sent(torch, name, trace))
    processes.meet, processes.Ranks = _meet, _alike(processes.Ranks, trace)
    processes.keep_small_apart = lambda: None  # its room is in the trace
    watched.begin = consistency.look = lambda *_words: None  # the latter sums numbers that are not there
    norm.count_of = len  # of numbers that are not there: one of each rank
    call.near, call.Buffers.share = _near, _shared(call.Buffers.share)
    Flow._sizes_of_fakes, call.Pipe.broadcast = _real(Flow._sizes_of_fakes), lambda _self, _source, value: value or 0
    sharded = sys.modules.get("torch.distributed.fsdp._fully_shard._fsdp_param")
    if hasattr(sharded, "_chunk_with_empty"):
        sharded._chunk_with_empty = _own_chunk
    meshes = importlib.import_module("torch.distributed.device_mesh")
    meshes.init_device_mesh = _real(meshes.init_device_mesh)
    meshes.DeviceMesh.__init__ = _real(meshes.DeviceMesh.__init__)
    # it makes fake tensors of its own, as large as the whole, to learn what an operator gives
    with fake.real_tensors():
        kind = importlib.import_module("torch.distributed.tensor._sharding_prop").ShardingPropagator
    kind._propagate_tensor_meta_non_cached = _real(kind._propagate_tensor_meta_non_cached)


def prepare_alone(torch, report, strategy):
    """A function that makes a model and its optimizer those of the only rank, through gloo: for what that takes."""

    def prepare(model, optimizer):
        from modak_runtime.parallel import processes
        from modak_runtime.parallel.alive import watched

        _make_ready()
        _become(strategy, 0, 2)
        distributed = torch.distributed
        distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
        watched.begin = processes.keep_small_apart = lambda *_words: None  # the latter's room is in the trace
        rank = Rank({**os.environ, "RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "", "MASTER_PORT": "0"})
        processes.Ranks(torch, rank, strategy, 1).prepare(report, (model, optimizer))

    return prepare


def _own_chunk(tensor, count, dim):
    """The first rank's part of a parameter, for all of them: only that is looked at."""
    size = tensor.shape[dim]
    return [tensor.narrow(dim, 0, -(-size // count))] * count


def _near(_torch, first, second):
    """Of numbers that are not there: whether their sizes are the same."""
    return getattr(first, "shape", None) == getattr(second, "shape", None)


def _shared(share):
    """Tells of buffers whether they would change: batch norm's."""

    def shared(self, pipe):
        share(self, pipe)
        return any(getattr(module, "track_running_stats", False) for module, *_ in self._before)

    return shared


def _real(function):
    """With tensors that have numbers."""

    @functools.wraps(function)
    def called(*arguments, **options):
        with fake.real_tensors():
            return function(*arguments, **options)

    return called


class _Done:
    """A message that has arrived; what was copied for it goes when somebody waits for it."""

    def __init__(self, trace, size):
        self._trace, self._size, self._copy = trace, size, trace.borrow(size)

    def wait(self, *_words):
        if self._copy is not None:
            self._trace.give_back(self._size, self._copy)
            self._copy = None
        return True

    def is_completed(self):
        return True


def _sent(torch, name, trace):
    def send(*arguments, async_op=False, **_options):
        size = _SCRATCH if name == "all_reduce" else 0
        if name in _COPIED:
            leaves = torch.utils._pytree.tree_leaves(arguments[_COPIED[name]])
            size = sum(map(size_of, leaves))
        done = _Done(trace, size)
        if not async_op and name != "isend":
            done.wait()
            return None
        return done

    return send


def _meet(torch, rank, _gpu):
    from torch.testing._internal.distributed.fake_pg import FakeStore

    with fake.real_tensors():
        torch.distributed.init_process_group("fake", store=FakeStore(), rank=rank.number, world_size=rank.world)


def _alike(kind, trace):
    class Alike(kind):
        """One of several, all of which say what it says."""

        def __init__(self, *arguments):
            kind.__init__(self, *arguments)
            trace.keeps_small_apart()
            if self.has_parts:
                trace.returns_what_is_freed()

        def from_first(self, value):
            return value

        def gathered(self, value, axis=None):
            return [value] * (axis.size if axis else self.world)

        def to_first(self, value):
            return [value] * self.world if self.number == 0 else None

        def largest(self, numbers, _axis):
            return numbers

        def compare_steps(self, *_words):
            pass

        def mean(self, value, _weight):
            return value

    return Alike
