"""Has the ranks of PyTorch's process group tell each other that they are alive, prepared or parallel by themselves."""

import atexit
import functools
import itertools
import os
import sys

from modak_runtime.parallel import alive
from modak_runtime.parallel.group import own_address
from modak_runtime.ranks import Rank, is_parallel
from modak_runtime.report import warn

_PLACE = "modak/alive"
_OTHERS = {"mpi4py", "horovod", "ray"}  # by which processes may be one training without a group of PyTorch's


def imported(torch, report):
    """Begins as soon as a script that is parallel by itself has made its group, and ends one that makes none."""
    if is_parallel() or not _is_of_a_plan():
        return
    _end_alone(torch)
    make = getattr(getattr(torch, "distributed", None), "init_process_group", None)
    if make is None:
        return

    @functools.wraps(make)
    def init_process_group(*arguments, **options):
        group = make(*arguments, **options)
        try:
            note_the_end()
            begin(torch, report, Rank(os.environ), alive.Pace())
        except Exception as error:  # the border: the script trains without us
            report.mistake("alive", error)
        return group

    torch.distributed.init_process_group = init_process_group


def _end_alone(torch):
    """Ends a rank that makes its second step without the others, lest each train all of it and write over theirs.

    What a script is told by its options or a file beside it may be that it is one process, whatever the job has. The
    first step may be one that only makes an optimizer's state.
    """
    world, steps = int(os.environ["WORLD_SIZE"]), itertools.count()

    def about_to_step(*_):
        if next(steps) != 1 or _OTHERS.intersection(sys.modules) or _calls_others(torch):
            return
        distributed = torch.distributed
        has_group = distributed.is_available() and distributed.is_initialized()
        if (distributed.get_world_size() if has_group else 1) < world:
            Rank(os.environ).end(
                "%d processes each train all of it: the script has made %s, as where an option or a configuration says "
                "so (--distributed, --launcher, devices, num_nodes); `distributed: { strategy: none }` is for "
                "unrelated processes"
                % (world, "a group of %d of them" % distributed.get_world_size() if has_group else "no group")
            )

    register = getattr(sys.modules.get("torch.optim.optimizer"), "register_optimizer_step_pre_hook", None)
    if register is not None:  # before PyTorch 2.0
        register(about_to_step)


def _calls_others(torch):
    """Whether processes call each other by PyTorch's RPC, which needs no group."""
    return getattr(getattr(torch.distributed, "rpc", None), "_is_current_rpc_agent_set", bool)()


def begin(torch, report, rank, pace):
    """Begins, once all ranks have come to one group: collectively, for rank 0 says where it listens."""
    distributed = torch.distributed
    if distributed.get_world_size() != rank.world:
        return
    store, own, number = distributed.distributed_c10d._get_default_store(), own_address(rank), distributed.get_rank()
    is_another = number == 0 and rank.number > 0  # such as of processes that this rank has started for itself
    if is_another:
        store.set(_PLACE, "")
        return
    place = store.get(_PLACE).decode() if number else "here"
    if not place:
        return
    pace.counts(lambda: report.steps_made)
    heartbeat = alive.Alive(
        number, rank.world, own, rank.timeout, pace, alive.end, functools.partial(_tell_of_slow, report)
    )
    if number == 0:
        store.set(_PLACE, "%d %s" % (heartbeat.listen(rank.address), own))
    else:
        port, _, first = place.partition(" ")
        heartbeat.join(rank.address, int(port), first)


def _is_of_a_plan():
    names = ("RANK", "MASTER_ADDR", "MASTER_PORT", "MODAK_RENDEZVOUS_TIMEOUT")
    return os.environ.get("WORLD_SIZE", "1") != "1" and all(os.environ.get(name) for name in names)


def _tell_of_slow(report, seconds, slow):
    """Notes the seconds of all ranks, and who the slow one is; that is said once, when it is seen first."""
    message = None
    if slow:
        rank, own = slow
        others = sorted(seconds[:rank] + seconds[rank + 1 :])
        message = "rank %d on %s takes %.3g s of its own for a step, the others %.3g: all wait for it" % (
            rank, own, seconds[rank], others[len(others) // 2])  # fmt: skip
    ranks = report.ranks
    if ranks is None:
        return
    if message and not ranks.get("slow"):
        warn(message)
    ranks.update({"step_seconds": seconds, "slow": message})


def note_the_end():
    """Notes that the script came to its end without an error, lest an abort after that count for a failed training.

    PyTorch's own threads may abort a process that leaves without destroy_process_group.
    """
    folder, leave, codes = os.path.dirname(os.environ.get("MODAK_APPLIED", "")), sys.exit, []

    @functools.wraps(leave)
    def exit_with(code=None):
        codes.append(code)
        leave(code)

    def note():
        if folder and not (codes and codes[-1]) and not hasattr(sys, "last_type"):
            with open(os.path.join(folder, "came_to_its_end"), "w"):
                pass

    sys.exit = exit_with
    atexit.register(note)
