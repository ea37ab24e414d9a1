"""The MNIST-CNN in PyTorch, the plain way: data in memory as tensors, one training loop, nothing tuned."""

import common
import numpy as np
import torch
from dataset import batches
from recorder import Recorder
from torch import nn
from torch.nn import functional


class Network(nn.Module):
    """Two convolutions and two dense layers; takes images (batch, 1, 28, 28), gives scores (batch, 10)."""

    def __init__(self, dropout: float) -> None:
        super().__init__()
        self.convolution1 = nn.Conv2d(1, 32, 3)
        self.convolution2 = nn.Conv2d(32, 64, 3)
        self.dropout1 = nn.Dropout(0.25 * dropout)
        self.dense1 = nn.Linear(12 * 12 * 64, 128)
        self.dropout2 = nn.Dropout(0.5 * dropout)
        self.dense2 = nn.Linear(128, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        x = functional.relu(self.convolution1(images))
        x = functional.relu(self.convolution2(x))
        x = self.dropout1(functional.max_pool2d(x, 2)).flatten(1)
        x = self.dropout2(functional.relu(self.dense1(x)))
        return self.dense2(x)  # the softmax is part of cross_entropy


def set_weights(model: Network, seed: int) -> None:
    """Starts from the weights that every framework starts from.

    They come as (rows, columns, inputs, outputs) and for images flattened with the channels last; PyTorch keeps
    (outputs, inputs, rows, columns) and flattens with the channels first.
    """
    convolution1, convolution2, dense1, dense2 = map(torch.from_numpy, common.initial_weights(seed))
    with torch.no_grad():
        model.convolution1.weight.copy_(convolution1.permute(3, 2, 0, 1))
        model.convolution2.weight.copy_(convolution2.permute(3, 2, 0, 1))
        model.dense1.weight.copy_(dense1.reshape(12, 12, 64, 128).permute(3, 2, 0, 1).flatten(1))
        model.dense2.weight.copy_(dense2.T)
        for layer in (model.convolution1, model.convolution2, model.dense1, model.dense2):
            layer.bias.zero_()


def train_step(
    model: Network, optimizer: torch.optim.Optimizer, images: torch.Tensor, labels: torch.Tensor
) -> torch.Tensor:
    """Learns from one batch; returns its mean loss."""
    optimizer.zero_grad()
    loss = functional.cross_entropy(model(images), labels)
    loss.backward()
    optimizer.step()
    return loss


@torch.no_grad()
def evaluate(model: Network, images: torch.Tensor, labels: torch.Tensor) -> tuple[float, float]:
    """Returns the mean loss and the share of right answers."""
    model.eval()
    loss, right = 0.0, 0
    for x, y in zip(images.split(common.EVALUATION_BATCH), labels.split(common.EVALUATION_BATCH), strict=True):
        scores = model(x)
        loss += functional.cross_entropy(scores, y, reduction="sum").item()
        right += int((scores.argmax(dim=1) == y).sum())
    return loss / len(labels), right / len(labels)


def images_as_tensor(images: np.ndarray) -> torch.Tensor:
    """Returns images as (count, 1 channel, rows, columns)."""
    return torch.from_numpy(images).unsqueeze(1)


def main() -> None:
    """Trains and measures, as the command line asks."""
    arguments = common.parse_arguments("PyTorch", {})
    recorder = Recorder(common.WORKLOAD, arguments, "PyTorch", [("torch", torch.__version__)])
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(arguments.seed)  # the dropout's

    with recorder.timed("load_data"):
        data = common.load_data(arguments)
        images, labels = images_as_tensor(data.train_images), torch.from_numpy(data.train_labels)
        test_images, test_labels = images_as_tensor(data.test_images), torch.from_numpy(data.test_labels)

    model = Network(arguments.dropout)
    set_weights(model, arguments.seed)
    optimizer = torch.optim.Adadelta(model.parameters(), lr=arguments.learning_rate, rho=common.RHO, eps=common.EPSILON)

    common.begin(recorder, data, sum(p.numel() for p in model.parameters() if p.requires_grad))
    for epoch in range(arguments.epochs):
        model.train()
        recorder.epoch_begins()
        for batch in batches(len(images), arguments.batch_size, arguments.seed, epoch):
            loss = train_step(model, optimizer, images[batch], labels[batch])
            recorder.step_ends(loss.item(), len(batch))
        recorder.evaluation_begins()
        recorder.epoch_ends(*evaluate(model, test_images, test_labels))


if __name__ == "__main__":
    main()
