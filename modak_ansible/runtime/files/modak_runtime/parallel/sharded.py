"""Shares out a model's parameters: each rank keeps its part of them, of their gradients and of the optimizer's state.

PyTorch's own fully_shard (FSDP2) does it, unit by unit: a unit is a layer or a block, which is whole only while it is
computed.
"""

import functools
import importlib
import sys
import types

from modak_runtime.parallel import consistency, whole
from modak_runtime.tensors import size_of

SMALL = 0.001  # of all that the model has: what is smaller stays with the layer around it, and makes no message
LARGE = 0.125  # what is larger is looked into
_EXPLAINED = (
    (
        "mixed torch.Tensor and DTensor",
        "the line above uses parameters outside of the call of the layer that has them, where %s has parts of them "
        "only: ddp can train it; a copy of the model, such as a mean of its weights, is to be given to prepare, too",
    ),
    (
        "FSDP does not support deepcopy",
        "the line above copies a model of which each rank has a part with %s: copy it before prepare, and give both to "
        "prepare; or ddp can train it",
    ),
    (
        "from the 'SparseCPU' backend",
        "%s needs dense gradients: leave out sparse=True of embeddings; or ddp can train it",
    ),
)
# What computes with the weights of its layers without calling them.
_WHOLE = ("MultiheadAttention", "TransformerEncoderLayer", "TransformerDecoderLayer")


def problem(torch):
    """Why this PyTorch cannot; empty where it can."""
    fsdp = importlib.import_module("torch.distributed.fsdp") if torch.distributed.is_available() else None
    if not hasattr(getattr(fsdp, "FSDPModule", None), "set_custom_reduce_scatter"):
        return "PyTorch %s cannot share out parameters as prepare has it; 2.13 can" % torch.__version__
    return ""


def share_out(torch, ranks, model, optimizers):
    """Leaves this rank its part of a model's parameters, which all ranks have alike, and of its optimizers' state.

    Returns:
        the parameters that every rank keeps whole: scalars.
    """
    fsdp = importlib.import_module("torch.distributed.fsdp")
    if not ranks.models:
        whole.read_whole(torch)
        explain_mixtures(ranks, "fsdp")
        _end_other_weights(torch, ranks)
    mesh = ranks.mesh.of_parts(torch)
    parameters = list(model.parameters())
    ignored = {parameter for parameter in parameters if not parameter.dim() or not parameter.is_floating_point()}
    _check(ranks, model, [parameter for parameter in parameters if parameter not in ignored])
    with torch.no_grad():
        for parameter in parameters:
            if not parameter.is_contiguous():
                parameter.data = parameter.data.contiguous()
    former_class = former_kind(torch)
    for unit in [*units(torch, model), model]:
        old_parameters = dict(unit.named_parameters())
        unit.register_forward_hook(functools.partial(_own_outputs, torch))
        fsdp.fully_shard(unit, mesh=mesh, ignored_params=ignored)
        new_parameters = dict(unit.named_parameters())
        replacements = {
            parameter: new_parameters[name]
            for name, parameter in old_parameters.items()
            if parameter is not new_parameters[name]
        }
        take_over(torch, optimizers, former_class, replacements)
    _travel(torch, ranks, fsdp, model)
    model._get_fsdp_state()._lazy_init()  # its parts may be called before it is
    for module in model.modules():
        if isinstance(module, fsdp.FSDPModule):
            _name_again(module)
            _register_methods(torch, module)
            _zero_parts(module)
            for fsdp_param in _fsdp_params(module._get_fsdp_state()):
                fsdp_param.sharded_param._modak_replaced = fsdp_param.reset_sharded_param
    # FSDP leaves what no unit has whole behind a call, for a backward pass: of one that has none a script changes parts
    model.register_forward_hook(lambda *_: None if torch.is_grad_enabled() else model.reshard())
    whole.load_whole(torch, model)
    return ignored


def units(torch, model):
    """The modules whose parameters are whole at one time: blocks and layers, innermost first."""
    total = _size(model) or 1
    everywhere = _counts(model)
    modules = []

    def look_into(module):
        for child in module.children():
            size, counts = _size(child), _counts(child)
            if size <= SMALL * total or child in modules:
                continue
            is_closed = all(count == everywhere[parameter] for parameter, count in counts.items())
            is_called = type(child).forward is not torch.nn.Module.forward
            if (size > LARGE * total and not is_whole(torch, child)) or not (is_closed and is_called):
                look_into(child)
            if is_closed and is_called:
                modules.append(child)

    if not is_whole(torch, model):
        look_into(model)
    return modules


def is_whole(torch, module):
    is_parametrized = torch.nn.utils.parametrize.is_parametrized(module)
    return is_parametrized or any(kind.__name__ in _WHOLE for kind in type(module).__mro__)


def _size(module):
    return sum(map(size_of, module.parameters()))


def _counts(module):
    """How often each parameter is found in a module: one that is tied, several times."""
    counts = {}
    for _, parameter in module.named_parameters(remove_duplicate=False):
        counts[parameter] = counts.get(parameter, 0) + 1
    return counts


def _check(ranks, model, parameters):
    kinds = sorted({str(parameter.dtype) for parameter in parameters})
    if len(kinds) > 1:
        ranks.rank.end("fsdp needs parameters of one kind, and %s has %s" % (type(model).__name__, " and ".join(kinds)))
    if any(map(whole.is_part, parameters)):
        ranks.rank.end("two models of prepare share parameters: ddp can train them, fsdp cannot")


def take_over(torch, optimizers, former_class, replacements):
    """Puts what each parameter became in its place: in optimizers, and in lists that a script made of them."""
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["params"] = [replacements.get(parameter, parameter) for parameter in group["params"]]
        for parameter in [parameter for parameter in optimizer.state if parameter in replacements]:
            state = optimizer.state.pop(parameter)
            optimizer.state[replacements[parameter]] = {
                name: whole.part_of(torch, value, replacements[parameter]) for name, value in state.items()
            }
    for parameter, replacement in replacements.items():
        parameter.grad, parameter.data = None, parameter.data.new_empty(0)
        parameter.__class__ = former_class
        parameter.__dict__["_modak_now"] = replacement


def explain_mixtures(ranks, strategy):
    """Adds words of ours to an error that tells nothing of its cause."""
    show = sys.excepthook

    def explain(kind, error, trace):
        show(kind, error, trace)
        for words, why in _EXPLAINED:
            if words in str(error):
                ranks.rank.say(why % strategy, by_all=True)

    sys.excepthook = explain


def _end_other_weights(torch, ranks):
    """Ends a rank that calls a model with other weights than its own, in whose place FSDP would gather these."""
    stateless = torch.nn.utils.stateless
    original = stateless._functional_call

    @functools.wraps(original)
    def call(module, weights, *arguments, **options):
        if any(whole.is_part(parameter) and name in weights for name, parameter in module.named_parameters()):
            ranks.rank.end(
                "torch.func.functional_call gives a model other weights, in whose place fsdp gathers its own: ddp can "
                "train it"
            )
        return original(module, weights, *arguments, **options)

    stateless._functional_call = call


def _own_outputs(torch, _module, _inputs, outputs):
    """What a unit gives, with memory of its own: FSDP's hook on a view is lost where a script adds to it in place."""

    def own(leaf):
        return leaf.clone() if isinstance(leaf, torch.Tensor) and leaf.requires_grad and leaf._is_view() else leaf

    return torch.utils._pytree.tree_map(own, outputs)


def former_kind(torch):
    """The class of parameters that others have taken the place of: whatever is done to one is done to the other."""

    class Parameter(torch.nn.Parameter):
        @classmethod
        def __torch_function__(cls, function, _types, arguments=(), options=None):
            def replacement(value):
                return value.__dict__["_modak_now"] if type(value) is cls else value

            arguments, options = torch.utils._pytree.tree_map(replacement, (arguments, options or {}))
            return function(*arguments, **options)

    return Parameter


def _travel(torch, ranks, fsdp, model):
    """Has gradients count as their rank's samples do; a rank that is gone ends the others."""
    distributed = torch.distributed  # which has other names for them since 2.13
    gather = getattr(distributed, "all_gather_single", None) or distributed.all_gather_into_tensor
    scatter = getattr(distributed, "reduce_scatter_single", None) or distributed.reduce_scatter_tensor

    class Gathered:
        def __init__(self, number):
            self._number = number

        def allocate(self, size, *, dtype, device):
            return torch.empty(*size, dtype=dtype, device=device)

        def __call__(self, output_tensor, input_tensor, group, async_op=False):
            consistency.compare_message(ranks, 2 * self._number)
            return ranks.guarded(gather, output_tensor, input_tensor, group=group, async_op=async_op)

    class Shared(Gathered):
        def __call__(self, output_tensor, input_tensor, group, op, async_op=False):
            consistency.compare_message(ranks, 2 * self._number + 1)
            ranks.arrived(torch._C._current_graph_task_id())
            own, whole = ranks.part
            input_tensor.mul_(own / whole) if own else input_tensor.zero_()  # of nothing, even what is not finite
            return ranks.guarded(scatter, output_tensor, input_tensor, op=op, group=group, async_op=async_op)

    def all_copies(gradients):
        ranks.guarded(distributed.all_reduce, gradients, group=ranks.data.group)

    for number, module in enumerate(model.modules(), 1000 * len(ranks.models)):
        if isinstance(module, fsdp.FSDPModule):
            if ranks.data.size > 1:
                module.set_all_reduce_hook(all_copies)
            module.set_custom_all_gather(Gathered(number))
            module.set_custom_reduce_scatter(Shared(number))
            module.set_gradient_divide_factor(1.0)
            module.set_force_sum_reduction_for_comms(True)


def _zero_parts(module):
    """Has ``zero_grad`` of a module reach its parts, also behind a forward pass, which may leave it whole."""
    original, parts = module.zero_grad, list(module.parameters())

    def zero_grad(set_to_none=True):
        for part in parts:
            if set_to_none:
                part.grad = None
            elif part.grad is not None:
                part.grad.zero_()
        original(set_to_none)

    module.zero_grad = zero_grad


def _name_again(module):
    """Gives the class that fully_shard makes the name of the script's own."""
    kind = type(module)
    kind.__name__, kind.__qualname__ = kind.__mro__[2].__name__, kind.__mro__[2].__qualname__


def _register_methods(torch, module):
    """Has a model's own methods find its parameters whole, as forward does, where they are given tensors."""
    fsdp = importlib.import_module("torch.distributed.fsdp")
    for kind in type(module).__mro__[2:]:
        if kind is torch.nn.Module or kind.__module__.partition(".")[0] == "torch":
            break
        for name, method in vars(kind).items():
            is_plain = isinstance(method, types.FunctionType) and not hasattr(torch.nn.Module, name)
            if is_plain and not name.startswith("_") and name not in vars(module):
                _register(torch, fsdp, module, name)


def _register(torch, fsdp, module, name):
    original = getattr(module, name)
    fsdp.register_fsdp_forward_method(module, name)
    whole, inside = getattr(module, name), []

    @functools.wraps(original)
    def called(*arguments, **options):
        leaves = torch.utils._pytree.tree_leaves((arguments, options))
        if inside or not any(isinstance(leaf, torch.Tensor) for leaf in leaves):
            return original(*arguments, **options)
        inside.append(True)
        try:
            return whole(*arguments, **options)
        finally:
            inside.pop()

    setattr(module, name, called)


def _fsdp_params(state):
    """What FSDP keeps of each parameter of a unit, in one group or, in later releases, in several."""
    groups = getattr(state, "_fsdp_param_groups", None)
    if groups is None:
        groups = [state._fsdp_param_group] if state._fsdp_param_group else []
    return [fsdp_param for group in groups for fsdp_param in group.fsdp_params]
