"""Shares out a model's layers as stages of a pipeline: a batch goes through them in pieces, one behind the other.

Each rank keeps the parameters of some layers that follow each other, and what belongs to them. A call of the model is
one of all ranks: pieces are computed forward, and the loop has what comes out in each; its backward pass goes the other
way. It is GPipe's order, for the loss is known only when the loop has computed it.
"""

import functools
import importlib
import types

from modak_runtime.parallel import sharded, whole
from modak_runtime.parallel.stages.call import Pipe, home_of
from modak_runtime.tensors import size_of

_EVEN = 1.5  # the heaviest stage may have so many times a rank's part before blocks are looked into
_LOOKS = 5


def share_out(torch, ranks, model, optimizers):
    """Leaves this rank the parameters of its stage, and their optimizers' state."""
    world = ranks.model.size
    parameters_by_stage = stages(torch, model, world)
    if len(parameters_by_stage) < world:
        ranks.rank.end(
            "%s has %d layers with parameters, and %d ranks need as many at least: fsdp or ddp can train it"
            % (type(model).__name__, len(parameters_by_stage), world)
        )
    normalises = torch.nn.modules.batchnorm._BatchNorm
    if ranks.data.size > 1 and any(isinstance(module, normalises) for module in model.modules()):
        ranks.rank.end(
            "%s has batch norm, whose means of samples in several pipelines no stage knows: fsdp or ddp can train it, "
            "or one pipeline of all ranks" % type(model).__name__
        )
    mesh = importlib.import_module("torch.distributed.device_mesh")
    if not ranks.models:
        single_meshes = [mesh.DeviceMesh("cpu", [number]) for number in range(ranks.world)]  # which all make together
        ranks.pipe = Pipe(torch, ranks, [single_meshes[number] for number in ranks.model.members])
        ranks.pipe.read_whole()
        sharded.explain_mixtures(ranks, "pipeline")
    former_class, replacements = sharded.former_kind(torch), {}
    for number, stage in enumerate(parameters_by_stage):
        for parameter in stage:
            if whole.is_part(parameter):
                ranks.rank.end("two models of prepare share parameters: ddp can train them, pipeline cannot")
            if parameter.is_complex():
                ranks.rank.end("%s has complex parameters: fsdp or ddp can train it" % type(model).__name__)
            replacements[parameter] = torch.nn.Parameter(
                ranks.pipe.as_dtensor(parameter, number), requires_grad=parameter.requires_grad
            )
            parameter.data = parameter.data.new_empty(0)
    for module in model.modules():
        for name, parameter in module._parameters.items():
            if parameter is not None:
                module._parameters[name] = replacements[parameter]
    sharded.take_over(torch, optimizers, former_class, replacements)
    for number, module in enumerate(model.modules(), 1000 * len(ranks.models)):
        _call_together(ranks.pipe, number, module)
    whole.load_whole(torch, model)


def is_here(ranks, parameter):
    """Whether this rank has its part of a parameter; without stages each has one."""
    return home_of(parameter) in (None, ranks.model.number)


def _call_together(pipe, number, module):
    """Has a call of a module be one of all ranks, unless it is a part of one."""
    inner = getattr(module.forward, "__func__", None)
    if inner is None:
        return

    @functools.wraps(inner)
    def called(self, *arguments, **options):
        return pipe.call(number, self, inner, arguments, options)

    module.forward = types.MethodType(called, module)


def stages(torch, model, world):
    """The parameters of each rank, in the order of the model's layers, as even as can be; fewer where it has fewer."""
    total = sum(map(size_of, model.parameters()))
    best, heaviest = [], 0
    for attempt in range(_LOOKS):
        limit = total / world / 2**attempt if attempt < _LOOKS - 1 else 0
        candidate = _evenly(list(_layers(torch, model, limit, set())), world)
        heaviest_now = max((sum(map(size_of, stage)) for stage in candidate), default=0)
        if len(candidate) > len(best) or (len(candidate) == len(best) and heaviest_now < heaviest):
            best, heaviest = candidate, heaviest_now
        if len(best) == world and heaviest <= _EVEN * total / world:
            break
    return best


def _layers(torch, module, limit, seen):
    """Parameters that stay together: of blocks, or of what larger ones are made of."""

    def unseen(parameters):
        group = [parameter for parameter in parameters if parameter not in seen]
        seen.update(group)
        return [group] if group else []

    if not sharded.is_whole(torch, module):
        yield from unseen(module.parameters(recurse=False))
        for child in module.children():
            if sum(map(size_of, child.parameters())) > limit and any(True for _ in child.children()):
                yield from _layers(torch, child, limit, seen)
            else:
                yield from unseen(child.parameters())
    else:
        yield from unseen(module.parameters())


def _evenly(layers, world):
    """Layers that follow each other in so many groups, of which the heaviest is as light as can be."""
    sizes = [max(1, sum(map(size_of, layer))) for layer in layers]
    low, high = max(sizes, default=0), sum(sizes)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if len(_filled(sizes, middle, world)) <= world else (middle + 1, high)
    groups, start = [], 0
    for count in _filled(sizes, low, world):
        groups.append([parameter for layer in layers[start : start + count] for parameter in layer])
        start += count
    return groups


def _filled(sizes, limit, world):
    """How many layers go into each group of at most so many bytes; the last have one each where that makes world."""
    counts, free = [], 0
    for place, size in enumerate(sizes):
        remaining = len(sizes) - place
        if not counts or size > free or (len(counts) + remaining <= world and counts):
            counts.append(0)
            free = limit
        counts[-1] += 1
        free -= size
    return counts
