"""What a step of a training computes, operator by operator: shapes, formats, FLOP and bytes, without numbers."""

import operator

from modak_runtime.tensors import size_of

STILL = {"_unsafe_view", "empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided"}  # move nothing
_NAMED = 4  # tensors that are named by their shapes; of longer lists the numbers are summed up


class Table:
    """The operators of the last whole step: from the end of one step of the first optimizer to the end of the next."""

    def __init__(self):
        self._rows, self._shares, self._first, self._batches = {}, set(), None, 0
        self.last, self.batches = None, 0  # of the last whole step

    @property
    def rows(self):
        """How often each operator has run since the last step, and what it has computed and moved."""
        return self._rows

    def ran(self, row, share):
        """Notes an operator, by its ``row_of``, that has run in a batch that was divided by ``share``."""
        self._shares.add(share)
        if row is not None:
            key, flop, moved = row
            count, all_flop, all_bytes = self._rows.get(key, (0, 0, 0))
            self._rows[key] = count + 1, all_flop + flop, all_bytes + moved

    def ran_again(self, rows, share):
        """Notes operators that have run before: ``rows`` of another table."""
        self._shares.add(share)
        for key, row in rows.items():
            self._rows[key] = tuple(map(operator.add, row, self._rows.get(key, (0, 0, 0))))

    def batch_given(self):
        if self._first is None and not self._batches:  # what was computed before belongs to no step
            self._rows, self._shares = {}, set()
        self._batches += 1

    def stepped(self, optimizer):
        """The step of an optimizer has ended."""
        if self._first is None:
            self._first = id(optimizer)
        if self._first != id(optimizer):
            return
        if self._shares == {1}:
            self.last, self.batches = self._rows, self._batches
        self._rows, self._shares, self._batches = {}, set(), 0

    def as_list(self):
        """What is known of the last whole step, those with the most bytes and FLOP first; None where there was none."""
        if self.last is None:
            return None
        rows = [
            {
                "name": name,
                "shapes": [list(shape) for shape in shapes],
                "format": form,
                "count": count,
                "flop": flop,
                "bytes": moved,
            }
            for (name, shapes, form), (count, flop, moved) in self.last.items()
        ]  # fmt: skip
        return sorted(rows, key=lambda row: (-row["flop"], -row["bytes"], row["name"], row["shapes"]))


def row_of(torch, func, args, kwargs, result):
    """An operator's name, shapes and format, FLOP and bytes that are moved; None where it computes nothing."""
    name, leaves = func.overloadpacket.__name__, torch.utils._pytree.tree_leaves
    if getattr(func, "is_view", False) or name in STILL:
        return None
    inputs, outputs = (
        [leaf for leaf in leaves(each) if isinstance(leaf, torch.Tensor)] for each in ((args, kwargs), result)
    )
    if not outputs and not (inputs and func._schema.is_mutable):  # a question, such as where a tensor is
        return None
    input_ids = {id(tensor) for tensor in inputs}
    moved = sum(map(size_of, inputs)) + sum(size_of(tensor) for tensor in outputs if id(tensor) not in input_ids)
    moved += sum(size_of(tensor) for tensor in outputs if id(tensor) in input_ids)  # in place it is written, too
    named = inputs if inputs else outputs
    return (name, _shapes(named), _format(torch, named)), _flop(name, args, result), moved


def _flop(name, args, output):
    """Of one call; a multiplication and an addition are two. Nought where what is moved counts more.

    PyTorch's own counter takes a backward convolution in groups for one in a single group, and counts what attention
    computes again; otherwise the two agree.
    """
    if name in ("mm", "bmm"):
        return 2 * output.numel() * args[0].shape[-1]
    if name in ("addmm", "baddbmm"):
        return 2 * output.numel() * args[1].shape[-1]
    if name == "convolution":  # x, w, bias, stride, padding, dilation, transposed
        return _convolution(args[0] if args[6] else output, args[1])
    if name == "convolution_backward":  # g, x, w, sizes of the bias, stride, padding, dilation, transposed, ..., mask
        return sum(args[10][:2]) * _convolution(args[1] if args[7] else args[0], args[2])
    if name.startswith("_scaled_dot_product"):
        is_backward = "backward" in name
        query, key, value = args[is_backward : is_backward + 3]
        pairs = 2 * query.numel() // query.shape[-1] * key.shape[-2]
        return (2 if is_backward else 1) * pairs * (query.shape[-1] + value.shape[-1])
    if name in ("mkldnn_rnn_layer", "mkldnn_rnn_layer_backward"):
        once = 2 * args[0].shape[0] * args[0].shape[1] * sum(weight.numel() for weight in args[1:3])
        return once if name == "mkldnn_rnn_layer" else 2 * once
    return 0


def _convolution(places, weight):
    return 2 * places.shape[0] * places[0, 0].numel() * weight.numel()


def _shapes(tensors):
    if len(tensors) > _NAMED:  # as of an optimizer that takes all parameters at once
        return ((len(tensors), sum(tensor.numel() for tensor in tensors)),)
    return tuple(tuple(tensor.shape) for tensor in tensors)


def _format(torch, tensors):
    """Precision, and where the channels of images lie."""
    kinds = sorted({str(tensor.dtype).replace("torch.", "") for tensor in tensors if tensor.is_floating_point()})
    lies_last = any(
        tensor.dim() == 4 and tensor.shape[1] > 1 and tensor.is_contiguous(memory_format=torch.channels_last)
        and not tensor.is_contiguous() for tensor in tensors
    )  # fmt: skip
    return " ".join([*(kinds or ["integer"]), *(["channels_last"] if lies_last else [])])
