"""What a training needs of memory, from the script itself: its tensors are PyTorch's fake ones, which have sizes alone.

A loop over a loader is given a few batches: an eighth of one, a half, and a whole one. When the loop that trains would
begin again, the process ends. PyTorch's own MemTracker wants to be shown the model, knows of no batches, and not how an
allocator lays tensors out; for what is alive at a time, a test compares the two.
"""

import atexit
import contextlib
import functools
import gc
import itertools
import sys
import weakref

from modak_runtime.malloc import LARGEST, SMALLEST
from modak_runtime.memory import accelerator, alike, cached, fake, world
from modak_runtime.memory.blocks import repeated, stages_of, units_of, widths_of
from modak_runtime.memory.copies import Found
from modak_runtime.memory.heap import Heap, Place, is_closed
from modak_runtime.memory.operators import STILL, Table
from modak_runtime.memory.resident import (
    FirstTimes,
    file_pages,
    import_optimisers,
    packing,
    resident,
    small_step,
)
from modak_runtime.ranks import is_parallel, parts_of
from modak_runtime.steps import length_of
from modak_runtime.tensors import size_of

_SHARES = (1, 1, 2, 2, 8, 8)  # what batches are divided by: what grows with them is found from these
_WHOLE = (1, 1, 1)  # those of a rank
_PATIENCE = 64  # batches in which a loop that trains makes its first step
_OWN_STEPS = 4  # of a loop over something that is no loader
_NONE = -1  # of autograd's passes
_MULTIPLY = {"mm", "addmm", "bmm", "baddbmm"}
_PRODUCTS = {"mm": 0, "addmm": 1}  # where the first matrix is among their arguments
_numbers = itertools.count()  # of loops


def imported(torch, report, steps):
    """Begins, as soon as PyTorch is imported."""
    import_optimisers(torch)
    gc.collect()
    gc.freeze()  # copies need not look at it, and have it in pages of their own
    device, framework, own_pages = accelerator.find(torch), resident(), file_pages()
    ways, world_size = world.asked_for()
    strategies = {parts_of(way)[0] for way in ways}
    ranks = {strategy: world.prepare_alone(torch, report, strategy) for strategy in strategies}
    first_times = FirstTimes(torch, ranks, own_pages)
    make_mode = functools.lru_cache(maxsize=None)(functools.partial(_mode, torch))
    passes = Found()

    def prepare():
        passes.share()
        make_mode()

    copies = world.go_on(ways, world_size, prepare)
    libraries, mode = packing(torch), make_mode()
    trace = Trace(torch, report, steps, mode, framework, first_times, libraries, device, copies)
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
    alike.take_passes(torch, trace, mode, passes)
    alike.take_steps(torch, trace)
    if is_parallel():
        world.begin(torch, trace)
    ledger = fake.ledger(torch, mode, trace)
    mode.__enter__()
    ledger.__enter__()
    atexit.register(trace.ended, ledger, mode)


def _mode(torch):
    """What makes tensors fake, with all that is imported when it first does."""
    mode = fake.fake_mode()
    with mode:
        small_step(torch, torch.nn.Conv2d(1, 2, 3), 2, 1, 4, 4)
    return mode


class Trace:
    """The ledger of one script.

    Args:
        torch: the module.
        report: takes what was found, as ``memory``.
        steps: the clock of the steps, which ends the process.
        mode: makes tensors fake.
        framework: bytes that were resident before.
        first_times: what libraries take when they compute for the first time.
        libraries: a copy that tells what they pack matrices into and keep.
        device: the accelerator that the script could use; None without one.
        copies: those that go on as ranks; this process may be one of them.

    Attributes:
        mapped_from: bytes from which malloc maps a block for itself.
    """

    def __init__(self, torch, report, steps, mode, framework, first_times, libraries, device, copies):
        self._torch, self._report, self._steps, self._mode = torch, report, steps, mode
        self._copies, self.mapped_from = copies, LARGEST
        self._shares = _WHOLE if is_parallel() else _SHARES
        self._first_times, self._framework, self._tracing, self._script = (
            first_times, framework, resident() - framework, None
        )  # fmt: skip
        self._live, self._host, self._device = {}, Place("host", Heap()), Place("device", Heap(cached.peaks))
        self._memories = self._host, self._device
        self._heaps = [memory.heap for memory in self._memories]
        self._libraries, self._accelerator = libraries, device
        self._loops, self._loop, self._share, self._trained = [], _loop(), 1, set()
        self._making = self._loop  # of the model, whole, before ranks have parts of it
        self._kinds, self._is_complete = set(), False
        self._backward_pass = getattr(torch._C, "_current_graph_task_id", lambda: _NONE)
        self._optimizers, self._roots, self._module_sizes, self._open = {}, [], {}, []
        self._table, self._products, self._library_blocks = Table(), {}, []

    # --- tensors

    def note_tensors(self, name, tensors, order=(), on_device=False):
        """Notes what an operator has made.

        Args:
            name: the operator's.
            tensors: that it gives back, new ones and others; none of a question.
            order: what it has needed while it computed, see ``temporaries.Order``.
            on_device: whether that was on an accelerator.
        """
        self._kinds.add(name)
        self._note_place()
        if not self._loop["learns"]:
            self._loop["learns"] = self._backward_pass() != _NONE
        self._host.heap.ran(saves=bool(tensors) and name != "detach" and self._torch.is_grad_enabled())
        place, blocks = self._device if on_device else self._host, []
        if on_device and name in _MULTIPLY and self._accelerator and not self._library_blocks:
            self._library_blocks = [place.heap.allocate(size) for size in self._accelerator.held]
        for entry in order:
            if isinstance(entry, self._torch.Tensor):
                self._take(entry)
            elif entry > 0:
                blocks.append((entry, place.take(entry)))
            else:
                place.give(*blocks[-entry - 1])
            self._note_most(place, place.now)
        for tensor in tensors:
            self._take(tensor)
        for memory in self._memories:
            self._note_most(memory, memory.now)

    def _note_place(self):
        for heap in self._heaps:
            heap.at(self._loop["number"], self._share)

    def _note_most(self, place, size):
        alive = self._loop["alive"].setdefault(place.name, {})
        if size >= alive.get(self._share, 0):
            alive[self._share] = size

    def usage(self, func, args, kwargs, leaves):
        """What an operator really takes and gives on an accelerator, in bytes; None of one on the host.

        Args:
            leaves: all that its arguments hold.
        """
        devices = [leaf.device if isinstance(leaf, self._torch.Tensor) else leaf for leaf in leaves]
        if not any(isinstance(device, self._torch.device) and device.type == "cuda" for device in devices):
            return None
        is_still = getattr(func, "is_view", False) or func.overloadpacket.__name__ in STILL
        if is_still or not self._accelerator:
            return accelerator.NOTHING
        return self._accelerator.usage(func, args, kwargs)

    def _place_of(self, tensors):
        """Where an operator computes: on an accelerator if one of its tensors lies there."""
        for tensor in tensors:
            if tensor.device.type == "cuda":
                return self._device
        return self._host

    def ran(self, name, args, row):
        """Notes what an operator has computed; ``row`` is of the table of operators."""
        self._table.ran(row, self._share)
        if self._share == 1 and name in _PRODUCTS:
            left, right = args[_PRODUCTS[name] :][:2]
            if self._place_of([left]) is self._device:
                return
            self._products[(*left.shape, right.shape[1], accelerator.name_of(left.dtype))] = None

    def _take(self, tensor):
        """Counts the memory behind a tensor, once, until it is given back."""
        try:
            storage = tensor.untyped_storage()
        except (NotImplementedError, RuntimeError):  # a sparse one has none of its own
            return
        size = storage.nbytes()
        if storage._cdata not in self._live and tensor.device.type != "meta":  # which has sizes alone in the training
            place = self._place_of([tensor])
            self._lies_in(tensor, size, place, place.take(size))

    def takes_over(self, old, new):
        """Takes that a tensor lies in another one's memory, which nobody else has."""
        key = old.untyped_storage()._cdata
        if key in self._live and new.untyped_storage()._cdata not in self._live:
            _, *block = self._live.pop(key)
            self._lies_in(new, *block)

    def _lies_in(self, tensor, size, place, number):
        storage = tensor.untyped_storage()
        reference = weakref.ref(storage, functools.partial(self._given_back, storage._cdata))
        self._live[storage._cdata] = reference, size, place, number

    def resized(self, storage):
        """Takes that the memory behind a tensor has another size, such as none while it is not needed."""
        key = storage._cdata
        if key not in self._live:
            return
        reference, old_size, place, number = self._live[key]
        size = storage.nbytes()
        if size == old_size:
            return
        place.give(old_size, number)
        self._live[key] = reference, size, place, place.take(size)

    def borrow(self, size):
        """Takes so many bytes that belong to no tensor; what comes back is for give_back."""
        number = self._host.take(size) if size else None
        self.note_tensors("", ())
        return number

    def give_back(self, size, number):
        if number is not None:
            self._host.give(size, number)

    def returns_what_is_freed(self):
        """Takes that large blocks go back at once from now on."""
        self.mapped_from = SMALLEST
        self._host.heap.return_from(SMALLEST)

    def keeps_small_apart(self):
        """Takes that small objects lie in blocks of their own from now on."""
        self._host.heap.keep_small_apart()

    def _given_back(self, key, _reference):
        _, size, place, number = self._live.pop(key)
        place.give(size, number)

    # --- what is known of operators that run together

    @contextlib.contextmanager
    def aside(self, place):
        """What is traced within is noted of that place alone, and in the table of operators that this gives."""
        before = self._host, self._memories, self._heaps, self._table, self._loop
        self._host, self._memories, self._heaps, self._table = place, (place,), [place.heap], Table()
        self._loop = {**self._loop, "alive": {}}
        try:
            yield self._table
        finally:
            self._host, self._memories, self._heaps, self._table, self._loop = before

    def noted(self, act):
        """Does something; what it asked for and ran, for ``again``; None if it leaves more behind than it found."""
        (host, *others), table = [heap.so_far for heap in self._heaps], self._table
        self._table = Table()
        try:
            act()
        finally:
            rows, self._table = self._table.rows, table
            table.ran_again(rows, self._share)
        asked = self._host.heap.asked(*host)
        is_all = others == [heap.so_far for heap in self._heaps[1:]] and is_closed(asked)
        return (asked, rows) if is_all else None

    def again(self, asked, rows, blocks):
        """Notes what was traced aside: see ``Place.again``, and ``Table.rows``."""
        self._note_place()
        self._note_most(self._host, self._host.again(asked, blocks))
        self._kinds.update(name for name, *_ in rows)
        self._table.ran_again(rows, self._share)

    def block_of(self, tensor, place):
        """The number of the block of a place that a tensor lies in; None if it lies elsewhere."""
        *_, its_place, number = self._live.get(tensor.untyped_storage()._cdata, (None, None))
        return number if its_place is place else None

    def lay(self, form, block):
        """A tensor of such sizes, strides and type, in a block given by size and number, or in one of its own."""
        tensor = fake.empty(self._torch, self._mode, *form)
        if block is None:
            self._take(tensor)
        else:
            size, number = block
            self._lies_in(tensor, size, self._host, number)
        return tensor

    # --- batches

    def batches(self, loader, iterator):
        """A few batches of a loader, in the sizes that are asked about, as fake ones."""
        if id(loader) in self._trained:
            self._end()
        trains = self._torch.is_grad_enabled()
        self._loop = loop = _loop()
        loop["batches"] = length_of(loader) or 0  # of which a few are traced; as 0 where nobody knows, as of a stream
        self._loops.append(loop)
        shares, batch_count, batch = list(self._shares if trains else _WHOLE[-1:]), 0, None
        places = []
        while shares and batch_count < _PATIENCE:
            places.append((loop["steps"], *(heap.so_far for heap in self._heaps)))
            if len(shares) == 1 and self._repeated(places[-4:]):
                loop["steps"] += 1
                break
            self._share = shares[0]
            # gradients may be added up over many before the first step
            if loop["steps"] or not trains or (batch_count and not loop["learns"]):
                shares.pop(0)
            try:
                with fake.real_tensors():
                    batch = next(iterator)
            except StopIteration:
                if not batch_count:
                    break
            batch_count += 1
            self._table.batch_given()
            fake_batch = self._fake(batch)
            self._note_place()  # what the loop still has of the batch before is given back in this one
            yield fake_batch
        self._share = 1
        if loop["steps"]:
            self._trained.add(id(loader))
            self._report.memory = self.as_dict()
        self._loop = _loop()

    def _repeated(self, places):
        """Whether the last step was for the allocators as the one before it: then they have another such.

        Args:
            places: how many steps there were, and what was asked so far, before each of three batches and behind them.
        """
        if len(places) < 4:
            return False
        steps, *of_heaps = zip(*places)
        pairs = list(zip(self._heaps, of_heaps))
        if not steps[1] < steps[2] < steps[3] or not all(heap.repeats(so_far) for heap, so_far in pairs):
            return False
        for heap, so_far in pairs:
            heap.repeat(so_far)
        return True

    def _fake(self, batch):
        torch, share = self._torch, self._share
        leaves, form = torch.utils._pytree.tree_flatten(batch)
        rows = next((leaf.shape[0] for leaf in leaves if isinstance(leaf, torch.Tensor) and leaf.dim()), 0)
        self._loop["rows"] = max(self._loop["rows"], rows)
        row_count, fake_leaves = max(min(rows, 2), rows // share), []
        for leaf in leaves:
            fake_leaf = leaf
            if isinstance(leaf, torch.Tensor):
                with fake.real_tensors():
                    fake_leaf = leaf[:row_count].clone() if share > 1 and leaf.dim() and leaf.shape[0] == rows else leaf
                fake_leaf = fake_leaf if fake.is_fake(fake_leaf) else self._mode.from_tensor(fake_leaf)
                self._take(fake_leaf)
            fake_leaves.append(fake_leaf)
        return torch.utils._pytree.tree_unflatten(fake_leaves, form)

    # --- steps and modules

    def stepped(self, optimizer):
        """Notes what an optimizer holds, as its step ends."""
        if self._is_complete:  # it is the step of ``computing``
            return
        self._table.stepped(optimizer)
        self._optimizers[id(optimizer)] = optimizer
        self._loop["steps"] += 1
        if not any(loop is self._loop for loop in self._loops):  # that of no loader
            self._loops.append(self._loop)
            self._loop["own"] = True
        if self._loop.get("own") and self._loop["steps"] >= _OWN_STEPS:
            self._end()

    def module_begins(self, module, _inputs):
        if not self._open:
            if self._script is None:
                size = resident()
                self._script = max(0, size - self._framework - self._tracing)
                if self._accelerator is None:  # which answers one process after the other
                    self._copies.allow(size)
            if not any(root() is module for root in self._roots):
                self._roots.append(weakref.ref(module))
        self._open.append((module, self._host.now + self._device.now))

    def module_ended(self, module, _inputs, outputs):
        while self._open:
            opened, before = self._open.pop()
            if opened is not module:
                continue  # one that an exception ended
            if self._torch.is_grad_enabled() and self._share == 1:
                leaves = self._torch.utils._pytree.tree_leaves(outputs)
                output_size = sum(size_of(leaf) for leaf in leaves if isinstance(leaf, self._torch.Tensor))
                self._module_sizes[id(module)] = self._host.now + self._device.now - before, output_size
            return

    # --- the end

    def as_dict(self):
        """What is known; all sizes in bytes. Nothing that copies tell of."""
        if self._copies.name:
            return {}
        parameters, buffers, learning, state = {}, {}, {}, {}
        for root in self._models():
            parameters.update((id(parameter), parameter) for parameter in root.parameters())
            buffers.update((id(buffer), buffer) for buffer in root.buffers())
        for optimizer in self._optimizers.values():
            optimized = [parameter for group in optimizer.param_groups for parameter in group["params"]]
            parameters.update((id(parameter), parameter) for parameter in optimized)
            learning.update((id(parameter), parameter) for parameter in optimized if parameter.requires_grad)
            leaves = self._torch.utils._pytree.tree_leaves([*optimizer.state.values()])
            state.update((id(leaf), leaf) for leaf in leaves if isinstance(leaf, self._torch.Tensor))
        sizes = {"parameters": parameters, "gradients": learning, "buffers": buffers, "state": state}
        units = [units_of(self._torch, root) for root in self._models()]
        return {
            **{name: sum(map(size_of, tensors.values())) for name, tensors in sizes.items()},
            "blocks": [block for root in self._models() for block in self._blocks(root)],
            "units": [size for unit_sizes in units for size in unit_sizes[:-1] if size],
            "rest": sum(unit_sizes[-1] for unit_sizes in units),
            "widths": widths_of(self._torch, self._models()),
            "stages": stages_of(self._torch, self._models()),
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
        return [model for model in (root() for root in self._roots) if model is not None]

    def _blocks(self, root):
        for members in repeated(self._torch, root):
            measured = [self._module_sizes[id(module)] for module in members if id(module) in self._module_sizes]
            if measured:
                saved, output_sizes = zip(*measured)
                sizes = {"saved": sum(saved), "largest": max(saved), "outputs": sum(output_sizes)}
                yield {"kind": type(members[0]).__name__, "count": len(measured), **sizes}

    def ended(self, *modes):
        """Completes what was found, as the script ends by itself."""
        for mode in modes:
            mode.__exit__(None, None, None)
        if self._report.memory is None and self._optimizers:
            self._report.memory = self.as_dict()
        self._complete()

    def _end(self):
        with fake.real_tensors():
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
            self._report.memory["computing"] = self._libraries.ask([*self._products]) or 0
        if self._copies.name:
            self._copies.tell(world.as_rank(self._report.memory, self._kinds) if self._report.memory else None)
        elif self._report.memory is not None:
            self._report.memory["traced"] = world.found(self._copies, self._first_times)
            self._report.memory["computing"] += self._first_times.sizes(self._kinds)


def _loop():
    return {"number": next(_numbers), "rows": 0, "batches": 0, "steps": 0, "learns": False, "alive": {}}
