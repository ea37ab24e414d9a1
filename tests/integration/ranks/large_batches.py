"""Linear regression by SGD: which samples this rank had at each step, and the weights behind it."""

import json
import os

import modak_runtime
import torch
from torch import nn


class Samples(torch.utils.data.Dataset):
    def __init__(self):
        generator = torch.Generator().manual_seed(1)
        self.x, self.y = torch.randn(48, 6, generator=generator), torch.randn(48, 3, generator=generator)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, number):
        return self.x[number], self.y[number], number


torch.manual_seed(0)
model, data = nn.Linear(6, 3), Samples()
begun = [model.weight.tolist(), model.bias.tolist()]
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=0.01, nesterov=False)
size = int(os.environ.get("BATCH", "6"))
loader = torch.utils.data.DataLoader(data, batch_size=size, shuffle=True, drop_last=size != 6)
model, optimizer, loader = modak_runtime.prepare(model, optimizer, loader)
schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=3, gamma=0.5)
steps = []
for _ in range(4):
    for x, y, numbers in loader:
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
        weights = [model.weight.tolist(), model.bias.tolist()]
        steps.append({"samples": numbers.tolist(), "weights": weights, "rate": optimizer.param_groups[0]["lr"]})
    schedule.step()
kept = optimizer.state_dict()["param_groups"][0].get("modak_steps")
print(json.dumps({"x": data.x.tolist(), "y": data.y.tolist(), "begun": begun, "steps": steps, "kept": kept}))
