"""Models of many kinds, whose parameters may be shared out: losses and weights of two seeds; by default of all models.

``models.py save FILE`` trains the first of them, saves it as scripts do, and goes on from the file.
"""

import json
import sys

import modak_runtime
import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

WIDTH = 16


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.projection = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        many, length, _ = x.shape
        q, k, v = (
            each.view(many, length, 4, -1).transpose(1, 2) for each in self.qkv(self.first(x)).split(WIDTH, dim=2)
        )
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2)
        x = x + self.projection(y.reshape(many, length, -1))
        return x + self.down(functional.gelu(self.up(self.second(x))))


class Gpt(nn.Module):
    """Tied weights, a scalar, and methods besides forward that compute."""

    def __init__(self):
        super().__init__()
        self.embed, self.places = nn.Embedding(64, WIDTH), nn.Embedding(8, WIDTH)
        self.blocks, self.norm = nn.ModuleList(Block() for _ in range(4)), nn.LayerNorm(WIDTH)
        self.head, self.scale = nn.Linear(WIDTH, 64, bias=False), nn.Parameter(torch.ones(()))
        self.head.weight = self.embed.weight

    def forward(self, tokens):
        x = self.embed(tokens) + self.places(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x)) * self.scale

    def generate(self, tokens, many):
        for _ in range(many):
            tokens = torch.cat([tokens, self(tokens[:, -8:])[:, -1].argmax(-1, keepdim=True)], dim=1)
        return tokens

    def embedded(self, tokens):
        return self.norm(self.embed(tokens))


class Adapted(nn.Module):
    """Frozen in part, as adapters of small rank are trained."""

    def __init__(self):
        super().__init__()
        self.base = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(3)).requires_grad_(requires_grad=False)
        self.down = nn.ModuleList(nn.Linear(WIDTH, 2, bias=False) for _ in range(3))
        self.up = nn.ModuleList(nn.Linear(2, WIDTH) for _ in range(3))

    def forward(self, x):
        for base, down, up in zip(self.base, self.down, self.up, strict=True):
            x = torch.tanh(base(x) + up(down(x)))
        return x


class Recomputed(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Sequential(nn.Linear(WIDTH, 32), nn.GELU(), nn.Linear(32, WIDTH)) for _ in range(3)
        )

    def forward(self, x):
        for layer in self.layers:
            x = x + checkpoint(layer, x, use_reentrant=False)
        return x


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.whole = nn.Transformer(WIDTH, 2, 2, 2, 32, 0.0, batch_first=True)

    def forward(self, x):
        return self.whole(x, x)


class Parametrised(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.utils.parametrizations.weight_norm(nn.Linear(WIDTH, 32))
        self.second = nn.utils.parametrizations.spectral_norm(nn.Linear(32, WIDTH))

    def forward(self, x):
        return self.second(self.first(x).tanh())


class InPlace(nn.Module):
    """Adds in place to what layers give, some of which are views."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.third = (nn.Linear(WIDTH, WIDTH) for _ in range(3))

    def forward(self, x):
        y = self.first(x)
        y += x
        z = self.second(y.tanh())
        z *= 2
        return self.third(z)


class Images(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(1, 8, 3, padding=1), nn.Conv2d(8, 8, 3, padding=1)
        self.norm, self.other, self.last = nn.BatchNorm2d(8), nn.BatchNorm2d(8), nn.Linear(8, WIDTH)

    def forward(self, x):
        x = functional.relu(self.norm(self.first(x.unsqueeze(1))), inplace=True)
        y = self.other(self.second(x))
        y += x
        return self.last(y.mean((2, 3))).unsqueeze(1)


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers, self.last = nn.LSTM(WIDTH, WIDTH, 2, batch_first=True), nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        return self.last(self.layers(x)[0])


class Repeated(nn.Module):
    """One block that is computed three times, and parameters that no layer has."""

    def __init__(self):
        super().__init__()
        block = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh())
        self.blocks, self.last = nn.ModuleList([block] * 3), nn.Parameter(torch.randn(WIDTH, WIDTH))
        self.more = nn.ParameterList([torch.randn(WIDTH), torch.randn(WIDTH)])

    def forward(self, x):
        for block in self.blocks:
            x = block(x) + x
        return x @ self.last + self.more[0] * self.more[1]


MODELS = (
    Gpt, Adapted, Recomputed, Transformer, Parametrised, InPlace, Images, Recurrent, Repeated,
)  # fmt: skip


def numbers(*tensors):
    return [value for each in tensors for value in each.detach().numpy().astype(float).ravel().tolist()]


def samples(kind):
    generator = torch.Generator().manual_seed(3)
    if kind is Gpt:
        tokens = torch.randint(0, 64, (21, 9), generator=generator)
        return torch.utils.data.TensorDataset(tokens[:, :-1], tokens[:, 1:])
    x = torch.randn(21, 5, WIDTH, generator=generator)
    y = torch.randn(21, 1 if kind is Images else 5, WIDTH, generator=generator)
    return torch.utils.data.TensorDataset(x, y)


def loss_of(model, x, y, **options):
    found = model(x)
    if y.is_floating_point():
        return functional.mse_loss(found, y, **options)
    return functional.cross_entropy(found.flatten(0, 1), y.flatten(), **options)


class Training:
    def __init__(self, kind, make=None):
        self.losses, model = [], make(kind) if make else kind()
        self.listed = [each for each in model.parameters() if each.requires_grad]  # a list from before the line
        optimizer = torch.optim.SGD(self.listed, lr=0.05, momentum=0.9)
        loader = torch.utils.data.DataLoader(samples(kind), batch_size=6, shuffle=True)
        self.model, self.optimizer, self.loader = modak_runtime.prepare(model, optimizer, loader)

    def epoch(self):
        self.model.train()
        for x, y in self.loader:
            self.optimizer.zero_grad()
            loss = loss_of(self.model, x, y)
            loss.backward()
            self.losses.append(float(nn.utils.clip_grad_norm_(self.listed, 2.0)))
            self.optimizer.step()
            self.losses.append(modak_runtime.mean(loss.item()))
        self.model.eval()
        with torch.no_grad():
            self.losses.append(sum(loss_of(self.model, x, y, reduction="sum").item() for x, y in self.loader))
            if isinstance(self.model, Gpt):
                self.losses += self.model.generate(torch.zeros(1, 1, dtype=torch.long), 5)[0].tolist()
                self.losses += numbers(self.model.embedded(torch.arange(5)[None]))


def saved(path):
    """A training that saves itself, and goes on from what it saved."""
    training = Training(Gpt)
    training.epoch()
    torch.save({"model": training.model.state_dict(), "optimizer": training.optimizer.state_dict(), "epoch": 1}, path)
    state = torch.load(path)
    training.epoch()
    training.model.load_state_dict(state["model"])
    training.optimizer.load_state_dict(state["optimizer"])
    training.epoch()
    return training.losses


if __name__ == "__main__":
    torch.set_num_threads(1)
    found = {}
    if sys.argv[1:2] == ["save"]:
        torch.manual_seed(0)
        found["saved"] = saved(sys.argv[2])
    else:
        for kind in MODELS:
            for seed in (0, 1) if sys.argv[1:] in ([], [kind.__name__]) else ():
                torch.manual_seed(seed)
                training = Training(kind)
                training.epoch()
                training.epoch()
                weights = numbers(*training.model.state_dict().values())
                found[f"{kind.__name__}/{seed}"] = training.losses + weights
    print(json.dumps(found))
