"""Products of matrices by oneDNN in place of MKL, in float32; Python 2.7 must read it too."""

from __future__ import absolute_import, division, print_function

import numpy as np
import torch
from arguments import refuse

MATMUL_ERROR = 1e-5  # relative; float32's own is below 1e-6, bfloat16's above 1e-3


def multiply_by_onednn():
    """Has the process multiply by oneDNN; ends with exit code 2 where that computes in bf16 on this processor."""
    torch.backends.mkldnn.matmul.fp32_precision = "bf16"  # oneDNN multiplies then, in float32 where it is faster
    a, b = (torch.from_numpy(np.random.RandomState(seed).rand(256, 256)) for seed in (1, 2))
    error = float((a.float().mm(b.float()).double() - a.mm(b)).norm() / a.mm(b).norm())  # against float64
    if error > MATMUL_ERROR:
        refuse("matmul", "onednn", "on this processor it computes in bf16 (relative error %.1e)" % error)
