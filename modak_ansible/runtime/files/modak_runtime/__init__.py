"""Lets a plan's choices act in a training's process. It must be readable for Python 2.7, where it does nothing."""

import os
import sys

__all__ = ["prepare"]


def prepare(*objects):
    """Prepares models, optimizers and data loaders of PyTorch as the plan has chosen.

    ``model, optimizer, loader = modak_runtime.prepare(model, optimizer, loader)``, in any order and number, once they
    are on their device and before the first step. They come back in the same order, a single one by itself. Outside of
    a plan they come back untouched.
    """
    if objects and os.environ.get("MODAK_CHOICES") and sys.version_info >= (3, 8):
        from modak_runtime import hooks

        objects = hooks.prepared(objects)
    return objects[0] if len(objects) == 1 else objects
