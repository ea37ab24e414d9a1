"""Recurrent layers of oneDNN and cuDNN: what fake tensors do not know of them."""


def of_processor(func, args, output, mapped_from):
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
    return (*output[:3], output[3].new_empty(size if size < mapped_from else 9 * of_states(args)))


def of_states(args):
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
