"""Saves the state of a training while it runs, and goes on from it when its job runs again.

Outside of a job with checkpoints nothing is saved. It must be readable for Python 2.7, where that is so, too.
"""

import os
import sys

__all__ = ["resume"]


def resume(**objects):
    """Goes on from the newest checkpoint, where there is one, and saves from now on.

    ``progress = modak_checkpoint.resume(model=model, optimizer=optimizer, scheduler=scheduler)``, once everything is
    made and before the first step. What is given has ``state_dict`` and ``load_state_dict``, or is a model of Keras 3
    that is built and compiled; it is given back the state that it had.

    Returns:
        what counts the epochs and steps: see Progress, or Unsaved where nobody asks for checkpoints.
    """
    if os.environ.get("MODAK_CHECKPOINTS") and sys.version_info >= (3, 8):
        from modak_checkpoint import beginning

        return beginning.begin(os.environ, objects) or Unsaved()
    return Unsaved()


class Unsaved(object):
    """Where nothing is saved: loops run as if they stood alone."""

    epoch = step = 0

    def epochs(self, count):
        """The numbers of all epochs."""
        return range(count)

    def batches(self, data):
        """The data."""
        return data

    def step_ends(self, steps=1):
        """Does nothing."""

    def callback(self, whole_epochs=False):  # noqa: ARG002
        """A callback of Keras that does nothing."""
        import keras

        return keras.callbacks.Callback()
