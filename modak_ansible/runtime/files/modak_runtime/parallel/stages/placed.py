"""Tensors of a call that stages compute: every rank follows all of it, and computes what is its own.

Of what other ranks compute a rank has the sizes alone (PyTorch's fake tensors). What a stage needs of one before it is
sent there when it is needed, so that a model's forward may do between its layers what it likes.
"""

import functools
import importlib

from modak_runtime.parallel.parts import is_in_place

# What tells numbers, which all ranks are told by the one that has them.
_NUMBERS = {"item", "tolist", "numpy", "__bool__", "__int__", "__float__", "__index__", "__complex__", "__array__",
            "__format__", "__repr__", "__str__", "equal", "allclose", "is_nonzero", "__contains__"}  # fmt: skip
_OF_SIZES = {"size", "dim", "numel", "is_floating_point", "is_complex", "ndimension", "__len__", "nelement", "stride",
             "element_size", "get_device", "__hash__", "is_contiguous", "storage_offset", "is_signed"}  # fmt: skip
# What draws random numbers: a rank draws them from streams of its own, lest those that all have alike drift apart.
_DRAWS = ("dropout", "bernoulli", "rand_like", "randn_like", "randint_like", "normal", "uniform", "multinomial",
          "exponential", "geometric", "poisson", "lstm", "gru", "rnn", "attention", "multi_head", "gumbel", "random",
          "fractional_max_pool", "log_normal", "cauchy", "rrelu")  # fmt: skip
DROPOUTS = ("dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout", "dropout_",
            "feature_dropout")  # fmt: skip


@functools.lru_cache(maxsize=None)
def draws(name):
    return any(word in name for word in _DRAWS)


class _Size:
    """Of a tensor that another rank has."""

    def __init__(self, shape, strides, dtype, device):
        self.shape, self._strides, self.dtype, self.device = shape, strides, dtype, device

    def stride(self):
        return self._strides


_SIZES = {"shape": 0, "dtype": 2, "device": 3}  # properties of a tensor, by their places among its sizes
_SAME = _Size((), (), None, None)  # what an operator was given and has changed


def _key(torch, value):
    """By what the sizes of an operator's results are known, of its arguments.

    Raises:
        TypeError: one of them has no hash.
    """
    if isinstance(value, torch.Tensor):
        return getattr(value, "placed_sizes", None) or (value.shape, value.stride(), value.dtype, value.device)
    if isinstance(value, (tuple, list)):
        return type(value), tuple(_key(torch, item) for item in value)
    if isinstance(value, dict):
        return tuple((name, _key(torch, item)) for name, item in value.items())
    if isinstance(value, slice):
        return "slice", _key(torch, (value.start, value.stop, value.step))
    hash(value)
    return type(value), value


class _Operands:
    """What an operator is given: ``leaves``, and what puts them together again.

    Most are given tensors and numbers alone, for which PyTorch's trees take longer than many an operator.
    """

    def __init__(self, torch, arguments, options):
        self._tree, leaves = torch.utils._pytree, [*arguments, *options.values()]
        if all(isinstance(leaf, torch.Tensor) or type(leaf) in _PLAIN or _is_plain(leaf) for leaf in leaves):
            self.leaves, self._form, self._names = leaves, None, tuple(options)
        else:
            self.leaves, self._form = self._tree.tree_flatten((arguments, options))

    def with_leaves(self, leaves):
        """Arguments and options."""
        if self._form is not None:
            return self._tree.tree_unflatten(leaves, self._form)
        count = len(leaves) - len(self._names)
        return leaves[:count], dict(zip(self._names, leaves[count:]))


_PLAIN = {int, float, bool, str, type(None)}


def _is_plain(value):
    return type(value) in (tuple, list) and all(type(item) in _PLAIN for item in value)


def carrier(torch, pipe):
    """The class of such tensors.

    Its ``placed_sizes`` are what operators' results depend on; ``where`` are the ranks that have it, and ``local`` the
    tensor where this is one, else None. ``home`` is the rank that keeps it where it is a parameter; ``learns`` whether
    it has gradients.
    """

    class Placed(torch.Tensor):
        @staticmethod
        def __new__(cls, like, local, where, learns, home=None):
            self = torch.Tensor._make_wrapper_subclass(
                cls, like.shape, strides=like.stride(), dtype=like.dtype, device=like.device
            )
            self.placed_sizes = like.shape, like.stride(), like.dtype, like.device
            self.local, self.where, self.learns, self.home = local, {*where}, learns, home
            return self

        @classmethod
        def __torch_function__(cls, function, _types, arguments=(), options=None):
            name = getattr(function, "__name__", "")
            if name == "__get__":
                name = function.__self__.__name__
                if name in _SIZES:
                    return arguments[0].placed_sizes[_SIZES[name]]
                if name in ("requires_grad", "is_leaf", "grad_fn", "grad", "_version"):
                    tensor = arguments[0]
                    return {"requires_grad": tensor.learns, "is_leaf": not tensor.learns, "_version": 0}.get(name)
                if name not in ("T", "mT", "H", "mH", "data", "real", "imag"):
                    with torch._C.DisableTorchFunctionSubclass():
                        return function(*arguments)
            elif name in _OF_SIZES:
                with torch._C.DisableTorchFunctionSubclass():
                    return function(*arguments, **options or {})
            if pipe.now is None:
                pipe.refuse("a tensor of a stage is used when the call of its model is over")
            return pipe.now.compute(function, name, arguments, options or {})

        @classmethod
        def __torch_dispatch__(cls, function, _types, _arguments=(), _options=None):
            raise RuntimeError("%s cannot be given a tensor of a stage: fsdp or ddp can train it" % function)

        def __repr__(self):
            return "Placed(%s, where=%s)" % (tuple(self.shape), sorted(self.where))

    return Placed


class Flow:
    """One piece of a batch on its way through all stages.

    Attributes:
        sent: for the backward pass the edges of what this rank has sent, to whom, under which tag, and its like.
        received: what will be their gradients, from whom, under which tag, and their like.
        again: whether it is computed again for the backward pass, by this rank alone.
    """

    def __init__(self, pipe, call):
        self._pipe, self._call, self._torch, self._kind = pipe, call, pipe.torch, pipe.kind
        self.sent, self.received, self.again, self._stale = [], [], False, []

    def compute(self, function, name, arguments, options):
        """What an operator gives, here or elsewhere."""
        torch, pipe, kind = self._torch, self._pipe, self._kind
        operands = _Operands(torch, arguments, options)
        leaves = operands.leaves
        placed = [leaf for leaf in leaves if isinstance(leaf, kind)]
        home = max(max(tensor.where) if tensor.home is None else tensor.home for tensor in placed)
        for tensor in placed:
            if home not in tensor.where:
                self._move(tensor, home)
        self._check(name, leaves)
        out = options.get("out")
        changed = arguments[0] if is_in_place(name) or name == "__set__" else out
        if name == "apply":
            changed = None
        if changed is not None and not isinstance(changed, kind) and changed is not out:
            pipe.refuse("%s changes in place, by what a stage gives, what all of them have" % name)
        if name == "__set__" or (isinstance(changed, kind) and changed.home is not None):
            pipe.refuse("%s changes a parameter, or what a stage gives, in a way that has no rule" % name)
        if name in _NUMBERS:
            value = self._compute_here(function, name, operands) if home == pipe.number else None
            return value if self.again else pipe.broadcast(home, value)
        if home == pipe.number:
            result = self._compute_here(function, name, operands)
        else:
            result = self._sizes_elsewhere(function, name, arguments, options, changed)
        learns = torch.is_grad_enabled() and any(tensor.learns for tensor in placed) and name not in ("detach", "data")
        if isinstance(changed, kind):
            self._note_change(changed, home, learns)
        if out is not None and changed is out:
            return out

        def as_placed(leaf):
            if not isinstance(leaf, (torch.Tensor, _Size)):
                return leaf
            if changed is not None and (leaf is changed.local or (leaf is _SAME)):
                return changed
            local = leaf if home == pipe.number else None
            return kind(leaf, local, {home}, learns and leaf.dtype.is_floating_point)

        if isinstance(result, (torch.Tensor, _Size)):
            return as_placed(result)
        return torch.utils._pytree.tree_map(as_placed, result)

    def _check(self, name, leaves):
        torch, pipe = self._torch, self._pipe
        for leaf in leaves:
            if isinstance(leaf, self._kind) or not isinstance(leaf, torch.Tensor):
                continue
            if hasattr(leaf, "full_tensor") or (leaf.requires_grad and torch.is_grad_enabled()):
                pipe.refuse(
                    "%s computes with a parameter, or a tensor with gradients, that the called module does not have "
                    "and was not given" % name
                )

    def _compute_here(self, function, name, operands):
        torch, pipe = self._torch, self._pipe
        if self._stale:
            stale = {tensor.untyped_storage()._cdata for tensor in self._stale}
            if any(
                isinstance(leaf, self._kind) and leaf.local.untyped_storage()._cdata in stale
                for leaf in operands.leaves
            ):
                pipe.refuse("%s is given what another stage has changed in place since" % name)
        real = [leaf.local if isinstance(leaf, self._kind) else leaf for leaf in operands.leaves]
        arguments, options = operands.with_leaves(real)
        if not draws(name):
            return function(*arguments, **options)
        if self.again:
            state, result = torch.get_rng_state(), function(*arguments, **options)
            if not torch.equal(state, torch.get_rng_state()):
                pipe.refuse("a checkpoint computes again what draws random numbers (%s)" % name)
            return result
        with pipe.own_streams():
            return function(*arguments, **options)

    def _sizes_elsewhere(self, function, name, arguments, options, changed):
        """The sizes of what another rank computes."""
        torch, sizes = self._torch, self._pipe.sizes
        try:
            key = (
                function,
                torch.is_autocast_enabled("cpu"),
                torch.get_default_dtype(),
                _key(torch, (arguments, options)),
            )
            if key not in sizes:
                sizes[key] = self._sizes_of_fakes(function, name, arguments, options, changed)
            return sizes[key]
        except TypeError:  # an argument that has no hash
            return self._sizes_of_fakes(function, name, arguments, options, changed)

    def _sizes_of_fakes(self, function, name, arguments, options, changed):
        torch, pipe = self._torch, self._pipe
        fake = importlib.import_module("torch._subclasses.fake_tensor")

        def as_fake(leaf):
            if not isinstance(leaf, torch.Tensor):
                return leaf
            return torch.empty_strided(leaf.shape, leaf.stride(), dtype=leaf.dtype, device=leaf.device)

        try:
            with pipe.fake, torch.no_grad():
                fake_arguments, fake_options = torch.utils._pytree.tree_map(as_fake, (arguments, options))
                result = function(*fake_arguments, **fake_options)
        except (fake.DynamicOutputShapeException, fake.DataDependentOutputException):
            return pipe.refuse("the size of what %s gives depends on numbers that another stage has" % name)
        first = fake_arguments[0] if changed is not None and fake_arguments else None

        def size(leaf):
            if not isinstance(leaf, torch.Tensor):
                return leaf
            return _SAME if leaf is first else _Size(leaf.shape, leaf.stride(), leaf.dtype, leaf.device)

        return torch.utils._pytree.tree_map(size, result)

    def _note_change(self, changed, home, learns):
        """Takes that one rank has changed a tensor in place: what others have of it is no longer true."""
        number = self._pipe.number
        if changed.where != {home} and number in changed.where and number != home:
            self._stale.append(changed.local)
            changed.local = None
        changed.where, changed.learns = {home}, changed.learns or learns

    def _move(self, tensor, to):
        """Sends a tensor to the stage that needs it."""
        torch, pipe = self._torch, self._pipe
        source = max(tensor.where) if tensor.home is None else tensor.home
        if self.again:
            pipe.refuse("a checkpoint computes layers of several stages again")
        tag, learns, like = pipe.next_tag(), tensor.learns and torch.is_grad_enabled(), (tensor.shape, tensor.dtype)
        owner = self if tensor.home is None else self._call  # parameters go once for all pieces
        if pipe.number == source:
            pipe.send(tensor.local.detach().clone(memory_format=torch.contiguous_format), to, tag)
            if learns:
                edge = pipe.edge(tensor.local) if tensor.home is None else tensor.local
                owner.sent.append((edge if tensor.local.requires_grad else None, to, tag, like))
        elif pipe.number == to:
            slot = []

            def take():
                return pipe.receive(like, source, tag)

            tensor.local = pipe.received(pipe.anchor, take, slot) if learns else take()
            if learns:
                owner.received.append((slot, source, tag, like))
        tensor.where.add(to)
