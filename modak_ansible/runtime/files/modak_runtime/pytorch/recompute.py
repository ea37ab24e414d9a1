"""Keeps of repeated blocks what goes into them alone: what else the backward pass needs is computed again."""

import functools
import importlib

from modak_runtime.memory.blocks import repeated


def prepare(torch, report, model):
    """Has the blocks of a model compute twice; the same to the bit, for they draw the same random numbers again."""
    compute = importlib.import_module("torch.utils.checkpoint").checkpoint
    blocks = [block for group in repeated(torch, model) for block in group]
    for block in blocks:
        block.forward = _again(torch, compute, block, block.forward)
    if blocks:
        report.applied("memory", "prepare", "%d blocks" % len(blocks))
    else:
        why = "no container of %s repeats blocks without batch norm" % type(model).__name__
        report.refused("memory", why, "prepare")


def _again(torch, compute, block, forward):
    @functools.wraps(forward)
    def called(*arguments, **options):
        if not block.training or not torch.is_grad_enabled():
            return forward(*arguments, **options)
        return compute(forward, *arguments, use_reentrant=False, **options)

    return called
