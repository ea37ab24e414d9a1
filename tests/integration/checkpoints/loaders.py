"""A training whose every stream of random numbers shows in its losses; how its loader draws is an option."""

import os
import random
import sys

import modak_checkpoint
import numpy as np
import torch

kind, pause = sys.argv[1], float(sys.argv[2]) if len(sys.argv) > 2 else 0.0
random.seed(1)
np.random.seed(1)
torch.manual_seed(1)


class Noisy(torch.utils.data.Dataset):
    """Samples with noise of their own, from the streams of NumPy and of PyTorch."""

    values = torch.randn(60, 8)

    def __len__(self):
        return 60

    def __getitem__(self, number):
        noise = 0.1 * torch.randn(8) + 0.1 * float(np.random.rand())
        return self.values[number] + noise, number % 3


class Losses:
    """What a script of its own keeps."""

    def __init__(self):
        self.seen = []

    def state_dict(self):
        return {"seen": self.seen}

    def load_state_dict(self, state):
        self.seen = list(state["seen"])


def loader_of(epoch):
    if kind == "workers":
        return torch.utils.data.DataLoader(Noisy(), batch_size=10, shuffle=True, num_workers=2)
    if kind == "own":
        return own
    if kind == "epoch":
        generator = torch.Generator().manual_seed(epoch)
        return torch.utils.data.DataLoader(Noisy(), batch_size=10, shuffle=True, generator=generator)
    if kind == "replacement":
        sampler = torch.utils.data.RandomSampler(range(60), replacement=True)
        return torch.utils.data.DataLoader(Noisy(), batch_size=10, sampler=sampler)
    return torch.utils.data.DataLoader(Noisy(), batch_size=10, shuffle=True)


own = torch.utils.data.DataLoader(Noisy(), batch_size=10, shuffle=True, generator=torch.Generator().manual_seed(7))
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Dropout(), torch.nn.Linear(16, 3))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.7)
losses = Losses()
progress = modak_checkpoint.resume(model=model, optimizer=optimizer, scheduler=scheduler, losses=losses)
for epoch in progress.epochs(4):
    for x, y in progress.batches(loader_of(epoch)):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x + 0.1 * random.random()), y)
        loss.backward()
        optimizer.step()
        losses.seen.append(loss.item())
        if pause:
            import time

            print("step", len(losses.seen), flush=True)
            time.sleep(pause)
        elif os.environ.get("STOP_AFTER") == str(len(losses.seen)):
            with open(os.environ["MODAK_STOP"], "w"):
                progress._ending._next_look = 0.0
    scheduler.step()
    losses.seen.append(random.random() + float(torch.rand(())))  # as a test of the epoch may draw
print("losses", losses.seen)
