"""Batch normalisation over the whole batch, whose parts lie in several ranks: as one process would normalise it."""

import functools

from modak_runtime.pytorch.model import replace_forward


def share(torch, ranks, model):
    """Has every BatchNorm of a model take its means over all ranks while it learns; a SyncBatchNorm does so itself."""
    kinds = torch.nn.modules.batchnorm
    for module in model.modules():
        is_plain = not hasattr(module.forward, "__func__")  # a function that the script put there itself
        if isinstance(module, kinds._BatchNorm) and not (is_plain or isinstance(module, kinds.SyncBatchNorm)):
            replace_forward(module, functools.partial(_shared, torch, ranks))


def _shared(torch, ranks, inner):
    function = _function(torch, ranks)

    def forward(self, values):
        if not (self.training and torch.is_grad_enabled()) or ranks.is_apart():
            return inner(self, values)
        self._check_input_dim(values)
        return _learn(torch, function, self, values)

    compiler = getattr(torch, "compiler", None)
    # compiled code cannot wait for others
    return compiler.disable(forward) if hasattr(compiler, "disable") else forward


def _learn(torch, function, module, values):
    """What the module gives for values, with its running means brought up."""
    outputs, mean, variance, count = function.apply(values, module.weight, module.bias, module.eps)
    if module.track_running_stats and module.running_mean is not None:
        with torch.no_grad():
            module.num_batches_tracked.add_(1)
            momentum = 1.0 / float(module.num_batches_tracked) if module.momentum is None else module.momentum
            unbiased = variance * (count / (count - 1))
            for running, found in ((module.running_mean, mean), (module.running_var, unbiased)):
                running.mul_(1 - momentum).add_(found.to(running.dtype), alpha=momentum)
    return outputs


@functools.lru_cache(maxsize=None)
def _function(torch, ranks):
    inverse = torch.ops.aten.native_batch_norm_backward

    class Normalise(torch.autograd.Function):
        """Of a loss that is the mean of the ranks' own, each as much of it as its part of the samples.

        PyTorch's own operators compute it, given the moments of all ranks, so that it takes no more memory than one
        process's: the values are kept, and nothing as large as they are is made in between.
        """

        @staticmethod
        def forward(ctx, values, weight, bias, eps):
            own, whole = ranks.part
            ctx.share, ctx.eps, ctx.kind = own / whole, eps, None if weight is None else weight.dtype
            wide = values.float() if values.dtype in (torch.float16, torch.bfloat16) else values
            mean, variance, ctx.count = _moments(torch, ranks, wide, bool(own))
            if ctx.count <= 1:
                raise ValueError("Expected more than 1 value per channel when training, over all ranks")
            weight = torch.ones_like(mean) if weight is None else weight.to(wide.dtype)
            bias = torch.zeros_like(mean) if bias is None else bias.to(wide.dtype)
            ctx.save_for_backward(wide, weight, mean, variance)
            outputs = torch.native_batch_norm(wide, weight, bias, mean, variance, False, 0.0, eps)[0]
            ctx.mark_non_differentiable(mean, variance)
            return outputs.to(values.dtype), mean, variance, ctx.count

        @staticmethod
        def backward(ctx, given, *_others):
            values, weight, mean, variance = ctx.saved_tensors
            wide = given.to(values.dtype)
            asked = wide, values, weight, mean, variance, None, None, False, ctx.eps, [False, True, True]
            _, of_weight, of_bias = inverse(*asked)
            sums = torch.stack([of_bias, of_weight])
            shared = sums * ctx.share if ctx.share else torch.zeros_like(sums)
            ranks.guarded(torch.distributed.all_reduce, shared, group=ranks.samples.group)
            if ctx.share:  # what is found here counts as this rank's share, and the others' part of it must not
                means, scale = shared / (ctx.count * ctx.share), torch.rsqrt(variance + ctx.eps)
                inner = scale * weight
                found = (values - _beside(values, mean)).mul_(_beside(values, -scale * means[1] * inner))
                found = found.addcmul_(wide, _beside(values, inner)).sub_(_beside(values, means[0] * inner))
            else:
                found = torch.zeros_like(wide)
            learned = (None, None) if ctx.kind is None else (of_weight.to(ctx.kind), of_bias.to(ctx.kind))
            return (found.to(given.dtype), *learned, None)

    return Normalise


def _beside(values, channels):
    """A number for each channel, in a form that is computed with values."""
    return channels.view([1, -1] + [1] * (values.dim() - 2))


def _moments(torch, ranks, values, counts):
    """Mean, variance and number of values of each channel, over all ranks whose samples count."""
    dims, channels = [0, *range(2, values.dim())], values.shape[1]
    size = values.numel() // channels if counts else 0
    mean = values.mean(dims)
    around = (values - _beside(values, mean)).square_().sum(dims)
    mine = torch.cat([mean, around, mean.new_tensor([size])])
    everyone = [torch.empty_like(mine) for _ in range(ranks.samples.size)]
    ranks.guarded(torch.distributed.all_gather, everyone, mine, group=ranks.samples.group)
    found = [each for each in torch.stack(everyone) if each[-1] > 0]
    count = sum(float(each[-1]) for each in found)
    whole = sum(each[:channels] * each[-1] for each in found) / count
    spread = sum(each[channels:-1] + each[-1] * (each[:channels] - whole).square() for each in found)
    return whole, spread / count, count
