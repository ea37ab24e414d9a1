"""Keeps of repeated blocks what goes into them alone: what else the backward pass needs is computed again."""

import functools
import importlib

from modak_runtime.memory.blocks import repeated
from modak_runtime.pytorch.model import replace_forward


def prepare(torch, report, model):
    """Has the blocks of a model compute twice; the same to the bit, for they draw the same random numbers again."""
    compute = importlib.import_module("torch.utils.checkpoint").checkpoint
    blocks = [block for group in repeated(torch, model) for block in group]
    for block in blocks:
        replace_forward(block, functools.partial(_again, torch, compute))
    if blocks:
        report.applied("memory", "prepare", "%d blocks" % len(blocks))
    else:
        why = "no container in %s repeats blocks that have no batch norm" % type(model).__name__
        report.refused("memory", why, "prepare")


def _again(torch, compute, inner):
    def forward(self, *arguments, **options):
        if not self.training or not torch.is_grad_enabled():
            return inner(self, *arguments, **options)
        return compute(inner, self, *arguments, use_reentrant=False, **options)

    return forward
