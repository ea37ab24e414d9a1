"""Operators that were traced before, with tensors of the same sizes: what they gave, without asking PyTorch again.

A training does the same from step to step, and most of a step from layer to layer. PyTorch has such a cache for its
fake tensors, too, the keys of which alone take longer than all of this. Of other sizes is known what needs no question:
views, and operators that take each element by itself.
"""

import functools
import itertools
import operator

from modak_runtime.tensors import strides_in_order

_WITH_NUMBERS = {"data_dependent_output", "dynamic_output_shape", "inplace_view"}  # tags: more than sizes decides
_WITH_MASKS = "index"  # has such a tag for masks; of these fake tensors give nothing
_RECURRENT = {"mkldnn_rnn_layer", "mkldnn_rnn_layer_backward"}  # what a trace makes of these depends on malloc, too
_NUMBERS = {int, float}
_MAKING = {"empty", "empty_strided", "full", "ones", "rand", "randn", "zeros"}  # of nothing but sizes


class Known:
    """What operators gave in one process, of fake tensors of the processor's memory.

    Args:
        torch: the module.
        mode: makes tensors fake.
    """

    def __init__(self, torch, mode):
        from torch._subclasses.fake_tensor import FakeTensor, in_kernel_invocation_manager

        self._torch, self._mode, self._kind, self._in_kernel = torch, mode, FakeTensor, in_kernel_invocation_manager
        self._words = {int, float, bool, str, type(None), torch.dtype, torch.device, torch.layout, torch.memory_format}
        self._words_of_func = {}  # by the place of an operator, which has no quick hash
        self._processor, self._meta = torch.device("cpu"), torch.device("meta")
        self._calls, self._kinds, self._attributes = {}, {}, None
        self._alone, self._empty, self._subclass = (
            torch._C._DisableTorchDispatch, torch.empty_strided, torch.Tensor._make_subclass
        )  # fmt: skip
        self._has_no_numbers = getattr(torch._C, "_set_throw_on_mutable_data_ptr", lambda _tensor: None)

    def key_of(self, func, args, kwargs):
        """All that decides what an operator gives; None where that is more than sizes and the like."""
        key = [id(func)]
        _, words = self._words_of_func.get(id(func)) or self._learn_words(func)
        fake_count = self._describe([*args, *kwargs, *kwargs.values()] if kwargs else args, key, words)
        if fake_count == 0 and func.overloadpacket.__name__ in _MAKING:
            key.append(self._torch.get_default_dtype())
        elif not fake_count:
            return None
        return tuple(key)

    def _learn_words(self, func):
        """What is compared by its value; of a pointwise operator numbers count by their kind alone."""
        words = self._words - _NUMBERS if self._torch.Tag.pointwise in func.tags else self._words
        self._words_of_func[id(func)] = func, words
        return func, words

    def get(self, key):
        """What is known of such a call: a function of its arguments that gives the same again, and what was kept."""
        return self._calls.get(key, (None, None))

    def get_alike(self, key, func, args, kwargs):
        """The same function, from a call with other sizes; None where it would depend on them."""
        return None if key is None else self._kinds.get(self._kind_of(func, args, kwargs))

    def keep(self, key, func, args, kwargs, outputs, more):
        """Keeps what an operator has given, if it would give the same again, and what else is known of such a call."""
        if key is not None and self.key_of(func, args, kwargs) == key:  # it has changed no sizes
            again = self._again(func, args, kwargs, outputs)
            if again is not None:
                self._calls[key] = again, more
                self._keep_alike(func, args, kwargs, outputs, again)

    def keep_again(self, key, again, more):
        """Keeps what was known of a call with other sizes."""
        self._calls[key] = again, more

    def _keep_alike(self, func, args, kwargs, outputs, again):
        kind = self._kind_of(func, args, kwargs)
        if kind is None:
            return
        if getattr(func, "is_view", False) or any(outputs is arg for arg in args):
            self._kinds[kind] = again
        elif type(outputs) is self._kind and _lies_in_order(outputs) and outputs.shape == args[0].shape:
            self._kinds[kind] = functools.partial(self._make_alike, outputs.dtype)

    def _kind_of(self, func, args, kwargs):
        """What decides what an operator gives besides the size of all its tensors; None where there is more."""
        if getattr(func, "is_view", False):
            return (func,)
        if self._torch.Tag.pointwise not in func.tags or not args or type(args[0]) is not self._kind:
            return None
        kind, shape = [func], args[0].shape
        for arg in itertools.chain(args, kwargs, kwargs.values()):
            if type(arg) is self._kind:
                if not shape or arg.shape != shape or not _lies_in_order(arg):  # a number without a place is another's
                    return None
                kind += (arg.dtype, arg.requires_grad)
            elif type(arg) in _NUMBERS:
                kind.append(type(arg))
            elif type(arg) in self._words and type(arg) is not self._torch.memory_format:  # which is alike for ones
                kind.append(arg)
            else:
                return None
        return tuple(kind)

    def _describe(self, args, key, words):
        """Adds what an operator is given to a key; of how many fake tensors, None where it cannot be described.

        Args:
            words: kinds of what is compared by its value; of other numbers the kind alone counts.
        """
        count = 0
        for arg in args:
            kind = type(arg)
            if kind is self._kind:
                if arg.constant is not None or arg.fake_device != self._processor or arg.dtype.is_complex:
                    return None
                key += (arg.shape, arg.stride(), arg.dtype, arg.requires_grad)
                count += 1
            elif kind in words:
                key += (kind, arg)
            elif kind in _NUMBERS:
                key.append(kind)
            elif kind is list or kind is tuple:
                key.append(len(arg))
                inner_count = self._describe(arg, key, words)
                if inner_count is None:
                    return None
                count += inner_count
            elif kind is self._torch.Tensor:  # a real one, of which a fake one is made
                key += (kind, arg.shape, arg.stride(), arg.dtype)
            else:
                return None
        return count

    def _again(self, func, args, kwargs, outputs):
        """A function that gives what an operator gave; None where only PyTorch knows."""
        torch, name = self._torch, func.overloadpacket.__name__
        tags = {tag.name for tag in func.tags} & _WITH_NUMBERS
        if func.namespace != "aten" or name in _RECURRENT or (tags and name != _WITH_MASKS):
            return None
        tensors = [each for each in torch.utils._pytree.tree_leaves((args, kwargs)) if isinstance(each, torch.Tensor)]
        if func._schema.is_mutable and any(type(tensor) is not self._kind for tensor in tensors):
            return None
        memories = [tensor.untyped_storage()._cdata for tensor in tensors]
        are_several = isinstance(outputs, (tuple, list))
        found = outputs if are_several else [outputs]
        are_given = any(tensor is output for tensor in tensors for output in found)
        is_view = bool(found) and all(self._lies_in(memories[:1], output) for output in found) and not are_given
        if getattr(func, "is_view", False) or is_view:  # unsafe_split and its kin do not say so
            return self._look
        makers = [self._maker(args, memories, output) for output in found]
        if None in makers:
            return None
        if are_several:
            return lambda _func, args, _kwargs: [make(args) for make in makers]
        return lambda _func, args, _kwargs: makers[0](args)

    def _look(self, func, args, kwargs):
        """Another tensor in the same memory."""
        with self._in_kernel(self._mode):
            views = func(*args, **kwargs)
        if isinstance(views, self._torch.Tensor):
            return self._fake(views)
        return [self._fake(view) for view in views]

    def _fake(self, sized):
        """A fake tensor like PyTorch's own, made without what it checks of each."""
        if self._attributes is None:
            first = self._kind(self._mode, sized, self._processor)
            self._attributes = dict(vars(first))
            return first
        fake = self._subclass(self._kind, sized, False, dispatch_device=True, device_for_backend_keys=self._processor)
        self._has_no_numbers(fake)
        fake.__dict__.update(self._attributes)
        return fake

    def _maker(self, args, memories, output):
        """Makes one output of the arguments: one of them, or a tensor like that; None where it is something else."""
        if output is None:
            return lambda _args: None
        for place, arg in enumerate(args):
            if arg is output and type(arg) is self._kind:
                return operator.itemgetter(place)
        if not self._fills_its_memory(output) or self._lies_in(memories, output):
            return None
        memories.append(output.untyped_storage()._cdata)
        sizes, strides, dtype = tuple(output.shape), output.stride(), output.dtype
        return lambda _args: self._make(sizes, strides, dtype)

    def _make(self, sizes, strides, dtype):
        with self._alone():
            sized = self._empty(sizes, strides, dtype=dtype, device=self._meta)
        return self._fake(sized)

    def _make_alike(self, dtype, _func, args, _kwargs):
        return self._make(args[0].shape, args[0].stride(), dtype)

    def _lies_in(self, memories, output):
        return type(output) is self._kind and output.untyped_storage()._cdata in memories

    def _fills_its_memory(self, output):
        """Whether a tensor is a plain one that begins and ends where its memory does."""
        if type(output) is not self._kind or output.constant is not None or output.requires_grad:
            return False
        last = sum((size - 1) * stride for size, stride in zip(output.shape, output.stride()))
        size = (last + 1) * output.element_size() if output.numel() else 0
        is_of_processor = output.fake_device == self._processor and not output.dtype.is_complex
        return is_of_processor and not output.storage_offset() and output.untyped_storage().nbytes() == size


def _lies_in_order(tensor):
    return tensor.stride() == strides_in_order(tensor.shape)
