"""Models whose layers ranks may split, or share out in stages: losses and weights of five seeds; by default of all."""

import json
import os
import sys

import models
import torch
from models import WIDTH, Gpt, Images, InPlace, Recomputed, Recurrent, Repeated, Transformer, numbers
from torch import nn
from torch.nn import functional


class Mlp(nn.Sequential):
    """Of more layers than two; in the middle what is drawn for each number, and work in place."""

    def __init__(self):
        super().__init__(nn.Linear(WIDTH, 64), nn.ReLU(inplace=True), nn.Dropout(0.3), nn.Linear(64, 48), nn.GELU(),
                         nn.Linear(48, 64), nn.LayerNorm(64), nn.Linear(64, WIDTH))  # fmt: skip


class Encoder(nn.Module):
    """Dropout everywhere, a mask of padding and one of causes."""

    def __init__(self):
        super().__init__()
        layer = nn.TransformerEncoderLayer(WIDTH, 4, 64, 0.1, batch_first=True, norm_first=True)
        self.layers, self.still = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), nn.Dropout(0.0)
        self.last = nn.TransformerEncoderLayer(WIDTH, 4, 32, 0.0, activation="gelu", batch_first=True)

    def forward(self, x):
        causes = nn.Transformer.generate_square_subsequent_mask(x.shape[1])
        padding = torch.zeros(x.shape[:2], dtype=torch.bool)
        padding[0, -1] = True
        return self.last(self.still(self.layers(x, mask=causes)), src_key_padding_mask=padding)


class HeadsAsWritten(nn.Module):
    """Attention as in many a script: views, products of matrices, a mask, softmax, some by the names of arguments."""

    def __init__(self):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.out, self.norm = nn.Linear(WIDTH, WIDTH), nn.LayerNorm(WIDTH)
        self.noise = nn.Dropout(0.2)

    def forward(self, x):
        many, length, _ = x.shape
        q, k, v = (each(self.norm(x)).view(many, length, 4, -1).transpose(1, 2) for each in (self.q, self.k, self.v))
        scores = (q @ k.transpose(-2, -1)) / 2.0
        scores = scores.masked_fill(torch.triu(torch.ones(length, length), 1) == 1, float("-inf"))
        y = torch.matmul(input=self.noise(functional.softmax(input=scores, dim=-1)), other=v)
        return x + self.out(y.transpose(1, 2).contiguous().view(many, length, WIDTH))


class Looked(nn.Module):
    """An attention whose weights are looked at, and one that looks at another sequence."""

    def __init__(self):
        super().__init__()
        self.own, self.other = (nn.MultiheadAttention(WIDTH, 2, batch_first=True) for _ in range(2))

    def forward(self, x):
        y, weights = self.own(x, x, x)
        return x + self.other(y, x * weights.mean(), x, need_weights=False)[0]


class Llama(nn.Module):
    """A decoder as transformers has it: positions by rotation, fewer keys than queries, gates, norms of its own."""

    def __init__(self):
        super().__init__()
        self.embed_tokens = nn.Embedding(64, WIDTH, padding_idx=0)
        self.layers = nn.ModuleList(LlamaLayer() for _ in range(2))
        self.norm, self.lm_head = RmsNorm(), nn.Linear(WIDTH, 64, bias=False)

    def forward(self, tokens):
        x = self.embed_tokens(tokens)
        places = torch.arange(tokens.shape[1])[:, None] / torch.tensor([1.0, 10.0])
        angles = torch.cat((places, places), dim=-1)[None, None]
        for layer in self.layers:
            x = layer(x, angles.cos(), angles.sin())
        return self.lm_head(self.norm(x))


class RmsNorm(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(WIDTH))

    def forward(self, x):
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))


class LlamaLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.input_norm, self.post_norm = RmsNorm(), RmsNorm()
        self.attention, self.mlp = LlamaAttention(), LlamaMlp()

    def forward(self, x, cos, sin):
        x = x + self.attention(self.input_norm(x), cos, sin)
        return x + self.mlp(self.post_norm(x))


class LlamaMlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate_proj, self.up_proj = (nn.Linear(WIDTH, 48, bias=False) for _ in range(2))
        self.down_proj = nn.Linear(48, WIDTH, bias=False)

    def forward(self, x):
        return self.down_proj(functional.silu(self.gate_proj(x)) * self.up_proj(x))


class LlamaAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q_proj, self.o_proj = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(2))
        self.k_proj, self.v_proj = (nn.Linear(WIDTH, WIDTH // 2, bias=False) for _ in range(2))

    def forward(self, x, cos, sin):
        shape = (*x.shape[:-1], -1, 4)
        q, k, v = (each(x).view(shape).transpose(1, 2) for each in (self.q_proj, self.k_proj, self.v_proj))
        q, k = ((each * cos) + (rotated(each) * sin) for each in (q, k))
        k, v = (repeated(each, 2) for each in (k, v))
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o_proj(y.transpose(1, 2).contiguous().reshape(*x.shape[:-1], -1).contiguous())


def rotated(x):
    return torch.cat((-x[..., x.shape[-1] // 2 :], x[..., : x.shape[-1] // 2]), dim=-1)


def repeated(x, many):
    batch, heads, length, size = x.shape
    x = x[:, :, None, :, :].expand(batch, heads, many, length, size)
    return x.reshape(batch, heads * many, length, size)


class Words(nn.Module):
    """A table that nothing shares, and one of another length."""

    def __init__(self):
        super().__init__()
        self.table, self.odd, self.last = nn.Embedding(64, WIDTH), nn.Embedding(9, WIDTH), nn.Linear(WIDTH, 64)

    def forward(self, tokens):
        return self.last(self.table(tokens) + self.odd(tokens % 9))


TOKENS = (Gpt, Llama, Words)
SPLIT = (
    Mlp, Encoder, HeadsAsWritten, Looked, Llama, Words, Gpt, Images, InPlace, Recomputed, Recurrent, Repeated, Transformer,
)  # fmt: skip


def stilled(kind):
    """A model without dropout, which stages draw from streams of their own."""
    model = kind()
    for each in model.modules():
        if isinstance(each, nn.Dropout):
            each.p = 0.0
        if isinstance(each, nn.MultiheadAttention):
            each.dropout = 0.0
    return model


def samples(kind):
    if kind not in TOKENS:
        return plain(kind)
    return plain(Gpt)


if __name__ == "__main__":
    torch.set_num_threads(1)
    plain, models.samples = models.samples, samples
    found = {}
    for kind in SPLIT:
        for seed in range(5) if not sys.argv[1:] or kind.__name__ in sys.argv[1:] else ():
            torch.manual_seed(seed)
            training = models.Training(kind, stilled if "STILL" in os.environ else None)
            training.epoch()
            training.epoch()
            found[f"{kind.__name__}/{seed}"] = training.losses + numbers(*training.model.state_dict().values())
    print(json.dumps(found))
