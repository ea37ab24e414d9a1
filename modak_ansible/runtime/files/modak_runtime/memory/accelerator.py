"""An accelerator, asked what operators really take there besides their tensors.

The traced process computes nothing there. A copy of it, made before CUDA begins, runs each operator once with the same
shapes: libraries choose their workspaces by shapes, formats and device, and no rule is known.
"""

import json

from modak_runtime.memory.copies import Copy

NOTHING = {"transient": 0, "given": []}
_LARGEST = 0.8  # of what is free, for the tensors of one operator


class Accelerator:
    """NVIDIA's device that this process would use.

    Attributes:
        base: bytes that the driver and libraries take outside of the allocator.
        held: bytes that libraries keep in the allocator, one size for each of their handles.
    """

    def __init__(self, torch, copy, base, held):
        self._torch, self._copy, self._answers, self.base, self.held = torch, copy, {}, base, held

    def usage(self, func, args, kwargs):
        """Bytes that an operator takes while it computes, beside what it is given, and of what it gives, each.

        NOTHING where it cannot run alone.
        """
        pytree = self._torch.utils._pytree
        leaves, form = pytree.tree_flatten((args, kwargs))
        try:
            described = [_described(self._torch, leaf) for leaf in leaves]
            question = json.dumps((str(func), described, pytree.treespec_dumps(form)))
        except (TypeError, ValueError, NotImplementedError, RuntimeError):  # a script's own objects, sparse tensors
            return NOTHING
        if question not in self._answers:
            self._answers[question] = self._copy.ask(question) or NOTHING
        return self._answers[question]


def find(torch):
    """The accelerator; None without one. To be called before anything of CUDA has begun in this process."""
    if not torch.backends.cuda.is_built() or torch.version.hip or torch.cuda.is_initialized():
        return None

    def answer(question=None):
        return _measured(torch, *json.loads(question)) if question else _base_usage(torch)

    copy = Copy(answer)
    base_usage = copy.ask()
    if base_usage is None:
        copy.end()
        return None
    return Accelerator(torch, copy, **base_usage)


def _described(torch, leaf):
    """A tensor as what makes one like it; what else there is as it is."""
    if isinstance(leaf, torch.Tensor):
        return "tensor", list(leaf.shape), list(leaf.stride()), name_of(leaf.dtype), leaf.device.type
    if isinstance(leaf, torch.device):
        return "device", str(leaf)
    if isinstance(leaf, (torch.dtype, torch.layout, torch.memory_format)):
        return "named", name_of(leaf)
    return "plain", leaf


def name_of(value):
    """What PyTorch calls a dtype, a layout or a memory format among its own names."""
    return str(value).rpartition(".")[2]


def _base_usage(torch):
    """What is taken before any tensor, once what trainings use has computed; None without a device."""
    if not torch.cuda.is_available():
        return None
    nn = torch.nn
    model = nn.Sequential(nn.Conv2d(4, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(288, 64)).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.zeros(8, 4, 8, 8, device="cuda")).sum().backward()
    optimizer.step()
    del model, optimizer
    allocated = torch.cuda.memory_allocated()  # cuBLAS keeps a workspace for the thread of each pass
    free, total = torch.cuda.mem_get_info()
    return {"base": total - free - torch.cuda.memory_reserved(), "held": [allocated // 2] * 2}


def _measured(torch, name, leaves, form):
    """Bytes that were allocated at most, less those of what the operator is given and gives; and the latter."""
    pytree, cuda = torch.utils._pytree, torch.cuda
    cuda.empty_cache()
    if sum(_size(torch, leaf) for leaf in leaves) > _LARGEST * cuda.mem_get_info()[0]:
        return None
    args, kwargs = pytree.tree_unflatten([_rebuilt(torch, leaf) for leaf in leaves], pytree.treespec_loads(form))
    function = torch.ops
    for part in name.split("."):
        function = getattr(function, part)
    before = cuda.memory_allocated()
    cuda.reset_peak_memory_stats()
    with torch.no_grad():
        outputs = function(*args, **kwargs)
    cuda.synchronize()
    peak, after = cuda.max_memory_allocated(), cuda.memory_allocated()
    sizes = [leaf.untyped_storage().nbytes() for leaf in pytree.tree_leaves(outputs) if isinstance(leaf, torch.Tensor)]
    return {"transient": max(0, peak - max(before, after)), "given": sizes}


def _size(torch, leaf):
    if leaf[0] != "tensor":
        return 0
    _, shape, stride, dtype, _ = leaf
    return getattr(torch, dtype).itemsize * (1 + sum((size - 1) * step for size, step in zip(shape, stride) if size))


def _rebuilt(torch, leaf):
    kind, *details = leaf
    if kind == "tensor":
        shape, stride, dtype, device = details
        return torch.empty_strided(shape, stride, dtype=getattr(torch, dtype), device=device).zero_()
    if kind == "device":
        return torch.device(details[0])
    return getattr(torch, details[0]) if kind == "named" else details[0]
