"""The MNIST-CNN in PyTorch, 1.4 (with Python 2.7) to today's; what is not switched on is the plain way."""

from __future__ import absolute_import, division, print_function

import os
import shutil
from contextlib import contextmanager

import common
import numpy as np
import reference
import torch
from arguments import refuse
from dataset import batches
from products import multiply_by_onednn
from recorder import Recorder
from resuming import resume
from torch import nn
from torch.nn import functional

SWITCHES = {
    "memory_format": ("contiguous", "channels_last"),
    "compiler": ("none", "inductor"),
    "precision": ("fp32", "tf32", "bf16", "fp16"),
    "matmul": ("default", "onednn"),
    "input": ("memory", "loader"),
    "step_loop": ("plain", "whole"),
}


class Network(nn.Module):
    """Two convolutions and two dense layers; takes images (batch, 1, 28, 28), gives scores (batch, 10)."""

    def __init__(self, dropout):
        super(Network, self).__init__()
        self.convolution1 = nn.Conv2d(1, 32, 3)
        self.convolution2 = nn.Conv2d(32, 64, 3)
        self.dropout1 = nn.Dropout(0.25 * dropout)
        self.dense1 = nn.Linear(12 * 12 * 64, 128)
        self.dropout2 = nn.Dropout(0.5 * dropout)
        self.dense2 = nn.Linear(128, 10)

    def forward(self, images):
        x = functional.relu(self.convolution1(images))
        x = functional.relu(self.convolution2(x))
        x = self.dropout1(functional.max_pool2d(x, 2)).flatten(1)
        x = self.dropout2(functional.relu(self.dense1(x)))
        return self.dense2(x)  # the softmax is part of cross_entropy

    def layers(self):
        """Returns the four layers that have weights."""
        return self.convolution1, self.convolution2, self.dense1, self.dense2


def set_weights(model, seed):
    """Starts from the weights that every framework starts from.

    They come as (rows, columns, inputs, outputs) and for images flattened with the channels last; PyTorch keeps
    (outputs, inputs, rows, columns) and flattens with the channels first.
    """
    convolution1, convolution2, dense1, dense2 = map(torch.from_numpy, common.initial_weights(seed))
    with torch.no_grad():
        model.convolution1.weight.copy_(convolution1.permute(3, 2, 0, 1))
        model.convolution2.weight.copy_(convolution2.permute(3, 2, 0, 1))
        model.dense1.weight.copy_(dense1.reshape(12, 12, 64, 128).permute(3, 2, 0, 1).flatten(1))
        model.dense2.weight.copy_(dense2.t())
        for layer in model.layers():
            layer.bias.zero_()


def gradients_of(model):
    """Returns the gradients in the order and the shapes of common.WEIGHTS, each followed by its bias's."""
    convolution1, convolution2, dense1, dense2 = (layer.weight.grad for layer in model.layers())
    kernels = (
        convolution1.permute(2, 3, 1, 0),
        convolution2.permute(2, 3, 1, 0),
        dense1.reshape(128, 64, 12, 12).permute(2, 3, 1, 0).reshape(12 * 12 * 64, 128),
        dense2.t(),
    )
    pairs = zip(kernels, (layer.bias.grad for layer in model.layers()))
    return [np.array(tensor.float().cpu()) for pair in pairs for tensor in pair]


class Images(torch.utils.data.Dataset):
    """One image after the other from bytes to a tensor, as PyTorch's MNIST example does, which also normalises it."""

    def __init__(self, images, labels):
        self.images, self.labels = np.rint(images * 255).astype(np.uint8), labels.tolist()

    def __len__(self):
        return len(self.images)

    def __getitem__(self, number):
        return torch.from_numpy(self.images[number]).unsqueeze(0).float().div(255), self.labels[number]


class Training(object):
    """The network with its optimiser, as the switches want them."""

    def __init__(self, arguments, device):
        self.arguments, self.device = arguments, device
        self.model = Network(arguments.dropout)
        set_weights(self.model, arguments.seed)
        self.model.to(device)
        if arguments.memory_format == "channels_last":
            self.model.to(memory_format=torch.channels_last)
        rate = arguments.learning_rate
        self.optimizer = torch.optim.Adadelta(self.model.parameters(), lr=rate, rho=common.RHO, eps=common.EPSILON)
        self.scaler = torch.amp.GradScaler("cuda") if arguments.precision == "fp16" else None
        self.forward, self.step = self.model, self._step
        if arguments.compiler == "inductor":  # for each batch size of its own: the last batch is a smaller one
            if arguments.step_loop == "whole":
                self.step = torch.compile(self._step, dynamic=False)
            else:
                self.forward = torch.compile(self.model, dynamic=False)

    def parts(self):
        """Returns what has a state, by name."""
        parts = {"model": self.model, "optimizer": self.optimizer, "scaler": self.scaler}
        return {name: part for name, part in parts.items() if part is not None}

    def _step(self, images, labels):
        """Learns from one batch; returns its mean loss."""
        self.optimizer.zero_grad()
        loss = self.loss(self.forward, images, labels)
        if self.scaler is None:
            loss.backward()
            self.optimizer.step()
        else:
            self.scaler.scale(loss).backward()
            self.scaler.step(self.optimizer)
            self.scaler.update()
        return loss.detach()

    def loss(self, forward, images, labels, reduction="mean"):
        return functional.cross_entropy(self.scores(forward, images), labels, reduction=reduction)

    def scores(self, forward, images):
        with autocast(self.device, self.arguments.precision):
            scores = forward(images)
        return scores.float()

    def gradients(self, images, labels):
        """Returns the gradients of a batch of numpy arrays, without dropout."""
        self.model.eval()
        images = self.images_as_tensor(images)
        self.loss(self.model, images, torch.from_numpy(labels).to(self.device)).backward()
        gradients = gradients_of(self.model)
        self.optimizer.zero_grad()
        return gradients

    def evaluate(self, images, labels):
        """Returns the mean loss and the share of right answers."""
        self.model.eval()
        loss, right = 0.0, 0
        with torch.no_grad():
            for x, y in zip(images.split(common.EVALUATION_BATCH), labels.split(common.EVALUATION_BATCH)):
                scores = self.scores(self.model, x)
                loss += functional.cross_entropy(scores, y, reduction="sum").item()
                right += int((scores.argmax(dim=1) == y).sum())
        return loss / len(labels), right / len(labels)

    def images_as_tensor(self, images):
        """Returns images as (count, 1 channel, rows, columns) where and how the network wants them.

        With one channel, both memory formats are the same bytes.
        """
        return torch.from_numpy(images).unsqueeze(1).to(self.device)


@contextmanager
def autocast(device, precision):
    """Computes in a smaller number format what bears it."""
    if precision in ("bf16", "fp16"):
        with torch.autocast(device.type, dtype=torch.bfloat16 if precision == "bf16" else torch.float16):
            yield
    else:
        yield


def check_switches(arguments, device):
    """Refuses what this PyTorch or this machine has not got."""
    version, gpu = "PyTorch " + torch.__version__, device.type == "cuda"
    if arguments.memory_format == "channels_last" and torch.__version__.startswith(("0.", "1.4.")):
        refuse("memory_format", "channels_last", version + " has it from 1.5 on")
    if arguments.compiler == "inductor":
        if not hasattr(torch, "compile"):
            refuse("compiler", "inductor", version + " has no compiler")
        if not gpu and not shutil.which(os.environ.get("CXX", "g++")):
            refuse("compiler", "inductor", "it needs a C++ compiler, and there is none here")
    elif arguments.step_loop == "whole":
        refuse("step_loop", "whole", "it is compiled: it needs --compiler inductor")
    precision = arguments.precision
    if precision != "fp32" and not hasattr(torch, "autocast"):
        refuse("precision", precision, version + " has only fp32")
    if precision in ("tf32", "fp16") and not gpu:
        refuse("precision", precision, "it needs an NVIDIA GPU")
    if arguments.matmul == "onednn" and (gpu or not hasattr(getattr(torch.backends, "mkldnn", None), "matmul")):
        refuse("matmul", "onednn", "it is for processors" if gpu else version + " cannot choose the library")


def configure(arguments, device):
    """Sets what holds for the whole process."""
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(arguments.seed)  # the dropout's
    if device.type == "cuda":
        tf32 = arguments.precision == "tf32"
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = tf32
    if arguments.matmul == "onednn":
        multiply_by_onednn()


def epoch_batches(arguments, data, training, epoch):
    """Yields the images and labels of each step of an epoch, on the device.

    The data held in memory are made tensors once, before the first epoch.
    """
    if arguments.input == "loader":
        gpu = training.device.type == "cuda"  # as the example has it: a worker and pinned memory for a GPU only
        steps = batches(len(data[0]), arguments.batch_size, arguments.seed, epoch)
        for x, y in torch.utils.data.DataLoader(data[2], batch_sampler=steps, num_workers=int(gpu), pin_memory=gpu):
            yield x.to(training.device), y.to(training.device)
        return
    images, labels, _ = data
    order = np.concatenate(batches(len(images), arguments.batch_size, arguments.seed, epoch))
    for numbers in torch.from_numpy(order).to(training.device).split(arguments.batch_size):
        yield images[numbers], labels[numbers]


def main():
    """Trains and measures, as the command line asks."""
    arguments = common.parse_arguments("PyTorch", SWITCHES)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    check_switches(arguments, device)
    gpu = device.type == "cuda"
    versions = [("torch", torch.__version__)] + ([("cuda", torch.version.cuda)] if gpu else [])
    synchronise = torch.cuda.synchronize if gpu else None
    recorder = Recorder(common.WORKLOAD, arguments, "PyTorch", versions, synchronise, deferred=gpu)
    configure(arguments, device)
    training = Training(arguments, device)

    with recorder.timed("load_data"):
        data = common.load_data(arguments)
        test_images, test_labels = training.images_as_tensor(data.test_images), torch.from_numpy(data.test_labels)
        test_labels = test_labels.to(device)
        if arguments.input == "memory":
            images, labels = training.images_as_tensor(data.train_images), torch.from_numpy(data.train_labels)
            source = images, labels.to(device), None
        else:
            source = data.train_images, data.train_labels, Images(data.train_images, data.train_labels)

    if arguments.check_gradients:
        reference.check(arguments, data, recorder, training.gradients)
    progress = resume(recorder=recorder, **training.parts())
    common.begin(recorder, data, sum(p.numel() for p in training.model.parameters() if p.requires_grad))
    for epoch in progress.epochs(arguments.epochs):
        training.model.train()
        recorder.epoch_begins()
        for images, labels in progress.batches(epoch_batches(arguments, source, training, epoch)):
            recorder.step_ends(training.step(images, labels), len(images))
        recorder.evaluation_begins()
        recorder.epoch_ends(*training.evaluate(test_images, test_labels))


if __name__ == "__main__":
    main()
