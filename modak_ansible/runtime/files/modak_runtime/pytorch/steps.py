"""What prepare does where another batch is planned: another number of samples a step, or several passes a step."""

import functools
import math
import sys
import types

from modak_runtime.ranks import prepared


def set_batch_size(torch, report, loader):
    """Makes batches of another size, of a loader that makes them by the standard sampler."""
    sampler = loader.batch_sampler
    if type(sampler) is not torch.utils.data.BatchSampler:
        report.refused("batch_size", "a loader has a batch sampler of its own", "prepare")
        return
    if isinstance(sampler.sampler, torch.utils.data.SequentialSampler):
        report.refused("batch_size", "a loader that does not shuffle is not assumed to be for training", "prepare")
        return
    size = int(report.planned["batch_size"])
    sampler.batch_size = size
    object.__setattr__(loader, "batch_size", size)  # DataLoader forbids it, lest the sampler have another one
    report.applied("batch_size", "prepare")


_PASSES = []  # of this process's optimizers


def adds_up():
    """Whether passes were made whose step has not been."""
    return any(passes.begun for passes in _PASSES)


class Passes:
    """How many passes of a step were made.

    Attributes:
        more: whether others follow before the optimizer steps; begun: whether some were made, and it has not.
        waits: whether the training has not begun.
    """

    def __init__(self, many, report, parameters):
        self.many, self.parameters, self._count, self._report = many, parameters, 0, report
        _PASSES.append(self)

    @property
    def more(self):
        return (self._count + 1) % self.many != 0

    @property
    def begun(self):
        return self._count % self.many != 0

    @property
    def waits(self):
        return self.many > 1 and not self._count

    def count_pass(self):
        self._count += 1

    def give_up(self, reason):
        """Has the optimizer step after each pass from here on."""
        self.many = 1
        self._report.withdrawn("accumulation", reason, "prepare")


def accumulate(torch, report, optimizer, models, is_alone=True):
    """Has the optimizer step after every N passes only, with the mean of their gradients; ranks sum them once."""
    waiting = [passes for passes in _PASSES if passes.waits]  # given to prepare before
    if waiting or not is_alone:
        reason = "of several optimizers, the backward pass for one may leave gradients in parameters of another"
        for passes in waiting:
            passes.give_up(reason)
        report.refused("accumulation", reason, "prepare")
        return
    _follow_scalers(torch)
    parameter_ids = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
    passes = Passes(int(report.planned["accumulation"]), report, parameter_ids)
    step = optimizer.step
    _tell_ranks(passes)

    def accumulated_step(self, closure=None):
        if closure is not None:
            passes.give_up("the optimizer calls the model itself")
            return step(closure)
        passes.count_pass()
        if passes.begun:
            return None
        with torch.no_grad():
            for group in self.param_groups:
                for parameter in group["params"]:
                    if parameter.grad is not None:
                        parameter.grad.div_(passes.many)
        return step()

    def keeping(original):
        def zero_grad(_self, *arguments, **options):
            if not passes.begun:
                original(*arguments, **options)

        return zero_grad

    optimizer.step = types.MethodType(accumulated_step, optimizer)
    for owner in (optimizer, *models):
        owner.zero_grad = types.MethodType(keeping(owner.zero_grad), owner)
    report.applied("accumulation", "prepare")


def _follow_scalers(torch):
    """Gives up before the first pass of a GradScaler, which divides what is added up by its scale each time."""
    places = getattr(torch, "amp", None), getattr(torch.cuda, "amp", None)  # the latter before PyTorch 2.3
    scaler = next((place.GradScaler for place in places if hasattr(place, "GradScaler")), None)
    original = getattr(scaler, "scale", None)
    if original is None or hasattr(original, "__wrapped__"):
        return

    @functools.wraps(original)
    def scale(self, outputs):
        for passes in _PASSES if self.is_enabled() else ():
            if passes.many > 1:
                passes.give_up("a GradScaler divides gradients before those of a whole step are summed")
        return original(self, outputs)

    scaler.scale = scale


def follow_clipping(torch):
    """Has gradients be clipped once a step, by the mean of its passes: a script clips the sum so far behind each.

    Scripts import the functions by name, so this is to be called before they can.
    """
    for name, limit_name in (("clip_grad_norm_", "max_norm"), ("clip_grad_value_", "clip_value")):
        original = getattr(torch.nn.utils, name)

        @functools.wraps(original)
        def clip(parameters, *arguments, _plain=original, _limit_name=limit_name, **options):
            parameters = [parameters] if isinstance(parameters, torch.Tensor) else list(parameters)
            limit, *rest = arguments or (options.pop(_limit_name),)
            matching = (passes for passes in reversed(_PASSES) if not passes.parameters.isdisjoint(map(id, parameters)))
            passes = next(matching, None)
            count = passes.many if passes else 1
            norm = _plain(parameters, math.inf if passes and passes.more else limit * count, *rest, **options)
            return norm if norm is None else norm / count

        for module in (torch.nn.utils, sys.modules["torch.nn.utils.clip_grad"]):
            setattr(module, name, clip)


def _tell_ranks(passes):
    """Lets the gradients of an optimizer's parameters wait for its last pass, where several processes sum them."""
    ranks = prepared()
    for gradients in ranks.gradients if ranks else ():
        if passes.parameters.issuperset(map(id, gradients.parameters)):
            gradients.passes = passes
