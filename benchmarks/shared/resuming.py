"""Going on after an interruption, where a job of modak-ansible offers it; anywhere else a training runs at one go.

It runs in the container of the training, which may be one of the paper's: Python 2.7 must read it too.
"""

from __future__ import absolute_import, division, print_function

try:
    from modak_checkpoint import resume
except ImportError:  # outside of a job

    class Unsaved(object):
        """What resume gives where nothing is saved."""

        epoch = step = 0

        def epochs(self, count):
            """Returns the numbers of all epochs."""
            return range(count)

        def batches(self, data):
            """Returns the data."""
            return data

        def step_ends(self, steps=1):
            """Does nothing."""

        def callback(self):
            """Returns a callback of Keras that does nothing."""
            import keras  # noqa: PLC0415 - only where it is the framework

            return keras.callbacks.Callback()

    def resume(**_objects):
        """Takes what has a state, and keeps nothing of it."""
        return Unsaved()


__all__ = ["resume"]
