"""Steps of optimisers by PyTorch's own fused kernels, which read and write each parameter once.

On processors PyTorch takes them only where a script says ``fused=True``, though they have been there since 2.4. They go
through memory as it lies, whatever a tensor's strides say: where a gradient, or the optimiser's state, lies in another
order than its parameter (seen in 2.13), each number would meet another one's, without an error. So this is looked at
before every step: a state is laid out as its parameter, and a group with such a gradient takes its step as ever.
"""

import sys
import weakref

NAME, FUSED = "optimizer_step", "fused"
_KINDS = ("Adam", "AdamW", "SGD", "Adagrad")


def is_concerned(planned):
    """Whether anything is to be done: a choice of another memory format concerns what a script says of itself, too."""
    return NAME in planned or planned.get("memory_format") == "channels_last"


def imported(torch, report):
    """Has every optimiser of the script take them, as far as it can."""
    planned = report.planned.get(NAME)
    if planned not in (None, FUSED):
        report.refused(NAME, "only %s is supported" % FUSED)
        return
    optimizers = sys.modules.get("torch.optim.optimizer")  # torch.optim itself hides it
    devices = getattr(optimizers, "_get_fused_kernels_supported_devices", list)
    if "cpu" not in devices():
        report.refused(NAME, "PyTorch %s has no fused kernels for CPUs; 2.4 and later have" % torch.__version__)
        return
    if report.planned.get("memory") == "out-of-core":
        report.refused(NAME, "out-of-core training updates each parameter separately")
        return
    cached, compiling = weakref.WeakKeyDictionary(), getattr(getattr(torch, "compiler", None), "is_compiling", bool)

    def begins(optimizer, _arguments, _options):
        if compiling():
            return
        groups = optimizer.param_groups
        sizes = [len(group["params"]) for group in groups]
        if optimizer not in cached or cached[optimizer][0] != sizes:
            cached[optimizer] = sizes, [_problem(torch, optimizer, group) for group in groups]
            if planned:
                problems = zip(groups, cached[optimizer][1])
                _tell(report, optimizer, [problem or _order(torch, optimizer, group) for group, problem in problems])
        for group, problem in zip(groups, cached[optimizer][1]):
            if group.get("fused") or not problem:
                _lay_out(torch, optimizer, group)
            # The word is true, and tells ours from the script's own True; it is there where a step before has failed.
            if planned and not problem and group["fused"] in (None, FUSED):
                group["fused"] = None if _order(torch, optimizer, group) else FUSED

    def ended(optimizer, _arguments, _options):
        for group in optimizer.param_groups:  # what a script saves is what it would have saved
            if group.get("fused") is FUSED:
                group["fused"] = None

    optimizers.register_optimizer_step_pre_hook(begins)
    optimizers.register_optimizer_step_post_hook(ended)


def _tell(report, optimizer, problems):
    name = type(optimizer).__name__
    if all(problems):
        report.stands(NAME, "default", "%s: %s" % (name, problems[0]))
    else:
        part = "" if not any(problems) else " in %d of %d groups" % (problems.count(""), len(problems))
        report.applied(NAME, "hook", name + part)


def _problem(torch, optimizer, group):
    """Why the parameters of a group cannot have their steps so; empty where they can."""
    if not any(isinstance(optimizer, getattr(torch.optim, kind)) for kind in _KINDS) or "fused" not in group:
        return "it has no fused kernel"
    if group["fused"] is not None or group.get("foreach") is not None:
        return "the script makes this choice itself"
    if any(group.get(name) for name in ("capturable", "differentiable")):
        return "its steps must be capturable or differentiable"
    if any(isinstance(value, torch.Tensor) for name, value in group.items() if name != "params"):
        return "its learning rate is a tensor"
    for parameter in group["params"]:
        if parameter.device.type != "cpu":
            return "a parameter is not on the CPU"
        if type(parameter) not in (torch.nn.Parameter, torch.Tensor):
            return "a parameter is not a plain tensor"
        if parameter.dtype not in (torch.float32, torch.float64):
            return "a parameter is in %s" % str(parameter.dtype).partition(".")[2]
    return ""


def _order(torch, optimizer, group):
    """Why a group cannot have its next step so, by how its numbers lie in memory; empty where it can."""
    for parameter in group["params"]:
        gradient = parameter.grad
        if gradient is None:
            continue
        if gradient.layout is not torch.strided or gradient.dtype is not parameter.dtype:
            return "a gradient differs from its parameter in layout or dtype"
        strides = parameter.stride()
        if not parameter.is_contiguous() and not (
            len(strides) == 4 and parameter.is_contiguous(memory_format=torch.channels_last)
        ):
            return "a parameter is not contiguous in memory"
        if gradient.stride() != strides:
            return "a gradient has another memory layout than its parameter"
        for value in optimizer.state.get(parameter, {}).values():
            if isinstance(value, torch.Tensor) and value.dim() and value.dtype is not parameter.dtype:
                return "the optimiser's state has another dtype than its parameter"
    return ""


def _lay_out(torch, optimizer, group):
    """Puts an optimiser's state in the order of its parameters: one that was loaded may be of another memory format."""
    for parameter in group["params"]:
        state = optimizer.state.get(parameter, {})
        for name, value in state.items():
            if (
                isinstance(value, torch.Tensor)
                and value.shape == parameter.shape
                and value.stride() != parameter.stride()
                and value.device.type == parameter.device.type == "cpu"
            ):
                state[name] = torch.empty_like(parameter, dtype=value.dtype, requires_grad=False).copy_(value)
