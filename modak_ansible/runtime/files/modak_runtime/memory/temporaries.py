"""What operators ask of the C library while they compute, and in what order, as PyTorch 2.13 was seen to do.

oneDNN lays images and weights out in blocks, and back. Where a tensor is made while a block of it is still there, it
comes to lie behind that block, and what the block leaves may be too small for the next one. So the order counts, too.
"""

import functools

from modak_runtime.tensors import size_of

_FEW, _FIRST = 3, 16  # channels of a picture; of what a convolution with AVX-512 reads as it lies, if fewer
_SMALL = 20480  # elements of a single image that PyTorch keeps from oneDNN
_PADDED_AT_MOST = 28  # elements on each side, for the gradients of weights


class Order(list):
    """What is taken (bytes), given back (minus which of those taken it is, from 1) and made (a tensor), in order."""

    def take(self, *sizes):
        """Takes so many bytes each; what comes back is for ``give``. Nothing is taken of no bytes."""
        numbers = []
        for size in filter(None, sizes):
            self.append(size)
            numbers.append(sum(isinstance(entry, int) and entry > 0 for entry in self))
        return numbers

    def make(self, tensor):
        self.append(tensor)

    def give(self, numbers):
        """Gives back, the last first."""
        self.extend(-number for number in reversed(numbers))


def order_of(torch, func, args, outputs):
    """What an operator asks for besides the tensors that it gives, and where among that it makes those."""
    order, ask = Order(), _ASKING.get(func.overloadpacket.__name__)
    if ask is not None:
        ask(torch, order, args, outputs)
    return order


def of_device(size, outputs):
    """What an operator was seen to take on an accelerator besides the tensors that it gives, in one piece."""
    order = Order(outputs)
    order.give(order.take(size))
    return order


def _normalize(_torch, order, args, outputs, input_count=1):
    copies = order.take(*map(_copied, args[:input_count]))
    order.extend(output for output in outputs if output is not None)
    order.give(copies)


def _normalize_batch_back(_torch, order, _args, outputs):
    if outputs[0] is not None:
        order.make(outputs[0])
        order.give(order.take(size_of(outputs[0])))


def _embed_back(_torch, order, args, output):
    order.make(output)
    order.give(order.take(_copied(args[0])))


def _recur(_torch, order, args, outputs):
    order.extend(output for output in outputs if output is not None)
    order.give(order.take(*map(size_of, args[1:3]), 4 * _of_states(args)))  # packed weights, and gates


def _convolve(torch, order, args, output):
    images, weight, _, strides, padding, _, is_transposed, _, groups = args[:9]
    copies = order.take(0 if _lies_last(torch, images) else _copied(images))
    is_too_wide = not is_transposed and padding[-1] > _padded_at_most(torch, weight.shape[0])
    if _is_onednn(torch, images, weight, args) and not is_too_wide:
        few, pads = (0, False) if is_transposed else (_read_as_they_lie(torch, groups), groups == 1)
        taken = order.take(_blocked(torch, images, few, pads), _blocked_weight(torch, weight, groups))
        _unblock(order, output, taken, _blocked(torch, output, 0, pads), is_transposed and max(strides) > 1)
    else:
        order.make(output)
    order.give(copies)


def _convolve_back(torch, order, args, outputs):
    gradient, images, weight, _, strides, padding, _, is_transposed, _, groups, wanted = args[:11]
    lies_alike = _lies_last(torch, gradient) == _lies_last(torch, images)
    copies = order.take(_copied(gradient) if lies_alike and not _lies_last(torch, images) else 0)
    copies += order.take(0 if lies_alike else size_of(gradient))
    if _is_onednn(torch, images, weight, args[1:]):
        pads, of_weight = groups == 1, _blocked_weight(torch, weight, groups)
        if wanted[0]:
            few = _read_as_they_lie(torch, groups) if is_transposed else 0
            taken = order.take(_blocked(torch, gradient, few, pads), of_weight)
            blocks = _blocked(torch, outputs[0], 0, pads)
            _unblock(order, outputs[0], taken, blocks, not is_transposed and max(strides) > 1)
        if wanted[1] and padding[-1] <= _PADDED_AT_MOST:
            _weigh(torch, order, gradient, images, is_transposed, of_weight, outputs[1])
    order.extend(output for output in outputs if output is not None)
    order.give(copies)


def _unblock(order, output, taken, blocked, scatters):
    """Makes a tensor of the blocks that it was computed in; strides that scatter have another copy."""
    blocks = order.take(blocked)
    order.give(taken)
    copy = order.take(size_of(output) if scatters and blocks else 0)
    order.make(output)
    order.give(blocks + copy)


def _weigh(torch, order, gradient, images, is_transposed, of_weight, output):
    """Computes the gradient of weights."""
    read = gradient if is_transposed else images
    is_between = _FEW < read.shape[1] < _FIRST
    if is_between and read.dim() > 4:  # as products of matrices
        return
    of_read = _blocked(torch, read, _FEW, block=8 if is_between else None)
    taken = order.take(*(of_read if side is read else _blocked(torch, side) for side in (gradient, images)))
    blocks = order.take(of_weight)
    order.give(taken)
    order.make(output)
    order.give(blocks)


def _is_onednn(torch, images, weight, args):
    """Whether PyTorch gives a convolution to oneDNN (ConvParams::use_mkldnn); ``args`` are those behind a gradient."""
    strides, dilation, groups = args[3], args[5], args[8]
    kernel = (1, 1, *weight.shape[2:])[-max(2, weight.dim() - 2) :]
    is_worth_it = max(strides) > 1 or max(dilation) > 1 or images.shape[0] >= 16 or kernel[-2:] != (1, 1)
    is_large = groups > 1 or min(kernel[-2:]) > _FEW or images.shape[0] > 1 or images.numel() > _SMALL
    is_refused = groups == 24 and weight.shape[:2] == (24, 1)
    return (is_worth_it or torch.get_num_threads() > 1) and is_large and not is_refused


def _read_as_they_lie(torch, groups):
    """The most channels that a convolution reads without blocks."""
    return (_FIRST - 1 if _has_avx512(torch) else _FEW) if groups == 1 else 0


def _padded_at_most(torch, channels):
    """Elements beside a row for which oneDNN has a kernel: what the registers hold of a row, beside channels."""
    if not _has_avx512(torch):
        return _PADDED_AT_MOST
    blocks = -(-channels // 16)
    at_once = max(number for number in range(1, 6) if blocks % number == 0)
    return 31 // (at_once + 1)


def _blocked(torch, images, few=0, pads=True, block=None):
    """Bytes of images in blocks of channels; 0 where they need none, as those of a few channels, or channels last."""
    channels = images.shape[1] if images.dim() > 2 else 0
    if channels <= few or _lies_last(torch, images):
        return 0
    return size_of(images) // channels * (_padded(torch, channels, block) if pads else channels)


def _blocked_weight(torch, weight, groups):
    own, other = weight.shape[:2]
    if not weight.numel() or groups > 1:  # a channel by itself has no others to be laid out with
        return size_of(weight)
    padded = _padded(torch, own) * (_padded(torch, other) if other > _FEW else other)
    return size_of(weight) // (own * other) * padded


def _padded(torch, channels, block=None):
    block = block or (16 if _has_avx512(torch) else 8)
    return -(-channels // block) * block


def _has_avx512(torch):
    return torch.backends.cpu.get_cpu_capability().startswith("AVX512")


def _lies_last(torch, images):
    """Whether the channels of images lie last."""
    form = {4: torch.channels_last, 5: torch.channels_last_3d}.get(images.dim())
    return form is not None and images.is_contiguous(memory_format=form) and not images.is_contiguous()


def _copied(tensor):
    """Bytes of the copy of a tensor whose numbers do not lie in order."""
    return 0 if tensor.is_contiguous() else size_of(tensor)


_ASKING = {
    "convolution": _convolve,
    "convolution_backward": _convolve_back,
    "native_batch_norm_backward": _normalize_batch_back,
    "native_layer_norm": _normalize,
    "native_layer_norm_backward": functools.partial(_normalize, input_count=2),
    "embedding_dense_backward": _embed_back,
    "mkldnn_rnn_layer": _recur,
    "mkldnn_rnn_layer_backward": _recur,
}


def of_lstm(func, args, output, mapped_from):
    """What oneDNN's LSTM gives, with what it keeps for its backward pass, for which a fake one gives an empty tensor.

    Those are gates, and states and their gradients of one place more. As was seen, it writes to as much as nine states
    of what it asks for: the rest takes no memory where it is mapped for itself.

    Args:
        mapped_from: bytes from which a block is.
    """
    if func.overloadpacket.__name__ != "mkldnn_rnn_layer" or not args[-1]:  # it does not train
        return output
    length, count, inputs = args[0].shape
    states = args[2].shape[1]
    numbers = count * (4 * length * states + (length + 1) * (6 * max(inputs, states) + 5 * states))
    size = numbers * args[0].element_size()
    return (*output[:3], output[3].new_empty(size if size < mapped_from else 9 * _of_states(args)))


def _of_states(args):
    """Bytes of an LSTM's states at all places of a batch."""
    return args[0].shape[0] * args[0].shape[1] * args[2].shape[1] * args[0].element_size()


def of_cudnn(torch, func, args, sizes):
    """What cuDNN's layers give; None of any other operator.

    Fake ones have nothing for the backward pass: no numbers that cuDNN keeps, no weights in one piece, and no operator.

    Args:
        sizes: bytes of what the operator really gives, each; empty where nobody knows.
    """
    if func is torch.ops.aten._cudnn_init_dropout_state.default:
        return torch.empty(sizes[0] if sizes else 0, dtype=torch.uint8, device="cuda")
    if func is torch.ops.aten._cudnn_rnn.default:
        output, hidden, cells, reserve, weights = func(*args)
        reserve = args[0].new_empty(sizes[3] if len(sizes) > 3 else 0, dtype=torch.uint8)
        if weights is None:  # a module's own are views of one piece, which counts as these
            weights = args[0].new_empty(sum(weight.numel() for weight in args[1]))
        return output, hidden, cells, reserve, weights
    if func is torch.ops.aten._cudnn_rnn_backward.default:
        inputs, weights, _, _, hidden, cells = args[:6]
        empty = torch.empty_like
        return (
            empty(inputs),
            empty(hidden),
            None if cells is None else empty(cells),
            [empty(weight) for weight in weights],
        )
    return None
