"""Acts when a framework is imported, and never before: until then it costs a look into a dictionary for each import."""

import contextlib
import gc
import os
import sys
import time
from importlib import import_module

from modak_runtime import curves, neighbours, ranks
from modak_runtime.report import Report, Without, parsed
from modak_runtime.steps import Steps

_WHOLE = ("compiler", "gradient_compression", "memory", "memory_format")  # act on parameters of one process
# By the modules that are waited for: the module of ours, and its function that acts when they have been imported.
_AWAITED = {
    "numpy": ("ranks", "numpy_imported"),
    "torch": ("pytorch", "imported"),
    "torch.utils.data.dataloader": ("pytorch", "loader_imported"),
    "tensorflow": ("trainers.keras_model", "tensorflow_imported"),
    "keras": ("trainers.keras_model", "imported"),
    "transformers.trainer": ("trainers.transformers_trainer", "imported"),
    "lightning.pytorch.trainer.trainer": ("trainers.lightning_trainer", "imported"),
    "pytorch_lightning.trainer.trainer": ("trainers.lightning_trainer", "imported"),
}
_state = []  # of this process: its report and its steps


def install():
    """Begins to wait for the frameworks, once a process."""
    if not _state:
        ranks.begin()
        report, steps = _begin()
        _state.append((report, steps))
        try:
            neighbours.settle_waiting(report)
        except Exception as error:  # the border: threads wait as they would by themselves
            report.mistake(neighbours.WAITS, error)
        curves.begin(report)
        sys.meta_path.insert(0, _Finder(report, steps))


def tell(epoch, epochs):
    """Takes what a script's own count says, such as one that goes on from a checkpoint: which epoch of how many."""
    for _, steps in _state:
        steps.progress.epoch, steps.progress.epochs = epoch, epochs


def prepared(objects):
    """The objects as the plan has chosen; as they are where this goes wrong."""
    install()
    report, _ = _state[0]
    report.prepared = True
    torch = sys.modules.get("torch")
    if ranks.is_parallel():
        report = _share(torch, report, objects)
    if torch is None:
        return objects
    try:
        from modak_runtime import pytorch

        return pytorch.prepare(torch, report, objects)
    except Exception as error:  # the border: the script trains on as it was written
        report.mistake("prepare", error)
        return objects


def _share(torch, report, objects):
    """Makes this process one of several; where that goes wrong it ends, lest each train for itself.

    Returns:
        the report, without the choices that cannot act then.
    """
    if torch is None:
        ranks.Rank(os.environ).end("prepare can only make PyTorch scripts parallel, and this one does not import torch")
    try:
        from modak_runtime.parallel import processes

        gpu = any(
            parameter.is_cuda
            for model in objects
            if isinstance(model, torch.nn.Module)
            for parameter in model.parameters()
        )
        own_ranks = processes.begin(torch, os.environ, gpu)
        own_ranks.prepare(report, objects)
        loaders = sum(isinstance(item, torch.utils.data.DataLoader) for item in objects)
        report.ranks["loaders"] = report.ranks.get("loaders", 0) + loaders
        if not own_ranks.has_parts:
            return report
        for name in _WHOLE:
            report.refused(
                name, "with %s, each process holds only part of the parameters" % own_ranks.strategy, "prepare"
            )
        return Without(report, _WHOLE)
    except Exception as error:
        return ranks.Rank(os.environ).end(
            "prepare could not make the training parallel: %s: %s" % (type(error).__name__, error)
        )


@contextlib.contextmanager
def _garbage_stays(name):
    """Looks for none while PyTorch is imported to be traced: among what stays that takes a fifth of the import."""
    pauses = name == "torch" and os.environ.get("MODAK_TRACE") == "memory" and gc.isenabled()
    if pauses:
        gc.disable()
    try:
        yield
    finally:
        if pauses:
            gc.enable()


def _begin():
    report = Report(os.environ.get("MODAK_APPLIED", ""), parsed(os.environ.get("MODAK_CHOICES", "")))
    steps = Steps(report, int(_number("MODAK_TRIAL_STEPS")), _number("MODAK_TRIAL_SECONDS"))
    report.watch(steps)
    return report, steps


def _number(name):
    try:
        return max(0.0, float(os.environ.get(name) or 0))
    except ValueError:
        return 0.0


class _Finder:
    """Finds nothing itself: it has those modules call us that we wait for, when they have been imported."""

    def __init__(self, report, steps):
        self._report, self._steps = report, steps
        self._awaited = dict(_AWAITED)

    def find_spec(self, name, path=None, target=None):
        if name not in self._awaited:
            return None
        act = self._awaited.pop(name)
        spec = self._spec_of_others(name, path, target)
        if spec is None or not hasattr(spec.loader, "exec_module"):
            self._awaited[name] = act
            return spec
        try:
            self._follow(spec, name, act)
        except Exception as error:  # the border: an import that nobody follows is still an import
            self._report.mistake(name, error)
        return spec

    def _spec_of_others(self, name, path, target):
        for finder in sys.meta_path:
            find = None if finder is self else getattr(finder, "find_spec", None)
            spec = find(name, path, target) if find else None
            if spec is not None:
                return spec
        return None

    def _follow(self, spec, name, act):
        """Puts a function of ours before the loader's own; the loader stays what it is, for whoever asks it."""
        loader, execute = spec.loader, spec.loader.exec_module

        def exec_module(module):
            if module.__name__ != name:
                return execute(module)
            with _garbage_stays(name):
                began = time.perf_counter()
                execute(module)
                loader.__dict__.pop("exec_module", None)
                if "." not in name:
                    self._report.framework(name, getattr(module, "__version__", ""), time.perf_counter() - began)
                try:
                    getattr(import_module("modak_runtime." + act[0]), act[1])(module, self._report, self._steps)
                except Exception as error:  # the border: the framework works without us
                    self._report.mistake(name, error)

        loader.exec_module = exec_module
