"""Splits layers between ranks: each computes a part of a layer for all samples, which every rank reads.

Of a layer's weight a rank keeps some of what comes out, or some of what goes in: of two layers that follow each other
the first is split in one way and the second in the other, so that nothing travels between them. Wrong guesses cost
messages and change nothing: what a layer cannot take in parts is gathered.
"""

import contextlib
import functools
import importlib
import re
import types

from modak_runtime.parallel import sharded, whole
from modak_runtime.parallel.parts import carriers, whole_of
from modak_runtime.tensors import size_of

_SMALL = 0.001  # of all that the model has: what is smaller is whole in every rank
# Names of layers that take what others of the same block give, and of those that take what the block is given.
_LAST = re.compile(
    r"^(o|out|down|c|wo|w2|fc2|linear2|lin2|proj|projection|output|second|dense_4h_to_h)(_?proj(ection)?)?$"
)
_FIRST = re.compile(
    r"^(q|k|v|qkv|kv|query|key|value|gate|up|in|w1|w3|fc1|c_attn|c_fc|linear1|lin1|first)(_?proj(ection)?)?$"
)


def share_out(torch, ranks, model, optimizers):
    """Leaves this rank its part of the layers that are split, and of their optimizers' state."""
    chosen = {
        parameter: dim
        for parameter, dim in choose(torch, model).items()
        if parameter.shape[dim] % ranks.model.size == 0
    }
    if not any(parameter.dim() > 1 for parameter in chosen):
        ranks.rank.end(
            "%s has no Linear or Embedding that %d ranks can split: fsdp or ddp can train it"
            % (type(model).__name__, ranks.model.size)
        )
    tensors = importlib.import_module("torch.distributed.tensor")
    if not ranks.models:
        whole.read_whole(torch)
        sharded.explain_mixtures(ranks, "tensor")
    mesh, former_class, replacements = ranks.mesh.of_parts(torch), sharded.former_kind(torch), {}
    for parameter in list(model.parameters()):
        dim = chosen.get(parameter)
        placement = tensors.Replicate() if dim is None else tensors.Shard(dim)
        local = parameter.detach()
        if dim is not None:
            size = parameter.shape[dim] // ranks.model.size
            local = local.narrow(dim, ranks.model.number * size, size)
        local = local.clone(memory_format=torch.contiguous_format)
        part = tensors.DTensor.from_local(local, mesh, [placement], run_check=False)
        replacements[parameter] = torch.nn.Parameter(part, requires_grad=parameter.requires_grad)
        parameter.data = parameter.data.new_empty(0)
    for module in model.modules():
        for name, parameter in module._parameters.items():
            if parameter is not None:
                module._parameters[name] = replacements[parameter]
        read_again(module)
    sharded.take_over(torch, optimizers, former_class, replacements)
    _compute_by_parts(torch, ranks, model)
    whole.load_whole(torch, model)


def choose(torch, model):
    """The dimension along which each parameter is split; those that are not there stay whole."""
    least = _SMALL * sum(parameter.numel() for parameter in model.parameters())
    dims, is_parametrized = {}, torch.nn.utils.parametrize.is_parametrized
    for scope in [torch.nn.ModuleList([model]), *model.modules()]:
        layers = [(name, layer) for name, layer in _layers(torch, scope) if not is_parametrized(layer)]
        for (_, layer), dim in zip(layers, _split_dims(layers)):
            if layer.weight.numel() >= least and layer.weight not in dims:
                dims[layer.weight] = dim
                if dim == 0 and layer.bias is not None:
                    dims[layer.bias] = 0
        if (
            type(scope) is torch.nn.MultiheadAttention
            and scope.in_proj_weight is not None
            and not is_parametrized(scope)
        ):
            dims[scope.in_proj_weight] = 0
            if scope.in_proj_bias is not None:
                dims[scope.in_proj_bias] = 0
            dims[scope.out_proj.weight] = 1
            dims.pop(scope.out_proj.bias, None)
    for module in model.modules():
        if isinstance(module, torch.nn.Embedding) and type(module).forward is torch.nn.Embedding.forward:
            is_plain = module.max_norm is None and not module.scale_grad_by_freq and not module.sparse
            if is_plain and module.weight.numel() >= least and not is_parametrized(module):
                dims[module.weight] = 0  # also where a layer that makes scores has the same
    return dims


def widths(torch, model):
    """Bytes of parameters that ranks can split, by the number that theirs has to divide."""
    sizes = {}
    for parameter, dim in choose(torch, model).items():
        sizes[parameter.shape[dim]] = sizes.get(parameter.shape[dim], 0) + size_of(parameter)
    return sizes


def _layers(torch, scope):
    """Linear layers of a block, in their order, by their names: its own, and those of lists in it."""
    for name, child in scope.named_children():
        if isinstance(child, torch.nn.Linear) and type(child).forward is torch.nn.Linear.forward:
            yield name, child


def _split_dims(layers):
    """For each layer of a block 0, where what comes out of it is split, or 1, where what goes in is."""
    open_layers = []
    for number, (name, layer) in enumerate(layers):
        width = layer.in_features
        takes = any(open_layer.out_features % width == 0 for open_layer in open_layers)
        # by its shape it may take the same as they
        is_beside = any(open_layer.in_features == width for open_layer in open_layers)
        later = any(later_layer.in_features == width for _, later_layer in layers[number + 1 :])
        is_last = bool(_LAST.match(name)) or (not _FIRST.match(name) and not (is_beside and later))
        if open_layers and takes and is_last:
            open_layers = []
            yield 1
        else:
            open_layers.append(layer)
            yield 0


def read_again(module):
    """Has a recurrent layer find its parameters where they now are."""
    if hasattr(module, "_flat_weights_names"):
        module._flat_weights = [module._parameters.get(name) for name in module._flat_weights_names]


@contextlib.contextmanager
def replaced_parameters(module, replace):
    """Has a module, and all in it, find what a function gives in the place of their parameters."""
    saved = [(submodule, dict(submodule._parameters)) for submodule in module.modules()]
    try:
        for submodule, parameters in saved:
            for name, parameter in parameters.items():
                if parameter is not None:
                    submodule._parameters[name] = replace(parameter)
            read_again(submodule)
        yield
    finally:
        for submodule, parameters in saved:
            submodule._parameters.update(parameters)
            read_again(submodule)


def _compute_by_parts(torch, ranks, model):
    """Has the modules of a model find tensors for parameters while they compute: whole ones, or parts."""
    kind, inside = carriers(torch, ranks), []

    def local_part(parameter):
        if not whole.is_part(parameter):
            return parameter
        dim = next((placement.dim for placement in parameter.placements if hasattr(placement, "dim")), None)
        local = parameter.to_local()
        return local if dim is None else kind(local, dim)

    def replace(number, module, forward):
        inner = getattr(forward, "__func__", None)

        def computed(self, *arguments, **options):
            if torch.is_grad_enabled():
                ranks.trace.append(number)
            if inside:
                return inner(self, *arguments, **options)
            inside.append(True)
            if torch.is_grad_enabled():
                leaves = torch.utils._pytree.tree_leaves((arguments, options))
                ranks.trace += [leaf.detach().sum().item() for leaf in leaves if type(leaf) is torch.Tensor]
            try:
                # cached, for tied parameters are one tensor
                with replaced_parameters(self, functools.lru_cache(maxsize=None)(local_part)):
                    outputs = inner(self, *arguments, **options)
                    return torch.utils._pytree.tree_map(functools.partial(whole_of, kind), outputs)
            finally:
                inside.pop()
                kind.moves.forget()

        if inner is not None:
            computed = functools.wraps(inner)(computed)
            module.forward = types.MethodType(computed, module)

    for number, module in enumerate(model.modules(), 1000 * len(ranks.models)):
        replace(number, module, module.forward)
