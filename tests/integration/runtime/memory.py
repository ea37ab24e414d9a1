"""A small training that is traced, computes parts of itself again, or is looked at by PyTorch's own tracker."""

import hashlib
import json
import sys

import modak_runtime
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        block = nn.TransformerEncoderLayer(64, 4, 256, 0.1, batch_first=True)
        self.first, self.blocks, self.last = nn.Linear(8, 64), nn.TransformerEncoder(block, 4), nn.Linear(64, 3)

    def forward(self, x):
        return self.last(self.blocks(self.first(x)).mean(1))


def step(model, optimizer, x, y):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    return loss


def train():
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(256, 24, 8), torch.randint(3, (256,)))
    training, validation = random_split(data, [192, 64])
    model = Model()
    optimizer = torch.optim.AdamW(model.parameters())
    loader = DataLoader(training, 64, shuffle=True, num_workers=1)
    model, optimizer, loader = modak_runtime.prepare(model, optimizer, loader)
    for epoch in range(3):
        losses = [step(model, optimizer, x, y).item() for x, y in loader]
        with torch.no_grad():
            right = sum(int((model(x).argmax(1) == y).sum()) for x, y in DataLoader(validation, 64))
        print(epoch, sum(losses), right / 64, model.first.weight.detach().numpy().mean() if epoch else losses[0])
    torch.save(model.state_dict(), "model.pt")
    digest = hashlib.sha256(b"".join(each.detach().numpy().tobytes() for each in model.parameters())).hexdigest()
    print(json.dumps({"digest": digest}))


def tracked():
    """The most bytes of tensors that PyTorch's own tracker finds in a step, and the FLOP that its counter does."""
    from torch.distributed._tools.mem_tracker import MemTracker
    from torch.utils.flop_counter import FlopCounterMode

    model = Model()
    optimizer, x, y = torch.optim.AdamW(model.parameters()), torch.randn(64, 24, 8), torch.randint(3, (64,))
    step(model, optimizer, x, y)
    tracker = MemTracker()
    tracker.track_external(model, optimizer, x, y)
    with tracker:
        step(model, optimizer, x, y)
    counter = FlopCounterMode(display=False)
    with counter:
        step(model, optimizer, x, y)
    flop = counter.get_total_flops()
    print(json.dumps({"flop": flop, "tracked": next(iter(tracker.get_tracker_snapshot("peak").values()))["Total"]}))


{"train": train, "tracked": tracked}[sys.argv[1]]()
