"""Trains one of several kinds of network that no record of the project has, on drawn data, for studies of tuning."""

import argparse
import json
import os
import time

import modak_runtime
import torch
from torch import nn
from torch.nn import functional


class Separable(nn.Module):
    """Depthwise and pointwise convolutions in turn (MobileNet, Howard 2017), over images (N, 3, 64, 64)."""

    def __init__(self):
        super().__init__()
        layers, width = [nn.Conv2d(3, 32, 3, stride=2, padding=1), nn.BatchNorm2d(32), nn.ReLU()], 32
        for wider, stride in ((64, 1), (128, 2), (128, 1), (256, 2), (256, 1)):
            layers += [nn.Conv2d(width, width, 3, stride, 1, groups=width), nn.BatchNorm2d(width), nn.ReLU()]
            layers += [nn.Conv2d(width, wider, 1), nn.BatchNorm2d(wider), nn.ReLU()]
            width = wider
        self.layers, self.head = nn.Sequential(*layers), nn.Linear(width, 10)

    def forward(self, x):
        return self.head(self.layers(x).mean((2, 3)))


class Recommender(nn.Module):
    """Tables of embeddings and a perceptron over their rows (DLRM, Naumov 2019), over codes (N, 8)."""

    def __init__(self, tables=8, rows=20000, width=32):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(rows, width) for _ in range(tables))
        self.top = nn.Sequential(
            nn.Linear(tables * width, 256), nn.ReLU(), nn.Linear(256, 64), nn.ReLU(), nn.Linear(64, 2)
        )

    def forward(self, x):
        return self.top(torch.cat([table(x[:, i]) for i, table in enumerate(self.tables)], 1))


class Recurrent(nn.Module):
    """Two layers of GRU (Cho 2014), over sequences (N, 64, 24)."""

    def __init__(self, width=128):
        super().__init__()
        self.layers, self.head = nn.GRU(24, width, 2, batch_first=True), nn.Linear(width, 6)

    def forward(self, x):
        return self.head(self.layers(x)[0][:, -1])


class Waves(nn.Module):
    """One-dimensional convolutions over sound (M5, Dai 2016), of shape (N, 1, 8000)."""

    def __init__(self):
        super().__init__()
        layers, width = [], 1
        for wider, kernel, stride in ((64, 80, 4), (64, 3, 1), (128, 3, 1), (256, 3, 1)):
            layers += [nn.Conv1d(width, wider, kernel, stride), nn.BatchNorm1d(wider), nn.ReLU(), nn.MaxPool1d(4)]
            width = wider
        self.layers, self.head = nn.Sequential(*layers), nn.Linear(width, 10)

    def forward(self, x):
        return self.head(self.layers(x).mean(2))


class Cells(nn.Module):
    """A recurrence that its author wrote out: a minimal gated unit with layer norms, over sequences (N, 16, 24)."""

    def __init__(self, width=128):
        super().__init__()
        self.width = width
        self.forget, self.update = nn.Linear(24 + width, width), nn.Linear(24 + width, width)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.head = nn.Linear(width, 6)

    def forward(self, x):
        state = x.new_zeros(len(x), self.width)
        for place in range(x.shape[1]):
            now = x[:, place]
            forget = torch.sigmoid(self.norms[0](self.forget(torch.cat([now, state], 1))))
            update = torch.tanh(self.norms[1](self.update(torch.cat([now, forget * state], 1))))
            state = (1 - forget) * state + forget * update
        return self.head(state)


class Denoiser(nn.Module):
    """A small U-Net with group norms and SiLU that finds the noise in images (DDPM, Ho 2020): (N, 3, 32, 32)."""

    def __init__(self, width=16):
        super().__init__()
        self.begin = nn.Conv2d(3, width, 3, padding=1)
        self.down = nn.ModuleList([self._block(width, width), self._block(width, 2 * width)])
        self.middle = self._block(2 * width, 2 * width)
        self.up = nn.ModuleList([self._block(4 * width, width), self._block(2 * width, width)])
        self.end = nn.Conv2d(width, 3, 3, padding=1)

    @staticmethod
    def _block(width, wider):
        first = [nn.GroupNorm(8, width), nn.SiLU(), nn.Conv2d(width, wider, 3, padding=1)]
        return nn.Sequential(*first, nn.GroupNorm(8, wider), nn.SiLU(), nn.Conv2d(wider, wider, 3, padding=1))

    def forward(self, x):
        kept, x = [], self.begin(x)
        for block in self.down:
            x = block(x)
            kept.append(x)
            x = functional.avg_pool2d(x, 2)
        x = self.middle(x)
        for block in self.up:
            x = block(torch.cat([functional.interpolate(x, scale_factor=2.0), kept.pop()], 1))
        return self.end(x)


MODELS = {each.__name__.lower(): each for each in (Separable, Recommender, Recurrent, Waves, Cells, Denoiser)}
SHAPES = {
    "separable": (3, 64, 64),
    "recurrent": (64, 24),
    "waves": (1, 8000),
    "cells": (16, 24),
    "denoiser": (3, 32, 32),
}


def drawn(model, count):
    """Samples and what is to be found in them."""
    generator = torch.Generator().manual_seed(1)
    if model == "recommender":
        x = torch.randint(20000, (count, 8), generator=generator)
        return x, x.sum(1) % 2
    labels = torch.randint(6, (count,), generator=generator)
    shape = SHAPES[model]
    noise = torch.randn(count, *shape, generator=generator)
    x = noise + labels.view(-1, *[1] * len(shape)) / 3
    return x, noise if model == "denoiser" else labels


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", choices=MODELS, default="separable")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--samples", type=int, default=4096)
    arguments = parser.parse_args()
    torch.manual_seed(0)
    model = MODELS[arguments.model]()
    data = torch.utils.data.TensorDataset(*drawn(arguments.model, arguments.samples))
    loader = torch.utils.data.DataLoader(data, arguments.batch_size, shuffle=True)
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    loss_of = functional.mse_loss if arguments.model == "denoiser" else functional.cross_entropy
    model, optimizer, loader = modak_runtime.prepare(model, optimizer, loader)
    epochs = []
    for epoch in range(arguments.epochs):
        began, total = time.perf_counter(), 0.0
        for x, y in loader:
            loss = loss_of(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        epochs.append({"epoch": epoch, "loss": total / len(loader), "seconds": time.perf_counter() - began})
        print("epoch {epoch}: loss {loss:.4f}, {seconds:.2f} s".format(**epochs[-1]), flush=True)
        with open(os.environ.get("MODAK_METRICS", "metrics.json"), "w") as file:
            json.dump({"epochs": epochs}, file)


if __name__ == "__main__":
    main()
