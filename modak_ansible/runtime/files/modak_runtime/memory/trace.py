"""What a training needs of memory, from the script itself: its tensors are PyTorch's fake ones, which have sizes alone.

A loop over a loader is given a few batches: an eighth of one, a half, and a whole one. When the loop that trains would
begin again, the process ends. PyTorch's own MemTracker wants to be shown the model, knows of no batches, and not how an
allocator lays tensors out; for what is alive at a time, a test compares the two.
"""

import atexit
import functools
import itertools
import os
import sys
import weakref

from modak_runtime.malloc import SMALLEST
from modak_runtime.memory import accelerator, cached, fake, world
from modak_runtime.memory.blocks import repeated
from modak_runtime.memory.heap import Heap
from modak_runtime.memory.operators import STILL, Table
from modak_runtime.memory.resident import file_pages, first_times, import_optimisers, packing, resident, small_step
from modak_runtime.ranks import is_parallel
from modak_runtime.steps import length_of
from modak_runtime.tensors import size_of

_SHARES = (1, 1, 2, 2, 8, 8)  # what batches are divided by: what grows with them is found from these
_WHOLE = (1, 1, 1)  # those of a rank
_PATIENCE = 64  # batches in which a loop that trains makes its first step
_RANKS = (2, 3, 4, 6, 8, 12, 16, 32, 64)  # for which stages are looked at
_OWN_STEPS = 4  # of a loop over something that is no loader
_MULTIPLY = {"mm", "addmm", "bmm", "baddbmm"}
_PRODUCTS = {"mm": 0, "addmm": 1}  # where the first matrix is among their arguments
_numbers = itertools.count()  # of loops


def imported(torch, report, steps):
    """Begins, as soon as PyTorch is imported."""
    import_optimisers(torch)
    device, libraries = accelerator.find(torch), packing(torch)
    framework = resident()
    known = file_pages()
    tells, ranks = world.ask()
    strategy = os.environ["MODAK_STRATEGY"] if is_parallel() else ""
    first = first_times(torch, world.alone(torch, report, strategy) if strategy else None, known)
    mode = fake.made()
    with mode:  # much is imported when it is first used
        small_step(torch, torch.nn.Conv2d(1, 2, 3), 2, 1, 4, 4)
    trace = Trace(torch, report, steps, mode, framework, first, libraries, device)
    trace.tells, trace.ranks = tells, ranks
    hooks = torch.nn.modules.module
    optimizers = sys.modules["torch.optim.optimizer"]  # torch.optim itself hides it
    optimizers.register_optimizer_step_post_hook(lambda optimizer, _words, _options: trace.stepped(optimizer))
    hooks.register_module_forward_pre_hook(trace.module_begins)
    hooks.register_module_forward_hook(trace.module_ended)
    fake.look_at_no_numbers(torch)
    fake.take_foreach()
    fake.let_modules_move(torch, mode)
    fake.give_batches(torch, trace.batches)
    fake.follow_sizes(torch, trace)
    if is_parallel():
        world.begin(torch, trace)
    ledger = fake.ledger(torch, trace)
    mode.__enter__()
    ledger.__enter__()
    atexit.register(trace.ended, ledger, mode)


class Trace:
    """The ledger of one script.

    Args:
        torch: the module.
        report: takes what was found, as ``memory``.
        steps: the clock of the steps, which ends the process.
        mode: makes tensors fake.
        framework: bytes that were resident before.
        first: bytes that libraries take when they compute for the first time, by what names of operators have in them.
        libraries: a copy that tells what they pack matrices into and keep.
        device: the accelerator that the script could use; None without one.

    Attributes:
        tells: where what a rank has found is told; None where this is the script's own process.
        ranks: what was told by ranks.
    """

    def __init__(self, torch, report, steps, mode, framework, first, libraries, device):
        self._torch, self._report, self._steps, self._mode = torch, report, steps, mode
        self.tells, self.ranks = None, []
        self._shares = _WHOLE if is_parallel() else _SHARES
        self._first, self._framework, self._tracing, self._script = (
            first, framework, resident() - framework, None
        )  # fmt: skip
        self._live, self._host, self._device = {}, _Place("host", Heap()), _Place("device", Heap(cached.peaks))
        self._libraries, self._accelerator = libraries, device
        self._loops, self._loop, self._share, self._trained = [], _loop(), 1, set()
        self._making = self._loop  # of the model, whole, before ranks have parts of it
        self._kinds, self._is_complete = set(), False
        self._optimizers, self._roots, self._kept, self._open = {}, [], {}, []
        self._table, self._products, self._held = Table(torch), {}, []

    # --- tensors

    def made(self, name, tensors, room, on_device=False):
        """Notes what an operator has made.

        Args:
            name: the operator's.
            tensors: that it gives back, new ones and others.
            room: bytes of what it has needed while it computed, each.
            on_device: whether that was on an accelerator.
        """
        self._kinds.add(name)
        for each in (self._host, self._device):
            each.heap.at(self._loop["number"], self._share)
        made = [each for each in tensors if isinstance(each, self._torch.Tensor)]  # none: it is a question
        self._host.heap.ran(saves=bool(made) and name != "detach" and self._torch.is_grad_enabled())
        for each in made:
            self._take(each)
        place = self._device if on_device else self._host
        if on_device and name in _MULTIPLY and self._accelerator and not self._held:
            self._held = [place.heap.allocate(size) for size in self._accelerator.held]
        for each in [place.heap.allocate(size) for size in room]:
            place.heap.release(each)
        for each in (self._host, self._device):
            alive = self._loop["alive"].setdefault(each.name, {})
            alive[self._share] = max(alive.get(self._share, 0), each.now + (sum(room) if each is place else 0))

    def asked(self, func, args, kwargs, leaves):
        """What an operator really takes and gives on an accelerator, in bytes; None of one on the host.

        Args:
            leaves: all that its arguments hold.
        """
        devices = [each.device if isinstance(each, self._torch.Tensor) else each for each in leaves]
        if not any(isinstance(each, self._torch.device) and each.type == "cuda" for each in devices):
            return None
        is_still = getattr(func, "is_view", False) or func.overloadpacket.__name__ in STILL
        if is_still or not self._accelerator:
            return accelerator.NOTHING
        return self._accelerator.asked(func, args, kwargs)

    def _place_of(self, tensors):
        """Where an operator computes: on an accelerator if one of its tensors lies there."""
        return self._device if any(each.device.type == "cuda" for each in tensors) else self._host

    def ran(self, func, args, kwargs, found):
        """Notes what an operator has computed."""
        self._table.ran(func, args, kwargs, found, self._share)
        if self._share == 1 and func.overloadpacket.__name__ in _PRODUCTS:
            one, other = args[_PRODUCTS[func.overloadpacket.__name__] :][:2]
            if self._place_of([one]) is self._device:
                return
            self._products[(*one.shape, other.shape[1], accelerator.name_of(one.dtype))] = None

    def _take(self, tensor):
        """Counts the memory behind a tensor, once, until it is given back."""
        try:
            storage = tensor.untyped_storage()
        except (NotImplementedError, RuntimeError):  # a sparse one has none of its own
            return
        key, size = storage._cdata, storage.nbytes()
        if key not in self._live:
            reference, place = weakref.ref(storage, functools.partial(self._given_back, key)), self._place_of([tensor])
            self._live[key] = reference, size, place, place.heap.allocate(size)
            place.now += size

    def takes_over(self, one, other):
        """Takes that a tensor lies in another one's memory, which nobody else has."""
        key, storage = one.untyped_storage()._cdata, other.untyped_storage()
        if key in self._live and storage._cdata not in self._live:
            _, *block = self._live.pop(key)
            reference = weakref.ref(storage, functools.partial(self._given_back, storage._cdata))
            self._live[storage._cdata] = reference, *block

    def resized(self, storage):
        """Takes that the memory behind a tensor has another size, such as none while it is not needed."""
        key = storage._cdata
        if key not in self._live:
            return
        reference, before, place, number = self._live[key]
        size = storage.nbytes()
        if size == before:
            return
        place.heap.release(number)
        self._live[key] = reference, size, place, place.heap.allocate(size)
        place.now += size - before

    def borrow(self, size):
        """Takes so many bytes that belong to no tensor; what comes back is for give_back."""
        number = self._host.heap.allocate(size) if size else None
        self._host.now += size
        self.made("", (), ())
        return number

    def give_back(self, size, number):
        self._host.now -= size
        if number is not None:
            self._host.heap.release(number)

    def returns_what_is_freed(self):
        """Takes that large blocks go back at once from now on."""
        self._host.heap.return_from(SMALLEST)

    def _given_back(self, key, _reference):
        _, size, place, number = self._live.pop(key)
        place.now -= size
        place.heap.release(number)

    # --- batches

    def batches(self, loader, iterator):
        """A few batches of a loader, in the sizes that are asked about, as fake ones."""
        if id(loader) in self._trained:
            self._end()
        trains = self._torch.is_grad_enabled()
        self._loop = loop = _loop()
        loop["batches"] = length_of(loader) or 0  # of which a few are traced; as 0 where nobody knows, as of a stream
        self._loops.append(loop)
        shares, given, kept = list(self._shares if trains else _WHOLE[-1:]), 0, None
        while shares and given < _PATIENCE:
            self._share = shares[0]
            if loop["steps"] or not trains or given:  # gradients may be added up over many before the first step
                shares.pop(0)
            try:
                with fake.really():
                    kept = next(iterator)
            except StopIteration:
                if not given:
                    break
            given += 1
            self._table.batch_given()
            yield self._fake(kept)
        self._share = 1
        if loop["steps"]:
            self._trained.add(id(loader))
            self._report.memory = self.as_dict()
        self._loop = _loop()

    def _fake(self, batch):
        torch, share = self._torch, self._share
        leaves, form = torch.utils._pytree.tree_flatten(batch)
        rows = next((each.shape[0] for each in leaves if isinstance(each, torch.Tensor) and each.dim()), 0)
        self._loop["rows"] = max(self._loop["rows"], rows)
        wanted, found = max(min(rows, 2), rows // share), []
        for leaf in leaves:
            mine = leaf
            if isinstance(leaf, torch.Tensor):
                with fake.really():
                    mine = leaf[:wanted].clone() if share > 1 and leaf.dim() and leaf.shape[0] == rows else leaf
                mine = mine if fake.is_fake(mine) else self._mode.from_tensor(mine)
                self._take(mine)
            found.append(mine)
        return torch.utils._pytree.tree_unflatten(found, form)

    # --- steps and modules

    def stepped(self, optimizer):
        """Notes what an optimizer holds, as its step ends."""
        if self._is_complete:  # it is the step of ``computing``
            return
        self._table.stepped(optimizer)
        self._optimizers[id(optimizer)] = optimizer
        self._loop["steps"] += 1
        if not any(each is self._loop for each in self._loops):  # that of no loader
            self._loops.append(self._loop)
            self._loop["own"] = True
        if self._loop.get("own") and self._loop["steps"] >= _OWN_STEPS:
            self._end()

    def module_begins(self, module, _inputs):
        if not self._open:
            if self._script is None:
                self._script = max(0, resident() - self._framework - self._tracing)
            if not any(root() is module for root in self._roots):
                self._roots.append(weakref.ref(module))
        self._open.append((module, self._host.now + self._device.now))

    def module_ended(self, module, _inputs, outputs):
        while self._open:
            found, before = self._open.pop()
            if found is not module:
                continue  # one that an exception ended
            if self._torch.is_grad_enabled() and self._share == 1:
                leaves = self._torch.utils._pytree.tree_leaves(outputs)
                made = sum(size_of(each) for each in leaves if isinstance(each, self._torch.Tensor))
                self._kept[id(module)] = self._host.now + self._device.now - before, made
            return

    # --- the end

    def as_dict(self):
        """What is known; all sizes in bytes."""
        parameters, buffers, learning, state = {}, {}, {}, {}
        for root in self._models():
            parameters.update((id(each), each) for each in root.parameters())
            buffers.update((id(each), each) for each in root.buffers())
        for optimizer in self._optimizers.values():
            own = [each for group in optimizer.param_groups for each in group["params"]]
            parameters.update((id(each), each) for each in own)
            learning.update((id(each), each) for each in own if each.requires_grad)
            leaves = self._torch.utils._pytree.tree_leaves([*optimizer.state.values()])
            state.update((id(each), each) for each in leaves if isinstance(each, self._torch.Tensor))
        sizes = {"parameters": parameters, "gradients": learning, "buffers": buffers, "state": state}
        units = [_units(self._torch, root) for root in self._models()]
        return {
            **{name: sum(map(size_of, tensors.values())) for name, tensors in sizes.items()},
            "blocks": [found for root in self._models() for found in self._blocks(root)],
            "units": [size for each in units for size in each[:-1] if size],
            "rest": sum(each[-1] for each in units),
            "widths": _widths(self._torch, self._models()),
            "stages": _stages(self._torch, self._models()),
            "framework": self._framework,
            "script": self._script or 0,
        }  # fmt: skip

    def _of_loops(self):
        return [
            {
                "rows": loop["rows"],
                "batches": loop["batches"],
                "steps": loop["steps"],
                **self._host.of(loop),
                "accelerator": self._device.of(loop) if self._device.heap.is_used else None,
            }
            for loop in self._loops
            if loop["alive"]
        ]

    def _models(self):
        return [found for found in (root() for root in self._roots) if found is not None]

    def _blocks(self, root):
        for members in repeated(self._torch, root):
            kept = [self._kept[id(each)] for each in members if id(each) in self._kept]
            if kept:
                saved, made = zip(*kept)
                sizes = {"saved": sum(saved), "largest": max(saved), "outputs": sum(made)}
                yield {"kind": type(members[0]).__name__, "count": len(kept), **sizes}

    def ended(self, *modes):
        """Completes what was found, as the script ends by itself."""
        for mode in modes:
            mode.__exit__(None, None, None)
        if self._report.memory is None and self._optimizers:
            self._report.memory = self.as_dict()
        self._complete()

    def _end(self):
        with fake.really():
            if self._report.memory is None:
                self._report.memory = self.as_dict()
            self._complete()
            self._steps._end_trial()

    def _complete(self):
        self._is_complete = True
        if self._report.memory is not None:
            self._report.memory.update(operators=self._table.as_list(), batches=self._table.batches)
            device = self._accelerator
            self._report.memory.update(loops=self._of_loops(), setup=self._host.peak(self._making, 1))
            if self._device.heap.is_used:
                setup = self._device.peak(self._making, 1)
                self._report.memory["accelerator"] = {"base": device.base if device else 0, "setup": setup}
            first = [size for kind, size in self._first.items() if any(kind in name for name in self._kinds)]
            self._report.memory["computing"] = sum(first) + (self._libraries.ask([*self._products]) or 0)
            self._report.memory["traced"] = self.ranks
        if self.tells is not None and self._report.memory is not None:
            world.tell(self.tells, self._report.memory)


class _Place:
    """The memory of the host, or of an accelerator.

    Attributes:
        now: bytes of the tensors that lie there.
    """

    def __init__(self, name, heap):
        self.name, self.heap, self.now = name, heap, 0

    def of(self, loop):
        """The most bytes of tensors in a loop, and of what the allocator has, by what batches were divided by."""
        alive = loop["alive"].get(self.name, {})
        return {
            "tensors": {str(share): alive[share] for share in sorted(alive)},
            "peaks": {str(share): self.peak(loop, share) for share in sorted(alive)},
        }

    def peak(self, loop, share):
        """The most that the allocator had in a loop; what was in use where nobody could tell."""
        return self._peaks.get((loop["number"], share), loop["alive"].get(self.name, {}).get(share, 0))

    @functools.cached_property
    def _peaks(self):
        return self.heap.peaks()  # of all loops, at the end: those that evaluate come behind the one that trains


def _loop():
    return {"number": next(_numbers), "rows": 0, "batches": 0, "steps": 0, "alive": {}}


def _widths(torch, models):
    """Bytes of parameters that ranks can split, by the number that theirs has to divide."""
    from modak_runtime.parallel.split import widths

    found = {}
    for model in models:
        for width, size in widths(torch, model).items():
            found[str(width)] = found.get(str(width), 0) + size
    return found


def _stages(torch, models):
    """Bytes of the parameters of the largest stage of so many; 0 where a model has fewer layers."""
    from modak_runtime.parallel.stages import stages

    found = {}
    for ranks in _RANKS:
        of_models = [stages(torch, model, ranks) for model in models]
        fit = all(len(each) == ranks for each in of_models)
        sizes = [[sum(map(size_of, stage)) for stage in each] for each in of_models]
        found[str(ranks)] = max(map(sum, zip(*sizes)), default=0) if fit else 0
    return found


def _units(torch, model):
    """Bytes of what is whole at one time where a model's parameters are shared out; the last: for the whole pass."""
    from modak_runtime.parallel.sharded import units

    sizes, inner = [], set()
    for unit in [*units(torch, model), model]:
        own = [each for each in unit.parameters() if each not in inner]
        inner.update(own)
        sizes.append(sum(map(size_of, own)))
    return sizes
