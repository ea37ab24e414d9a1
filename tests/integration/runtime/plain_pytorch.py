"""A training as people write them: a data set with transforms, loaders, an optimizer, a schedule; nothing of modak's.

It says the loss of every step, with all of its digits.
"""

import argparse

import torch
from torch import nn
from torchvision import datasets, transforms


class Net(nn.Module):
    def __init__(self, dropout):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(1, 16, 3), nn.ReLU(), nn.Conv2d(16, 32, 3), nn.ReLU(), nn.MaxPool2d(2))
        self.drop = nn.Dropout(dropout)
        self.head = nn.Linear(32 * 12 * 12, 10)

    def forward(self, images):
        return self.head(self.drop(self.features(images).flatten(1)))


def evaluate(model, loader):
    model.eval()
    right = 0
    with torch.no_grad():
        for images, labels in loader:
            right += int((model(images).argmax(1) == labels).sum())
    print(f"Accuracy: {right}/{len(loader.dataset)}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--dropout", type=float, default=0.25)
    parser.add_argument("--workers", type=int, default=0)
    arguments = parser.parse_args()
    torch.manual_seed(1)

    steps = transforms.Compose([transforms.ToTensor(), transforms.Normalize((0.1307,), (0.3081,))])
    training_set = datasets.MNIST("../data", train=True, download=True, transform=steps)
    test_set = datasets.MNIST("../data", train=False, transform=steps)
    train_loader = torch.utils.data.DataLoader(training_set, batch_size=64, shuffle=True, num_workers=arguments.workers)
    test_loader = torch.utils.data.DataLoader(test_set, batch_size=100)
    model = Net(arguments.dropout)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.7)
    for _ in range(arguments.epochs):
        model.train()
        for images, labels in train_loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(images), labels)
            loss.backward()
            optimizer.step()
            print(f"Loss: {loss.item()!r}")
        evaluate(model, test_loader)
        scheduler.step()


if __name__ == "__main__":
    main()
