"""Trains one of thirty-one models for a few steps on invented samples: what the memory model is compared with."""

from __future__ import annotations

import argparse
import itertools
import math
import sys

import modak_runtime
import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset


class Samples(Dataset):
    """Samples that cost nothing until they are read."""

    def __init__(self, make, count):
        self.make, self.count = make, count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        return self.make(torch.Generator().manual_seed(index))


def images(size, classes, channels=3):
    return numbered(lambda g: torch.rand(channels, size, size, generator=g), classes)


def words(length, vocabulary):
    def make(g):
        found = torch.randint(vocabulary, (length + 1,), generator=g)
        return found[:-1], found[1:]

    return make


class Residual(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.first = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.norm1, self.norm2 = nn.BatchNorm2d(outputs), nn.BatchNorm2d(outputs)
        self.second = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.short = nn.Conv2d(inputs, outputs, 1, stride, bias=False) if stride > 1 or inputs != outputs else None

    def forward(self, x):
        y = self.norm2(self.second(torch.relu(self.norm1(self.first(x)))))
        return torch.relu(y + (self.short(x) if self.short else x))


def resnet(widths=(64, 128, 256, 512)):
    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    before = 64
    for number, width in enumerate(widths):
        layers += [Residual(before, width, 2 if number else 1), Residual(width, width, 1)]
        before = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, 1000))


class Block(nn.Module):
    def __init__(self, width, heads, causal, dropout):
        super().__init__()
        self.heads, self.causal, self.dropout = heads, causal, dropout
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        wide = nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        self.mlp = nn.Sequential(*wide, nn.Dropout(dropout))

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.qkv(self.norm1(x)).reshape(b, t, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        a = functional.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        x = x + self.out(a.transpose(1, 2).reshape(b, t, c))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    def __init__(self, vocabulary, length, width, depth, heads):
        super().__init__()
        self.words, self.places = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Block(width, heads, True, 0.1) for _ in range(depth))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.words.weight

    def forward(self, x):
        h = self.words(x) + self.places(torch.arange(x.shape[1], device=x.device))
        for block in self.blocks:
            h = block(h)
        return self.head(self.norm(h)).flatten(0, 1)


class Encoder(nn.Module):
    def __init__(self, vocabulary, width, depth, heads, classes):
        super().__init__()
        self.words = nn.Embedding(vocabulary, width)
        layer = nn.TransformerEncoderLayer(width, heads, 4 * width, 0.1, batch_first=True)
        self.encoder, self.head = nn.TransformerEncoder(layer, depth), nn.Linear(width, classes)

    def forward(self, x):
        return self.head(self.encoder(self.words(x)).mean(1))


class ViT(nn.Module):
    def __init__(self, size, patch, width, depth, heads, classes):
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.places = nn.Parameter(torch.zeros(1, (size // patch) ** 2, width))
        self.blocks = nn.Sequential(*(Block(width, heads, False, 0.0) for _ in range(depth)))
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        return self.head(self.blocks(self.patches(x).flatten(2).transpose(1, 2) + self.places).mean(1))


class Low(nn.Module):
    """A layer that stays, and two thin ones beside it that learn."""

    def __init__(self, layer, rank):
        super().__init__()
        self.layer = layer.requires_grad_(False)
        self.a, self.b = nn.Linear(layer.in_features, rank, bias=False), nn.Linear(rank, layer.out_features, bias=False)

    def forward(self, x):
        return self.layer(x) + self.b(self.a(x))


def lora(model, rank):
    model.requires_grad_(False)
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, nn.Linear) and name != "head":
                setattr(module, name, Low(child, rank))
    return model


class Recurrent(nn.Module):
    def __init__(self, vocabulary, width, depth):
        super().__init__()
        self.words, self.lstm = nn.Embedding(vocabulary, width), nn.LSTM(width, width, depth, batch_first=True)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, x):
        return self.head(self.lstm(self.words(x))[0]).flatten(0, 1)


class Tables(nn.Module):
    """Large tables, small layers: a recommender."""

    def __init__(self, sizes, width):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(size, width) for size in sizes)
        self.mlp = nn.Sequential(nn.Linear(len(sizes) * width, 256), nn.ReLU(), nn.Linear(256, 2))

    def forward(self, x):
        return self.mlp(torch.cat([table(x[:, n] % table.num_embeddings) for n, table in enumerate(self.tables)], 1))


class UNet(nn.Module):
    def __init__(self, width, depth, classes):
        super().__init__()
        self.down, self.up, self.wide = nn.ModuleList(), nn.ModuleList(), nn.ModuleList()
        before = 3
        for number in range(depth):
            self.down.append(self.pair(before, width << number))
            before = width << number
        for number in reversed(range(depth - 1)):
            self.wide.append(nn.ConvTranspose2d(before, width << number, 2, 2))
            self.up.append(self.pair(2 * (width << number), width << number))
            before = width << number
        self.head = nn.Conv2d(before, classes, 1)

    @staticmethod
    def pair(inputs, outputs):
        return nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, 1, 1), nn.BatchNorm2d(outputs), nn.ReLU(True),
            nn.Conv2d(outputs, outputs, 3, 1, 1), nn.BatchNorm2d(outputs), nn.ReLU(True),
        )  # fmt: skip

    def forward(self, x):
        kept = []
        for number, down in enumerate(self.down):
            x = down(functional.max_pool2d(x, 2) if number else x)
            kept.append(x)
        for wide, up, left in zip(self.wide, self.up, reversed(kept[:-1])):
            x = up(torch.cat([wide(x), left], 1))
        return self.head(x)


def mlp(*widths):
    layers = []
    for inputs, outputs in itertools.pairwise(widths):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(nn.Flatten(), *layers[:-1])


def cnn():
    return nn.Sequential(
        nn.Conv2d(1, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(0.25),
        nn.Flatten(), nn.Linear(9216, 128), nn.ReLU(), nn.Dropout(0.5), nn.Linear(128, 10),
    )  # fmt: skip


def mobile(width, depth):
    layers = [nn.Conv2d(3, width, 3, 2, 1), nn.BatchNorm2d(width), nn.ReLU6(True)]
    for _ in range(depth):
        wide = 6 * width
        layers += [nn.Conv2d(width, wide, 1), nn.BatchNorm2d(wide), nn.ReLU6(True)]
        layers += [nn.Conv2d(wide, wide, 3, 1, 1, groups=wide), nn.BatchNorm2d(wide), nn.ReLU6(True)]
        layers += [nn.Conv2d(wide, width, 1), nn.BatchNorm2d(width)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 100))


class Dense(nn.Module):
    """Each layer sees what all before it have given."""

    def __init__(self, width, depth, classes):
        super().__init__()
        self.first = nn.Conv2d(3, 2 * width, 3, 1, 1)
        self.layers = nn.ModuleList(
            nn.Sequential(nn.BatchNorm2d((n + 2) * width), nn.ReLU(), nn.Conv2d((n + 2) * width, width, 3, 1, 1))
            for n in range(depth)
        )
        self.head = nn.Linear((depth + 2) * width, classes)

    def forward(self, x):
        x = self.first(x)
        for layer in self.layers:
            x = torch.cat([x, layer(x)], 1)
        return self.head(x.mean((2, 3)))


class Audio(nn.Module):
    def __init__(self, width, depth, classes):
        super().__init__()
        self.first = nn.Conv1d(1, width, 16, 4)
        self.layers = nn.Sequential(
            *(nn.Sequential(nn.Conv1d(width, width, 3, 1, 1), nn.GroupNorm(8, width), nn.GELU()) for _ in range(depth))
        )
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        return self.head(self.layers(self.first(x)).mean(2))


class Graph(nn.Module):
    """Nodes that learn from their neighbours: what comes along edges is summed up by where it goes."""

    def __init__(self, features, width, depth, classes):
        super().__init__()
        self.first = nn.Linear(features, width)
        self.messages = nn.ModuleList(nn.Linear(2 * width, width) for _ in range(depth))
        self.states = nn.ModuleList(nn.GRUCell(width, width) for _ in range(depth))
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        many, nodes, _ = x.shape
        h = self.first(x).flatten(0, 1)
        begin = torch.arange(many * nodes, device=x.device).repeat_interleave(4)
        end = (begin + torch.tensor([1, 5, 25, 60], device=x.device).repeat(many * nodes)) % (many * nodes)
        for message, state in zip(self.messages, self.states):
            along = functional.silu(message(torch.cat([h[begin], h[end]], 1)))
            h = state(torch.zeros_like(h).index_add(0, end, along), h)
        return self.head(h.view(many, nodes, -1).mean(1))


class Gated(nn.Module):
    """A recurrent network over features, in both directions."""

    def __init__(self, features, width, depth, classes):
        super().__init__()
        self.gru = nn.GRU(features, width, depth, batch_first=True, bidirectional=True)
        self.head = nn.Linear(2 * width, classes)

    def forward(self, x):
        return self.head(self.gru(x)[0][:, -1])


class Mixed(nn.Module):
    def __init__(self, places, width):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.along = nn.Sequential(nn.Linear(places, 2 * places), nn.GELU(), nn.Linear(2 * places, places))
        self.across = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        x = x + self.along(self.norm1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.across(self.norm2(x))


class Mixer(nn.Module):
    def __init__(self, size, patch, width, depth, classes):
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.blocks = nn.Sequential(*(Mixed((size // patch) ** 2, width) for _ in range(depth)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, classes)

    def forward(self, x):
        return self.head(self.norm(self.blocks(self.patches(x).flatten(2).transpose(1, 2))).mean(1))


class Next(nn.Module):
    """A block of ConvNeXt: each channel by itself, then all of each place."""

    def __init__(self, width):
        super().__init__()
        self.deep, self.norm = nn.Conv2d(width, width, 7, 1, 3, groups=width), nn.LayerNorm(width)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.scale = nn.Parameter(torch.full((width,), 1e-2))

    def forward(self, x):
        y = self.narrow(functional.gelu(self.wide(self.norm(self.deep(x).permute(0, 2, 3, 1)))))
        return x + (self.scale * y).permute(0, 3, 1, 2)


def convnext(widths, classes):
    layers, before = [], 3
    for number, width in enumerate(widths):
        layers += [nn.Conv2d(before, width, 2 if number else 4, 2 if number else 4), Next(width), Next(width)]
        before = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, classes))


def volume(width, classes):
    layers, before = [], 1
    for many in (width, 2 * width, 4 * width):
        layers += [nn.Conv3d(before, many, 3, 1, 1), nn.BatchNorm3d(many), nn.ReLU(True), nn.MaxPool3d(2)]
        before = many
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(before * 4**3, 512), nn.ReLU(), nn.Linear(512, classes))


class Translator(nn.Module):
    """An encoder and a decoder that looks at what it gives, by MultiheadAttention."""

    def __init__(self, vocabulary, width, heads, depth):
        super().__init__()
        self.words = nn.Embedding(vocabulary, width)
        self.both = nn.Transformer(width, heads, depth, depth, 4 * width, 0.1, batch_first=True)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, x):
        begin, end = self.words(x).chunk(2, 1)
        mask = nn.Transformer.generate_square_subsequent_mask(end.shape[1])
        return self.head(self.both(begin, end, tgt_mask=mask, tgt_is_causal=True)).flatten(0, 1)


class Tagger(nn.Module):
    """A class for each word, by what stands on both sides of it."""

    def __init__(self, vocabulary, width, depth, classes):
        super().__init__()
        self.words = nn.Embedding(vocabulary, width)
        self.lstm = nn.LSTM(width, width, depth, batch_first=True, bidirectional=True, dropout=0.2)
        self.head = nn.Linear(2 * width, classes)

    def forward(self, x):
        return self.head(self.lstm(self.words(x))[0]).transpose(1, 2)


class Turned(nn.Module):
    """A block with turned places (rotary), gates in its wide layer, and norms by the root of the mean square."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads, wide = heads, 8 * width // 3
        self.norm1, self.norm2 = nn.RMSNorm(width), nn.RMSNorm(width)
        self.q, self.k, self.v, self.out = (nn.Linear(width, width, bias=False) for _ in range(4))
        self.gate, self.up = nn.Linear(width, wide, bias=False), nn.Linear(width, wide, bias=False)
        self.down = nn.Linear(wide, width, bias=False)

    def forward(self, x, cos, sin):
        y = self.norm1(x)
        q, k, v = (part(y).unflatten(2, (self.heads, -1)).transpose(1, 2) for part in (self.q, self.k, self.v))
        q, k = (each * cos + torch.cat([-each.chunk(2, -1)[1], each.chunk(2, -1)[0]], -1) * sin for each in (q, k))
        x = x + self.out(functional.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
        y = self.norm2(x)
        return x + self.down(functional.silu(self.gate(y)) * self.up(y))


class Llama(nn.Module):
    def __init__(self, vocabulary, length, width, depth, heads):
        super().__init__()
        self.words = nn.Embedding(vocabulary, width)
        self.blocks = nn.ModuleList(Turned(width, heads) for _ in range(depth))
        self.norm, self.head = nn.RMSNorm(width), nn.Linear(width, vocabulary, bias=False)
        turns = torch.outer(torch.arange(length), 10000 ** -torch.linspace(0, 1, width // heads // 2)).repeat(1, 2)
        self.register_buffer("cos", turns.cos())
        self.register_buffer("sin", turns.sin())

    def forward(self, x):
        h = self.words(x)
        for block in self.blocks:
            h = block(h, self.cos, self.sin)
        return self.head(self.norm(h)).flatten(0, 1)


class Branches(nn.Module):
    """Convolutions of several sizes side by side."""

    def __init__(self, inputs, outputs):
        super().__init__()
        part = outputs // 4
        self.one, self.three = nn.Conv2d(inputs, part, 1), nn.Conv2d(inputs, part, 3, 1, 1)
        self.five = nn.Sequential(nn.Conv2d(inputs, part, 1), nn.ReLU(), nn.Conv2d(part, part, 5, 1, 2))
        self.pooled = nn.Sequential(nn.MaxPool2d(3, 1, 1), nn.Conv2d(inputs, part, 1))

    def forward(self, x):
        return torch.relu(torch.cat([self.one(x), self.three(x), self.five(x), self.pooled(x)], 1))


def inception(widths, classes):
    layers, before = [nn.Conv2d(3, 32, 5, 2, 2), nn.ReLU()], 32
    for width in widths:
        layers += [Branches(before, width), Branches(width, width), nn.MaxPool2d(2)]
        before = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, classes))


class Columns(nn.Module):
    """A word for each column of a table, which look at each other."""

    def __init__(self, columns, width, depth, heads, classes):
        super().__init__()
        self.scale, self.shift = nn.Parameter(torch.randn(columns, width)), nn.Parameter(torch.randn(columns, width))
        layer = nn.TransformerEncoderLayer(width, heads, 2 * width, 0.1, batch_first=True, norm_first=True)
        self.encoder, self.head = (
            nn.TransformerEncoder(layer, depth, enable_nested_tensor=False),
            nn.Linear(width, classes),
        )

    def forward(self, x):
        return self.head(self.encoder(x.unsqueeze(2) * self.scale + self.shift)[:, 0])


class Wave(nn.Module):
    """Gated convolutions that see twice as far from layer to layer; all of them are summed up."""

    def __init__(self, width, depth, classes):
        super().__init__()
        self.first = nn.Conv1d(1, width, 8, 4)
        self.gated = nn.ModuleList(
            nn.Conv1d(width, 2 * width, 2, dilation=1 << n, padding=1 << n) for n in range(depth)
        )
        self.on, self.skip = (nn.ModuleList(nn.Conv1d(width, width, 1) for _ in range(depth)) for _ in range(2))
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        x, found = self.first(x), 0
        for gated, on, skip in zip(self.gated, self.on, self.skip):
            a, b = gated(x)[..., : x.shape[2]].chunk(2, 1)
            y = torch.tanh(a) * torch.sigmoid(b)
            x, found = x + on(y), found + skip(y)
        return self.head(torch.relu(found).mean(2))


def autoencoder(width, depth, classes):
    """Images to as many numbers, and back to a class for each place."""
    down, up, before = [], [], 3
    for n in range(depth):
        down += [nn.Conv2d(before, width << n, 4, 2, 1), nn.BatchNorm2d(width << n), nn.LeakyReLU(0.2)]
        before = width << n
    for n in reversed(range(depth)):
        up += [nn.ConvTranspose2d(before, width << n, 4, 2, 1), nn.BatchNorm2d(width << n), nn.ReLU()]
        before = width << n
    return nn.Sequential(*down, *up, nn.Conv2d(before, classes, 1))


class Dilated(nn.Module):
    def __init__(self, width, each, classes):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(4, width, 5, 2, 2), nn.BatchNorm2d(width), nn.ReLU())
        self.rates = nn.ModuleList(nn.Conv2d(width, each, 3, padding=r, dilation=r) for r in (1, 6, 12, 18))
        self.out = nn.Conv2d(4 * each, classes, 1)

    def forward(self, x):
        y = self.stem(x)
        y = self.out(torch.cat([rate(y) for rate in self.rates], 1))
        return functional.interpolate(y, scale_factor=2, mode="bilinear").mean((2, 3))


class Both(nn.Module):
    """Reads a series from both of its ends."""

    def __init__(self, inputs, width, classes):
        super().__init__()
        self.rnn = nn.LSTM(inputs, width, 2, bidirectional=True, batch_first=True, dropout=0.1)
        self.out = nn.Linear(2 * width, classes)

    def forward(self, x):
        return self.out(self.rnn(x)[0].mean(1))


class Series(nn.Module):
    def __init__(self, inputs, width, depth, heads, classes):
        super().__init__()
        layer = nn.TransformerEncoderLayer(width, heads, 3 * width, batch_first=True, norm_first=True)
        self.inputs, self.layers = nn.Linear(inputs, width), nn.TransformerEncoder(layer, depth)
        self.out = nn.Linear(width, classes)

    def forward(self, x):
        return self.out(self.layers(self.inputs(x)).mean(1))


def grouped(widths, classes):
    layers, before = [nn.Conv2d(3, widths[0], 3, 2, 1)], widths[0]
    for width in widths:
        layers += [nn.Conv2d(before, width, 1), nn.GroupNorm(8, width), nn.SiLU()]
        layers += [nn.Conv2d(width, width, 3, 2, 1, groups=8), nn.BatchNorm2d(width), nn.SiLU()]
        before = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, classes))


def generator(inputs, widths, classes):
    layers = [nn.Linear(inputs, widths[0] * 64), nn.Unflatten(1, (widths[0], 8, 8))]
    for before, width in itertools.pairwise(widths):
        layers += [nn.ConvTranspose2d(before, width, 4, 2, 1), nn.BatchNorm2d(width), nn.ReLU()]
    layers += [nn.ConvTranspose2d(widths[-1], classes, 4, 2, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    return nn.Sequential(*layers)


def segments(size, classes):
    def make(g):
        return torch.rand(3, size, size, generator=g), torch.randint(classes, (size, size), generator=g)

    return make


def numbered(make, classes):
    """Samples of some kind, each with a class."""
    return lambda g: (make(g), torch.randint(classes, (), generator=g))


def tokens(length, vocabulary):
    return lambda g: torch.randint(vocabulary, (length,), generator=g)


def tags(length, vocabulary, classes):
    def make(g):
        return torch.randint(vocabulary, (length,), generator=g), torch.randint(classes, (length,), generator=g)

    return make


def clicks(tables):
    return numbered(lambda g: torch.randint(10**9, (tables,), generator=g), 2)


def pairs(length, vocabulary):
    """Words of two languages, of which the second ones are to be found."""

    def make(g):
        found = torch.randint(vocabulary, (2 * length,), generator=g)
        return found, found[length:]

    return make


def floats(*shape):
    return lambda g: torch.rand(*shape, generator=g)


# name: its model, one of its samples, samples of a step, and its optimiser
MODELS = {
    "mlp": (lambda: mlp(3 * 32 * 32, 4096, 4096, 10), images(32, 10), 64, "adamw"),
    "cnn": (cnn, images(28, 10, 1), 256, "momentum"),
    "resnet": (lambda: resnet((64, 128, 256, 512)), images(96, 1000), 16, "momentum"),
    "gpt": (lambda: GPT(16384, 96, 384, 6, 6), words(96, 16384), 8, "adamw"),
    "encoder": (lambda: Encoder(20000, 384, 6, 4, 4), numbered(tokens(96, 20000), 4), 12, "adamw"),
    "vit": (lambda: ViT(96, 8, 256, 6, 4, 100), images(96, 100), 24, "sgd"),
    "lora": (lambda: lora(GPT(12000, 96, 512, 8, 8), 8), words(96, 12000), 8, "adamw"),
    "lstm": (lambda: Recurrent(8192, 640, 2), words(48, 8192), 24, "sgd"),
    "tables": (lambda: Tables((400000, 200000, 100000, 50000), 32), clicks(4), 512, "adamw"),
    "unet": (lambda: UNet(16, 4, 8), segments(96, 8), 12, "adamw"),
    "mobile": (lambda: mobile(24, 5), images(96, 100), 12, "momentum"),
    "dense": (lambda: Dense(12, 10, 100), images(48, 100), 16, "sgd"),
    "audio": (lambda: Audio(96, 6, 35), numbered(floats(1, 8000), 35), 24, "adamw"),
    "wide": (lambda: mlp(64, 5120, 5120, 4), numbered(floats(64), 4), 64, "momentum"),
    "gru": (lambda: Gated(80, 512, 3, 40), numbered(floats(96, 80), 40), 24, "adamw"),
    "graph": (lambda: Graph(32, 192, 5, 8), numbered(floats(120, 32), 8), 24, "momentum"),
    "mixer": (lambda: Mixer(96, 8, 320, 6, 100), images(96, 100), 16, "adamw"),
    "convnext": (lambda: convnext((48, 96, 192, 384), 100), images(128, 100), 16, "momentum"),
    "volume": (lambda: volume(12, 20), numbered(floats(1, 32, 32, 32), 20), 16, "sgd"),
    "translator": (lambda: Translator(16000, 320, 5, 3), pairs(48, 16000), 12, "adamw"),
    "autoencoder": (lambda: autoencoder(32, 4, 6), segments(128, 6), 12, "adamw"),
    "tagger": (lambda: Tagger(24000, 256, 2, 18), tags(80, 24000, 18), 24, "momentum"),
    "llama": (lambda: Llama(10000, 112, 432, 7, 6), words(112, 10000), 8, "adamw"),
    "inception": (lambda: inception((96, 160, 256), 100), images(128, 100), 14, "momentum"),
    "columns": (lambda: Columns(56, 192, 4, 8, 3), numbered(floats(56), 3), 48, "adamw"),
    "wave": (lambda: Wave(80, 9, 20), numbered(floats(1, 6000), 20), 16, "sgd"),
    "dilated": (lambda: Dilated(40, 24, 6), numbered(floats(4, 160, 160), 6), 16, "adamw"),
    "both": (lambda: Both(36, 200, 6), numbered(floats(70, 36), 6), 32, "adamw"),
    "series": (lambda: Series(20, 160, 5, 5, 6), numbered(floats(90, 20), 6), 24, "adamw"),
    "grouped": (lambda: grouped((64, 128, 256), 6), images(128, 6), 32, "adamw"),
    "generator": (lambda: generator(50, (128, 96, 48), 6), numbered(floats(50), 6), 48, "adamw"),
}  # fmt: skip
# Their outputs have a row for each word.
OF_WORDS = ("gpt", "lora", "lstm", "translator", "llama")
OPTIMIZERS = {
    "sgd": lambda learns: torch.optim.SGD(learns, 0.01),
    "momentum": lambda learns: torch.optim.SGD(learns, 0.01, momentum=0.9),
    "adamw": lambda learns: torch.optim.AdamW(learns, 1e-4),
}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model", choices=sorted(MODELS))
    parser.add_argument("--optimizer", default="", choices=("", *OPTIMIZERS))
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--batch-size", type=int, default=0)
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    options = parser.parse_args()
    torch.manual_seed(0)
    make, sample, batch, optimizer = MODELS[options.model]
    batch = options.batch_size or batch
    model = make().to(options.device)
    learns = [each for each in model.parameters() if each.requires_grad]
    optimizer = OPTIMIZERS[options.optimizer or optimizer](learns)
    loader = DataLoader(Samples(sample, options.steps * batch), batch)
    model, optimizer, loader = modak_runtime.prepare(model, optimizer, loader)
    for step, samples in enumerate(loader):
        x, y = (each.to(options.device) for each in samples)
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(x), y.flatten() if options.model in OF_WORDS else y)
        loss.backward()
        optimizer.step()
        print(f"step {step}: loss {loss.item():.4f}", flush=True)
    if not math.isfinite(loss.item()):
        sys.exit("it diverged")
    if options.device == "cuda":
        cuda = torch.cuda
        print(f"peaks: {cuda.max_memory_allocated()} allocated, {cuda.max_memory_reserved()} reserved, bytes")


if __name__ == "__main__":
    main()
