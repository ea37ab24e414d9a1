"""Trainings that parameters in parts are not for; how is the first argument."""

import os
import sys

import modak_runtime
import torch
from torch import nn

how, is_first = sys.argv[1], os.environ.get("RANK") == "0"
WIDTH = 7 if how == "odd" else 8


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second, self.third = (nn.Linear(WIDTH, WIDTH) for _ in range(3))

    def forward(self, x):
        x = self.first(x)
        if how == "outside":
            return nn.functional.linear(x, self.second.weight)
        return self.second(x) if how != "layers" or is_first else self.third(x)


class Turned(nn.Module):
    """Has complex numbers before a layer."""

    def __init__(self):
        super().__init__()
        self.turn, self.last = nn.Parameter(torch.randn(WIDTH, WIDTH, dtype=torch.cfloat)), nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        return self.last((x.to(torch.cfloat) @ self.turn).abs())


model = Turned() if how == "complex" else Net() if how != "few" else nn.Linear(WIDTH, WIDTH)
kind = torch.optim.LBFGS if how == "lbfgs" else torch.optim.SGD
optimizer = kind(model.parameters(), lr=0.1)
loader = torch.utils.data.DataLoader(torch.randn(40, WIDTH), batch_size=10)
model, optimizer, loader = modak_runtime.prepare(model, optimizer, loader)
for x in loader:
    if how == "samples" and is_first:
        x = x + 1  # noqa: PLW2901 - the other rank has not read it
    optimizer.zero_grad()
    if how == "called":  # with weights of the script's own
        torch.func.functional_call(model, {name: 2 * each for name, each in model.named_parameters()}, x)
    model(x).sum().backward()
    optimizer.step()
if how == "model":
    torch.save(model, os.devnull)
if how == "alone" and is_first:
    torch.save(model.state_dict(), os.devnull)
model(x).sum().backward()
