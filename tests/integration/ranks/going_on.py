"""A training that is stopped by one rank and goes on, in as many or in others; every stream shows in its losses."""

import os
import random
import sys

import modak_checkpoint
import modak_runtime
import numpy as np
import torch
from modak_checkpoint import together

kind, last = sys.argv[1], int(os.environ.get("RANK", "0")) == int(os.environ.get("WORLD_SIZE", "1")) - 1
together.LOOK = 0.0
if "RANK" in os.environ:  # so short a training would end before they begin
    from modak_runtime.parallel import compression, local_steps

    compression.AsItIs.start = local_steps.TOGETHER = 2
torch.manual_seed(1)


class Noisy(torch.utils.data.Dataset):
    values = torch.randn(59, 8)

    def __len__(self):
        return 59

    def __getitem__(self, number):
        if kind == "plain":  # nothing is drawn but the order, so that one process has the same
            return self.values[number], number % 3
        noise = torch.randn(8) + float(np.random.rand()) + random.random()
        return self.values[number] + 0.1 * noise, number % 3


class Losses:
    def __init__(self):
        self.seen = []

    def state_dict(self):
        return {"seen": self.seen}

    def load_state_dict(self, state):
        self.seen = list(state["seen"])


random.seed(2)
np.random.seed(2)
dropout = torch.nn.Dropout(0.5) if kind == "noisy" else torch.nn.Identity()
model = torch.nn.Sequential(torch.nn.Linear(8, 16), dropout, torch.nn.Linear(16, 3))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
losses = Losses()
readers = int(os.environ.get("READERS", "0"))
loader = torch.utils.data.DataLoader(Noisy(), batch_size=10, shuffle=True, num_workers=readers)
model, optimizer, loader = modak_runtime.prepare(model, optimizer, loader)
progress = modak_checkpoint.resume(model=model, optimizer=optimizer, losses=losses)
for _ in progress.epochs(3):
    for x, y in progress.batches(loader):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        losses.seen.append(modak_runtime.mean(loss.item()))
        if os.environ.get("STOP_AFTER") == str(len(losses.seen)) and last:
            with open(os.environ["MODAK_STOP"], "w"):
                progress._ending._next_look = 0.0
print("losses", losses.seen)
