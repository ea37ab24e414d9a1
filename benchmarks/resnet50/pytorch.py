"""ResNet50 in PyTorch: 1.4 under Python 2.7 as well as today's."""

from __future__ import absolute_import, division, print_function

from collections import OrderedDict

import architecture
import feeding
import numpy as np
import torch
from arguments import refuse
from feeding import Feed, Score
from products import multiply_by_onednn
from recorder import Recorder
from torch import nn
from torch.nn import functional
from torch_gradients import gradient_error

SWITCHES = {
    "memory_format": ("contiguous", "channels_last"),
    "compiler": ("none", "inductor"),
    "precision": ("fp32", "tf32", "bf16"),
    "matmul": ("default", "onednn"),
    "input": ("memory", "stream"),
}


def unit(convolution):
    """A convolution without bias and the batch-norm behind it."""
    given = convolution
    padding = (given.kernel - 1) // 2
    return nn.Sequential(
        nn.Conv2d(given.inputs, given.outputs, given.kernel, given.stride, padding, bias=False),
        nn.BatchNorm2d(given.outputs, architecture.EPSILON, 1 - architecture.MOMENTUM),
    )


class Block(nn.Module):
    """Three convolutions, and what goes around them."""

    def __init__(self, block):
        super(Block, self).__init__()
        for role, convolution in architecture.block_convolutions(block).items():
            self.add_module(role, unit(convolution))
        self.has_shortcut = architecture.has_shortcut(block)

    def forward(self, images):
        """Takes and gives (batch, channels, height, width)."""
        inside = functional.relu(self.first(images), inplace=True)
        inside = functional.relu(self.middle(inside), inplace=True)
        around = self.shortcut(images) if self.has_shortcut else images
        return functional.relu(self.last(inside) + around, inplace=True)


class Network(nn.Module):
    """Takes images (batch, 3, height, width), gives scores (batch, classes)."""

    def __init__(self, classes):
        super(Network, self).__init__()
        self.stem = unit(architecture.STEM)
        self.blocks = nn.Sequential(OrderedDict((block.name, Block(block)) for block in architecture.blocks()))
        self.dense = nn.Linear(architecture.FEATURES, classes)

    def forward(self, images):
        """Gives the scores; the softmax is part of the loss."""
        inside = functional.relu(self.stem(images), inplace=True)
        inside = self.blocks(functional.max_pool2d(inside, 3, 2, 1))
        return self.dense(inside.mean((2, 3)))


def set_weights(model, weights):
    """Starts from the weights that every framework starts from."""
    model.stem[0].weight.data = _kernel(weights[architecture.STEM.name])
    for block in architecture.blocks():
        module = getattr(model.blocks, block.name)
        for role, convolution in architecture.block_convolutions(block).items():
            getattr(module, role)[0].weight.data = _kernel(weights[convolution.name])
    model.dense.weight.data = torch.from_numpy(weights["dense"].T.copy())
    model.dense.bias.data = torch.from_numpy(weights["dense_bias"])


def _kernel(values):
    return torch.from_numpy(np.ascontiguousarray(values.transpose(3, 2, 0, 1)))


def apply_switches(arguments, device):
    """Sets what counts for the whole process; refuses what this PyTorch or this machine has not got."""
    given = arguments.switches
    if given["precision"] == "tf32" and device.type != "cuda":
        refuse("precision", "tf32", "an NVIDIA GPU computes so, and there is none")
    if given["precision"] == "bf16" and not hasattr(torch, "autocast"):
        refuse("precision", "bf16", "PyTorch %s has no autocast" % torch.__version__)
    if given["compiler"] == "inductor" and not hasattr(torch, "compile"):
        refuse("compiler", "inductor", "PyTorch %s has no torch.compile" % torch.__version__)
    if given["memory_format"] == "channels_last" and not convolves_channels_last(device):
        refuse("memory_format", "channels_last", "PyTorch %s convolves contiguous images only" % torch.__version__)
    if given["matmul"] == "onednn":
        if device.type == "cuda":
            refuse("matmul", "onednn", "it is for processors")
        if not hasattr(getattr(torch.backends, "mkldnn", None), "matmul"):
            refuse("matmul", "onednn", "PyTorch %s cannot choose the library" % torch.__version__)
        multiply_by_onednn()
    if device.type == "cuda" and hasattr(torch.backends.cuda.matmul, "allow_tf32"):
        torch.backends.cuda.matmul.allow_tf32 = given["precision"] == "tf32"
        torch.backends.cudnn.allow_tf32 = given["precision"] == "tf32"  # on, unless told otherwise
    torch.set_num_threads(arguments.threads)


def convolves_channels_last(device):
    """Says whether a convolution keeps the format; PyTorch 1.4 takes it on a processor, and converts."""
    images = torch.zeros(1, 8, 4, 4, device=device).contiguous(memory_format=torch.channels_last)
    convolution = nn.Conv2d(8, 8, 3).to(device)
    return convolution(images).is_contiguous(memory_format=torch.channels_last)


def autocast(arguments, device):
    """Returns what computes in bf16 where it is a gain, and nothing else changed; PyTorch 1.4 never gets here."""
    return torch.autocast(device.type, torch.bfloat16, enabled=arguments.switches["precision"] == "bf16")


def loss_function(model, arguments, device):
    """Returns what computes the mean loss of images (batch, 3, height, width) and labels (batch)."""

    def plain(images, labels):
        return functional.cross_entropy(model(images), labels)

    def cast(images, labels):
        with autocast(arguments, device):
            return plain(images, labels)

    return cast if arguments.switches["precision"] == "bf16" else plain


def evaluate(model, feed):
    """Returns the mean loss and the share of right answers on the test images."""
    score = Score()
    model.eval()
    with torch.no_grad():
        for images, labels in feed.test_batches():
            score.add(model(images).float().cpu().numpy(), labels.cpu().numpy())
    model.train()
    return score.result()


def main():
    """Trains and measures, as the command line asks."""
    arguments = feeding.parse_arguments("PyTorch", SWITCHES)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    synchronise = torch.cuda.synchronize if device.type == "cuda" else None
    versions = [("torch", str(torch.__version__))]
    recorder = Recorder(feeding.workload(arguments), arguments, "PyTorch", versions, synchronise, device.type == "cuda")
    apply_switches(arguments, device)
    channels_last = arguments.switches["memory_format"] == "channels_last"
    layout = torch.channels_last if channels_last else torch.contiguous_format

    def place(images, labels):
        images = torch.from_numpy(images.transpose(0, 3, 1, 2)).to(device)
        return images.contiguous(memory_format=layout), torch.from_numpy(labels).to(device)

    with recorder.timed("load_data"):
        feed = Feed(arguments, place)

    model = Network(arguments.classes)
    set_weights(model, architecture.initial_weights(arguments.seed, arguments.classes))
    model = model.to(device).train()
    for parameter in model.parameters():  # Module.to(memory_format=...) is younger than PyTorch 1.4
        if parameter.dim() == 4:
            parameter.data = parameter.data.contiguous(memory_format=layout)
    computed = torch.compile(model, dynamic=False) if arguments.switches["compiler"] == "inductor" else model
    loss_of = loss_function(computed, arguments, device)
    if arguments.check_gradients:
        images, labels = next(iter(feed.training_batches(0)))
        recorder.gradients_checked(gradient_error(model, loss_of, images.contiguous(memory_format=layout), labels))
    optimiser = torch.optim.SGD(
        model.parameters(), arguments.learning_rate, feeding.SGD_MOMENTUM, weight_decay=feeding.WEIGHT_DECAY
    )

    trainable = sum(p.numel() for p in model.parameters() if p.requires_grad)
    recorder.training_begins(feed.dataset, len(feed.train), len(feed.test), trainable)
    for epoch in range(arguments.epochs):
        recorder.epoch_begins()
        for images, labels in feed.training_batches(epoch):
            optimiser.zero_grad()
            loss = loss_of(images.contiguous(memory_format=layout), labels)
            loss.backward()
            optimiser.step()
            recorder.step_ends(loss.detach(), len(labels))
        recorder.evaluation_begins()
        recorder.epoch_ends(*evaluate(computed, feed))


if __name__ == "__main__":
    main()
