"""Trainings in which ranks would go different ways, if nobody looked; how is the first argument."""

import os
import sys
import zlib

import modak_runtime
import torch
from torch import nn

how, rank = sys.argv[1], int(os.environ.get("RANK", "0"))


class Counted(nn.Linear):
    """Keeps the mean of all that it was given, as codebooks and queues do."""

    def __init__(self):
        super().__init__(4, 3)
        self.register_buffer("seen", torch.zeros(4))

    def forward(self, x):
        self.seen.lerp_(x.detach().mean(0), 0.5)
        return super().forward(x)


torch.manual_seed(0)
data = torch.utils.data.TensorDataset(torch.randn(24, 4), torch.arange(24) % 3)
order = torch.Generator().manual_seed(rank if how == "order" else 0)
loader = torch.utils.data.DataLoader(data, batch_size=6, shuffle=True, generator=order)
model = Counted() if how == "buffer" else nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
model, loader = modak_runtime.prepare(model, loader)
optimizer = modak_runtime.prepare(optimizer) if how != "lbfgs" else torch.optim.LBFGS(model.parameters())
if how == "hook":
    model[0].weight.register_hook(lambda gradient: gradient.clamp(-1e-3, 1e-3))
if how == "late":
    model.append(nn.Linear(3, 3))
    optimizer.add_param_group({"params": model[-1].parameters()})
if how == "other":
    more = nn.Linear(3, 3)
    steps = torch.optim.SGD(more.parameters(), lr=0.1)
for _ in range(2):
    for x, y in loader:
        x.requires_grad_(how == "twice")
        loss = nn.functional.cross_entropy(more(model(x)) if how == "other" else model(x), y)
        if how == "grad":
            found = torch.autograd.grad(loss, model.parameters())
            for each, gradient in zip(model.parameters(), found, strict=True):
                each.data -= 0.1 * gradient
            continue
        if how == "twice":
            (slope,) = torch.autograd.grad(loss, x, create_graph=True)
            loss = loss + slope.square().mean()
        if how == "lbfgs":
            optimizer.step(lambda: 0.0)  # which it does not come to
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if how == "other":
            steps.step()
        if how == "noise":
            model[0].weight.data.add_(torch.randn(4, 4), alpha=0.01)
    if how == "evaluates":
        for x, _ in loader:
            with torch.no_grad():
                model(x)
print(zlib.crc32(b"".join(each.detach().numpy().tobytes() for each in model.parameters())))
