"""What acts in PyTorch: a clock at every optimiser, the library of matrix products, and what prepare does.

The module ``torch`` is handed in: it is there when this is imported, and this need not be able to import it.
"""

import functools
import os
import sys
import weakref

from modak_runtime.pytorch import fused
from modak_runtime.pytorch.model import prepare as prepare_model
from modak_runtime.ranks import is_parallel, seed_alike
from modak_runtime.steps import length_of

MATMUL_ERROR = 1e-5  # relative; float32's own is below 1e-6, bfloat16's above 1e-3


def imported(torch, report, steps):
    """Acts as soon as PyTorch is imported."""
    seed_alike(torch.manual_seed)
    if os.environ.get("MODAK_TRACE") == "memory":
        from modak_runtime.memory import trace

        trace.imported(torch, report, steps)
        return
    _count_steps(torch, report, steps)
    if is_parallel():
        from modak_runtime.parallel import consistency, whole

        consistency.imported(torch)
        whole.imported(torch)
    if os.environ.get("MODAK_RENDEZVOUS_TIMEOUT"):  # one of several ranks
        from modak_runtime.parallel.alive import watched

        watched.imported(torch, report)
    if "matmul" in report.planned:
        _choose_matmul(torch, report)
    if fused.is_concerned(report.planned):
        fused.imported(torch, report)
    if report.planned.get("memory") == "out-of-core":
        from modak_runtime.pytorch import out_of_core

        out_of_core.imported(torch)
    if "accumulation" in report.planned:
        from modak_runtime.pytorch.steps import follow_clipping

        follow_clipping(torch)


def loader_imported(module, _report, steps):
    """Notes when loops over batches begin."""
    original = module.DataLoader.__iter__

    @functools.wraps(original)
    def __iter__(self):
        torch = sys.modules.get("torch")
        if torch is not None and not torch.is_grad_enabled():  # a validation, perhaps in the midst of an epoch
            return original(self)
        steps.loop_begins(self.batch_size, length_of(self.dataset), length_of(self))
        batches = original(self)
        # no more than that: processes that read end with it
        steps.batches = weakref.ref(batches) if hasattr(batches, "_num_yielded") else None
        return batches

    module.DataLoader.__iter__ = __iter__


def prepare(torch, report, objects):
    """The objects as the plan has chosen, in the same order."""
    from modak_runtime.pytorch.input import keep_in_memory, set_workers
    from modak_runtime.pytorch.steps import accumulate, set_batch_size

    models = [item for item in objects if isinstance(item, torch.nn.Module)]
    loaders = [item for item in objects if isinstance(item, torch.utils.data.DataLoader)]
    optimizers = [item for item in objects if isinstance(item, torch.optim.Optimizer)]
    gpu = any(parameter.is_cuda for model in models for parameter in model.parameters())
    for model in models:
        prepare_model(torch, report, model)
    if report.planned.get("memory") == "out-of-core":
        from modak_runtime.pytorch import out_of_core

        out_of_core.prepare(torch, report, models, optimizers)
    if report.planned.get("memory") == "recomputed":
        from modak_runtime.pytorch import recompute

        for model in models:
            _attempt(report, "memory", recompute.prepare, torch, report, model)
    for name, prepare_one, targets in (
        ("batch_size", set_batch_size, loaders),
        ("accumulation", functools.partial(accumulate, models=models, is_alone=len(optimizers) == 1), optimizers),
        ("workers", set_workers, loaders),
        ("input", keep_in_memory, loaders),
    ):
        for target in targets if name in report.planned else ():
            _attempt(report, name, prepare_one, torch, report, target)
    if gpu and ("input" in report.planned or "workers" in report.planned):
        for loader in loaders:
            loader.pin_memory = True
    return objects


def _attempt(report, name, act, *arguments):
    """Lets one choice act; where that goes wrong, the others still do."""
    try:
        act(*arguments)
    except Exception as error:  # the border: the script trains on as it was written
        report.mistake(name, error)
        report.withdrawn(name, report.mistakes[-1])


def _count_steps(torch, report, steps):
    optimizers = sys.modules.get("torch.optim.optimizer")  # torch.optim itself hides it
    register = getattr(optimizers, "register_optimizer_step_post_hook", None)
    if register is None:  # before PyTorch 2.0
        return
    step, compiling = steps.step, getattr(getattr(torch, "compiler", None), "is_compiling", bool)  # bool() is False

    def step_ended(optimizer, _arguments, _options):
        if compiling():  # a step that is compiled as a whole must not hold a clock
            return
        if not steps.count:
            groups = optimizer.param_groups
            steps.parameters = sum(p.numel() for group in groups for p in group["params"] if p.requires_grad)
            if torch.cuda.is_available() and torch.cuda.is_initialized():
                steps.synchronise = torch.cuda.synchronize
                report.accelerator = torch.cuda.get_device_name()
        step()

    register(step_ended)


def _choose_matmul(torch, report):
    """Multiplies through oneDNN where that stays in float32, which is faster on processors that are not Intel's.

    The setting is called bf16: where the processor would really compute in it, the results say so, and it is undone.
    """
    if report.planned["matmul"] != "onednn":
        report.refused("matmul", "only onednn is supported")
        return
    library = getattr(getattr(torch.backends, "mkldnn", None), "matmul", None)
    if library is None or not hasattr(library, "fp32_precision"):
        report.refused("matmul", "PyTorch %s cannot choose the library" % torch.__version__)
        return
    before = library.fp32_precision
    library.fp32_precision = "bf16"
    error = matmul_error(torch)
    if error > MATMUL_ERROR:
        library.fp32_precision = before
        report.refused("matmul", "on this processor it computes in bf16 (relative error %.1e)" % error)
    else:
        report.applied("matmul", "import", "relative error %.1e" % error)


def matmul_error(torch):
    """The relative error of a product of matrices in float32, against float64; draws from no stream of the script's.

    One thread computes it: threads that were begun here would not outlive a fork of the script's.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        a, b = (
            torch.rand(256, 256, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)) for seed in (1, 2)
        )
        exact = a.mm(b)
        return float((a.float().mm(b.float()).double() - exact).norm() / exact.norm())
    finally:
        torch.set_num_threads(threads)
