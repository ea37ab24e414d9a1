"""A training as people write them, of a model that is large for its memory: AdamW, clipped gradients, a schedule."""

import sys

import modak_runtime
import torch
from torch import nn

WIDTH, LAYERS = int(sys.argv[1]), int(sys.argv[2])


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


torch.manual_seed(0)
model = nn.Sequential(*(Block() for _ in range(LAYERS)))
optimizer = getattr(torch.optim, sys.argv[3])(model.parameters(), lr=1e-4)
model, optimizer = modak_runtime.prepare(model, optimizer)
schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.9)
inputs, wanted = torch.randn(2, 32, WIDTH), torch.randn(2, 32, WIDTH)
for _ in range(2):
    for half in range(2):
        loss = nn.functional.mse_loss(model(inputs[half]), wanted[half])
        loss.backward()
        print("Loss:", loss.item().hex())
    norm = nn.utils.clip_grad_norm_(model.parameters(), 0.05)
    optimizer.step()
    optimizer.zero_grad()
    schedule.step()
    print("norm:", norm.item().hex())
state = [value for each in optimizer.state_dict()["state"].values() for value in each.values()]
print("state:", sum((float(value.double().sum()) for value in state if isinstance(value, torch.Tensor)), 0.0).hex())
