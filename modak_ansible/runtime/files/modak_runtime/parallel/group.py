"""How ranks of PyTorch meet: each says that it is there, and who did not come in time is named, with the addresses."""

import datetime
import importlib
import os
import re
import socket
import time

_QUIET = 1800.0  # seconds that a rank may compute while others wait for its part; those who end are known at once
_OTHERS_TAKE = 10.0  # seconds at most until ranks that are there know who is not


def meet(torch, rank, gpu):
    """Makes the group of all ranks, unless the script has made it; ends the process where they do not all come.

    Args:
        torch: the module.
        rank: this process, as a Rank.
        gpu: whether tensors lie on NVIDIA's devices.
    """
    distributed = torch.distributed
    if not distributed.is_available():
        rank.end("this build of PyTorch trains in one process only: it has no torch.distributed")
    if distributed.is_initialized():
        return
    limit = time.monotonic() + rank.timeout
    own = own_address(rank)
    if rank.number == 0 and "no address" in own:
        rank.end("nobody can be awaited at %s:%d from %s" % (rank.address, rank.port, own))
    store = _store(distributed, rank, own, limit)
    _await_all(store, rank, own, limit)
    try:
        distributed.init_process_group(
            "cpu:gloo,cuda:nccl" if gpu else "gloo", store=distributed.PrefixStore("modak", store), rank=rank.number,
            world_size=rank.world, timeout=datetime.timedelta(seconds=rank.timeout),
        )  # fmt: skip
        distributed.all_reduce(torch.zeros(1))
    except Exception as error:  # of any kind: PyTorch's backends raise what they like
        interface = os.environ.get("GLOO_SOCKET_IFNAME") or "that of the host's name"
        rank.end(
            "all ranks came to %s:%d, and cannot reach each other from %s through the interface %s: %s; "
            "`interface` of the training's `distributed` names another"
            % (rank.address, rank.port, own, interface, first_line(error))
        )
    _set_timeout(distributed, max(_QUIET, rank.timeout))


class Axis:
    """This rank's place along one dimension of the mesh of all ranks.

    Attributes:
        number: of this rank along it, from 0; members: the ranks along it, by their numbers among all; size: how many.
        group: of torch.distributed, in which they tell each other things; None: that of all ranks.
    """

    def __init__(self, members, own, group=None):
        self.members, self.size, self.group = list(members), len(members), group
        self.number = self.members.index(own)


class Mesh:
    """All ranks as rows of neighbours: a row has one copy of a model, whose parts are along it.

    Attributes:
        model: the axis of a row, along which a model's parts lie; data: that of the same part in all copies.
        named: PyTorch's own DeviceMesh of both; None where one of them has all ranks.
    """

    def __init__(self, torch, number, world, degree):
        all_ranks, self.named = Axis(range(world), number), None
        self.model, self.data = (
            (Axis([number], number), all_ranks) if degree == 1 else (all_ranks, Axis([number], number))
        )
        if 1 < degree < world:
            meshes = importlib.import_module("torch.distributed.device_mesh")
            self.named = meshes.init_device_mesh(
                _kind(torch), (world // degree, degree), mesh_dim_names=("data", "model")
            )
            first = number - number % degree
            self.model = Axis(range(first, first + degree), number, self.named.get_group("model"))
            self.data = Axis(range(number % degree, world, degree), number, self.named.get_group("data"))

    def of_parts(self, torch):
        """PyTorch's mesh of the ranks that have a model's parts."""
        if self.named is not None:
            return self.named["model"]
        return importlib.import_module("torch.distributed.device_mesh").init_device_mesh(
            _kind(torch), (self.model.size,)
        )


def _kind(torch):
    return "cuda" if "nccl" in str(torch.distributed.get_backend()) else "cpu"


def own_address(rank):
    """This host's name, and the address from which it would reach rank 0."""
    try:
        family, _, _, _, socket_address = socket.getaddrinfo(rank.address, rank.port, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, socket.SOCK_DGRAM) as probe:  # connecting sends nothing
            probe.connect(socket_address)
            address = probe.getsockname()[0]
    except OSError as error:
        address = "no address: %s" % (error.strerror or error)
    return "%s (%s)" % (socket.gethostname(), address)


def _store(distributed, rank, own, limit):
    if rank.number:
        _await_first(rank, own, limit)
    try:
        wait = datetime.timedelta(seconds=max(1.0, limit - time.monotonic()))
        return distributed.TCPStore(
            rank.address, rank.port, rank.world, is_master=rank.number == 0, timeout=wait, wait_for_workers=False
        )
    except Exception as error:  # of any kind
        words = "rank 0 cannot be met" if rank.number else "nobody can be awaited"
        return rank.end("%s at %s:%d from %s: %s" % (words, rank.address, rank.port, own, first_line(error)))


def _await_first(rank, own, limit):
    """Waits until rank 0 listens: PyTorch itself writes pages when it does not."""
    while True:
        try:
            socket.create_connection((rank.address, rank.port), timeout=5).close()
            return
        except OSError as error:
            if time.monotonic() > limit:
                rank.end(
                    "rank 0 was not reached at %s:%d from %s within %g s: %s"
                    % (rank.address, rank.port, own, rank.timeout, error.strerror or error)
                )
        time.sleep(0.1)


def _await_all(store, rank, own, limit):
    """Waits until every rank has said that it is there."""
    names = ["rank%d" % number for number in range(rank.world)]
    missing = list(names)
    try:
        store.set(names[rank.number], own)
        while True:
            missing = [name for name in missing if not store.check([name])]
            if not missing:
                return
            if time.monotonic() > limit or store.check(["over"]):
                break
            time.sleep(0.05)
        present = sorted({store.get(name).decode() for name in names if name not in missing})
        if rank.number:
            store.set("knows " + names[rank.number], "")
        else:  # its end takes the store from the others, who have a word to say, too
            store.set("over", "")
            _await_others(store, [name for name in names[1:] if name not in missing])
    except Exception as error:  # of any kind
        rank.end(
            "rank 0 at %s:%d went away while ranks were awaited; this one is on %s: %s"
            % (rank.address, rank.port, own, first_line(error))
        )
    rank.end(
        "of %d ranks %s did not come to %s:%d within %g s; this one is on %s, and there are those of %s"
        % (
            rank.world, " and ".join(name[4:] for name in missing), rank.address, rank.port, rank.timeout, own,
            ", ".join(present),
        )
    )  # fmt: skip


def _await_others(store, names):
    """Waits until the others that are there know who is missing."""
    limit = time.monotonic() + _OTHERS_TAKE
    while names and time.monotonic() < limit:
        names = [name for name in names if not store.check(["knows " + name])]
        time.sleep(0.05)


def _set_timeout(distributed, seconds):
    """Gives the steps of a training more time than the meeting had, where this PyTorch can."""
    before = getattr(distributed.distributed_c10d, "_set_pg_timeout", None)  # which warns of itself since 2.15
    change = getattr(distributed, "set_timeout", before)
    if change is not None:
        change(datetime.timedelta(seconds=seconds))


def first_line(error):
    """What an error says, in short, and not where in PyTorch's own source."""
    lines = [re.sub(r"^\[\S+\] ", "", line.strip()) for line in str(error).splitlines() if line.strip()]
    return lines[0][:200] if lines else type(error).__name__
