"""A standard network in PyTorch 2; what is not switched on is the plain way."""

import os
import shutil

import common
import numpy as np
import torch
from arguments import refuse
from products import multiply_by_onednn
from torch import nn
from torch.nn import functional

SWITCHES = {
    "memory_format": ("contiguous", "channels_last"),
    "compiler": ("none", "inductor"),
    "precision": ("fp32", "bf16"),
    "matmul": ("default", "onednn"),
}


class Attention(nn.Module):
    """Attention of every place to every place, with the norm before and the way around."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.norm = heads, nn.LayerNorm(width)
        self.query_key_value, self.projection = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        batch, length, width = x.shape
        three = self.query_key_value(self.norm(x)).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = three.permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(query, key, value)
        return x + self.projection(mixed.transpose(1, 2).reshape(batch, length, width))


class Feed(nn.Module):
    """Two dense layers for each place, with the norm before and the way around."""

    def __init__(self, width, inner):
        super().__init__()
        self.norm, self.inner, self.outer = nn.LayerNorm(width), nn.Linear(width, inner), nn.Linear(inner, width)

    def forward(self, x):
        return x + self.outer(functional.relu(self.inner(self.norm(x))))


class Residual(nn.Module):
    """Two convolutions with batch-norm, and the way around."""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.first, self.norm1 = nn.Conv2d(inputs, outputs, 3, stride, 1), nn.BatchNorm2d(outputs)
        self.second, self.norm2 = nn.Conv2d(outputs, outputs, 3, 1, 1), nn.BatchNorm2d(outputs)
        self.around = nn.Conv2d(inputs, outputs, 1, stride) if stride > 1 or inputs != outputs else nn.Identity()

    def forward(self, x):
        y = self.norm2(self.second(functional.relu(self.norm1(self.first(x)))))
        return functional.relu(y + self.around(x))


class UNet(nn.Module):
    """An image smaller and smaller, then larger again, with what it was at each size beside it."""

    def __init__(self, inputs, width, depth):
        super().__init__()
        widths = [width << number for number in range(depth)]
        self.down = nn.ModuleList(self.pair(*both) for both in zip([inputs, *widths], widths))
        self.wide = nn.ModuleList(nn.ConvTranspose2d(2 * each, each, 2, 2) for each in widths[-2::-1])
        self.up = nn.ModuleList(self.pair(2 * each, each) for each in widths[-2::-1])

    @staticmethod
    def pair(inputs, outputs):
        layers = []
        for before in (inputs, outputs):
            layers += [nn.Conv2d(before, outputs, 3, 1, 1), nn.BatchNorm2d(outputs), nn.ReLU()]
        return nn.Sequential(*layers)

    def forward(self, x):
        kept = []
        for number, down in enumerate(self.down):
            x = down(functional.max_pool2d(x, 2) if number else x)
            kept.append(x)
        for wide, up, left in zip(self.wide, self.up, kept[-2::-1]):
            x = up(torch.cat([wide(x), left], 1))
        return x


class Sound(nn.Module):
    """A convolution along time, over sequences of (length, width)."""

    def __init__(self, inputs, outputs, kernel, stride):
        super().__init__()
        self.conv = nn.Conv1d(inputs, outputs, kernel, stride, kernel // 2)
        self.norm = nn.GroupNorm(8, outputs)

    def forward(self, x):
        return functional.gelu(self.norm(self.conv(x.transpose(1, 2)))).transpose(1, 2)


class Recurrent(nn.LSTM):
    """All outputs of a recurrent layer."""

    def forward(self, x):
        return super().forward(x)[0]


class Patches(nn.Conv2d):
    """An image as a sequence of what its squares give."""

    def forward(self, x):
        return super().forward(x).flatten(2).transpose(1, 2)


class Mix(nn.Module):
    """Dense layers along the places, then along the width of each."""

    def __init__(self, places, width):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.along = nn.Sequential(nn.Linear(places, 2 * places), nn.GELU(), nn.Linear(2 * places, places))
        self.across = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        x = x + self.along(self.norm1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.across(self.norm2(x))


class Tables(nn.Module):
    """A row of a table for each column of the samples, whose numbers say which."""

    def __init__(self, columns, rows, width):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(rows, width) for _ in range(columns))

    def forward(self, x):
        numbers = (x.abs() * 1e6).long()
        return torch.cat([table(numbers[:, n] % table.num_embeddings) for n, table in enumerate(self.tables)], 1)


class Average(nn.Module):
    """The mean over an image's pixels or a sequence's places."""

    def forward(self, x):
        return x.mean(dim=(2, 3)) if x.dim() == 4 else x.mean(dim=1)


def network(given):
    """Returns the module of a network of networks.py."""
    shape, modules = given.shape, []
    for layer in given.layers:
        modules.append(_module(layer, shape))
        shape = common.networks.after(layer, shape)[0]
    return nn.Sequential(*modules)


def _module(layer, shape):
    kind = layer[0]
    if kind == "conv":
        _, outputs, kernel, stride, groups = layer
        return nn.Conv2d(shape[0], outputs, kernel, stride, (kernel - 1) // 2, groups=groups)
    return {
        "dense": lambda: nn.Linear(shape[-1], layer[1]),
        "norm": lambda: nn.BatchNorm2d(shape[0]),
        "relu": nn.ReLU,
        "pool": lambda: nn.MaxPool2d(2),
        "flatten": nn.Flatten,
        "average": Average,
        "attention": lambda: Attention(shape[1], layer[1]),
        "feed": lambda: Feed(shape[1], layer[1]),
        "residual": lambda: Residual(shape[0], *layer[1:]),
        "unet": lambda: UNet(shape[0], *layer[1:]),
        "sound": lambda: Sound(shape[1], *layer[1:]),
        "lstm": lambda: Recurrent(shape[1], layer[1], batch_first=True),
        "patches": lambda: Patches(shape[0], layer[1], layer[2], layer[2]),
        "mix": lambda: Mix(*shape),
        "tables": lambda: Tables(shape[0], *layer[1:]),
    }[kind]()


def configure(arguments):
    """Sets what holds for the whole process; refuses what makes no sense here."""
    given = arguments.switches
    if given["memory_format"] == "channels_last" and len(arguments.network.shape) != 3:
        refuse("memory_format", "channels_last", "%s has no images" % arguments.network.name)
    if given["compiler"] == "inductor" and not shutil.which(os.environ.get("CXX", "g++")):
        refuse("compiler", "inductor", "it needs a C++ compiler, and there is none here")
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(arguments.seed)
    if given["matmul"] == "onednn":
        multiply_by_onednn()


def main():
    """Trains and measures, as the command line asks."""
    arguments = common.parse_arguments("PyTorch", SWITCHES)
    recorder = common.recorder(arguments, "PyTorch", [("torch", torch.__version__)])
    configure(arguments)
    with recorder.timed("load_data"):
        data = common.Data(arguments, channels_last=False)
        samples, labels = torch.from_numpy(data.samples), torch.from_numpy(data.labels)
    channels_last = arguments.switches["memory_format"] == "channels_last"
    layout = torch.channels_last if channels_last else torch.contiguous_format
    model = network(arguments.network).train()
    if channels_last:
        model, samples = model.to(memory_format=layout), samples.contiguous(memory_format=layout)
    computed = torch.compile(model, dynamic=False) if arguments.switches["compiler"] == "inductor" else model
    optimiser = torch.optim.SGD(model.parameters(), arguments.learning_rate, common.MOMENTUM)

    def scores(x):
        with torch.autocast("cpu", torch.bfloat16, enabled=arguments.switches["precision"] == "bf16"):
            return computed(x).float()

    common.begin(recorder, data, sum(each.numel() for each in model.parameters()))
    for epoch in range(arguments.epochs):
        recorder.epoch_begins()
        for numbers in map(torch.from_numpy, data.batches(epoch)):
            optimiser.zero_grad()
            loss = functional.cross_entropy(scores(samples[numbers]), labels[numbers])
            loss.backward()
            optimiser.step()
            recorder.step_ends(loss.detach(), len(numbers))
        recorder.evaluation_begins()
        model.eval()
        with torch.no_grad():
            outputs = np.concatenate([scores(samples[each]).numpy() for each in data.test_batches()])
        model.train()
        recorder.epoch_ends(*common.score(outputs, data.labels[: data.test]))


if __name__ == "__main__":
    main()
