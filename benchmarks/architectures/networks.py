"""Today's architectures in PyTorch, each in the plain form of its paper, small enough to learn on a processor.

`base` is the size that the papers call so, for those who have the machine for it.
"""

from __future__ import annotations

import math

import torch
from torch import nn
from torch.nn import functional

SIZES = {  # width, blocks, heads, places (characters or the side of an image)
    "encoder": {"small": (128, 2, 4, 64), "base": (768, 12, 12, 512)},
    "decoder": {"small": (128, 3, 4, 64), "base": (768, 12, 12, 1024)},
    "lora": {"small": (128, 3, 4, 64), "base": (768, 12, 12, 1024)},
    "vit": {"small": (96, 3, 3, 32), "base": (768, 12, 12, 224)},
}
PATCH = {"small": 4, "base": 16}
RANK = 8


class Block(nn.Module):
    """Attention and two dense layers, each with its norm before and the way around (Vaswani 2017, pre-norm)."""

    def __init__(self, width, heads, causal):
        super().__init__()
        self.heads, self.causal = heads, causal
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.query_key_value, self.projection = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.feed = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        batch, length, width = x.shape
        three = self.query_key_value(self.norm1(x)).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = three.permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=self.causal)
        x = x + self.projection(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.feed(self.norm2(x))


class Transformer(nn.Module):
    """Codes (batch, places) to scores: of all (encoder: Devlin 2019), or of each place (decoder: Radford 2019)."""

    def __init__(self, size, codes, outputs, causal):
        super().__init__()
        width, blocks, heads, places = size
        self.causal = causal
        self.codes, self.places = nn.Embedding(codes, width), nn.Embedding(places, width)
        self.blocks = nn.Sequential(*(Block(width, heads, causal) for _ in range(blocks)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, outputs)
        for layer in (self.codes, self.places):
            nn.init.normal_(layer.weight, std=0.02)

    def forward(self, x):
        x = self.codes(x) + self.places.weight[: x.shape[1]]
        x = self.norm(self.blocks(x))
        return self.head(x if self.causal else x.mean(1))


class Adapted(nn.Module):
    """A dense layer that stays as it is, and a product of two thin matrices beside it that learns (Hu 2021)."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer.requires_grad_(False)
        self.down = nn.Parameter(torch.randn(RANK, layer.in_features) / math.sqrt(layer.in_features))
        self.up = nn.Parameter(torch.zeros(layer.out_features, RANK))

    def forward(self, x):
        return self.layer(x) + 2.0 * functional.linear(functional.linear(x, self.down), self.up)


def adapt(model):
    """Freezes a Transformer, and gives each projection of its attention an adapter; the head learns on."""
    model.requires_grad_(False)
    model.head.requires_grad_(True)
    for block in model.blocks:
        block.query_key_value = Adapted(block.query_key_value)
        block.projection = Adapted(block.projection)
    return model


class VisionTransformer(nn.Module):
    """Images (batch, 3, side, side) as patches, each a place (Dosovitskiy 2021; the mean in place of a token)."""

    def __init__(self, size, patch, outputs):
        super().__init__()
        width, blocks, heads, side = size
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.places = nn.Parameter(0.02 * torch.randn((side // patch) ** 2, width))
        self.blocks = nn.Sequential(*(Block(width, heads, False) for _ in range(blocks)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, outputs)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2) + self.places
        return self.head(self.norm(self.blocks(x)).mean(1))


class GraphNetwork(nn.Module):
    """Two graph convolutions (Kipf and Welling 2017): numbers of nodes to scores, the whole graph being its own."""

    def __init__(self, features, links, width, outputs):
        super().__init__()
        nodes = features.shape[0]
        degree = torch.bincount(links[0], minlength=nodes).float()
        weights = (degree[links[0]] * degree[links[1]]).rsqrt()
        with torch.sparse.check_sparse_tensor_invariants(enable=False):
            neighbours = torch.sparse_coo_tensor(links, weights, (nodes, nodes)).coalesce()
        self.register_buffer("neighbours", neighbours)
        self.register_buffer("features", features)
        self.first, self.second = nn.Linear(features.shape[1], width), nn.Linear(width, outputs)

    def forward(self, x):
        hidden = functional.relu(torch.sparse.mm(self.neighbours, self.first(self.features)))
        return torch.sparse.mm(self.neighbours, self.second(hidden))[x]


class Rows(nn.Module):
    """Dense layers with batch-norm and the way around, for tables (the ResNet of Gorishniy 2021)."""

    def __init__(self, columns, width, blocks, outputs):
        super().__init__()
        self.scale, self.first = nn.BatchNorm1d(columns), nn.Linear(columns, width)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.BatchNorm1d(width), nn.Linear(width, 2 * width), nn.ReLU(), nn.Linear(2 * width, width))
            for _ in range(blocks)
        )
        self.head = nn.Sequential(nn.BatchNorm1d(width), nn.ReLU(), nn.Linear(width, outputs))

    def forward(self, x):
        x = self.first(self.scale(x))
        for block in self.blocks:
            x = x + block(x)
        return self.head(x)
