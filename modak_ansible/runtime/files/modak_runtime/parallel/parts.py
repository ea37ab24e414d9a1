"""Tensors of which each rank has a part along one dimension, as layers that are split between ranks give them.

What can be computed of a part is; for anything else the parts are gathered, so that every operator is right. Tensors
that are whole are the same in all ranks, and so are their gradients.
"""

import functools
import math

from modak_runtime.parallel import alike


def carriers(torch, ranks):
    """The class of such tensors; its ``local`` is this rank's part, along its ``place``, a dimension from the left."""
    moves = _moves(torch, ranks)

    class Split(torch.Tensor):
        @staticmethod
        def __new__(cls, local, place):
            shape = list(local.shape)
            shape[place] *= ranks.model.size
            self = torch.Tensor._make_wrapper_subclass(cls, shape, dtype=local.dtype, device=local.device)
            self.local, self.place = local, place
            return self

        @classmethod
        def __torch_function__(cls, function, _types, arguments=(), options=None):
            return _compute(torch, ranks, cls, moves, function, arguments, options or {})

        @classmethod
        def __torch_dispatch__(cls, function, _types, _arguments=(), _options=None):
            raise RuntimeError("%s cannot be given a part of a tensor: fsdp or ddp can train it" % function)

        def __repr__(self):
            return "Split(%s, place=%d)" % (self.local, self.place)

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
        known = self._last
        if known is None or known[0] is not whole or known[1] != whole._version:
            known = self._last = (whole, whole._version, self.copy(whole))
        return known[2]

    def forget(self):
        self._last = None


def _moves(torch, ranks):
    def compare(*words):
        """Before the first step each message is compared: of different kinds, ranks would wait for each other."""
        if not ranks.is_compared:
            ranks.trace.append(words)
            alike.compare_now(ranks)

    def summed(tensor):
        compare("sum", tuple(tensor.shape))
        found = tensor.detach().clone(memory_format=torch.contiguous_format)
        ranks.guarded(torch.distributed.all_reduce, found, group=ranks.model.group)
        return found

    def gathered(tensor, place):
        compare("gather", tuple(tensor.shape), place)
        mine = tensor.detach().contiguous()
        parts = [torch.empty_like(mine) for _ in range(ranks.model.size)]
        ranks.guarded(torch.distributed.all_gather, parts, mine, group=ranks.model.group)
        return torch.cat(parts, place)

    def narrowed(tensor, place):
        size = tensor.shape[place] // ranks.model.size
        mine = tensor.detach().narrow(place, ranks.model.number * size, size)
        return mine.clone(memory_format=torch.contiguous_format)

    class Copy(torch.autograd.Function):
        @staticmethod
        def forward(_ctx, whole):
            return whole.view_as(whole)

        @staticmethod
        def backward(_ctx, given):
            return Total.apply(given)

    class Total(torch.autograd.Function):
        @staticmethod
        def forward(_ctx, part):
            return summed(part)

        @staticmethod
        def backward(_ctx, given):
            return Copy.apply(given)

    class Gather(torch.autograd.Function):
        @staticmethod
        def forward(ctx, part, place):
            ctx.place = place
            return gathered(part, place)

        @staticmethod
        def backward(ctx, given):
            return Own.apply(given, ctx.place), None

    class Own(torch.autograd.Function):
        @staticmethod
        def forward(ctx, whole, place):
            ctx.place = place
            return narrowed(whole, place)

        @staticmethod
        def backward(ctx, given):
            return Gather.apply(given, ctx.place), None

    return _Moves(Copy.apply, Total.apply, Gather.apply, Own.apply)


def _compute(torch, ranks, kind, moves, function, arguments, options):
    """An operator of tensors some of which are parts."""
    name = getattr(function, "__name__", "")
    if name == "__get__":
        return _property(torch, kind, function, arguments)
    rule = _rules(torch).get(function)
    if rule is not None:
        found = rule(_Call(torch, ranks, kind, moves, function), *arguments, **options)
        if found is not NotImplemented:
            return found
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


def whole_of(kind, each):
    """A tensor that may be in parts, whole."""
    return kind.moves.gather(each.local, each.place) if isinstance(each, kind) else each


_OF_WHOLE = ("size", "dim", "numel", "is_floating_point", "is_complex", "ndimension", "__len__", "nelement",
             "element_size", "get_device", "__hash__", "is_sparse_csr")  # fmt: skip
_OF_LOCAL = ("requires_grad", "is_leaf", "grad_fn", "_version")


def _property(torch, kind, function, arguments):
    name, (one, *_) = function.__self__.__name__, arguments
    if name in _OF_LOCAL:
        return getattr(one.local, name)
    if name in ("T", "mT", "H", "mH", "data", "real"):
        return function(whole_of(kind, one))
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

    def is_part(self, each):
        return isinstance(each, self.kind)

    def whole(self, each):
        return whole_of(self.kind, each)

    def like(self, each, one):
        """The same part of a tensor that is computed with another, element by element; None where it has none."""
        back = one.place - one.dim()
        if self.is_part(each):
            return each.local if each.place - each.dim() == back else None
        if not isinstance(each, self.torch.Tensor) or not each.dim():
            return self.moves.copied(each) if isinstance(each, self.torch.Tensor) else each
        if each.dim() < -back or each.shape[back] == 1:
            return self.moves.copied(each)
        return self.moves.own(each, each.dim() + back)


# --- rules, each of which gives NotImplemented where parts are not enough


def _elementwise(call, *arguments, **options):
    torch, kind = call.torch, call.kind
    parts = [each for each in arguments if call.is_part(each)]
    name = getattr(call.function, "__name__", "")
    in_place = is_in_place(name) or options.get("inplace")
    if not parts or any(map(call.is_part, options.values())):
        return NotImplemented
    wholes = [each for each in arguments if isinstance(each, torch.Tensor) and not call.is_part(each) and each.dim()]
    one = max(parts, key=lambda each: each.dim())
    if (in_place and not call.is_part(arguments[0])) or any(each.dim() > one.dim() for each in wholes):
        return NotImplemented
    if not in_place and any(each.requires_grad for each in wholes):
        return NotImplemented  # which is needed whole behind it, in most models
    mine = [call.like(each, one) for each in arguments]
    if any(found is None and each is not None for found, each in zip(mine, arguments)):
        return NotImplemented
    found = call.function(*mine, **options)
    place = found.dim() + one.place - one.dim()
    if in_place:
        arguments[0].local = found
        return arguments[0]
    return kind(found, place)


def _dropout(call, one, p=0.5, training=True, inplace=False):
    """With the numbers that one process draws."""
    if not training or not p:
        return one
    drawn = call.torch.nn.functional.dropout(call.torch.ones(one.shape, dtype=one.dtype, device=one.device), p)
    size = one.local.shape[one.place]
    found = one.local * drawn.narrow(one.place, call.ranks.model.number * size, size).clone()
    if inplace:
        one.local = found
        return one
    return call.kind(found, one.place)


def _linear(call, given, weight, bias=None):
    torch, moves = call.torch, call.moves
    if not call.is_part(weight):
        return NotImplemented
    if weight.place == 0:  # each rank makes some of what comes out
        mine = bias if bias is None else bias.local if call.is_part(bias) else moves.own(bias, 0)
        found = torch.nn.functional.linear(moves.copied(call.whole(given)), weight.local, mine)
        return call.kind(found, found.dim() - 1)
    if call.is_part(given) and given.place == given.dim() - 1:
        mine = given.local
    else:
        given = call.whole(given)
        mine = moves.own(given, given.dim() - 1)
    found = moves.total(torch.nn.functional.linear(mine, weight.local))
    return found if bias is None else found + call.whole(bias)


def _embedding(
    call, given, weight, padding_idx=None, max_norm=None, scale_grad_by_freq=False, sparse=False, **_options
):
    if not call.is_part(weight) or weight.place or max_norm is not None or scale_grad_by_freq or sparse:
        return NotImplemented
    torch, size = call.torch, weight.local.shape[0]
    given = call.whole(given) - call.ranks.model.number * size
    is_mine = (given >= 0) & (given < size)
    found = torch.nn.functional.embedding(given.clamp(0, size - 1), weight.local)
    if padding_idx is not None:
        padding = padding_idx % weight.shape[0] - call.ranks.model.number * size
        found = torch.where((given == padding).unsqueeze(-1), found.detach(), found)
    return call.moves.total(found * is_mine.unsqueeze(-1).to(found.dtype))


def _view(call, one, *sizes, **options):
    if options or not call.is_part(one):
        return NotImplemented
    sizes = sizes[0] if len(sizes) == 1 and isinstance(sizes[0], (tuple, list)) else sizes
    if not all(isinstance(each, int) for each in sizes):
        return NotImplemented
    sizes = list(sizes)
    if -1 in sizes:
        sizes[sizes.index(-1)] = one.numel() // max(1, -math.prod(sizes))
    before = math.prod(one.shape[: one.place])
    for place, size in enumerate(sizes):
        if size > 1 and size % call.ranks.model.size == 0 and math.prod(sizes[:place]) == before:
            sizes[place] //= call.ranks.model.size
            return call.kind(one.local.reshape(sizes), place)
    return NotImplemented


def _flatten(call, one, start_dim=0, end_dim=-1):
    start, end = start_dim % one.dim(), end_dim % one.dim()
    return _view(call, one, [*one.shape[:start], math.prod(one.shape[start : end + 1]), *one.shape[end + 1 :]])


def _unflatten(call, one, dim, sizes):
    dim, sizes = dim % one.dim(), list(sizes)
    if -1 in sizes:
        sizes[sizes.index(-1)] = one.shape[dim] // max(1, -math.prod(sizes))
    return _view(call, one, [*one.shape[:dim], *sizes, *one.shape[dim + 1 :]])


def _transpose(call, one, dim0, dim1):
    first, second = dim0 % one.dim(), dim1 % one.dim()
    place = {first: second, second: first}.get(one.place, one.place)
    return call.kind(one.local.transpose(first, second), place)


def _permute(call, one, *dims):
    dims = [each % one.dim() for each in (dims[0] if isinstance(dims[0], (tuple, list)) else dims)]
    return call.kind(one.local.permute(dims), dims.index(one.place))


def _pick(call, one, index):
    """Slices, new dimensions and ``...``, of all of the dimension that is split."""
    index = index if isinstance(index, tuple) else (index,)
    if not call.is_part(one) or not all(each is None or each is Ellipsis or isinstance(each, slice) for each in index):
        return NotImplemented
    index = list(index) + ([] if any(each is Ellipsis for each in index) else [Ellipsis])
    at = next(number for number, each in enumerate(index) if each is Ellipsis)
    named = sum(isinstance(each, slice) for each in index)
    index[at : at + 1] = [slice(None)] * (one.dim() - named)
    dim, place = 0, None
    for number, each in enumerate(index):
        if each is None:
            continue
        if dim == one.place:
            if each != slice(None):
                return NotImplemented
            place = number
        dim += 1
    return call.kind(one.local[tuple(index)], place)


def _expand(call, one, *sizes):
    sizes = list(sizes[0] if isinstance(sizes[0], (tuple, list)) else sizes)
    place = len(sizes) - one.dim() + one.place
    if sizes[place] not in (-1, one.shape[one.place]):
        return NotImplemented
    sizes[place] = -1
    return call.kind(one.local.expand(sizes), place)


def _cat(call, tensors, dim=0):
    one = next(each for each in tensors if call.is_part(each))
    is_alike = all(call.is_part(each) and each.place == one.place and each.dim() == one.dim() for each in tensors)
    if not is_alike or dim % one.dim() == one.place:
        return NotImplemented
    return call.kind(call.torch.cat([each.local for each in tensors], dim), one.place)


def _softmax(call, one, dim=None, _stacklevel=3, dtype=None):
    if not call.is_part(one) or dim is None or dim % one.dim() == one.place:
        return NotImplemented
    return call.kind(call.torch.nn.functional.softmax(one.local, dim=dim, dtype=dtype), one.place)


def _matmul(call, one, other):
    """Of matrices beside each other, such as those of an attention's heads."""
    if not (call.is_part(one) and call.is_part(other)) or one.dim() != other.dim() or one.place != other.place:
        return NotImplemented
    if one.place >= one.dim() - 2:
        return NotImplemented
    return call.kind(call.torch.matmul(one.local, other.local), one.place)


def _attention(call, query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
    parts = (query, key, value)
    if not all(map(call.is_part, parts)) or any(each.place != each.dim() - 3 for each in parts) or dropout_p:
        return NotImplemented
    if attn_mask is not None:
        attn_mask = call.like(attn_mask, query)
        if attn_mask is None:
            return NotImplemented
    more = {"enable_gqa": True} if enable_gqa else {}
    found = call.torch.nn.functional.scaled_dot_product_attention(
        *[each.local for each in parts], attn_mask=attn_mask, is_causal=is_causal, scale=scale, **more
    )  # fmt: skip
    return call.kind(found, query.place)


def _many_heads(
    call, query, key, value, width, heads, in_weight, in_bias, bias_k, _bias_v, adds_zeros, dropout, out_weight,
    out_bias, training=True, key_padding_mask=None, need_weights=True, attn_mask=None, is_causal=False, **others,
):  # fmt: skip
    """Of MultiheadAttention: what goes in is projected by parts and gathered, and each rank has its heads."""
    is_plain = query is key and key is value and query.dim() == 3 and bias_k is None and not adds_zeros
    more = [
        name
        for name, each in others.items()
        if name != "average_attn_weights" and each is not None and each is not False
    ]
    if need_weights or more or not is_plain or heads % call.ranks.model.size or not call.is_part(in_weight):
        return NotImplemented
    functional, query = call.torch.nn.functional, call.whole(query)
    length, many, _ = query.shape
    parts = [
        each.reshape(length, many, heads, -1).permute(1, 2, 0, 3)
        for each in call.whole(functional.linear(query, in_weight, in_bias)).chunk(3, -1)
    ]
    masks = []
    if attn_mask is not None and not (is_causal and key_padding_mask is None):
        masks.append(attn_mask.view(-1, *attn_mask.shape[-2:]))
        masks[0] = masks[0].unsqueeze(0) if len(masks[0]) == 1 else masks[0].view(many, heads, length, -1)
    if key_padding_mask is not None:
        masks.append(key_padding_mask.view(many, 1, 1, -1))
    zeros = call.torch.zeros((), dtype=query.dtype)
    masks = [zeros.masked_fill(each, -math.inf) if each.dtype == call.torch.bool else each for each in masks]
    dropout = dropout if training else 0.0
    if not dropout:
        parts = [call.kind(call.moves.own(each, 1), 1) for each in parts]
    found = functional.scaled_dot_product_attention(
        *parts, attn_mask=sum(masks) if masks else None, dropout_p=dropout, is_causal=is_causal and not masks
    )
    found = functional.linear(found.permute(2, 0, 1, 3).reshape(length, many, width), out_weight, out_bias)
    return found, None


@functools.lru_cache(maxsize=None)
def _rules(torch):
    """The rules by the operators, in all of their spellings."""
    functional, tensor = torch.nn.functional, torch.Tensor
    found = {}

    def add(rule, *names):
        for name in names:
            for owner in (torch, tensor, functional, torch._C._nn):
                function = getattr(owner, name, None)
                if callable(function):
                    found[function] = rule

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
    return found
