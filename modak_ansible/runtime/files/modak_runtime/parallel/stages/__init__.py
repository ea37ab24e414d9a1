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
    found = stages(torch, model, world)
    if len(found) < world:
        ranks.rank.end(
            "%s has %d layers with parameters, and %d ranks need as many at least: fsdp or ddp can train it"
            % (type(model).__name__, len(found), world)
        )
    normalises = torch.nn.modules.batchnorm._BatchNorm
    if ranks.data.size > 1 and any(isinstance(each, normalises) for each in model.modules()):
        ranks.rank.end(
            "%s has batch norm, whose means of samples in several pipelines no stage knows: fsdp or ddp can train it, "
            "or one pipeline of all ranks" % type(model).__name__
        )
    mesh = importlib.import_module("torch.distributed.device_mesh")
    if not ranks.models:
        alone = [mesh.DeviceMesh("cpu", [number]) for number in range(ranks.world)]  # which all make together
        ranks.pipe = Pipe(torch, ranks, [alone[number] for number in ranks.model.members])
        ranks.pipe.read_whole()
        sharded.explain_mixtures(ranks, "pipeline")
    former, after = sharded.former_kind(torch), {}
    for number, stage in enumerate(found):
        for each in stage:
            if whole.is_part(each):
                ranks.rank.end("two models of prepare share parameters: ddp can train them, pipeline cannot")
            after[each] = torch.nn.Parameter(ranks.pipe.kept(each, number), requires_grad=each.requires_grad)
            each.data = each.data.new_empty(0)
    for module in model.modules():
        for name, each in module._parameters.items():
            if each is not None:
                module._parameters[name] = after[each]
    sharded.take_over(torch, optimizers, former, after)
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
    for look in range(_LOOKS):
        limit = total / world / 2**look if look < _LOOKS - 1 else 0
        found = _evenly(list(_layers(torch, model, limit, set())), world)
        now = max((sum(map(size_of, stage)) for stage in found), default=0)
        if len(found) > len(best) or (len(found) == len(best) and now < heaviest):
            best, heaviest = found, now
        if len(best) == world and heaviest <= _EVEN * total / world:
            break
    return best


def _layers(torch, module, limit, seen):
    """Parameters that stay together: of blocks, or of what larger ones are made of."""

    def fresh(parameters):
        found = [each for each in parameters if each not in seen]
        seen.update(found)
        return [found] if found else []

    if not sharded.is_whole(torch, module):
        yield from fresh(module.parameters(recurse=False))
        for child in module.children():
            if sum(map(size_of, child.parameters())) > limit and any(True for _ in child.children()):
                yield from _layers(torch, child, limit, seen)
            else:
                yield from fresh(child.parameters())
    else:
        yield from fresh(module.parameters())


def _evenly(layers, world):
    """Layers that follow each other in so many groups, of which the heaviest is as light as can be."""
    sizes = [max(1, sum(map(size_of, layer))) for layer in layers]
    low, high = max(sizes, default=0), sum(sizes)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if len(_filled(sizes, middle, world)) <= world else (middle + 1, high)
    found, at = [], 0
    for many in _filled(sizes, low, world):
        found.append([each for layer in layers[at : at + many] for each in layer])
        at += many
    return found


def _filled(sizes, most, world):
    """How many layers go into each group of at most so many bytes; the last have one each where that makes world."""
    found, room = [], 0
    for place, size in enumerate(sizes):
        left = len(sizes) - place
        if not found or size > room or (len(found) + left <= world and found):
            found.append(0)
            room = most
        found[-1] += 1
        room -= size
    return found
