"""Asks a copy of this process what operators take: on processors, whose memory is said to be an accelerator's."""

from __future__ import annotations

import json
import types

import torch
from modak_runtime.memory.accelerator import Accelerator, _measured
from modak_runtime.memory.copies import Copy

torch.cuda = types.SimpleNamespace(
    empty_cache=lambda: None, reset_peak_memory_stats=lambda: None, synchronize=lambda: None,
    mem_get_info=lambda: (1 << 30, 1 << 30), memory_allocated=lambda: 0, max_memory_allocated=lambda: 100,
)  # fmt: skip


def answer(question=None):
    return _measured(torch, *json.loads(question)) if question else {"base": 1, "held": [2, 2]}


copy = Copy(answer)
device, aten, cpu = Accelerator(torch, copy, **copy.ask()), torch.ops.aten, torch.device("cpu")
x, w, g = torch.zeros(2, 3, 8, 8), torch.zeros(4, 3, 3, 3), torch.zeros(2, 4, 6, 6)
places = [1, 1], [0, 0], [1, 1], False, [0, 0], 1
like = {"dtype": torch.float64, "layout": torch.strided, "device": cpu, "memory_format": torch.channels_last}
asked = [
    (aten.convolution.default, (x, w, None, *places), {}),
    (aten.convolution_backward.default, (g, x, w, [4], *places, [True, True, True]), {}),
    (aten._to_copy.default, (x,), like),
    (aten._foreach_sqrt.default, ([x, w],), {}),
    (aten._foreach_add_.List, ([x, w], [x, w]), {"alpha": 0.5}),
    (aten.mm.default, (x, w), {}),  # which fails
    (aten.mm.default, (object(), w), {}),
]
print(json.dumps({"taken": [device.usage(*each) for each in asked], "base": device.base}))
