"""What prepare does to a model of PyTorch: memory format, number format, compiler.

The model stays the object that it is, with the same parameters and the same state_dict: only its ``forward`` is
another one, as a bound method, so that copies and pickles of the model hold their own.
"""

import functools
import importlib
import os
import shutil
import types
from contextlib import suppress

from modak_runtime.pytorch.attention import in_single_precision

FORMATS = {"bf16": "bfloat16"}


def prepare(torch, report, model):
    """Lets the choices for models act on one."""
    planned = report.planned
    is_last = planned.get("memory_format") == "channels_last" and _set_channels_last(torch, report, model)
    dtype = _number_format(torch, report, model) if "precision" in planned else None
    if is_last or dtype is not None:
        replace_forward(model, functools.partial(_chosen, torch, is_last=is_last, dtype=dtype))
    if planned.get("compiler") == "inductor":
        _compile(torch, report, model)


def _set_channels_last(torch, report, model):
    if not any(parameter.dim() == 4 for parameter in model.parameters()):
        report.refused("memory_format", "the model has no weights of two-dimensional convolutions", "prepare")
        return False
    model.to(memory_format=torch.channels_last)
    if not all(p.is_contiguous(memory_format=torch.channels_last) for p in model.parameters() if p.dim() == 4):
        report.refused("memory_format", "the model's weights kept their old format", "prepare")
        return False
    report.applied("memory_format", "prepare")
    return True


def _number_format(torch, report, model):
    """The smaller format that forward computes in; None where there is none, or it needs none of its own."""
    planned = report.planned["precision"]
    gpu = any(parameter.is_cuda for parameter in model.parameters())
    if planned == "tf32":
        if not gpu:
            report.refused("precision", "tf32 needs an NVIDIA GPU", "prepare")
            return None
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
        report.applied("precision", "prepare")
        return None
    if planned not in FORMATS:
        report.refused("precision", "%s needs scaled losses: prepare supports tf32 and bf16" % planned, "prepare")
        return None
    if not hasattr(torch, "autocast"):
        report.refused("precision", "PyTorch %s has no autocast, only fp32" % torch.__version__, "prepare")
        return None
    if gpu and not torch.cuda.is_bf16_supported():
        report.refused("precision", "this GPU does not support bf16", "prepare")
        return None
    in_single_precision(torch)
    report.applied("precision", "prepare")
    return getattr(torch, FORMATS[planned])


def replace_forward(module, make):
    """Gives a module another forward; a copy of it, and a pickle, have their own and not this one's.

    Args:
        make: gives it, as a function of the module and the arguments, for the one before.
    """
    original = module.forward
    inner = getattr(original, "__func__", None)
    if inner is None:  # a plain function that the script put there itself

        def inner(_self, *arguments, **options):
            return original(*arguments, **options)

    forward = functools.wraps(inner)(make(inner))
    forward.__name__ = "forward"  # by which a pickle finds the class's own, and needs nothing of ours
    module.forward = types.MethodType(forward, module)


def _chosen(torch, inner, *, is_last, dtype):
    def forward(self, *arguments, **options):
        if is_last:
            arguments = [_as_channels_last(torch, argument) for argument in arguments]
            options = {name: _as_channels_last(torch, value) for name, value in options.items()}
        if dtype is None:
            return inner(self, *arguments, **options)
        with torch.autocast(_device(torch, arguments, options), dtype=dtype):
            outputs = inner(self, *arguments, **options)
        return _as_float32(torch, outputs)

    return forward


def _device(torch, arguments, options):
    for argument in (*arguments, *options.values()):
        if isinstance(argument, torch.Tensor):
            return argument.device.type
    return "cpu"


def _as_channels_last(torch, value):
    if isinstance(value, torch.Tensor) and value.dim() == 4 and value.is_floating_point():
        return value.contiguous(memory_format=torch.channels_last)
    return value


def _as_float32(torch, value):
    """Outputs as the script's own loss expects them; what is neither a tensor nor a plain container stays as it is."""
    if isinstance(value, torch.Tensor):
        return value.float() if value.dtype in (torch.bfloat16, torch.float16) else value
    if type(value) in (list, tuple):
        return type(value)([_as_float32(torch, item) for item in value])
    if isinstance(value, tuple) and hasattr(value, "_make"):
        return value._make([_as_float32(torch, item) for item in value])
    if isinstance(value, dict) and hasattr(value, "to_tuple"):  # as transformers returns what a model computes
        for name in value:
            value[name] = _as_float32(torch, value[name])
        return value
    if type(value) is dict:
        return {name: _as_float32(torch, item) for name, item in value.items()}
    return value


def _compiler_problem(gpu):
    """Why inductor cannot work here; empty where it can."""
    if gpu or shutil.which(os.environ.get("CXX", "g++")):
        return ""
    return "it needs a C++ compiler, and none was found"


def _compile(torch, report, model):
    if not hasattr(torch.nn.Module, "compile"):
        report.refused("compiler", "PyTorch %s cannot compile a model in place" % torch.__version__, "prepare")
        return
    problem = _compiler_problem(any(parameter.is_cuda for parameter in model.parameters()))
    if problem:
        report.refused("compiler", problem, "prepare")
        return
    report.refused("compiler", "the model was never called", "prepare")
    model.compile()
    compiled, failures, is_noted = model._compiled_call_impl, _failures(), []

    def called(*arguments, **options):
        try:
            outputs = compiled(*arguments, **options)
        except failures as error:
            model._compiled_call_impl = None  # from now on it runs as the script wrote it
            report.withdrawn("compiler", "it failed: %s" % _first_line(error), "prepare")
            return model(*arguments, **options)
        if not is_noted:
            is_noted.append(True)
            report.applied("compiler", "prepare")
        return outputs

    model._compiled_call_impl = called


def _failures():
    """What a compiler raises that fails; the script's own errors come again when its model runs as it was written."""
    exceptions = [importlib.import_module("torch._dynamo.exc").TorchDynamoException]
    with suppress(ImportError, AttributeError):  # before PyTorch 2.6 it is dynamo's BackendCompilerFailed
        exceptions.append(importlib.import_module("torch._inductor.exc").InductorError)
    return tuple(exceptions)


def _first_line(error):
    lines = [line for line in str(error).splitlines() if line.strip()]
    return "%s: %s" % (type(error).__name__, lines[0] if lines else "no reason given")
