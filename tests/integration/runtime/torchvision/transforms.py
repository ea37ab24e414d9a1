"""The three transforms that trainings with MNIST begin with."""

import torch


class Compose:
    def __init__(self, transforms):
        self.transforms = transforms

    def __call__(self, image):
        for transform in self.transforms:
            image = transform(image)
        return image


class ToTensor:
    """From (rows, columns) of bytes to (1, rows, columns) between 0 and 1."""

    def __call__(self, image):
        return torch.from_numpy(image.copy()).unsqueeze(0).float().div(255)


class Normalize:
    def __init__(self, mean, std):
        self.mean, self.std = torch.tensor(mean).view(-1, 1, 1), torch.tensor(std).view(-1, 1, 1)

    def __call__(self, tensor):
        return tensor.sub(self.mean).div(self.std)
