"""Steps of optimisers by PyTorch's own fused kernels, which read and write each parameter once.

On processors PyTorch takes them only where a script says ``fused=True``, though they have been there since 2.4.
"""

import sys
import weakref

NAME, FUSED = "optimizer_step", "fused"
_KINDS = ("Adam", "AdamW", "SGD", "Adagrad")


def imported(torch, report):
    """Has every optimiser of the script take them, as far as it can."""
    if report.planned[NAME] != FUSED:
        report.refused(NAME, "only %s is known" % FUSED)
        return
    optimizers = sys.modules.get("torch.optim.optimizer")  # torch.optim itself hides it
    devices = getattr(optimizers, "_get_fused_kernels_supported_devices", list)
    if "cpu" not in devices():
        report.refused(NAME, "PyTorch %s has no such kernels for processors; 2.4 has" % torch.__version__)
        return
    if report.planned.get("memory") == "out-of-core":
        report.refused(NAME, "a training out of core takes the step of each parameter by itself")
        return
    known, compiling = weakref.WeakKeyDictionary(), getattr(getattr(torch, "compiler", None), "is_compiling", bool)

    def begins(optimizer, _arguments, _options):
        if compiling():
            return
        groups = optimizer.param_groups
        sizes = [len(group["params"]) for group in groups]
        if optimizer not in known or known[optimizer][0] != sizes:
            problems = [_problem(torch, optimizer, group) for group in groups]
            known[optimizer] = sizes, [not problem for problem in problems]
            _tell(report, optimizer, problems)
        for group, fits in zip(groups, known[optimizer][1]):
            if fits and group["fused"] is None:
                group["fused"] = FUSED  # which is true, and tells ours from the script's own True

    def ended(optimizer, _arguments, _options):
        for group in optimizer.param_groups:  # what a script saves is what it would have saved
            if group.get("fused") is FUSED:
                group["fused"] = None

    optimizers.register_optimizer_step_pre_hook(begins)
    optimizers.register_optimizer_step_post_hook(ended)


def _tell(report, optimizer, problems):
    name = type(optimizer).__name__
    if all(problems):
        report.refused(NAME, "%s: %s" % (name, problems[0]))
    else:
        part = "" if not any(problems) else " in %d of %d groups" % (problems.count(""), len(problems))
        report.applied(NAME, "hook", name + part)


def _problem(torch, optimizer, group):
    """Why the parameters of a group cannot have their steps so; empty where they can."""
    if not any(isinstance(optimizer, getattr(torch.optim, kind)) for kind in _KINDS) or "fused" not in group:
        return "it has no fused kernel"
    if group["fused"] is not None or group.get("foreach") is not None:
        return "the script chooses for itself"
    if any(group.get(name) for name in ("capturable", "differentiable")):
        return "its steps are to be captured or differentiated"
    if any(isinstance(value, torch.Tensor) for name, value in group.items() if name != "params"):
        return "its learning rate is a tensor"
    for parameter in group["params"]:
        gradient = parameter.grad
        if parameter.device.type != "cpu":
            return "it is for processors"
        if type(parameter) not in (torch.nn.Parameter, torch.Tensor):
            return "a parameter is in parts"
        if parameter.dtype not in (torch.float32, torch.float64):
            return "a parameter is in %s" % str(parameter.dtype).partition(".")[2]
        if gradient is not None and (gradient.layout != torch.strided or gradient.dtype != parameter.dtype):
            return "a gradient is of another form than its parameter"
    return ""
