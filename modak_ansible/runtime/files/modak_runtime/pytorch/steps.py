"""What prepare does where another batch is planned: another number of samples a step, or several passes a step."""

import functools
import sys
import types


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
    """

    def __init__(self, many, report):
        self.many, self._made, self._report = many, 0, report
        _PASSES.append(self)

    @property
    def more(self):
        return (self._made + 1) % self.many != 0

    @property
    def begun(self):
        return self._made % self.many != 0

    def made(self):
        self._made += 1

    def give_up(self, reason):
        """Has the optimizer step after each pass from here on."""
        self.many = 1
        self._report.withdrawn("accumulation", reason, "prepare")


def accumulate(torch, report, optimizer, models, is_alone=True):
    """Has the optimizer step after every N passes only, with the mean of their gradients; ranks sum them once."""
    if not is_alone:
        reason = "of several optimizers, the backward pass for one may leave gradients in parameters of another"
        report.refused("accumulation", reason, "prepare")
        return
    _follow_scalers(torch)
    passes = Passes(int(report.planned["accumulation"]), report)
    step = optimizer.step
    _tell_ranks(optimizer, passes)

    def accumulated_step(self, closure=None):
        if closure is not None:
            report.withdrawn("accumulation", "the optimizer calls the model itself", "prepare")
            return step(closure)
        passes.made()
        if passes.begun:
            return None
        with torch.no_grad():
            for group in self.param_groups:
                for parameter in group["params"]:
                    if parameter.grad is not None:
                        parameter.grad.div_(passes.many)
        return step()

    def keeping(plain):
        def zero_grad(_self, *arguments, **options):
            if not passes.begun:
                plain(*arguments, **options)

        return zero_grad

    optimizer.step = types.MethodType(accumulated_step, optimizer)
    for each in (optimizer, *models):
        each.zero_grad = types.MethodType(keeping(each.zero_grad), each)
    report.applied("accumulation", "prepare")


def _follow_scalers(torch):
    """Gives up before the first pass of a GradScaler, which divides what is added up by its scale each time."""
    places = getattr(torch, "amp", None), getattr(torch.cuda, "amp", None)  # the latter before PyTorch 2.3
    scaler = next((each.GradScaler for each in places if hasattr(each, "GradScaler")), None)
    plain = getattr(scaler, "scale", None)
    if plain is None or hasattr(plain, "__wrapped__"):
        return

    @functools.wraps(plain)
    def scale(self, outputs):
        for passes in _PASSES if self.is_enabled() else ():
            if passes.many > 1:
                passes.give_up("a GradScaler divides gradients before those of a whole step are summed")
        return plain(self, outputs)

    scaler.scale = scale


def _tell_ranks(optimizer, passes):
    """Lets the gradients of an optimizer's parameters wait for its last pass, where several processes sum them."""
    ranks = sys.modules.get("modak_runtime.parallel.processes")
    here = ranks.here() if ranks else None
    its = {id(each) for group in optimizer.param_groups for each in group["params"]}
    for gradients in here.gradients if here else ():
        if its.issuperset(map(id, gradients.parameters)):
            gradients.passes = passes
