"""Loops as strangers write them, each with the line; says the losses and the weights of three seeds."""

import copy
import itertools

import modak_runtime
import torch
from learners import Net, Samples, Stream, learn, loader, numbers, tell
from torch import cat, nn
from torch.nn import functional

SEEDS = range(3)


def begun(data, model=None, kind=torch.optim.SGD, **options):
    """A model, its optimizer and what gives it batches, prepared."""
    model = model or Net()
    return modak_runtime.prepare(model, kind(model.parameters(), **{"lr": 0.1, **options}), *data)


def ahead(data=None, depth=1):
    """Batches that are read ahead of their steps."""
    model, optimizer, data = begun([loader() if data is None else data])
    found = []
    for _ in range(2):
        batches, waiting = iter(data), []
        while True:
            waiting += itertools.islice(batches, depth + 1 - len(waiting))
            if not waiting:
                break
            x, y = waiting.pop(0)
            loss = functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            found.append(modak_runtime.mean(loss.item()))
    return found + numbers(*model.parameters())


def zipped(first, other):
    """Batches of two loaders, in one loss."""
    model, optimizer, first, other = begun([first, other])
    for _ in range(2):
        for (x, y), (others, _) in zip(first, other):  # noqa: B905 - as it is written, of loaders of two lengths
            optimizer.zero_grad()
            (functional.cross_entropy(model(x), y) + model(others).square().mean()).backward()
            optimizer.step()
    return numbers(*model.parameters())


def added_up():
    """The losses of two batches, before one backward pass."""
    model, optimizer, data = begun([loader()])
    for _ in range(2):
        losses = []
        for x, y in data:
            losses.append(functional.cross_entropy(model(x), y))
            if len(losses) == 2:
                optimizer.zero_grad()
                sum(losses).backward()
                optimizer.step()
                losses = []
    return numbers(*model.parameters())


def joined(first, other):
    """Batches of two loaders as one batch, joined by a name from before prepare."""
    model, optimizer, first, other = begun([first, other])
    for _ in range(2):
        for (x, y), (others, theirs) in zip(first, other):  # noqa: B905 - as above
            learn(model, optimizer, cat([x, others]), cat((y, theirs)))
    return numbers(*model.parameters())


def pieces(data, at_first=2, steps=2, left=None):
    """Passes of two samples each, which count as their part of the batch does; perhaps of more in the first steps."""
    model, optimizer, data = begun([data])
    for _ in range(2):
        for number, (x, y) in enumerate(data):
            optimizer.zero_grad()
            size = at_first if number < steps else 2
            for some, theirs in zip(x.split(size), y.split(size), strict=True):
                (functional.cross_entropy(model(some), theirs) * len(some) / len(x)).backward()
            optimizer.step()
            if number == left:
                break
    return numbers(*model.parameters())


def replayed():
    """Batches that are kept, and learned from again behind the loop."""
    model, optimizer, data = begun([loader()])
    batches = list(data)
    for x, y in batches + batches[::-1]:
        learn(model, optimizer, x, y)
    return numbers(*model.parameters())


def averaged():
    """A mean of the weights, by PyTorch's own class, which is validated in the midst."""
    model = Net()
    mean = torch.optim.swa_utils.AveragedModel(model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.9))
    model, optimizer, data, mean = begun([loader(), mean], model)
    found = []
    for _ in range(2):
        for x, y in data:
            learn(model, optimizer, x, y)
            mean.update_parameters(model)
        with torch.no_grad():
            found += [functional.cross_entropy(mean(x), y, reduction="sum").item() for x, y in data]
    return found + numbers(*mean.parameters())


def own_mean():
    """A mean of the weights as a deepcopy."""
    model = Net()
    mean = copy.deepcopy(model).requires_grad_(False)
    model, optimizer, data, mean = begun([loader(), mean], model)
    for _ in range(2):
        for x, y in data:
            learn(model, optimizer, x, y)
            with torch.no_grad():
                for theirs, ours in zip(mean.parameters(), model.parameters(), strict=True):
                    theirs.mul_(0.9).add_(ours, alpha=0.1)
    return numbers(*mean.parameters(), *model.parameters())


def two_optimizers():
    """One for each part of the model, one of which steps every other time."""
    model = Net()
    first = torch.optim.Adam(model.first.parameters(), lr=0.05)
    last = torch.optim.SGD(model.last.parameters(), lr=0.1)
    model, first, last, data = modak_runtime.prepare(model, first, last, loader())
    for _ in range(2):
        for number, (x, y) in enumerate(data):
            functional.cross_entropy(model(x), y).backward()
            first.step()
            first.zero_grad(set_to_none=False)
            if number % 2:
                last.step()
                last.zero_grad()
    return numbers(*model.parameters())


def penalised():
    """A critic whose slope is penalised, as of WGAN-GP."""
    critic = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 1))
    maker = nn.Linear(4, 6)
    first, second = torch.optim.Adam(critic.parameters(), lr=0.01), torch.optim.Adam(maker.parameters(), lr=0.01)
    critic, maker, first, second, data = modak_runtime.prepare(critic, maker, first, second, loader())
    for _ in range(2):
        for x, _ in data:
            made = maker(x[:, :4])
            mixed = (0.3 * x + 0.7 * made.detach()).requires_grad_()
            (slope,) = torch.autograd.grad(critic(mixed).sum(), mixed, create_graph=True)
            first.zero_grad()
            (critic(made.detach()).mean() - critic(x).mean() + (slope.norm(dim=1) - 1).square().mean()).backward()
            first.step()
            second.zero_grad()
            (-critic(made).mean()).backward()
            second.step()
    return numbers(*critic.parameters(), *maker.parameters())


def tutorial():
    """As PyTorch's own of DCGAN: two backward passes for one step of the judge."""
    maker, judge = nn.Linear(4, 6), nn.Sequential(nn.Linear(6, 8), nn.LeakyReLU(0.2), nn.Linear(8, 1))
    first, second = torch.optim.Adam(judge.parameters(), lr=0.01), torch.optim.Adam(maker.parameters(), lr=0.01)
    maker, judge, first, second, data = modak_runtime.prepare(maker, judge, first, second, loader())
    loss = nn.BCEWithLogitsLoss()
    for _ in range(2):
        for x, _ in data:
            judge.zero_grad()
            ones, zeros = torch.ones(len(x), 1), torch.zeros(len(x), 1)
            loss(judge(x), ones).backward()
            made = maker(x[:, :4])
            loss(judge(made.detach()), zeros).backward()
            first.step()
            maker.zero_grad()
            loss(judge(made), ones).backward()
            second.step()
    return numbers(*maker.parameters(), *judge.parameters())


def scaled():
    """A GradScaler, with clipping behind unscale_."""
    model, optimizer, data = begun([loader()])
    scaler = torch.amp.GradScaler("cpu", init_scale=64.0, growth_interval=3)
    for _ in range(2):
        for x, y in data:
            optimizer.zero_grad()
            scaler.scale(functional.cross_entropy(model(x), y)).backward()
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), 0.3)
            scaler.step(optimizer)
            scaler.update()
    return [scaler.get_scale(), *numbers(*model.parameters())]


def by_value():
    model, optimizer, data = begun([loader()])
    for _ in range(2):
        for x, y in data:
            optimizer.zero_grad(set_to_none=False)
            functional.cross_entropy(model(x), y).backward()
            nn.utils.clip_grad_value_(model.parameters(), 0.01)
            optimizer.step()
    return numbers(*model.parameters())


def thawed():
    """Layers that learn from the second epoch on, and are given to the optimizer then."""
    model = Net()
    model.first.requires_grad_(False)
    optimizer = torch.optim.SGD(model.last.parameters(), lr=0.1)
    model, optimizer, data = modak_runtime.prepare(model, optimizer, loader())
    for epoch in range(3):
        if epoch == 1:
            model.first.requires_grad_(True)
            optimizer.add_param_group({"params": model.first.parameters(), "lr": 0.01})
        for x, y in data:
            learn(model, optimizer, x, y)
    return numbers(*model.parameters())


def taught():
    """A teacher in eval(), whose words are learned."""
    teacher, model = Net(), Net()
    teacher.eval().requires_grad_(False)
    teacher, model = modak_runtime.prepare(teacher, model)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    optimizer, data = modak_runtime.prepare(optimizer, loader())
    for _ in range(2):
        for x, y in data:
            with torch.no_grad():
                wanted = teacher(x).softmax(-1)
            loss = functional.cross_entropy(model(x), y) + functional.kl_div(
                model(x).log_softmax(-1), wanted, reduction="batchmean"
            )
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return numbers(*model.parameters())


class Reader(nn.Module):
    """Reads and writes words, by the ones before or by its own."""

    def __init__(self):
        super().__init__()
        self.words, self.cell, self.out = nn.Embedding(7, 8), nn.GRUCell(8, 8), nn.Linear(8, 7)

    def forward(self, given, forced):
        state, word, found = torch.zeros(len(given), 8), given[:, 0], []
        for place in range(1, given.shape[1]):
            state = self.cell(self.words(word), state)
            found.append(self.out(state))
            word = given[:, place] if forced else found[-1].argmax(-1)
        return torch.stack(found, 1)


def forced():
    """Teacher forcing, by a coin that is thrown outside of the model for each batch."""
    torch.manual_seed(torch.initial_seed())
    words = torch.utils.data.TensorDataset(torch.randint(7, (37, 5)))
    coins = itertools.cycle([True, False, True])
    model, optimizer, data = begun(
        [torch.utils.data.DataLoader(words, batch_size=10, shuffle=True)], Reader(), torch.optim.Adam, lr=0.02
    )
    for _ in range(2):
        for (x,) in data:
            optimizer.zero_grad()
            functional.cross_entropy(model(x, next(coins)).flatten(0, 1), x[:, 1:].flatten()).backward()
            optimizer.step()
    return numbers(*model.parameters())


def ended_early():
    """Ends by the loss of a validation, and goes back to the best weights."""
    model, optimizer, data, checks = begun([loader(), loader(many=23, batch=7)], lr=1.0)
    best, kept, left = float("inf"), None, 1
    for _ in range(6):
        model.train()
        for x, y in data:
            learn(model, optimizer, x, y)
        model.eval()
        with torch.no_grad():
            loss = sum(functional.cross_entropy(model(x), y, reduction="sum").item() for x, y in checks)
        if loss < best:
            best, kept, left = loss, copy.deepcopy(model.state_dict()), 1
        elif left == 0:
            break
        else:
            left -= 1
    model.load_state_dict(kept)
    return [best, *numbers(*model.parameters())]


def folds():
    """K-fold: a model, an optimizer and loaders of its own for each."""
    samples, found = Samples(37), []
    order = torch.randperm(37)
    for fold in order.chunk(3):
        rest = [each for each in range(37) if each not in fold]
        model, optimizer, data, checks = begun(
            [
                torch.utils.data.DataLoader(torch.utils.data.Subset(samples, rest), batch_size=7, shuffle=True),
                torch.utils.data.DataLoader(torch.utils.data.Subset(samples, fold.tolist()), batch_size=7),
            ]
        )
        for x, y in data:
            learn(model, optimizer, x, y)
        model.eval()
        with torch.no_grad():
            found.append(sum(functional.cross_entropy(model(x), y, reduction="sum").item() for x, y in checks))
        found += numbers(*model.parameters())
    return found


def resumed():
    """What it saves and loads again behind the first epoch, into other objects."""
    model, optimizer, data = begun([loader()], kind=torch.optim.Adam, lr=0.01)
    for x, y in data:
        learn(model, optimizer, x, y)
    state = copy.deepcopy({"model": model.state_dict(), "optimizer": optimizer.state_dict()})
    model, optimizer = begun([], kind=torch.optim.Adam, lr=0.01)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    for x, y in data:
        learn(model, optimizer, x, y)
    return numbers(*model.parameters())


class Curriculum(torch.utils.data.Sampler):
    """More samples in each epoch, in an order of its own."""

    def __init__(self):
        self.epoch = 0

    def __iter__(self):
        return iter(torch.randperm(len(self)).tolist())

    def __len__(self):
        return 17 + 10 * self.epoch


def harder():
    sampler = Curriculum()
    model, optimizer, data = begun([torch.utils.data.DataLoader(Samples(37), batch_size=5, sampler=sampler)])
    for sampler.epoch in range(3):
        for x, y in data:
            learn(model, optimizer, x, y)
    return numbers(*model.parameters())


class Buckets(torch.utils.data.Sampler):
    """Batches of samples of about one length, of other sizes each."""

    def __iter__(self):
        order = torch.randperm(37)
        yield from (each.tolist() for each in order.split([9, 3, 12, 1, 7, 5]))

    def __len__(self):
        return 6


def bucketed():
    def padded(samples):
        xs = nn.utils.rnn.pad_sequence([x[: 2 + int(y)] for x, y in samples], batch_first=True)
        return functional.pad(xs, (0, 6 - xs.shape[1])), torch.stack([y for _, y in samples])

    model, optimizer, data = begun(
        [torch.utils.data.DataLoader(Samples(37), batch_sampler=Buckets(), collate_fn=padded)]
    )
    for _ in range(2):
        for x, y in data:
            learn(model, optimizer, x, y)
    return numbers(*model.parameters())


def one_by_one():
    """Eight batches, one sample each, before a step; the last step has fewer."""
    model, optimizer, data = begun([loader(batch=1)])
    for number, (x, y) in enumerate(data, 1):
        (functional.cross_entropy(model(x), y) / 8).backward()
        if number % 8 == 0 or number == len(data):
            optimizer.step()
            optimizer.zero_grad()
    return numbers(*model.parameters())


def validated_within():
    """A validation with the loop's own model, in eval(), in the midst of it."""
    model, optimizer, data, checks = begun([loader(), loader(many=23, batch=7)])
    found = []
    for _ in range(2):
        for number, (x, y) in enumerate(data):
            if number == 2:
                model.eval()
                with torch.no_grad():
                    found += [functional.cross_entropy(model(x), y).item() for x, y in checks]
                model.train()
            learn(model, optimizer, x, y)
    return found + numbers(*model.parameters())


def rates():
    """A rate finder: grows the rate by each batch, and goes back to what was."""
    model, optimizer, data = begun([loader()], lr=1e-3)
    before, found = copy.deepcopy(model.state_dict()), []
    for x, y in data:
        loss = functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        optimizer.param_groups[0]["lr"] *= 4
        found.append(modak_runtime.mean(loss.item()))
    model.load_state_dict(before)
    optimizer.param_groups[0]["lr"] = 0.1
    for x, y in data:
        learn(model, optimizer, x, y)
    return found + numbers(*model.parameters())


def endless():
    """Steps by number, of batches without an end."""
    model, optimizer, data = begun([loader()])
    batches = iter(data)
    for _ in range(9):
        try:
            x, y = next(batches)
        except StopIteration:
            batches = iter(data)
            x, y = next(batches)
        learn(model, optimizer, x, y)
    return numbers(*model.parameters())


def by_quasi_newton():
    """LBFGS in a first training, and another one behind it."""
    model, optimizer, data = begun([loader(batch=37)], kind=torch.optim.LBFGS, lr=0.5)
    for x, y in data:

        def closure(x=x, y=y):
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(x), y)
            loss.backward()
            return loss

        optimizer.step(closure)
    other, optimizer, data = begun([loader()])
    for x, y in data:
        learn(other, optimizer, x, y)
    return numbers(*model.parameters(), *other.parameters())


CASES = {
    "ahead": ahead,
    "ahead_in_pairs": lambda: ahead(loader(batch=9), depth=2),
    "ahead_of_a_stream": lambda: ahead(torch.utils.data.DataLoader(Stream(37), batch_size=10)),
    "ahead_by_workers": lambda: ahead(loader(num_workers=1)) if torch.initial_seed() == 0 else [],
    "zipped": lambda: zipped(loader(), loader(many=33, batch=8)),
    "zipped_with_an_odd_one": lambda: zipped(loader(), loader(many=33, batch=7)),
    "joined": lambda: joined(loader(many=44, batch=12), loader(many=28, batch=8)),
    "added_up": added_up,
    "pieces": lambda: pieces(loader(many=35)),
    "replayed": replayed,
    "averaged": averaged,
    "own_mean": own_mean,
    "two_optimizers": two_optimizers,
    "penalised": penalised,
    "tutorial": tutorial,
    "scaled": scaled,
    "by_value": by_value,
    "thawed": thawed,
    "taught": taught,
    "forced": forced,
    "ended_early": ended_early,
    "folds": folds,
    "resumed": resumed,
    "harder": harder,
    "bucketed": bucketed,
    "one_by_one": one_by_one,
    "validated_within": validated_within,
    "rates": rates,
    "endless": endless,
}
ASKED_FOR = {
    "by_quasi_newton": by_quasi_newton,
    "odd_pieces": lambda: pieces(loader(many=35, batch=9)),
    "odd_pieces_later": lambda: pieces(loader(many=54, batch=9), at_first=5),
    "odd_pieces_at_last": lambda: pieces(loader(many=54, batch=9), at_first=5, steps=5),
    "odd_pieces_at_a_break": lambda: pieces(loader(many=54, batch=9), at_first=5, left=2),
    "joined_unlike": lambda: joined(loader(many=40), loader(many=31, batch=8)),
}


if __name__ == "__main__":
    tell(CASES, ASKED_FOR, SEEDS)
