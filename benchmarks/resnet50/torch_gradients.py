"""Compares the gradients of PyTorch's first step with the same computation in float64; Python 2.7 must read it too."""

from __future__ import absolute_import, division, print_function

import copy

from torch.nn import functional


def gradient_error(model, loss_of, images, labels):
    """Returns the largest relative error of a gradient tensor: |difference| / |float64's|, as Euclidean norms.

    Leaves the model as it was: the running statistics of its batch-norms are put back.

    Args:
        model: in training mode, of float32.
        loss_of: the model's mean loss as the training computes it, compiled or cast.
        images, labels: a batch.
    """
    before = copy.deepcopy(model.state_dict())
    reference = copy.deepcopy(model).double()
    functional.cross_entropy(reference(images.double()), labels).backward()
    loss_of(images, labels).backward()
    pairs = zip(model.parameters(), reference.parameters())
    errors = [float((own.grad.double() - exact.grad).norm() / exact.grad.norm()) for own, exact in pairs]
    model.load_state_dict(before)
    model.zero_grad()
    return max(errors)
