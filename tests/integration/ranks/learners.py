"""Trainings as one process would write them, each with the line; says the losses and the weights of five seeds."""

import gc
import json
import multiprocessing
import os
import sys

import modak_runtime
import torch
from torch import nn
from torch.nn import functional

SEEDS = range(5)
IS_FIRST = os.environ.get("RANK", "0") == "0"  # of all ranks


class Net(nn.Module):
    def __init__(self, normalises=False):
        super().__init__()
        self.first, self.last = nn.Linear(6, 8), nn.Linear(8, 3)
        self.norm = nn.BatchNorm1d(8) if normalises else nn.Identity()
        self.unused, self.sometimes = nn.Linear(2, 2), nn.Linear(8, 8)

    def forward(self, x, more=False):
        x = torch.tanh(self.norm(self.first(x)))
        return self.last(x + self.sometimes(x) if more else x)


class Rectified(nn.BatchNorm1d):
    """What a library adds to the means: it learns no bias, and gives what is above 0."""

    def __init__(self, many):
        super().__init__(many)
        self.bias = None

    def forward(self, x):
        return functional.relu(super().forward(x))


class Images(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Conv2d(1, 4, 2), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(8, 3))


class Samples(torch.utils.data.Dataset):
    def __init__(self, many):
        generator = torch.Generator().manual_seed(1)
        self.x, self.y = torch.randn(many, 6, generator=generator), torch.arange(many) % 3

    def __len__(self):
        return len(self.x)

    def __getitem__(self, number):
        return self.x[number], self.y[number]


class Stream(torch.utils.data.IterableDataset):
    def __init__(self, many):
        self.samples = Samples(many)

    def __iter__(self):
        return (self.samples[number] for number in torch.randperm(len(self.samples)).tolist())


class Begun:
    """Batches that are drawn as the loop begins."""

    def __iter__(self):
        return iter(torch.randperm(37).split(10))

    def __len__(self):
        return 4


def loader(many=37, batch=10, **options):
    return torch.utils.data.DataLoader(Samples(many), batch_size=batch, shuffle=True, **options)


def rectified(model):
    model.norm = Rectified(8)
    return model


def numbers(*tensors):
    """What they hold, as a script would read it that knows of one process only."""
    return [value for each in tensors for value in each.detach().numpy().astype(float).ravel().tolist()]


def learn(model, optimizer, x, y):
    """What a plain loop does with each batch."""
    functional.cross_entropy(model(x), y).backward()
    optimizer.step()
    optimizer.zero_grad()


def train(data, model=None, optimizer=None, passes=1, clip=None, epochs=2, schedule=False, more=lambda step: False):
    """The losses of all steps, and what came out; a plain loop with the line in it."""
    model = model or Net()
    names = list(model.state_dict())
    optimizer = optimizer or torch.optim.SGD(
        [
            {"params": [model.first.weight, model.last.weight], "lr": 0.2, "weight_decay": 0.1},
            {"params": [each for name, each in model.named_parameters() if name not in ("first.weight", "last.weight")]},
        ],
        lr=0.05, momentum=0.9,
    )  # fmt: skip
    model, optimizer, data = modak_runtime.prepare(model, optimizer, data)
    plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0, threshold=0.5)
    losses, step = [], 0
    for _ in range(epochs):
        model.train()
        optimizer.zero_grad()
        for x, y in data:
            loss = functional.cross_entropy(model(x, more(step)), y)
            (loss / passes).backward()
            losses.append(modak_runtime.mean(loss.item()))
            step += 1
            if step % passes == 0:
                if clip:
                    losses.append(float(nn.utils.clip_grad_norm_(model.parameters(), clip)))
                optimizer.step()
                optimizer.zero_grad()
        if schedule:
            plateau.step(loss.item())
            losses.append(optimizer.param_groups[0]["lr"])
        model.eval()
        with torch.no_grad():
            seen = [(functional.cross_entropy(model(x), y, reduction="sum").item(), len(y)) for x, y in data]
        losses.append(sum(each for each, _ in seen) / sum(count for _, count in seen))
        assert sum(count for _, count in seen) in (37, 30, 41, 39), seen
    assert isinstance(model, Net) and type(model).__name__ == "Net" and list(model.state_dict()) == names
    assert model.unused.weight.grad is None
    weights = numbers(*model.state_dict().values())
    return losses + weights


def twice():
    """Two passes through one model, and two backward passes, the second beside the model's own call."""
    model = Net()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    model, optimizer, data = modak_runtime.prepare(model, optimizer, loader())
    for x, y in data:
        functional.cross_entropy(model(x), y).backward()
        functional.cross_entropy(model.last(torch.tanh(model.first(-x))), y).backward()
        optimizer.step()
        optimizer.zero_grad()
    return numbers(*model.parameters())


def adversaries():
    """Two models that learn against each other: one's backward pass leaves gradients in the other."""
    maker, judge = nn.Linear(4, 6), nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 1))
    first, second = (torch.optim.RMSprop(model.parameters(), lr=0.01) for model in (maker, judge))
    maker, judge, first, second, data = modak_runtime.prepare(maker, judge, first, second, loader())
    for _ in range(2):
        for x, _ in data:
            made = maker(x[:, :4])
            second.zero_grad()
            loss = functional.softplus(-judge(x)).mean() + functional.softplus(judge(made.detach())).mean()
            loss.backward()
            second.step()
            first.zero_grad()
            functional.softplus(-judge(made)).mean().backward()
            first.step()
    return numbers(*maker.parameters(), *judge.parameters())


def images():
    """Convolutions, on which choices of a plan act."""
    model = Images()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    model, optimizer, data = modak_runtime.prepare(model, optimizer, loader(many=39))
    losses = []
    for _ in range(3):
        for x, y in data:
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(x.view(-1, 1, 2, 3)), y)
            loss.backward()
            optimizer.step()
            losses.append(modak_runtime.mean(loss.item()))
    return losses


def midway(data):
    """A look at all of the data, and at half of it, in the midst of the loop that trains on them."""
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model, optimizer, data = modak_runtime.prepare(model, optimizer, data)
    found = []
    for _ in range(2):
        for number, (x, y) in enumerate(data):
            learn(model, optimizer, x, y)
            if number == 1:
                with torch.no_grad():
                    found.append(sum(functional.cross_entropy(model(x), y, reduction="sum").item() for x, y in data))
    return found + numbers(*model.parameters())


def side_by_side():
    """Two loops over one loader, whose processes read ahead, and what they leave behind: each ends with its loop."""
    model, data = Net(), loader(num_workers=1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model, optimizer, data = modak_runtime.prepare(model, optimizer, data)
    for (x, y), (others, theirs) in zip(data, data, strict=True):
        loss = functional.cross_entropy(model(x), y) + functional.cross_entropy(model(others), theirs)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    next(iter(data))
    return [len(multiprocessing.active_children()), *numbers(*model.parameters())]


def beside(data, given=True):
    """A loader that trains and one that validates, of which the line is given one alone."""
    model = Net(normalises=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    checks = loader(many=23, batch=7)
    modak_runtime.prepare(model, optimizer, data if given else checks)
    found = []
    for _ in range(3):
        model.train()
        for x, y in data:
            learn(model, optimizer, x, y)
        model.eval()
        with torch.no_grad():
            found += [functional.cross_entropy(model(x), y).item() for x, y in checks]
    return found + numbers(*model.state_dict().values())


def shown():
    """What the first rank alone looks at: a validation for all of them, and a picture of what is learned so far."""
    model, data, checks = Net(normalises=True), loader(many=39), loader(many=23, batch=7)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model, optimizer, data = modak_runtime.prepare(model, optimizer, data)
    for _ in range(2):
        model.train()
        for x, y in data:
            learn(model, optimizer, x, y)
            if IS_FIRST:
                with torch.no_grad():
                    model(torch.ones(4, x.shape[1]))
        model.eval()
        if IS_FIRST:
            with torch.no_grad():
                [model(x) for x, _ in checks]
    del optimizer
    model.train()
    if IS_FIRST:
        with torch.no_grad():
            model(torch.ones(4, 6))
    return numbers(*model.state_dict().values())


def one_after_another():
    """Two trainings, the first of which leaves its model in train(), and loops that validate with gradients enabled."""
    found = []
    for number in range(2):
        torch.manual_seed(number)
        model, checks = Net(), loader(many=23, batch=7)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        model, optimizer, data, checks = modak_runtime.prepare(model, optimizer, loader(), checks)
        model.eval()
        found += [functional.cross_entropy(model(x), y).item() for x, y in checks]
        model.train()
        for x, y in data:
            learn(model, optimizer, x, y)
    return found[4:]


def fitted():
    """Two trainings in a function, the second with the first's model as a teacher, whose optimizers are garbage behind it.

    When that is collected differs between ranks.
    """

    def fit(model, *teachers):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        optimizer.schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda _: 1.0)  # which has the optimizer
        model, optimizer, data = modak_runtime.prepare(model, optimizer, loader(many=39))
        for x, y in data:
            with torch.no_grad():
                wanted = [teacher(x) for teacher in teachers]
            loss = functional.cross_entropy(model(x), y) + sum((model(x) - each).square().mean() for each in wanted)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()

    gc.disable()
    first, model = Net(normalises=True), Net(normalises=True)
    fit(first)
    fit(model, first)
    if IS_FIRST:
        gc.collect()
    model.eval()  # and the first is left in train()
    checks = modak_runtime.prepare(loader(many=23, batch=7))
    found = [functional.cross_entropy(model(x), y).item() for x, y in checks]
    gc.enable()
    return found + numbers(*first.norm.buffers())


def estimated():
    """Running means of a network that learns nothing just then: within a loop that trains, and of all of the data."""
    model, teacher, data = Net(normalises=True), Net(normalises=True), loader(many=39)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model, teacher, optimizer, data = modak_runtime.prepare(model, teacher, optimizer, data)
    for x, y in data:
        with torch.no_grad():
            wanted = teacher(x)
        (functional.cross_entropy(model(x), y) + (model(x) - wanted).square().mean()).backward()
        optimizer.step()
        optimizer.zero_grad()
    model.norm.reset_running_stats()
    model.norm.momentum = None
    with torch.no_grad():
        for x, _ in data:
            model(x)
    return numbers(*model.state_dict().values(), *teacher.state_dict().values())


def own_draws(model=None):
    """Batches that the script draws itself, without a loader, and dropout."""
    model, samples = model or Net(), Samples(37)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model, optimizer = modak_runtime.prepare(model, optimizer)
    for _ in range(4):
        drawn = torch.randint(37, (8,))
        functional.cross_entropy(functional.dropout(model(samples.x[drawn]), 0.2), samples.y[drawn]).backward()
        optimizer.step()
        optimizer.zero_grad()
    return numbers(*model.state_dict().values())


def again():
    """Two models that two calls of the line prepare, with one loader."""
    data, trained = loader(), []
    for _ in range(2):
        model = Net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        trained.append(modak_runtime.prepare(model, optimizer, data)[:2])
    for x, y in data:
        for model, optimizer in trained:
            learn(model, optimizer, x, y)
    return numbers(*(each for model, _ in trained for each in model.parameters()))


def kept():
    """Batches that are read once, and learned from twice: of as many samples in each rank, for all count alike."""
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model, optimizer, data = modak_runtime.prepare(model, optimizer, loader(many=25, batch=12))
    for x, y in 2 * list(data):
        learn(model, optimizer, x, y)
    return numbers(*model.parameters())


def by_hand():
    """Gradients that no backward pass leaves, with their mean over all ranks."""
    model, data = Net(), loader()
    model, data = modak_runtime.prepare(model, data)
    used = [*model.first.parameters(), *model.last.parameters()]
    for x, y in data:
        found = torch.autograd.grad(functional.cross_entropy(model(x), y), used)
        with torch.no_grad():
            for each, gradient in zip(used, found, strict=True):
                each.sub_(0.1 * modak_runtime.mean(gradient))
    return numbers(*used)


def dropping(least=-0.5, batch=9):
    """Samples that a collate_fn leaves out, by which a rank may have nothing of a batch, or all ranks."""

    def left(samples):
        found = [(x, y) for x, y in samples if x[0] > least]
        return torch.utils.data.default_collate(found) if found else None

    model = Net()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    model, optimizer, data = modak_runtime.prepare(model, optimizer, loader(many=46, batch=batch, collate_fn=left))
    for _ in range(2):
        for batch in data:
            if batch is not None:
                learn(model, optimizer, *batch)
    return numbers(*model.parameters())


def apart():
    """What each rank draws by itself: masks of dropout, and what its dataset draws, here and in other processes."""
    import random

    import numpy

    model, data = torch.nn.Dropout(0.5), Noise()
    learner = torch.nn.Linear(1, 1)
    found = []
    for workers in (0, 2):
        loader = torch.utils.data.DataLoader(data, batch_size=8, num_workers=workers, shuffle=True)
        _, loader = modak_runtime.prepare(learner, loader)
        for number, *drawn in loader:
            found += [each.double().tolist() for each in (number, *drawn)]
            last = [model(torch.ones(64)).tolist(), random.random(), float(numpy.random.rand())]
    behind = [model(torch.ones(64)).tolist(), random.random(), float(numpy.random.rand())]
    return [*found, *last, *behind]


def lasting():
    """Weights and losses of a training that is long enough for what has a memory; matrices that are worth factors."""
    model = nn.Sequential(nn.Linear(6, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    model, optimizer, data = modak_runtime.prepare(model, optimizer, loader(many=40, batch=8))
    losses = []
    for _ in range(16):
        seen = []
        for x, _ in data:
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(x), (x[:, 0] > 0).long() + (x[:, 1] > 0).long())
            loss.backward()
            optimizer.step()
            seen.append(modak_runtime.mean(loss.item()))
        losses.append(sum(seen) / len(seen))
    return [sum(each.double().sum().item() for each in model.parameters()), *losses]


class Noise(Samples):
    def __init__(self):
        super().__init__(16)

    def __getitem__(self, number):
        import random

        import numpy

        return number, torch.rand(()), random.random(), numpy.random.rand()


CASES = {
    "uneven": lambda: train(loader()),
    "few": lambda: train(loader(many=41)),  # the last batch is of one sample
    "drop_last": lambda: train(loader(drop_last=True)),
    "accumulated": lambda: train(loader(), passes=2, clip=0.5),
    "scheduled": lambda: train(loader(), schedule=True),
    "normalised": lambda: train(loader(many=39), Net(normalises=True)),
    "now_and_then": lambda: train(loader(), more=lambda step: step % 2 == 1),
    "own_generator": lambda: train(loader(generator=torch.Generator().manual_seed(4))),
    "own_batches": lambda: train(
        torch.utils.data.DataLoader(Samples(37), batch_sampler=[[*range(5)], [*range(5, 34)], [34, 35, 36]])),
    "stream": lambda: train(torch.utils.data.DataLoader(Stream(37), batch_size=10)),
    "workers": lambda: train(loader(num_workers=1)) if torch.initial_seed() == 0 else [],
    "made_elsewhere": lambda: train(
        torch.utils.data.DataLoader(Samples(37), batch_size=None, sampler=torch.utils.data.BatchSampler(
            torch.utils.data.RandomSampler(range(37)), 10, drop_last=False))),
    "weighted": lambda: train(torch.utils.data.DataLoader(
        Samples(37), batch_size=10, sampler=torch.utils.data.WeightedRandomSampler([1.0] * 37, 37))),
    "midway": lambda: midway(loader()),
    "midway_of_a_stream": lambda: midway(torch.utils.data.DataLoader(Stream(37), batch_size=10)),
    "workers_side_by_side": lambda: side_by_side() if torch.initial_seed() == 0 else [],
    "own_draws": own_draws,
    "own_draws_normalised": lambda: own_draws(Net(normalises=True)),
    "rectified": lambda: train(loader(many=39), rectified(Net(normalises=True))),
    "trains_beside": lambda: beside(loader(many=39)),
    "validates_beside": lambda: beside(loader(many=39), given=False),
    "estimated": estimated,
    "batches_as_they_begin": lambda: train(torch.utils.data.DataLoader(Samples(37), batch_sampler=Begun())),
    "one_after_another": one_after_another,
    "fitted": fitted,
    "again": again,
    "kept": kept,
    "twice": twice,
    "adversaries": adversaries,
    "images": images,
}  # fmt: skip
# by their names alone
ASKED_FOR = {
    "apart": apart, "lasting": lasting, "by_hand": by_hand, "shown": shown,
    "dropping": dropping, "emptied": lambda: dropping(0.4, 4),
}  # fmt: skip


def tell(cases, asked_for, seeds):
    """Says what the cases come to that the command line names, or all but those that are asked for, with each seed."""
    torch.set_num_threads(1)
    found = {}
    for name in sys.argv[1:] or cases:
        for seed in seeds:
            torch.manual_seed(seed)
            found[f"{name}/{seed}"] = {**cases, **asked_for}[name]()
    print(json.dumps(found))


if __name__ == "__main__":
    tell(CASES, ASKED_FOR, SEEDS)
