"""What a first look at a batch needs: whether pieces of it give what the whole does, and what a module keeps of it."""

import contextlib

from modak_runtime.parallel.stages.placed import DROPOUTS


def near(torch, one, other):
    if not isinstance(one, torch.Tensor):
        return True
    if one.shape != other.shape:
        return False
    if not one.is_floating_point():
        return torch.equal(one, other)
    off = 2e-2 if one.element_size() < 4 else 1e-3
    scale = one.abs().max().item() if one.numel() else 0.0
    return torch.allclose(one.double(), other.double(), rtol=off, atol=off * 1e-2 * scale, equal_nan=True)


@contextlib.contextmanager
def still(torch, module):
    """Leaves out what draws: dropout, whoever computes it."""
    from torch.overrides import TorchFunctionMode

    class Still(TorchFunctionMode):
        def __torch_function__(self, function, _types, arguments=(), options=None):
            options, name = dict(options or {}), getattr(function, "__name__", "")
            if name in DROPOUTS:
                return arguments[0] if arguments else options["input"]
            if name == "scaled_dot_product_attention" and len(arguments) < 5:
                options["dropout_p"] = 0.0
            return function(*arguments, **options)

    kinds = torch.nn.modules.dropout._DropoutNd, torch.nn.MultiheadAttention, torch.nn.RNNBase
    quiet = [each for each in module.modules() if isinstance(each, kinds) and each.training]
    for each in quiet:
        each.training = False
    try:
        with Still():
            yield
    finally:
        for each in quiet:
            each.training = True


class Buffers:
    """The buffers of a module before a call, which one stage alone may change."""

    def __init__(self, torch, module):
        self._torch = torch
        self._before = [
            (each, name, buffer, buffer.clone())
            for each in module.modules() for name, buffer in each._buffers.items() if isinstance(buffer, torch.Tensor)
        ]  # fmt: skip

    def share(self, pipe):
        """Gives all ranks what one has changed; tells whether any was."""
        if not self._before:
            return False
        torch, own = self._torch, []
        for module, name, buffer, before in self._before:
            now = module._buffers[name]
            if isinstance(now, pipe.kind):
                here = max(now.where) == pipe.number
                module._buffers[name] = now = now.local.detach() if here else torch.empty(now.shape, dtype=now.dtype)
                own.append(here)
            else:
                own.append(now is not buffer or not torch.equal(now, before))  # batch norm counts no version
        words = pipe.ranks.largest([[(pipe.number + 1) * each, -int(each)] for each in own], pipe.ranks.model)
        for (module, name, *_), (changer, is_kept) in zip(self._before, words):
            if changer and not is_kept:  # not by all
                held = module._buffers[name].detach().contiguous().clone()
                pipe.give(held, changer - 1)
                if changer - 1 != pipe.number:  # whose backward pass still needs it as it is
                    with torch.no_grad():
                        module._buffers[name].copy_(held)
        return any(changer for changer, _ in words)

    def restore(self):
        with self._torch.no_grad():
            for module, name, buffer, held in self._before:
                module._buffers[name] = buffer
                buffer.copy_(held)
