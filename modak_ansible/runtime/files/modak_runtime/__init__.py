"""Lets a plan's choices act in a training's process. It must be readable for Python 2.7, where it does nothing."""

import os
import sys

__all__ = ["load_onnx", "log", "mean", "prepare"]


def prepare(*objects):
    """Prepares models, optimizers and data loaders of PyTorch as the plan has chosen.

    ``model, optimizer, loader = modak_runtime.prepare(model, optimizer, loader)``, in any order and number, once they
    are on their device and before the first step. They come back in the same order, a single one by itself. Outside of
    a plan they come back untouched. In one of several processes of a plan they train together with the others'.
    """
    if objects and (os.environ.get("MODAK_CHOICES") or os.environ.get("MODAK_STRATEGY")) and sys.version_info >= (3, 8):
        from modak_runtime import hooks

        objects = hooks.prepared(objects)
    return objects[0] if len(objects) == 1 else objects


def mean(value, weight=None):
    """The mean of a number or a tensor over all processes that prepare has made parallel; alone, what it is given.

    All of them must call it, as often as each other.

    Args:
        value: of this process, such as the loss of its part of a batch; the same shape in all.
        weight: how much it counts, such as the number of its samples; without it, as the part of the batch that the
            training's loader gave last.
    """
    processes = sys.modules.get("modak_runtime.parallel.processes")
    ranks = processes.here() if processes else None
    return value if ranks is None else ranks.mean(value, weight)


def log(step=None, epoch=None, **numbers):
    """Keeps numbers of a moment: ``modak_runtime.log(step=120, loss=loss, accuracy=0.9)``, as often as is liked.

    modak status and modak logs show them while the job runs, modak compare and modak export have all of them. Outside
    of a job, and in all but the first of several processes, nothing is kept.

    Args:
        step, epoch: numbers; without both, the moments are counted.
        numbers: by any names; whatever float() takes, such as a tensor with one element. One called time, timestamp or
            wall_time is kept as logged.time and so on: when the moment was is noted under these anyway.

    Raises:
        TypeError, ValueError: it is no number.
    """
    if os.environ.get("MODAK_METRICS") and sys.version_info >= (3, 8):
        from modak_runtime import curves, hooks

        hooks.install()
        curves.curves().add(step, epoch, numbers)


def load_onnx(path):
    """A model in ONNX form as a module of PyTorch's that can be trained, in a job whose image has onnx and onnx2torch.

    All that the file holds as weights are parameters, also where onnx2torch makes constants of them.

    Raises:
        ImportError: onnx or onnx2torch is not there.
        ValueError: it is no such model, or has operators that cannot be trained, or weights in several operators that
            would be trained apart.
    """
    from modak_runtime import onnx_model

    return onnx_model.load(path)
