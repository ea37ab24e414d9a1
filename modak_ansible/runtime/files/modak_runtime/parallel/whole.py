"""Whole tensors of what ranks have parts of: what a script saves is one process's, and what it loads is shared out."""

import contextlib
import datetime
import functools
import importlib
import os

from modak_runtime.parallel.group import first_line
from modak_runtime.ranks import prepared

_PLAIN = (type(None), bool, int, float, complex, str, bytes)


def is_part(value):
    """Whether it is a rank's part of a tensor: a DTensor."""
    return hasattr(value, "full_tensor")


def local_of(tensor):
    """What this rank has of a tensor: all of it, but for a part."""
    return tensor.to_local() if is_part(tensor) else tensor


def with_local(local, like):
    """What this rank has of a tensor that lies in ranks as another one does."""
    if not is_part(like):
        return local
    kind = importlib.import_module("torch.distributed.tensor").DTensor
    return kind.from_local(
        local, like.device_mesh, like.placements, run_check=False, shape=like.shape, stride=like.stride()
    )  # fmt: skip


def part_of(torch, whole, like):
    """This rank's part of a whole tensor, in memory of its own, where another that is like it is shared out."""
    if not is_part(like) or is_part(whole) or not isinstance(whole, torch.Tensor) or whole.shape != like.shape:
        return whole
    tensors = importlib.import_module("torch.distributed.tensor")
    mesh, placements = like.device_mesh, like.placements
    with torch.no_grad():
        local = tensors.distribute_tensor(whole.detach(), mesh, placements, src_data_rank=None).to_local()
        local = local if whole.dim() else whole.detach()  # of a scalar that is elsewhere, lest it lose its shape
        local = local.to(mesh.device_type).clone(memory_format=torch.contiguous_format)
    strides = torch.empty(whole.shape, device="meta").stride()
    return tensors.DTensor.from_local(
        local, mesh, placements, run_check=False, shape=whole.shape, stride=strides
    )  # fmt: skip


def read_whole(torch):
    """Lets Python's numbers, lists and arrays of a tensor be those of the whole: by itself PyTorch gives a rank's own.

    All ranks must ask alike.
    """
    kind = importlib.import_module("torch.distributed.tensor").DTensor
    for name in ("item", "tolist", "numpy", "__float__", "__int__", "__bool__", "__format__", "__array__"):

        def read(self, *arguments, _name=name, **options):
            return getattr(self.detach().full_tensor(), _name)(*arguments, **options)

        read.__name__ = name
        setattr(kind, name, read)
    copy = torch.Tensor.copy_
    kind.copy_ = lambda self, other, *arguments: copy(self, part_of(torch, other, self), *arguments)

    def set_data(self, value):  # by itself PyTorch leaves a rank what it has
        self._local_tensor = local_of(part_of(torch, value, self)).detach()
        if hasattr(self, "_modak_replaced"):
            self._modak_replaced()

    kind.data = property(torch.Tensor.data.__get__, set_data)


def load_whole(torch, stateful):
    """Lets load_state_dict of a model or of an optimizer take whole tensors, too."""
    stateful.register_load_state_dict_pre_hook(
        _of_optimizer(torch) if isinstance(stateful, torch.optim.Optimizer) else _of_model(torch)
    )


def _of_model(torch):
    def share(module, state, prefix, *_others):
        for name, like in module.named_parameters(remove_duplicate=False):
            if prefix + name in state:
                state[prefix + name] = part_of(torch, state[prefix + name], like)

    return share


def _of_optimizer(torch):
    def share(optimizer, state):
        owners = {}
        for group, saved_group in zip(optimizer.param_groups, state["param_groups"]):
            owners.update(zip(saved_group["params"], group["params"]))
        shared = {
            number: {name: _own(torch, value, owners.get(number)) for name, value in values.items()}
            for number, values in state["state"].items()
        }
        return {**state, "state": shared}

    return share


def _own(torch, value, like):
    part = part_of(torch, value, like)
    return part.clone() if part is value and isinstance(part, torch.Tensor) else part  # not a file's, which may go


def leaves_of(tree):
    """What a thing of dictionaries, lists and tuples holds, in its order."""
    if isinstance(tree, dict):
        return [leaf for child in tree.values() for leaf in leaves_of(child)]
    if isinstance(tree, (list, tuple)):
        return [leaf for child in tree for leaf in leaves_of(child)]
    return [tree]


def _with(tree, leaves):
    """The same thing with other leaves, taken one after the other."""
    if isinstance(tree, dict):
        result = tree.copy() if hasattr(tree, "_metadata") else type(tree)() if type(tree) is not dict else {}
        for name, child in tree.items():
            result[name] = _with(child, leaves)
        if hasattr(tree, "_metadata"):
            result._metadata = tree._metadata
        return result
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return type(tree)(*[_with(child, leaves) for child in tree])
    if isinstance(tree, (list, tuple)):
        return type(tree)([_with(child, leaves) for child in tree])
    return next(leaves)


def imported(torch):
    """Lets a script save as if it were one process: none ever sees a file half written, or a part of a tensor."""
    plain_save = torch.save

    @functools.wraps(plain_save)
    def save(obj, f, *arguments, **options):
        ranks = prepared()
        if ranks is None:
            return plain_save(obj, f, *arguments, **options)
        path = os.path.realpath(f) if isinstance(f, (str, os.PathLike)) else ""
        is_file = bool(path) and (os.path.isfile(path) or not os.path.exists(path))
        part = "%s.%d.part" % (path, ranks.number) if is_file else f
        write = functools.partial(plain_save, **options)
        try:
            leaves = leaves_of(obj)
            if any(map(is_part, leaves)):
                _save_together(ranks, write, obj, leaves, part, path if is_file else "")
            else:
                _check_models(ranks, leaves)
                write(obj, part, *arguments)
                if is_file:
                    os.replace(part, path)
        except BaseException:
            if is_file:
                with contextlib.suppress(OSError):
                    os.unlink(part)
            raise

    torch.save = torch.serialization.save = save


def _check_models(ranks, leaves):
    for leaf in leaves:
        if isinstance(leaf, ranks.torch.nn.Module) and any(map(is_part, leaf.parameters())):
            ranks.rank.end("a %s whose parameters are shared out cannot be saved as it is: save its state_dict()" % (
                type(leaf).__name__))  # fmt: skip


def _save_together(ranks, write, tree, leaves, file, path):
    """Has the first rank write what has parts in it, or each its own file; all take part, and wait for the end.

    Raises:
        RuntimeError: a rank could not write, in its words; all raise it.
    """
    torch = ranks.torch
    _await_all(torch, ranks)
    parts = {_memory(leaf): leaf for leaf in leaves if is_part(leaf)}
    target, problems = None, []

    def attempt(act, *arguments):
        try:
            return None if problems else act(*arguments)
        except Exception as error:  # of any kind, such as a full disk: the others are to know
            problems.append("%s: %s" % (type(error).__name__, error))

    place = path or _place(file)
    places = ranks.gathered(place)
    has_own = None in places or len(set(places)) > 1
    if (has_own or ranks.number == 0) and place != _place(os.devnull):  # which nobody reads again
        target = attempt(_File, torch, write, tree, leaves, parts, file)
    for key, part in parts.items():
        with torch.no_grad():
            whole = ranks.guarded(part.full_tensor)
        if target:
            attempt(target.write, key, whole)
        del whole
    if target:
        attempt(target.end, path)
    for number, problem in enumerate(ranks.gathered("".join(problems))):
        if problem:
            raise RuntimeError("rank %d could not save: %s" % (number, problem))


def _place(file):
    """By what the system knows a file, open or by its path; None where it knows none, as in memory."""
    try:
        status = os.stat(file) if isinstance(file, (str, os.PathLike)) else os.fstat(file.fileno())
    except (AttributeError, OSError):
        return None
    return status.st_dev, status.st_ino


def _await_all(torch, ranks):
    """Ends where not all ranks save: what one of them has nobody else has."""
    if "gloo" not in str(torch.distributed.get_backend()):
        return
    try:
        torch.distributed.monitored_barrier(timeout=datetime.timedelta(seconds=ranks.rank.timeout))
    except Exception as error:
        ranks.rank.end(
            "it saves what all ranks have parts of, which every rank has to call torch.save for, and within %g s: %s"
            % (ranks.rank.timeout, first_line(error))
        )


def _memory(part):
    """By which parts that are one tensor, such as tied weights, are known."""
    return _storage(part.to_local())


class _File:
    """A file that a rank writes: its tensors are filled in one after the other, or it is written in the end."""

    def __init__(self, torch, write, tree, leaves, parts, path):
        self._torch, self._path, self._file, self._places = torch, path, None, {}
        self._whole = {key: torch.empty(part.shape, dtype=part.dtype) for key, part in parts.items()}  # not touched yet
        whole_leaves = [self._whole[_memory(leaf)] if is_part(leaf) else leaf for leaf in leaves]
        self._write_all = functools.partial(write, _with(tree, iter(whole_leaves)), path)
        is_plain = all(isinstance(leaf, (*_PLAIN, torch.Tensor)) for leaf in whole_leaves)
        if is_plain and isinstance(path, str) and not write.keywords:
            self._begin(path, whole_leaves)

    def _begin(self, path, whole_leaves):
        """Writes all but the numbers, and finds out where they belong; the disk has room for them then."""
        torch, fake = self._torch, importlib.import_module("torch._subclasses.fake_tensor")
        with torch.serialization.skip_data():
            self._write_all()
        with fake.FakeTensorMode():
            loaded_leaves = leaves_of(torch.load(path, weights_only=True))
        pairs = [(leaf, loaded) for leaf, loaded in zip(whole_leaves, loaded_leaves) if isinstance(leaf, torch.Tensor)]
        self._places = {_storage(leaf): loaded.untyped_storage()._checkpoint_offset for leaf, loaded in pairs}
        self._file = open(path, "r+b")  # noqa: SIM115 - end closes it
        os.posix_fallocate(self._file.fileno(), 0, os.path.getsize(path))
        keys = {_storage(tensor) for tensor in self._whole.values()}
        for leaf, _ in pairs:
            if _storage(leaf) not in keys:
                self._fill(_storage(leaf), torch.empty(0, dtype=torch.uint8).set_(leaf.untyped_storage().cpu()))

    def write(self, key, whole):
        """Takes a whole tensor."""
        if self._file is None:
            self._whole[key].copy_(whole)
        else:
            self._fill(_storage(self._whole[key]), whole.detach().cpu().contiguous().reshape(-1))

    def _fill(self, key, numbers):
        self._file.seek(self._places[key])
        self._file.write(memoryview(numbers.view(self._torch.uint8).numpy()))

    def end(self, path):
        """Gives the file its name, where it has one."""
        if self._file is None:
            self._write_all()
        else:
            self._file.close()
        if path:
            os.replace(self._path, path)


def _storage(tensor):
    return tensor.untyped_storage()._cdata
