"""Tensors without numbers, and what a script finds in the place of numbers that it looks at.

Whole numbers of processors are real where they are few: places, lengths and orders say which shapes tensors have.
"""

import functools
import importlib

from modak_runtime.memory import alike
from modak_runtime.memory.known import Known
from modak_runtime.memory.operators import row_of
from modak_runtime.memory.temporaries import of_cudnn, of_device, of_lstm, order_of
from modak_runtime.tensors import is_dense

_FEW = 1 << 20  # elements


def fake_mode():
    """PyTorch's mode in which whatever makes a tensor makes a fake one."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    mode = FakeTensorMode(allow_non_fake_inputs=True)
    mode.cache_enabled = False  # what it keeps is asked here of ``Known``
    return mode


def real_tensors():
    """What is done within is done with real tensors."""
    from torch.utils._python_dispatch import _disable_current_modes

    return _disable_current_modes()


def empty(torch, mode, sizes, strides, kind):
    """A fake tensor of which no trace knows; ``kind`` is what PyTorch calls its type."""
    from torch._subclasses.fake_tensor import FakeTensor

    with real_tensors():
        sized = torch.empty_strided(sizes, strides, dtype=getattr(torch, kind), device="meta")
        return FakeTensor(mode, sized, torch.device("cpu"))


def is_fake(tensor):
    from torch._subclasses.fake_tensor import FakeTensor

    return isinstance(tensor, FakeTensor)


def ledger(torch, mode, trace):
    """The mode that tells a trace what each operator makes of fake tensors, which are those of another mode."""
    from torch.utils._python_dispatch import TorchDispatchMode

    leaves, answers, known = torch.utils._pytree.tree_leaves, _answers(torch, trace), Known(torch, mode)
    device_of, add, cudnn_rnn = (
        torch.ops.prim.device.default, torch.ops.aten.add.Tensor, torch.ops.aten._cudnn_rnn.default
    )  # fmt: skip

    def outputs_of(func, args, kwargs):
        """What an operator gives, and takes on an accelerator, and its row in the table of operators."""
        key = known.key_of(func, args, kwargs)
        again, row = known.get(key)
        if again is not None:
            return again(func, args, kwargs), None, row
        again = known.get_alike(key, func, args, kwargs)
        if again is not None:
            outputs = again(func, args, kwargs)
            row = row_of(torch, func, args, kwargs, outputs)
            known.keep_again(key, again, row)
            return outputs, None, row
        inputs = leaves((args, kwargs))
        usage = trace.usage(func, args, kwargs, inputs)
        outputs = _whole_numbers(torch, func, args, kwargs, inputs)
        if outputs is None and usage is not None:
            outputs = of_cudnn(torch, func, args, usage["given"])
        if outputs is None:
            outputs = of_lstm(func, args, func(*args, **kwargs), trace.mapped_from)
        row = row_of(torch, func, args, kwargs, outputs)
        known.keep(key, func, args, kwargs, outputs, row)
        return outputs, usage, row

    class Ledger(TorchDispatchMode):
        @classmethod
        def _should_skip_dynamo(cls):  # which would go through its frames for each operator; nothing is compiled here
            return False

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            if func is device_of:  # what is asked most often by far
                return args[0].fake_device
            if _are_distributed(types):  # a DTensor: of what it is made of, each by itself
                return NotImplemented
            kwargs = kwargs or {}
            # there operators come as they are called, and not what they are made of
            if torch.is_inference_mode_enabled() and func.namespace != "prim":
                with self:
                    outputs = func.decompose(*args, **kwargs)
                if outputs is not NotImplemented:
                    return outputs
            answer = answers.get(id(func))
            if answer is not None:
                outputs = answer(func, args, kwargs)
                if outputs is not NotImplemented:
                    return outputs
            adds_in_place = func is add and _adds_in_place(torch, args)
            outputs, usage, row = outputs_of(func, args, kwargs)
            if adds_in_place:
                trace.takes_over(args[0], outputs)
            if isinstance(outputs, torch.Tensor):
                tensors = (outputs,)
            else:  # the weights of cuDNN's layers are there already
                given = leaves(outputs[:4] if func is cudnn_rnn else outputs)
                tensors = [leaf for leaf in given if isinstance(leaf, torch.Tensor)]  # none: it is a question
            name = func.overloadpacket.__name__
            order = order_of(torch, func, args, outputs) if usage is None else of_device(usage["transient"], tensors)
            trace.note_tensors(name, tensors, order, on_device=usage is not None)
            trace.ran(name, args, row)
            return outputs

    return Ledger()


@functools.lru_cache(maxsize=None)
def _are_distributed(kinds):
    return any(hasattr(kind, "full_tensor") for kind in kinds)


def _answers(torch, trace):
    """What is known without any new tensor: functions of a call, by the place of an operator, which has no quick hash.

    They give NotImplemented where it is not known.
    """
    aten, profiler = torch.ops.aten, torch.ops.profiler

    def number(func, args, _kwargs):
        if not is_fake(args[0]):
            return NotImplemented
        if args[0].constant is not None:
            return _really(func, args[0].constant)
        kind = args[0].dtype
        return 1.0 if kind.is_floating_point else kind is torch.bool or 0

    def count(func, args, kwargs):
        """Adds to a number that is there, as optimisers count steps."""
        if not is_fake(args[0]) or args[0].constant is None or isinstance(args[1], torch.Tensor):
            return NotImplemented
        _really(func, args[0].constant, *args[1:], **kwargs)
        trace.ran(func.overloadpacket.__name__, args, row_of(torch, func, args, kwargs, args[0]))
        return args[0]

    named = [getattr(profiler, name) for name in ("_record_function_enter_new", "_record_function_exit")]
    answers = {
        **dict.fromkeys((aten._local_scalar_dense.default, aten.item.default), number),
        **dict.fromkeys((aten.equal.default, aten.allclose.default), lambda *_call: False),
        aten.add_.Tensor: count,
        **{
            getattr(each, overload): lambda func, args, kwargs: _really(func, *args, **kwargs)
            for each in named
            for overload in each.overloads()
        },
    }
    return {id(func): answer for func, answer in answers.items()}


def _really(func, *args, **kwargs):
    """What an operator gives of real tensors, or without any."""
    with real_tensors():
        return func(*args, **kwargs)


def _whole_numbers(torch, func, args, kwargs, leaves):
    """What an operator gives that makes whole numbers of real ones, or of none; None for any other."""
    tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
    if not all(_is_real(tensor) for tensor in tensors):
        return None
    if not tensors and func.overloadpacket.__name__ not in ("randint", "randperm", "arange"):
        return None
    outputs = _really(func, *args, **kwargs)
    output_tensors = [leaf for leaf in torch.utils._pytree.tree_leaves(outputs) if isinstance(leaf, torch.Tensor)]
    return outputs if all(_is_real(tensor) for tensor in output_tensors) else None


def _is_real(tensor):
    is_whole = not (tensor.is_floating_point() or tensor.is_complex())
    return is_whole and not is_fake(tensor) and tensor.device.type == "cpu" and tensor.numel() <= _FEW


def _adds_in_place(torch, args):
    """Whether autograd adds up gradients of one tensor in the first one's memory, as it does where nobody else has it.

    It does not with tensors of kinds of their own, such as fake ones. Two references to that memory are its own here.
    """
    c = torch._C
    try:
        return (
            c._current_graph_task_id() != -1
            and not _is_of_script(torch, c._current_autograd_node())
            and getattr(args[1], "shape", None) == args[0].shape
            and is_dense(args[0])
            and c._storage_Use_Count(args[0].untyped_storage()._cdata) <= 2
        )
    except AttributeError:  # a release without these
        return False


def _is_of_script(torch, node):
    """Whether a backward pass is written in Python, and not by us."""
    return isinstance(node, torch.autograd.function.BackwardCFunction) and not alike.is_pass(node)


def follow_sizes(torch, trace):
    """Tells a trace of memory that is given back, and taken again, while its tensor stays."""
    kind = torch.UntypedStorage
    resize = kind.resize_

    def resize_(self, size):
        storage = resize(self, size)
        trace.resized(self)
        return storage

    kind.resize_ = resize_


def look_at_no_numbers(torch):
    """Gives zeros to what wants a list or an array, and saves nothing."""
    from torch._subclasses.fake_tensor import FakeTensor

    def zeros(shape):
        return [zeros(shape[1:]) for _ in range(shape[0])] if shape else 0

    def array(self, *_arguments, **_options):
        with real_tensors():
            return torch.zeros(tuple(self.shape), dtype=self.dtype).numpy()

    clone = torch.UntypedStorage.clone

    def cloned(self):
        with real_tensors():  # copy.deepcopy asks for that of a tensor that is real
            return clone(self)

    def copied(self, memo):
        if id(self) not in memo:
            copy = self.detach().clone().requires_grad_(self.requires_grad)
            is_parameter = isinstance(self, torch.nn.Parameter)
            memo[id(self)] = torch.nn.Parameter(copy, self.requires_grad) if is_parameter else copy
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
    swap, converter = torch.utils.swap_tensors, mode.fake_tensor_converter.meta_converter

    def swap_tensors(first, second):
        converter.tensor_memo.clear()
        swap(first, second)

    torch.utils.swap_tensors = swap_tensors


def give_batches(torch, batches):
    """Has loops over loaders get what is made of the loader's own batches, which one process reads.

    Args:
        batches: of a loader and its iterator, those that the loop gets.
    """
    loader = torch.utils.data.DataLoader
    begin, alone = loader.__iter__, {"num_workers": 0, "prefetch_factor": None, "persistent_workers": False}

    def __iter__(self):
        saved = {name: getattr(self, name, None) for name in alone}
        self.__dict__.update(alone)
        try:
            with real_tensors():
                iterator = begin(self)
        finally:
            self.__dict__.update(saved)
        return batches(self, iterator)

    loader.__iter__ = __iter__
