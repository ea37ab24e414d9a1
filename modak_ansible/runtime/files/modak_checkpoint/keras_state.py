"""The state of a model of Keras 3, with that of its optimizer and its metrics, and the callback that watches fit."""

import sys


def is_model(candidate):
    """Whether something is a model of the Keras that is imported."""
    keras = sys.modules.get("keras")
    return keras is not None and isinstance(candidate, keras.Model)


def problem(model):
    """Why the state of a model cannot be kept; empty where it can."""
    keras = sys.modules["keras"]
    if keras.__version__.startswith(("1.", "2.")):
        return "Keras %s is not supported: checkpoints need Keras 3" % keras.__version__
    if keras.backend.backend() not in ("tensorflow", "torch"):
        return "saving the state of Keras on %s is not supported" % keras.backend.backend()
    if not model.built or model.optimizer is None:
        return "the Keras model has not been built and compiled yet"
    return ""


class Model:
    """What has state_dict and load_state_dict in the place of a model; random seeds of its layers are among them."""

    def __init__(self, model):
        self._keras, self._model = sys.modules["keras"], model
        self.metrics = None  # those of the epoch that is gone on with, which fit resets when it begins
        self._restored, self._is_begun = 0, False
        if not model.optimizer.built:
            model.optimizer.build(model.trainable_variables)

    def state_dict(self):
        return {
            "variables": [self._value(variable) for variable in self._variables()],
            "metrics": [self._value(metrics_variable) for metrics_variable in self._model.metrics_variables],
        }

    def load_state_dict(self, state):
        variables = self._variables()
        if len(variables) != len(state["variables"]):
            raise ValueError("the checkpoint is from another model, with %d variables" % len(state["variables"]))
        for variable, value in zip(variables, state["variables"]):
            variable.assign(value)
        self.metrics = state["metrics"]

    def restore_metrics(self):
        """Lets the means of an epoch go on; to be called when fit has reset them, and after its first step.

        Some are made by that step: they have begun with it, and what they had before is added, as they add samples.
        """
        values, variables = self.metrics or [], self._model.metrics_variables
        for number in range(self._restored, min(len(values), len(variables))):
            variable, value = variables[number], values[number]
            variable.assign(variable + value if self._is_begun else value)
        self._restored, self._is_begun = len(variables), True
        if self._restored >= len(values):
            self.metrics = None

    def _variables(self):
        variables = [*self._model.variables, *self._model.optimizer.variables]
        return list({id(variable): variable for variable in variables}.values())

    def _value(self, variable):
        value = self._keras.ops.convert_to_numpy(variable)
        return value.astype("float32") if value.dtype.kind == "V" else value  # bfloat16, which NumPy has not


def callback(progress, parts, whole_epochs):
    """A callback that tells the progress of steps, or of whole epochs."""
    keras = sys.modules["keras"]
    models = [part for part in parts if isinstance(part, Model)]

    class Steps(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch, logs=None):  # noqa: ARG002 - as Keras calls them
            self._done = 0
            is_within = bool(progress.step)
            progress.goes_on()
            for model in models:
                if is_within and model.metrics is not None:
                    model.restore_metrics()
                else:
                    model.metrics = None

        def on_train_batch_end(self, batch, logs=None):  # noqa: ARG002
            steps, self._done = batch + 1 - self._done, batch + 1
            for model in models:
                if model.metrics is not None:
                    model.restore_metrics()
                    model.metrics = None
            if whole_epochs:
                progress.stop_if_asked()
            else:
                progress.step_ends(steps)

        def on_epoch_end(self, epoch, logs=None):  # noqa: ARG002
            if whole_epochs:
                progress.epoch_ends(epoch)

    return Steps()
