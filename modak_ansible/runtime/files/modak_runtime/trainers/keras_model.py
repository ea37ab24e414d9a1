"""What acts in Keras 3, and in tf.keras of TensorFlow 2.6 and later, without a line in the script.

The modules are handed in: they are there when this is imported, and this need not be able to import them.
"""

import functools
import inspect
import math
import sys

from modak_runtime.trainers import keras_epochs, keras_input
from modak_runtime.trainers.common import guarded

_COMPILERS = {"tensorflow": "xla", "jax": "xla", "torch": "inductor"}


def tensorflow_imported(tensorflow, report, _steps):
    """Acts as soon as TensorFlow is imported; before 2.0 it has no eager Keras, and nothing is done."""
    planned = report.planned.get("precision")
    if planned not in ("tf32", "fp32") or tensorflow.__version__.startswith(("0.", "1.")):
        return
    if planned == "tf32" and not tensorflow.config.list_physical_devices("GPU"):
        report.refused("precision", "tf32 needs an NVIDIA GPU", "import")
        return
    tensorflow.config.experimental.enable_tensor_float_32_execution(planned == "tf32")
    report.applied("precision", "import")


def imported(keras, report, steps):
    """Acts as soon as Keras is imported, before the script makes a layer."""
    model = getattr(keras, "Model", None)
    if model is None or not hasattr(model, "make_train_function"):
        report.mistakes.append("Keras %s is not supported" % getattr(keras, "__version__", ""))
        return
    if report.planned.get("precision") == "bf16":
        _set_policy(keras)
    if "memory_format" in report.planned:
        report.refused("memory_format", "a Keras model is built for one memory format", "keras")
    if report.planned.get("pipeline_tuning") == "off":
        keras_input.leave_untuned(backend_of(keras), report)
    _Hooks(keras, report, steps).put_in(model)
    keras_epochs.follow(keras, steps.progress)


def _set_policy(keras):
    setting = getattr(getattr(keras, "config", None), "set_dtype_policy", None)
    (setting or keras.mixed_precision.set_global_policy)("mixed_bfloat16")


def backend_of(keras):
    """The name of what computes; Keras 2 has TensorFlow only."""
    name = getattr(getattr(keras, "config", None), "backend", None) or getattr(keras.backend, "backend", None)
    return name() if name else "tensorflow"


class _Hooks:
    """Takes the places of compile, fit and make_train_function, and calls them."""

    def __init__(self, keras, report, steps):
        self._keras, self._report, self._steps = keras, report, steps
        self._planned = report.planned

    def put_in(self, model):
        """Puts them into the class of all models."""
        self._compile, self._fit, self._make = model.compile, model.fit, model.make_train_function
        hooks = self

        @functools.wraps(self._compile)
        def compile(self, *arguments, **options):
            options = hooks._guarded(hooks._compile_options, self, arguments, options) or options
            result = hooks._compile(self, *arguments, **options)
            hooks._guarded(hooks._compiled, self)
            return result

        @functools.wraps(self._fit)
        def fit(self, *arguments, **options):
            arguments = hooks._guarded(hooks._fit_begins, self, arguments, options) or arguments
            return hooks._fit(self, *arguments, **options)

        @functools.wraps(self._make)
        def make_train_function(self, *arguments, **options):
            result = hooks._make(self, *arguments, **options)
            hooks._guarded(hooks._count_steps, self)
            return self.train_function if result is not None else None

        model.compile, model.fit, model.make_train_function = compile, fit, make_train_function

    def _guarded(self, act, *arguments):
        return guarded(self._report, act.__name__, act, *arguments)

    # --- compile

    def _compile_options(self, model, arguments, options):
        """The options of compile as they are planned; what the script says itself stands."""
        signature = inspect.signature(self._compile)
        script_options = dict(signature.bind_partial(model, *arguments, **options).arguments)
        planned = dict(options)
        for name, option, value in self._planned_options(signature):
            script_value = script_options.get(option)
            if script_value not in (None, "auto") and script_value != value:
                self._report.refused(name, "the script itself sets %s=%r" % (option, script_value), "keras")
            elif option not in script_options or option in options:
                planned[option] = value
        return planned

    def _planned_options(self, signature):
        """What compile is to be told: the choice, its option, and its value."""
        compiler = self._planned.get("compiler")
        if compiler is not None:
            backend = backend_of(self._keras)
            if "jit_compile" not in signature.parameters:
                self._report.refused("compiler", "this release of Keras has no jit_compile", "keras")
            elif compiler not in ("none", _COMPILERS.get(backend)):
                self._report.refused("compiler", "Keras on %s does not have it" % backend, "keras")
            else:
                yield "compiler", "jit_compile", compiler != "none"
        if "steps_per_execution" in self._planned and "steps_per_execution" in signature.parameters:
            yield "steps_per_execution", "steps_per_execution", int(self._planned["steps_per_execution"])

    def _compiled(self, model):
        """Looks at what Keras made of it."""
        compiler = self._planned.get("compiler")
        is_compiled = getattr(model, "jit_compile", getattr(model, "_jit_compile", None))
        if compiler is not None and is_compiled is not None and not self._report.is_refused("compiler"):
            if bool(is_compiled) == (compiler != "none"):
                self._report.applied("compiler", "keras")
            else:
                self._report.refused("compiler", "Keras changed it to jit_compile=%r" % is_compiled, "keras")
        planned = self._planned.get("steps_per_execution")
        if planned is not None and str(_at_once(model)) == planned:
            self._report.applied("steps_per_execution", "keras")

    # --- fit

    def _fit_begins(self, model, arguments, options):
        """Notes the loop, and gives the arguments with the input as it is planned."""
        if self._planned.get("precision") == "bf16":
            self._look_at_layers(model)
        bound = inspect.signature(self._fit).bind_partial(model, *arguments, **options).arguments
        data = bound.get("x")
        samples, batch = keras_input.size_of(data, bound.get("batch_size"))
        self._steps.loop_begins(batch, samples)
        if "input" not in self._planned:
            return arguments
        planned_data = keras_input.kept(sys.modules.get("tensorflow"), self._report, data)
        if "x" in options:
            options["x"] = planned_data
            return arguments
        return (planned_data,) + tuple(arguments[1:]) if arguments else arguments

    def _look_at_layers(self, model):
        formats = {getattr(layer, "compute_dtype", None) for layer in model.layers}
        if "bfloat16" in formats:
            self._report.applied("precision", "keras")
        else:
            self._report.refused("precision", "the script sets the number formats of its layers itself", "keras")

    def _count_steps(self, model):
        """Puts the clock around the function of one step, or of several."""
        train = model.train_function
        if train is None or getattr(train, "_modak_counted", False):
            return
        steps, count_weights = self._steps, self._count_weights
        is_rescued = self._planned.get("compiler") in ("xla", "inductor") and backend_of(self._keras) != "jax"
        rescue = self._rescue if is_rescued else None  # of JAX, a step that failed has taken the state with it

        def counted(*arguments):  # an iterator; on JAX the state before it
            if steps.count:
                logs = train(*arguments)
            else:
                count_weights(model)
                logs = rescue(model, train, *arguments) if rescue else train(*arguments)
            if steps.step(_at_once(model)):
                steps.progress.take_loss(logs[0] if isinstance(logs, tuple) else logs)  # on JAX with the state
            return logs

        counted._modak_counted = True
        model.train_function = counted

    def _count_weights(self, model):
        weights = getattr(model, "trainable_weights", ())
        self._steps.parameters = sum(math.prod(map(int, weight.shape)) for weight in weights)

    def _rescue(self, model, train, iterator):
        """The first step; where the compiler fails, this and all that follow as the script has them.

        The batch that the compiler failed with is not learnt from.
        """
        try:
            return train(iterator)
        except Exception as error:  # whatever a compiler raises: anything else comes again in the second attempt
            if not getattr(model, "jit_compile", False):
                raise
            self._report.withdrawn("compiler", "it failed: %s" % str(error).strip().split("\n", 1)[0][:200], "keras")
            model.jit_compile = False
            self._make(model, force=True)
            uncompiled = model.train_function
            self._count_steps(model)
            return uncompiled(iterator)


def _at_once(model):
    """How many steps one call makes."""
    steps = getattr(model, "steps_per_execution", None) or getattr(model, "_steps_per_execution", None) or 1
    return int(steps.numpy()) if hasattr(steps, "numpy") else int(steps)
