"""A training whose second rank is another one than the first, or is lost on the way."""

import os
import sys

import modak_runtime
import torch

how, rank = sys.argv[1], int(os.environ["RANK"])
model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(4, 2 + (rank if how == "model" else 0)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
samples = torch.utils.data.TensorDataset(torch.randn(20 + (rank if how == "data" else 0), 3))
loader = torch.utils.data.DataLoader(samples, batch_size=2, shuffle=True)
model, optimizer, loader = modak_runtime.prepare(model, optimizer, loader)
for step, (x,) in enumerate(loader):
    if rank == 1 and step == 2:
        if how == "dies":
            os._exit(7)
        raise ValueError("the script's own")
    optimizer.zero_grad()
    model(x).square().mean().backward()
    optimizer.step()
