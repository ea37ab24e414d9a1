"""A batch as large as those of all ranks together, each of the script's own size, and a rate that goes with it.

The rate is the script's times the number of ranks, come to from the script's own in even parts (linear scaling with a
warm-up: Goyal and others, arXiv:1706.02677). With ``lars`` a layer's rate is besides at most that at which its step is
a small part of its weights (LARS: You and others, arXiv:1708.03888, as the upper bound that is known as LARC).
"""

NAME, WARM_UP = "large_batch", "warm_up"
TRUST = 0.02  # of a layer's weights, the most that a step may change where the rate is 1: LARC's own
_SMALL = 1e-8


class Scaled:
    """The learning rate of an optimizer, at each of its steps; between them it is what the script has set.

    How many steps were made is kept among the optimizer's own options, so that whoever saves its state saves it.

    Args:
        times: how many times the script's rate it comes to.
        warm: steps until it has come to that.
        by_layer: whether a layer's rate has a bound of its own.
    """

    def __init__(self, torch, optimizer, times, warm, by_layer):
        self._torch, self._times, self._warm, self._by_layer = torch, times, max(1, warm), by_layer
        self._own = None  # of each group the script's rate and decay, during a step
        optimizer.register_step_pre_hook(self._begins)
        optimizer.register_step_post_hook(self._ended)

    def factor(self, made):
        """What the script's rate is multiplied by at the step after so many."""
        return 1 + (self._times - 1) * min(1.0, (made + 1) / self._warm)

    def _begins(self, optimizer, *_):
        self._restore(optimizer)  # of a step that an error has ended
        self._own = [(group["lr"], group["weight_decay"]) for group in optimizer.param_groups]
        for group in optimizer.param_groups:
            group["lr"] = group["lr"] * self.factor(group.get("modak_steps", 0))
            if self._by_layer:
                self._bound(group)

    def _ended(self, optimizer, *_):
        self._restore(optimizer)
        for group in optimizer.param_groups:
            group["modak_steps"] = group.get("modak_steps", 0) + 1

    def _restore(self, optimizer):
        for group, (rate, decay) in zip(optimizer.param_groups, self._own or ()):
            group["lr"], group["weight_decay"] = rate, decay
        self._own = None

    def _bound(self, group):
        """Decays weights here in place of the optimizer, which then takes less of what is too large for a layer.

        Biases and what scales, of one dimension, go by the rate alone.
        """
        torch, rate, decay = self._torch, group["lr"], group["weight_decay"]
        group["weight_decay"] = 0
        with torch.no_grad():
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                weights, gradient = parameter.norm(), parameter.grad.norm()
                if decay:
                    parameter.grad.add_(parameter, alpha=decay)
                if parameter.dim() > 1:
                    trusted = TRUST * weights / (gradient + decay * weights + _SMALL)
                    parameter.grad.mul_(
                        torch.where(weights > 0, (trusted / rate).clamp(max=1.0), torch.ones_like(trusted))
                    )


def prepare(torch, ranks, report, optimizers, loaders):
    """Makes batches and rates larger, where somebody asks for it and both can be."""
    planned = report.planned.get(NAME, "none")
    if planned == "none":
        return
    training_loaders = [loader for loader in loaders if _makes_batches(torch, loader)]
    why = _why_not(torch, ranks, planned, optimizers, training_loaders)
    if why:
        report.refused(NAME, why, "prepare")
        return
    for loader in training_loaders:
        size = loader.batch_sampler.batch_size * ranks.world
        loader.batch_sampler.batch_size = size
        object.__setattr__(loader, "batch_size", size)  # DataLoader forbids it, lest the sampler have another one
    epochs = report.planned.get(WARM_UP, "1")
    warm = int(epochs) * len(training_loaders[0])
    for optimizer in optimizers:
        Scaled(torch, optimizer, ranks.world, warm, planned == "lars")
    words = "batches of %d, and %d times the rate after %d steps" % (training_loaders[0].batch_size, ranks.world, warm)
    report.applied(NAME, "prepare", words)
    if WARM_UP in report.planned:
        report.applied(WARM_UP, "prepare")


def _makes_batches(torch, loader):
    """Whether a loader trains, and makes its batches in the standard way."""
    sampler = getattr(loader, "batch_sampler", None)
    data = torch.utils.data
    return type(sampler) is data.BatchSampler and not isinstance(sampler.sampler, data.SequentialSampler)


def _why_not(torch, ranks, planned, optimizers, loaders):
    """Why batches and rates stay; empty where both can grow."""
    if planned not in ("linear", "lars"):
        return "only linear and lars are known"
    if ranks.strategy != "ddp" or not ranks.shares:
        return "ranks do not learn from parts of a batch, each with all of the model"
    if ranks.apart:
        return "ranks make steps by themselves"
    if not loaders:
        return "no loader was given to prepare that shuffles, and makes its batches in the standard way"
    if any(loader.drop_last and len(loader.sampler) < loader.batch_size * ranks.world for loader in loaders):
        return "an epoch would have no whole batch, and drop_last leaves out others"
    if not optimizers or any(type(optimizer) is not torch.optim.SGD for optimizer in optimizers):
        return "the rule is one of SGD, and %s was given to prepare" % (
            ", ".join(sorted({type(optimizer).__name__ for optimizer in optimizers})) or "no optimizer")  # fmt: skip
    if any(group.get("maximize") for optimizer in optimizers for group in optimizer.param_groups):
        return "an optimizer that maximises is not known here"
    return ""
