"""A training that is parallel by itself, whose second rank stops in the middle, or leaves without a word to its group."""

import os
import signal
import sys

import torch

torch.distributed.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(3, 1))
for step in range(8):
    if sys.argv[1] == "stops" and step == 4 and torch.distributed.get_rank() == 1:
        os.kill(os.getpid(), signal.SIGSTOP)
    model(torch.randn(2, 3)).sum().backward()
print("trained")
