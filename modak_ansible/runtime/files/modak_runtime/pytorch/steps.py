"""What prepare does where another batch is planned: another number of samples a step, or several passes a step."""

import types


def set_batch_size(torch, report, loader):
    """Makes batches of another size, of a loader that makes them by the standard sampler."""
    sampler = loader.batch_sampler
    if type(sampler) is not torch.utils.data.BatchSampler:
        report.refused("batch_size", "a loader makes its batches in a way of its own", "prepare")
        return
    if isinstance(sampler.sampler, torch.utils.data.SequentialSampler):
        report.refused("batch_size", "only loaders that shuffle are taken for training's", "prepare")
        return
    size = int(report.planned["batch_size"])
    sampler.batch_size = size
    object.__setattr__(loader, "batch_size", size)  # DataLoader forbids it, lest the sampler have another one
    report.applied("batch_size", "prepare")


def accumulate(torch, report, optimizer):
    """Has the optimizer step after every N passes only, with the mean of their gradients."""
    passes, taken = int(report.planned["accumulation"]), [0]
    step, zero_grad = optimizer.step, optimizer.zero_grad

    def accumulated_step(self, closure=None):
        if closure is not None:
            report.withdrawn("accumulation", "the optimizer calls the model itself", "prepare")
            return step(closure)
        taken[0] += 1
        if taken[0] % passes:
            return None
        with torch.no_grad():
            for group in self.param_groups:
                for parameter in group["params"]:
                    if parameter.grad is not None:
                        parameter.grad.div_(passes)
        return step()

    def accumulated_zero_grad(_self, *arguments, **options):
        if taken[0] % passes == 0:
            zero_grad(*arguments, **options)

    optimizer.step = types.MethodType(accumulated_step, optimizer)
    optimizer.zero_grad = types.MethodType(accumulated_zero_grad, optimizer)
    report.applied("accumulation", "prepare")
