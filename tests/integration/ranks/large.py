"""113 million parameters with AdamW: losses, the shortest step in seconds, and the peak of this rank's memory in MiB."""

import itertools
import json
import time

import modak_runtime
import torch
from torch import nn

WIDTH, LAYERS = 1536, 6


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


def memory(name):
    with open("/proc/self/status") as lines:
        return int(next(line.split()[1] for line in lines if line.startswith(name))) // 1024


torch.set_num_threads(1)
torch.manual_seed(0)
before = memory("VmRSS")
model = nn.Sequential(*(Block() for _ in range(LAYERS)))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
samples = torch.utils.data.TensorDataset(torch.randn(48, WIDTH), torch.randn(48, WIDTH))
loader = torch.utils.data.DataLoader(samples, batch_size=16, shuffle=True)
model, optimizer, loader = modak_runtime.prepare(model, optimizer, loader)
losses, stamps = [], [time.perf_counter()]
for x, y in loader:
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
    losses.append(modak_runtime.mean(loss.item()))
    stamps.append(time.perf_counter())
step = min(after - begun for begun, after in itertools.pairwise(stamps))
print(json.dumps({"step": round(step, 2), "import": before, "peak": memory("VmHWM"), "losses": losses}))
