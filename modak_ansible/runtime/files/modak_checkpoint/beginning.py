"""How a training is gone on with: what is given, and what the job's environment asks for."""

import importlib
import inspect
import sys

from modak_runtime.report import warn

from modak_checkpoint import keras_state
from modak_checkpoint.forms import Arrays, Tensors
from modak_checkpoint.progress import Progress
from modak_checkpoint.store import Store
from modak_checkpoint.together import Alone, crew

# Whoever starts the processes of a parallel training counts them.
_SIZES = ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE")


def begin(environment, objects):
    """The progress of a training; None where its state cannot be kept, which is said.

    Args:
        environment: that of the job: MODAK_CHECKPOINTS the folder, MODAK_CHECKPOINT_EVERY seconds, MODAK_STOP the file.
        objects: what has a state, by name.

    Raises:
        TypeError: one of them has none.
    """
    for name, part in objects.items():
        if not keras_state.is_model(part) and not (hasattr(part, "state_dict") and hasattr(part, "load_state_dict")):
            message = "%s is of type %s, which is not a Keras model and lacks state_dict or load_state_dict"
            raise TypeError(message % (name, type(part).__name__))
    models = [part for part in objects.values() if keras_state.is_model(part)]
    torch = None if models else sys.modules.get("torch")
    problem = _parallel(environment)
    team = crew(environment, torch, _is_on_gpu(objects.values())) if problem else Alone()
    problem = (
        (problem if team is None else "") or next(filter(None, map(keras_state.problem, models)), "") or _old(torch)
    )
    if problem:
        warn("no checkpoints will be written: %s" % problem)
        return None
    form = Arrays(importlib.import_module("numpy")) if torch is None else Tensors(torch, maps=team.has_parts)
    parts = {name: keras_state.Model(part) if keras_state.is_model(part) else part for name, part in objects.items()}
    every = float(environment.get("MODAK_CHECKPOINT_EVERY") or 600)
    store = Store(environment["MODAK_CHECKPOINTS"]) if team.is_first else None
    return Progress(store, form, parts, every, environment.get("MODAK_STOP", ""), team)


def _parallel(environment):
    counts = [environment[name] for name in _SIZES if environment.get(name, "1") != "1"]
    return "this is one of %s processes, and each has its own state" % counts[0] if counts else ""


def _is_on_gpu(objects):
    models = [part for part in objects if hasattr(part, "parameters")]
    return any(getattr(parameter, "is_cuda", False) for model in models for parameter in model.parameters())


def _old(torch):
    if torch is None or "weights_only" in inspect.signature(torch.load).parameters:
        return ""
    return "torch.load of PyTorch %s cannot load without running code; 1.13 and later can" % torch.__version__
