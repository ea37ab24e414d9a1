"""Which epoch a Keras model is in, as Keras itself tells its callbacks."""

import functools

from modak_runtime.curves import curves
from modak_runtime.report import warn


def follow(keras, progress):
    """Notes epochs and losses in a Progress."""
    listed = getattr(getattr(keras, "callbacks", None), "CallbackList", None)
    if listed is None:
        return
    begins, ends = listed.on_epoch_begin, listed.on_epoch_end

    @functools.wraps(begins)
    def on_epoch_begin(self, epoch, *arguments, **options):
        progress.epoch, progress.epochs = (
            _number(epoch, 1),
            _number((getattr(self, "params", None) or {}).get("epochs")),
        )
        return begins(self, epoch, *arguments, **options)

    @functools.wraps(ends)
    def on_epoch_end(self, epoch, logs=None, *arguments, **options):
        progress.take_loss(logs)
        _log(epoch, logs)
        return ends(self, epoch, logs, *arguments, **options)

    listed.on_epoch_begin, listed.on_epoch_end = on_epoch_begin, on_epoch_end


def _log(epoch, logs):
    try:
        curves().add(None, _number(epoch, 1), dict(logs or {}))
    except Exception as error:  # the border: whatever a backend or a model of the script's own gives
        warn("the metrics of an epoch were not recorded: %s" % error)


def _number(value, more=0):
    return value + more if isinstance(value, int) else None
