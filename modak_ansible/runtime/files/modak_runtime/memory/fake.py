"""Tensors without numbers, and what a script finds in the place of numbers that it looks at.

Whole numbers of processors are real where they are few: places, lengths and orders say which shapes tensors have.
"""

import importlib

from modak_runtime.memory import recurrent
from modak_runtime.tensors import is_dense, size_of

_FEW = 1 << 20  # elements


def made():
    """PyTorch's mode in which whatever makes a tensor makes a fake one."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    return FakeTensorMode(allow_non_fake_inputs=True)


def really():
    """What is done within is done with real tensors."""
    from torch.utils._python_dispatch import _disable_current_modes

    return _disable_current_modes()


def is_fake(tensor):
    from torch._subclasses.fake_tensor import FakeTensor

    return isinstance(tensor, FakeTensor)


def ledger(torch, trace):
    """The mode that tells a trace what each operator makes."""
    from torch.utils._python_dispatch import TorchDispatchMode

    leaves = torch.utils._pytree.tree_leaves
    looked_at = (torch.ops.aten._local_scalar_dense.default, torch.ops.aten.item.default)
    compared = (torch.ops.aten.equal.default, torch.ops.aten.allclose.default)

    class Ledger(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            if any(hasattr(each, "full_tensor") for each in types):  # a DTensor: of what it is made of, each by itself
                return NotImplemented
            kwargs = kwargs or {}
            # there operators come as they are called, and not what they are made of
            if torch.is_inference_mode_enabled() and func.namespace != "prim":
                with self:
                    found = func.decompose(*args, **kwargs)
                if found is not NotImplemented:
                    return found
            if func in looked_at and is_fake(args[0]) and args[0].constant is None:
                kind = args[0].dtype
                return 1.0 if kind.is_floating_point else kind is torch.bool or 0
            if func in compared:
                return False
            adds_in_place = _adds_in_place(torch, func, args)
            given = leaves((args, kwargs))
            taken = trace.asked(func, args, kwargs, given)
            found = _whole_numbers(torch, func, args, kwargs, given)
            if found is None and taken is not None:
                found = recurrent.of_cudnn(torch, func, args, taken["given"])
            if found is None:
                found = recurrent.of_processor(func, args, func(*args, **kwargs))
            if adds_in_place:
                trace.takes_over(args[0], found)
            room = _room(torch, func, args, found) if taken is None else [taken["transient"]] * bool(taken["transient"])
            # the weights of cuDNN's layers are there already
            made = found[:4] if func is torch.ops.aten._cudnn_rnn.default else found
            trace.made(func.overloadpacket.__name__, leaves(made), room, on_device=taken is not None)
            trace.ran(func, args, kwargs, found)
            return found

    return Ledger()


def _whole_numbers(torch, func, args, kwargs, leaves):
    """What an operator gives that makes whole numbers of real ones, or of none; None for any other."""
    given = [each for each in leaves if isinstance(each, torch.Tensor)]
    if not all(_is_real(each) for each in given):
        return None
    if not given and func.overloadpacket.__name__ not in ("randint", "randperm", "arange"):
        return None
    with really():
        found = func(*args, **kwargs)
    made = [each for each in torch.utils._pytree.tree_leaves(found) if isinstance(each, torch.Tensor)]
    return found if all(_is_real(each) for each in made) else None


def _is_real(tensor):
    is_whole = not (tensor.is_floating_point() or tensor.is_complex())
    return is_whole and not is_fake(tensor) and tensor.device.type == "cpu" and tensor.numel() <= _FEW


def _adds_in_place(torch, func, args):
    """Whether autograd adds up gradients of one tensor in the first one's memory, as it does where nobody else has it.

    It does not with tensors of kinds of their own, such as fake ones. Two references to that memory are its own here.
    """
    c = torch._C
    try:
        return (
            func is torch.ops.aten.add.Tensor
            and c._current_graph_task_id() != -1
            and not isinstance(c._current_autograd_node(), torch.autograd.function.BackwardCFunction)  # a script's own
            and getattr(args[1], "shape", None) == args[0].shape
            and is_dense(args[0])
            and c._storage_Use_Count(args[0].untyped_storage()._cdata) <= 2
        )
    except AttributeError:  # a release without these
        return False


def _room(torch, func, args, found):
    """Bytes that an operator takes while it computes, each: oneDNN lays images and weights out in blocks, and back."""
    if func is torch.ops.aten.convolution.default:
        return [_blocked(torch, each) for each in (args[0], found)]
    if func is torch.ops.aten.convolution_backward.default:
        return [_blocked(torch, each) for each in args[:2]]
    if func.overloadpacket.__name__ in ("mkldnn_rnn_layer", "mkldnn_rnn_layer_backward"):
        is_backward = "backward" in func.overloadpacket.__name__
        packed = 3 if is_backward else 1  # of both gradients, too
        more = [4 * recurrent.of_states(args)] if is_backward else []
        return [size_of(each) for each in args[1:3]] * packed + more
    return []


def _blocked(torch, images):
    lies_otherwise = images.dim() == 4 and images.is_contiguous(memory_format=torch.channels_last)
    is_small = images.dim() < 3 or images.shape[1] <= 3  # of few channels it needs no blocks
    return 0 if is_small or lies_otherwise else size_of(images)


def follow_sizes(torch, trace):
    """Tells a trace of memory that is given back, and taken again, while its tensor stays."""
    kind = torch.UntypedStorage
    resize = kind.resize_

    def resize_(self, size):
        found = resize(self, size)
        trace.resized(self)
        return found

    kind.resize_ = resize_


def look_at_no_numbers(torch):
    """Gives zeros to what wants a list or an array, and saves nothing."""
    from torch._subclasses.fake_tensor import FakeTensor

    def zeros(shape):
        return [zeros(shape[1:]) for _ in range(shape[0])] if shape else 0

    def array(self, *_arguments, **_options):
        with really():
            return torch.zeros(tuple(self.shape), dtype=self.dtype).numpy()

    clone = torch.UntypedStorage.clone

    def cloned(self):
        with really():  # copy.deepcopy asks for that of a tensor that is real
            return clone(self)

    def copied(self, memo):
        if id(self) not in memo:
            found = self.detach().clone().requires_grad_(self.requires_grad)
            is_parameter = isinstance(self, torch.nn.Parameter)
            memo[id(self)] = torch.nn.Parameter(found, self.requires_grad) if is_parameter else found
        return memo[id(self)]

    torch.UntypedStorage.clone = cloned
    FakeTensor.__deepcopy__ = copied
    FakeTensor.tolist = lambda self: zeros(tuple(self.shape))
    FakeTensor.numpy = array
    FakeTensor.__array__ = lambda self, dtype=None, **_options: array(self).astype(dtype) if dtype else array(self)
    torch.save = lambda *_arguments, **_options: None


def take_foreach():
    """Lets optimisers take all parameters at once, as they do on accelerators: they look at the kind of tensors."""
    from torch._subclasses.fake_tensor import FakeTensor

    for name in ("torch.optim.optimizer", "torch.utils._foreach_utils"):
        kinds = getattr(importlib.import_module(name), "_foreach_supported_types", None)
        if kinds is not None and FakeTensor not in kinds:
            kinds.append(FakeTensor)


def let_modules_move(torch, mode):
    """Has ``module.to(...)`` work, which swaps each parameter with a copy of it.

    PyTorch refuses to swap what has weak references, and the mode keeps one to every parameter, to know it again.
    """
    swap, known = torch.utils.swap_tensors, mode.fake_tensor_converter.meta_converter

    def swap_tensors(one, other):
        known.tensor_memo.clear()
        swap(one, other)

    torch.utils.swap_tensors = swap_tensors


def give_batches(torch, batches):
    """Has loops over loaders get what is made of the loader's own batches, which one process reads.

    Args:
        batches: of a loader and its iterator, those that the loop gets.
    """
    loader = torch.utils.data.DataLoader
    begin, alone = loader.__iter__, {"num_workers": 0, "prefetch_factor": None, "persistent_workers": False}

    def __iter__(self):
        kept = {name: getattr(self, name, None) for name in alone}
        self.__dict__.update(alone)
        try:
            with really():
                iterator = begin(self)
        finally:
            self.__dict__.update(kept)
        return batches(self, iterator)

    loader.__iter__ = __iter__
