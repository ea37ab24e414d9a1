"""What a first look at a batch needs: whether pieces of it give what the whole does, and what a module keeps of it."""

import contextlib

from modak_runtime.parallel.stages.placed import DROPOUTS


def near(torch, tensor, other):
    if not isinstance(tensor, torch.Tensor):
        return True
    if tensor.shape != other.shape:
        return False
    if not tensor.is_floating_point():
        return torch.equal(tensor, other)
    off = 2e-2 if tensor.element_size() < 4 else 1e-3
    scale = tensor.abs().max().item() if tensor.numel() else 0.0
    return torch.allclose(tensor.double(), other.double(), rtol=off, atol=off * 1e-2 * scale, equal_nan=True)


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
    quiet = [submodule for submodule in module.modules() if isinstance(submodule, kinds) and submodule.training]
    for submodule in quiet:
        submodule.training = False
    try:
        with Still():
            yield
    finally:
        for submodule in quiet:
            submodule.training = True


class Buffers:
    """The buffers of a module before a call, which one stage alone may change."""

    def __init__(self, torch, module):
        self._torch = torch
        self._before = [
            (submodule, name, buffer, buffer.clone())
            for submodule in module.modules()
            for name, buffer in submodule._buffers.items() if isinstance(buffer, torch.Tensor)
        ]  # fmt: skip

    def share(self, pipe):
        """Gives all ranks what one has changed; tells whether any was."""
        if not self._before:
            return False
        torch, changes = self._torch, []
        for module, name, buffer, before in self._before:
            current = module._buffers[name]
            if isinstance(current, pipe.kind):
                is_here = max(current.where) == pipe.number
                module._buffers[name] = current = (
                    current.local.detach() if is_here else torch.empty(current.shape, dtype=current.dtype)
                )
                changes.append(is_here)
            else:
                # batch norm counts no version
                changes.append(current is not buffer or not torch.equal(current, before))
        changers = pipe.ranks.largest(
            [[(pipe.number + 1) * is_changed, -int(is_changed)] for is_changed in changes], pipe.ranks.model
        )
        for (module, name, *_), (changer, is_kept) in zip(self._before, changers):
            if changer and not is_kept:  # not by all
                contents = module._buffers[name].detach().contiguous().clone()
                pipe.give(contents, changer - 1)
                if changer - 1 != pipe.number:  # whose backward pass still needs it as it is
                    with torch.no_grad():
                        module._buffers[name].copy_(contents)
        return any(changer for changer, _ in changers)

    def restore(self):
        with self._torch.no_grad():
            for module, name, buffer, contents in self._before:
                module._buffers[name] = buffer
                buffer.copy_(contents)
