"""Drawn digits learned by SGD as a script would; prints the part of 1,000 others that is told right, epoch by epoch.

usage: digits.py FOLDER SEED EPOCHS BATCH RATE
"""

import gzip
import json
import os
import sys

import modak_runtime
import torch
from torch import nn
from torch.nn import functional

folder, seed, epochs, batch, rate = sys.argv[1], *map(int, sys.argv[2:5]), float(sys.argv[5])


def read(kind):
    with gzip.open(os.path.join(folder, kind + "-images-idx3-ubyte.gz")) as file:
        pixels = torch.frombuffer(bytearray(file.read()[16:]), dtype=torch.uint8).reshape(-1, 1, 28, 28)
    with gzip.open(os.path.join(folder, kind + "-labels-idx1-ubyte.gz")) as file:
        labels = torch.frombuffer(bytearray(file.read()[8:]), dtype=torch.uint8).long()
    return torch.utils.data.TensorDataset(pixels.float() / 255, labels)


torch.set_num_threads(1)
torch.manual_seed(seed)
model = nn.Sequential(
    nn.Conv2d(1, 8, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 16, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
    nn.Linear(400, 64), nn.ReLU(), nn.Linear(64, 10),
)  # fmt: skip
optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9)
loader = torch.utils.data.DataLoader(read("train"), batch_size=batch, shuffle=True)
others = torch.utils.data.DataLoader(read("t10k"), batch_size=250)
model, optimizer, loader, others = modak_runtime.prepare(model, optimizer, loader, others)
right, steps = [], 0
for _ in range(epochs):
    model.train()
    for x, y in loader:
        optimizer.zero_grad()
        functional.cross_entropy(model(x), y).backward()
        optimizer.step()
        steps += 1
    model.eval()
    with torch.no_grad():
        right.append(sum((model(x).argmax(1) == y).sum().item() for x, y in others) / 1000)
print(json.dumps({"right": right, "steps": steps}))
