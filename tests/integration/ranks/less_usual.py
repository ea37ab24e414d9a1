"""Loops of less usual kinds, each with the line; says the losses and the weights of a seed."""

import gzip
import io
import os
import tempfile

import torch
from learners import Net, learn, loader, numbers, tell
from loops import begun
from torch import save
from torch.nn import functional


def kept_elsewhere(make):
    """Goes on from what it has saved to a file object of each process's own."""
    model, optimizer, data = begun([loader()], kind=torch.optim.Adam, lr=0.02)
    for x, y in data:
        learn(model, optimizer, x, y)
    with make("wb") as file:
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, file)
        kept = file.getvalue() if isinstance(file, io.BytesIO) else None
    for x, y in data:
        learn(model, optimizer, x, y)
    with make("rb") if kept is None else io.BytesIO(kept) as file:
        state = torch.load(file)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    for x, y in data:
        learn(model, optimizer, x, y)
    return numbers(*state["model"].values(), *model.parameters())


def packed():
    with tempfile.TemporaryDirectory() as folder:
        return kept_elsewhere(lambda mode: gzip.open(f"{folder}/model.gz", mode))


def named_by_rank():
    """A path of each process's own."""
    model, *_ = begun([loader()])
    with tempfile.TemporaryDirectory() as folder:
        torch.save(model.state_dict(), f"{folder}/model.pt")
        return numbers(*torch.load(f"{folder}/model.pt").values())


def opened_by_all():
    """One file that all processes write by a name of torch.save from before prepare."""
    model, *_ = begun([loader()])
    with open(f"{os.environ['SHARED']}/model.pt", "wb") as file:
        save(model.state_dict(), file)
    return numbers(*torch.load(file.name).values())


class Scaled(Net):
    """Has a parameter beside its layers."""

    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(8))

    def forward(self, x):
        return self.last(torch.tanh(self.first(x)) * self.scale)


def assigned():
    """Sharpness-aware steps, which put the weights back by their data, and a mean of the weights that is swapped in."""
    model, optimizer, data, checks = begun([loader(), loader(many=23, batch=7)], Scaled())
    mean = {name: parameter.data.clone() for name, parameter in model.named_parameters()}
    found = []
    for _ in range(2):
        for x, y in data:
            functional.cross_entropy(model(x), y).backward()
            before = [parameter.data.clone() for parameter in model.parameters()]
            with torch.no_grad():
                for parameter in model.parameters():
                    if parameter.grad is not None:
                        parameter.add_(parameter.grad, alpha=0.05)
            optimizer.zero_grad()
            functional.cross_entropy(model(x), y).backward()
            for parameter, value in zip(model.parameters(), before, strict=True):
                parameter.data = value
            optimizer.step()
            optimizer.zero_grad()
            for name, parameter in model.named_parameters():
                mean[name] = 0.9 * mean[name] + 0.1 * parameter.data
        kept = {}
        for name, parameter in model.named_parameters():
            kept[name] = parameter.data
            parameter.data = mean[name]
        model.eval()
        with torch.no_grad():
            found += [functional.cross_entropy(model(x), y).item() for x, y in checks]
        model.train()
        for name, parameter in model.named_parameters():
            parameter.data = kept[name]
    return found + numbers(*model.parameters())


CASES = {
    "assigned": assigned,
    "in_memory": lambda: kept_elsewhere(lambda _: io.BytesIO()),
    "packed": packed,
    "named_by_rank": named_by_rank,
    "opened_by_all": opened_by_all,
}


if __name__ == "__main__":
    tell(CASES, {}, range(1))
