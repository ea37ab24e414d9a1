"""Tensors of which each rank has a part along one dimension, as layers that are split between ranks give them.

What can be computed of a part is; for anything else the parts are gathered, so that every operator is right. Tensors
that are whole are the same in all ranks, and so are their gradients.
"""

import functools
import inspect
import math

from modak_runtime.parallel import consistency


def carriers(torch, ranks):
    """The class of such tensors; its ``local`` is this rank's part, along its ``split_dim``, counted from the left."""
    moves = _moves(torch, ranks)

    class Split(torch.Tensor):
        @staticmethod
        def __new__(cls, local, split_dim):
            shape = list(local.shape)
            shape[split_dim] *= ranks.model.size
            self = torch.Tensor._make_wrapper_subclass(cls, shape, dtype=local.dtype, device=local.device)
            self.local, self.split_dim = local, split_dim
            return self

        @classmethod
        def __torch_function__(cls, function, _types, arguments=(), options=None):
            return _compute(torch, ranks, cls, moves, function, arguments, options or {})

        @classmethod
        def __torch_dispatch__(cls, function, _types, _arguments=(), _options=None):
            raise RuntimeError("%s cannot be given a part of a tensor: fsdp or ddp can train it" % function)

        def __repr__(self):
            return "Split(%s, split_dim=%d)" % (self.local, self.split_dim)

    Split.moves = moves
    return Split


class _Moves:
    """What goes between ranks; each is what the gradients of another do."""

    def __init__(self, copy, total, gather, own):
        self.copy, self.total, self.gather, self.own = copy, total, gather, own
        self._last = None

    def copied(self, whole):
        """A whole tensor that parts are computed from; once for all layers that are given the same one."""
        if not whole.requires_grad:
            return whole
        cached = self._last
        if cached is None or cached[0] is not whole or cached[1] != whole._version:
            cached = self._last = (whole, whole._version, self.copy(whole))
        return cached[2]

    def forget(self):
        self._last = None


def _moves(torch, ranks):
    def compare(*words):
        """Before the first step each message is compared: of different kinds, ranks would wait for each other."""
        if not ranks.is_compared:
            ranks.trace.append(words)
            consistency.compare_now(ranks)

    def summed(tensor):
        compare("sum", tuple(tensor.shape))
        total = tensor.detach().clone(memory_format=torch.contiguous_format)
        ranks.guarded(torch.distributed.all_reduce, total, group=ranks.model.group)
        return total

    def gathered(tensor, split_dim):
        compare("gather", tuple(tensor.shape), split_dim)
        own_part = tensor.detach().contiguous()
        parts = [torch.empty_like(own_part) for _ in range(ranks.model.size)]
        ranks.guarded(torch.distributed.all_gather, parts, own_part, group=ranks.model.group)
        return torch.cat(parts, split_dim)

    def narrowed(tensor, split_dim):
        size = tensor.shape[split_dim] // ranks.model.size
        own_part = tensor.detach().narrow(split_dim, ranks.model.number * size, size)
        return own_part.clone(memory_format=torch.contiguous_format)

    class Copy(torch.autograd.Function):
        @staticmethod
        def forward(_ctx, whole):
            return whole.view_as(whole)

        @staticmethod
        def backward(_ctx, gradient):
            return Total.apply(gradient)

    class Total(torch.autograd.Function):
        @staticmethod
        def forward(_ctx, part):
            return summed(part)

        @staticmethod
        def backward(_ctx, gradient):
            return Copy.apply(gradient)

    class Gather(torch.autograd.Function):
        @staticmethod
        def forward(ctx, part, split_dim):
            ctx.split_dim = split_dim
            return gathered(part, split_dim)

        @staticmethod
        def backward(ctx, gradient):
            return Own.apply(gradient, ctx.split_dim), None

    class Own(torch.autograd.Function):
        @staticmethod
        def forward(ctx, whole, split_dim):
            ctx.split_dim = split_dim
            return narrowed(whole, split_dim)

        @staticmethod
        def backward(ctx, gradient):
            return Gather.apply(gradient, ctx.split_dim), None

    return _Moves(Copy.apply, Total.apply, Gather.apply, Own.apply)


def _compute(torch, ranks, kind, moves, function, arguments, options):
    """An operator of tensors some of which are parts."""
    name = getattr(function, "__name__", "")
    if name == "__get__":
        return _property(torch, kind, function, arguments)
    rule = _rules(torch).get(function)
    if rule is not None:
        result = _by_rule(rule, _Call(torch, ranks, kind, moves, function), arguments, options)
        if result is not NotImplemented:
            return result
    if name in _OF_WHOLE:
        with torch._C.DisableTorchFunctionSubclass():
            return function(*arguments, **options)
    is_changed = arguments and isinstance(arguments[0], kind) and is_in_place(name)
    if is_changed or name == "__set__":
        ranks.rank.end(
            "%s changes in place what ranks have parts of, where tensor has no rule for it: fsdp or ddp can train it"
            % name
        )
    arguments, options = torch.utils._pytree.tree_map(functools.partial(whole_of, kind), (arguments, options))
    return function(*arguments, **options)


def _by_rule(rule, call, arguments, options):
    """What a rule gives; it may be given by name what PyTorch calls input, and names that it does not know."""
    parameters = _parameters(rule)
    if not arguments and "input" in options and parameters[1].kind is parameters[1].POSITIONAL_OR_KEYWORD:
        arguments, options = (options["input"],), {name: options[name] for name in options if name != "input"}
    names = {parameter.name for parameter in parameters}
    if parameters[-1].kind is not parameters[-1].VAR_KEYWORD and not names.issuperset(options):
        return NotImplemented
    return rule(call, *arguments, **options)


@functools.lru_cache(maxsize=None)
def _parameters(rule):
    return tuple(inspect.signature(rule).parameters.values())


def whole_of(kind, value):
    """A tensor that may be in parts, whole."""
    return kind.moves.gather(value.local, value.split_dim) if isinstance(value, kind) else value


_OF_WHOLE = ("size", "dim", "numel", "is_floating_point", "is_complex", "ndimension", "__len__", "nelement",
             "element_size", "get_device", "__hash__", "is_sparse_csr")  # fmt: skip
_OF_LOCAL = ("requires_grad", "is_leaf", "grad_fn", "_version")


def _property(torch, kind, function, arguments):
    name, (tensor, *_) = function.__self__.__name__, arguments
    if name in _OF_LOCAL:
        return getattr(tensor.local, name)
    if name in ("T", "mT", "H", "mH", "data", "real"):
        return function(whole_of(kind, tensor))
    with torch._C.DisableTorchFunctionSubclass():
        return function(*arguments)


@functools.lru_cache(maxsize=None)
def is_in_place(name):
    return name == "__setitem__" or (name.startswith("__i") and name.endswith("__") and name not in (
        "__invert__", "__index__", "__int__")) or (name.endswith("_") and not name.endswith("__"))  # fmt: skip


class _Call:
    """One operator, as a rule is given it."""

    def __init__(self, torch, ranks, kind, moves, function):
        self.torch, self.ranks, self.kind, self.moves, self.function = torch, ranks, kind, moves, function

    def is_part(self, value):
        return isinstance(value, self.kind)

    def whole(self, value):
        return whole_of(self.kind, value)

    def like(self, operand, part):
        """The same part of a tensor that is computed with another, element by element; None where it has none."""
        dim_from_end = part.split_dim - part.dim()
        if self.is_part(operand):
            return operand.local if operand.split_dim - operand.dim() == dim_from_end else None
        if not isinstance(operand, self.torch.Tensor) or not operand.dim():
            return self.moves.copied(operand) if isinstance(operand, self.torch.Tensor) else operand
        if operand.dim() < -dim_from_end or operand.shape[dim_from_end] == 1:
            return self.moves.copied(operand)
        return self.moves.own(operand, operand.dim() + dim_from_end)


# --- rules, each of which gives NotImplemented where parts are not enough


def _elementwise(call, *arguments, **options):
    torch, kind = call.torch, call.kind
    parts = [argument for argument in arguments if call.is_part(argument)]
    name = getattr(call.function, "__name__", "")
    in_place = is_in_place(name) or options.get("inplace")
    if not parts or any(map(call.is_part, options.values())):
        return NotImplemented
    wholes = [
        argument
        for argument in arguments
        if isinstance(argument, torch.Tensor) and not call.is_part(argument) and argument.dim()
    ]
    widest = max(parts, key=lambda part: part.dim())
    if (in_place and not call.is_part(arguments[0])) or any(whole.dim() > widest.dim() for whole in wholes):
        return NotImplemented
    if not in_place and any(whole.requires_grad for whole in wholes):
        return NotImplemented  # which is needed whole behind it, in most models
    local_arguments = [call.like(argument, widest) for argument in arguments]
    if any(local is None and argument is not None for local, argument in zip(local_arguments, arguments)):
        return NotImplemented
    result = call.function(*local_arguments, **options)
    split_dim = result.dim() + widest.split_dim - widest.dim()
    if in_place:
        arguments[0].local = result
        return arguments[0]
    return kind(result, split_dim)


def _dropout(call, tensor, p=0.5, training=True, inplace=False):
    """With the numbers that one process draws."""
    if not training or not p:
        return tensor
    mask = call.torch.nn.functional.dropout(call.torch.ones(tensor.shape, dtype=tensor.dtype, device=tensor.device), p)
    size = tensor.local.shape[tensor.split_dim]
    result = tensor.local * mask.narrow(tensor.split_dim, call.ranks.model.number * size, size).clone()
    if inplace:
        tensor.local = result
        return tensor
    return call.kind(result, tensor.split_dim)


def _linear(call, inputs, weight, bias=None):
    torch, moves = call.torch, call.moves
    if not call.is_part(weight):
        return NotImplemented
    if weight.split_dim == 0:  # each rank makes some of what comes out
        own_bias = bias if bias is None else bias.local if call.is_part(bias) else moves.own(bias, 0)
        outputs = torch.nn.functional.linear(moves.copied(call.whole(inputs)), weight.local, own_bias)
        return call.kind(outputs, outputs.dim() - 1)
    if call.is_part(inputs) and inputs.split_dim == inputs.dim() - 1:
        own_inputs = inputs.local
    else:
        inputs = call.whole(inputs)
        own_inputs = moves.own(inputs, inputs.dim() - 1)
    outputs = moves.total(torch.nn.functional.linear(own_inputs, weight.local))
    return outputs if bias is None else outputs + call.whole(bias)


def _embedding(
    call, indices, weight, padding_idx=None, max_norm=None, scale_grad_by_freq=False, sparse=False, **_options
):
    if not call.is_part(weight) or weight.split_dim or max_norm is not None or scale_grad_by_freq or sparse:
        return NotImplemented
    torch, size = call.torch, weight.local.shape[0]
    indices = call.whole(indices) - call.ranks.model.number * size
    is_mine = (indices >= 0) & (indices < size)
    vectors = torch.nn.functional.embedding(indices.clamp(0, size - 1), weight.local)
    if padding_idx is not None:
        padding = padding_idx % weight.shape[0] - call.ranks.model.number * size
        vectors = torch.where((indices == padding).unsqueeze(-1), vectors.detach(), vectors)
    return call.moves.total(vectors * is_mine.unsqueeze(-1).to(vectors.dtype))


def _view(call, tensor, *sizes, **options):
    if options or not call.is_part(tensor):
        return NotImplemented
    sizes = sizes[0] if len(sizes) == 1 and isinstance(sizes[0], (tuple, list)) else sizes
    if not all(isinstance(size, int) for size in sizes):
        return NotImplemented
    sizes = list(sizes)
    if -1 in sizes:
        sizes[sizes.index(-1)] = tensor.numel() // max(1, -math.prod(sizes))
    elements_before = math.prod(tensor.shape[: tensor.split_dim])
    for split_dim, size in enumerate(sizes):
        if size > 1 and size % call.ranks.model.size == 0 and math.prod(sizes[:split_dim]) == elements_before:
            sizes[split_dim] //= call.ranks.model.size
            return call.kind(tensor.local.reshape(sizes), split_dim)
    return NotImplemented


def _flatten(call, tensor, start_dim=0, end_dim=-1):
    start, end = start_dim % tensor.dim(), end_dim % tensor.dim()
    return _view(
        call, tensor, [*tensor.shape[:start], math.prod(tensor.shape[start : end + 1]), *tensor.shape[end + 1 :]]
    )


def _unflatten(call, tensor, dim, sizes):
    dim, sizes = dim % tensor.dim(), list(sizes)
    if -1 in sizes:
        sizes[sizes.index(-1)] = tensor.shape[dim] // max(1, -math.prod(sizes))
    return _view(call, tensor, [*tensor.shape[:dim], *sizes, *tensor.shape[dim + 1 :]])


def _transpose(call, tensor, dim0, dim1):
    first, second = dim0 % tensor.dim(), dim1 % tensor.dim()
    split_dim = {first: second, second: first}.get(tensor.split_dim, tensor.split_dim)
    return call.kind(tensor.local.transpose(first, second), split_dim)


def _permute(call, tensor, *dims):
    dims = [dim % tensor.dim() for dim in (dims[0] if isinstance(dims[0], (tuple, list)) else dims)]
    return call.kind(tensor.local.permute(dims), dims.index(tensor.split_dim))


def _pick(call, tensor, index):
    """Slices, new dimensions and ``...``, of all of the dimension that is split."""
    index = index if isinstance(index, tuple) else (index,)
    if not call.is_part(tensor) or not all(
        item is None or item is Ellipsis or isinstance(item, slice) for item in index
    ):
        return NotImplemented
    index = list(index) + ([] if any(item is Ellipsis for item in index) else [Ellipsis])
    ellipsis_at = next(number for number, item in enumerate(index) if item is Ellipsis)
    slices = sum(isinstance(item, slice) for item in index)
    index[ellipsis_at : ellipsis_at + 1] = [slice(None)] * (tensor.dim() - slices)
    dim, split_dim = 0, None
    for number, item in enumerate(index):
        if item is None:
            continue
        if dim == tensor.split_dim:
            if item != slice(None):
                return NotImplemented
            split_dim = number
        dim += 1
    return call.kind(tensor.local[tuple(index)], split_dim)


def _expand(call, tensor, *sizes):
    sizes = list(sizes[0] if isinstance(sizes[0], (tuple, list)) else sizes)
    split_dim = len(sizes) - tensor.dim() + tensor.split_dim
    if sizes[split_dim] not in (-1, tensor.shape[tensor.split_dim]):
        return NotImplemented
    sizes[split_dim] = -1
    return call.kind(tensor.local.expand(sizes), split_dim)


def _cat(call, tensors, dim=0):
    first_part = next(tensor for tensor in tensors if call.is_part(tensor))
    is_alike = all(
        call.is_part(tensor) and tensor.split_dim == first_part.split_dim and tensor.dim() == first_part.dim()
        for tensor in tensors
    )
    if not is_alike or dim % first_part.dim() == first_part.split_dim:
        return NotImplemented
    return call.kind(call.torch.cat([tensor.local for tensor in tensors], dim), first_part.split_dim)


def _softmax(call, tensor, dim=None, _stacklevel=3, dtype=None):
    if not call.is_part(tensor) or dim is None or dim % tensor.dim() == tensor.split_dim:
        return NotImplemented
    return call.kind(call.torch.nn.functional.softmax(tensor.local, dim=dim, dtype=dtype), tensor.split_dim)


def _matmul(call, tensor, other):
    """Of matrices beside each other, such as those of an attention's heads."""
    if (
        not (call.is_part(tensor) and call.is_part(other))
        or tensor.dim() != other.dim()
        or tensor.split_dim != other.split_dim
    ):
        return NotImplemented
    if tensor.split_dim >= tensor.dim() - 2:
        return NotImplemented
    return call.kind(call.torch.matmul(tensor.local, other.local), tensor.split_dim)


def _attention(call, query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
    parts = (query, key, value)
    if not all(map(call.is_part, parts)) or any(part.split_dim != part.dim() - 3 for part in parts) or dropout_p:
        return NotImplemented
    if attn_mask is not None:
        attn_mask = call.like(attn_mask, query)
        if attn_mask is None:
            return NotImplemented
    options = {"enable_gqa": True} if enable_gqa else {}
    outputs = call.torch.nn.functional.scaled_dot_product_attention(
        *[part.local for part in parts], attn_mask=attn_mask, is_causal=is_causal, scale=scale, **options
    )  # fmt: skip
    return call.kind(outputs, query.split_dim)


def _many_heads(
    call, query, key, value, width, heads, in_weight, in_bias, bias_k, _bias_v, adds_zeros, dropout, out_weight,
    out_bias, training=True, key_padding_mask=None, need_weights=True, attn_mask=None, is_causal=False, **options,
):  # fmt: skip
    """Of MultiheadAttention: what goes in is projected by parts and gathered, and each rank has its heads."""
    is_plain = query is key and key is value and query.dim() == 3 and bias_k is None and not adds_zeros
    unsupported = [
        name
        for name, value in options.items()
        if name != "average_attn_weights" and value is not None and value is not False
    ]
    if need_weights or unsupported or not is_plain or heads % call.ranks.model.size or not call.is_part(in_weight):
        return NotImplemented
    functional, query = call.torch.nn.functional, call.whole(query)
    length, batch_size, _ = query.shape
    parts = [
        projection.reshape(length, batch_size, heads, -1).permute(1, 2, 0, 3)
        for projection in call.whole(functional.linear(query, in_weight, in_bias)).chunk(3, -1)
    ]
    masks = []
    if attn_mask is not None and not (is_causal and key_padding_mask is None):
        masks.append(attn_mask.view(-1, *attn_mask.shape[-2:]))
        masks[0] = masks[0].unsqueeze(0) if len(masks[0]) == 1 else masks[0].view(batch_size, heads, length, -1)
    if key_padding_mask is not None:
        masks.append(key_padding_mask.view(batch_size, 1, 1, -1))
    zeros = call.torch.zeros((), dtype=query.dtype)
    masks = [zeros.masked_fill(mask, -math.inf) if mask.dtype == call.torch.bool else mask for mask in masks]
    dropout = dropout if training else 0.0
    if not dropout:
        parts = [call.kind(call.moves.own(part, 1), 1) for part in parts]
    outputs = functional.scaled_dot_product_attention(
        *parts, attn_mask=sum(masks) if masks else None, dropout_p=dropout, is_causal=is_causal and not masks
    )
    outputs = functional.linear(outputs.permute(2, 0, 1, 3).reshape(length, batch_size, width), out_weight, out_bias)
    return outputs, None


@functools.lru_cache(maxsize=None)
def _rules(torch):
    """The rules by the operators, in all of their spellings."""
    functional, tensor = torch.nn.functional, torch.Tensor
    rules = {}

    def add(rule, *names):
        for name in names:
            for owner in (torch, tensor, functional, torch._C._nn):
                function = getattr(owner, name, None)
                if callable(function):
                    rules[function] = rule

    add(
        _elementwise,
        "relu", "relu_", "gelu", "silu", "tanh", "sigmoid", "softplus", "leaky_relu", "elu", "selu", "hardswish",
        "hardtanh", "relu6", "mish", "celu", "exp", "neg", "square", "sqrt", "rsqrt", "pow", "abs", "cos", "sin",
        "erf", "clamp", "tanh_", "sigmoid_", "add", "sub", "mul", "div", "true_divide", "add_", "sub_", "mul_",
        "div_", "__add__", "__radd__", "__sub__", "__rsub__", "__mul__", "__rmul__", "__truediv__", "__neg__",
        "__pow__", "__iadd__", "__isub__", "__imul__", "__itruediv__", "masked_fill", "masked_fill_", "where",
        "contiguous", "clone", "float", "double", "half", "bfloat16", "to", "type", "type_as", "detach", "logsigmoid",
        "hardsigmoid",
    )  # fmt: skip
    add(_dropout, "dropout")
    add(_linear, "linear")
    add(_embedding, "embedding")
    add(_view, "view", "reshape")
    add(_flatten, "flatten")
    add(_unflatten, "unflatten")
    add(_transpose, "transpose", "swapaxes", "swapdims")
    add(_permute, "permute")
    add(_pick, "__getitem__")
    add(_expand, "expand")
    add(_cat, "cat", "concat")
    add(_softmax, "softmax")
    add(_matmul, "matmul", "__matmul__", "bmm")
    add(_attention, "scaled_dot_product_attention")
    add(_many_heads, "multi_head_attention_forward")
    return rules
