"""Batch normalisation over the whole batch, whose parts lie in several ranks: as one process would normalise it."""

import functools

from modak_runtime.pytorch.model import replace_forward


def share(torch, ranks, model):
    """Has every BatchNorm of a model take its means over all ranks that are given parts of a batch.

    Whatever a class of the script's or a library's computes beside it stays; a SyncBatchNorm shares by itself. Without
    gradients those alone do so that no optimizer steps, such as a teacher's: of what learns, a script may draw
    pictures in rank 0.
    """
    kinds = torch.nn.modules.batchnorm
    for module in model.modules():
        is_plain = not hasattr(module.forward, "__func__")  # a function that the script put there itself
        if isinstance(module, kinds._BatchNorm) and not (is_plain or isinstance(module, kinds.SyncBatchNorm)):
            replace_forward(module, functools.partial(_sharing, torch, ranks))


def _sharing(torch, ranks, inner):
    """A forward in which PyTorch's own function for batch norms, which all of them call, is that of all ranks."""
    functional, of_all = torch.nn.functional, _of_all(torch, ranks)

    def forward(self, *arguments, **options):
        if not ranks.has_part() or ranks.is_apart() or _is_shown(torch, ranks, self):
            return inner(self, *arguments, **options)
        before, functional.batch_norm = functional.batch_norm, of_all
        try:
            return inner(self, *arguments, **options)
        finally:
            functional.batch_norm = before

    compiler = getattr(torch, "compiler", None)
    # compiled code cannot wait for others
    return compiler.disable(forward) if hasattr(compiler, "disable") else forward


def _is_shown(torch, ranks, module):
    """Whether what it has learned so far is looked at, perhaps in one rank alone."""
    return not torch.is_grad_enabled() and (module.weight is None or module.weight in ranks.stepped)


@functools.lru_cache(maxsize=None)
def _of_all(torch, ranks):
    original, function = torch.nn.functional.batch_norm, _function(torch, ranks)

    @functools.wraps(original)
    def batch_norm(input, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-5):  # noqa: A002
        arguments = input, running_mean, running_var, weight, bias
        if not training:
            return original(*arguments, training, momentum, eps)
        if torch.overrides.has_torch_function(arguments):  # of tensors that ranks have parts of
            return torch.overrides.handle_torch_function(batch_norm, arguments, *arguments, training, momentum, eps)
        outputs, mean, variance, count = function.apply(input, weight, bias, eps)
        if running_mean is not None:
            with torch.no_grad():
                unbiased = variance * (count / (count - 1))
                for running, moment in ((running_mean, mean), (running_var, unbiased)):
                    running.mul_(1 - momentum).add_(moment.to(running.dtype), alpha=momentum)
        return outputs

    return batch_norm


def _function(torch, ranks):
    inverse = torch.ops.aten.native_batch_norm_backward

    class Once(torch.autograd.Function):
        """Gives gradients that cannot be differentiated again."""

        @staticmethod
        def forward(_ctx, gradient, *_of):
            return gradient.view_as(gradient)

        @staticmethod
        def backward(_ctx, *_given):
            ranks.rank.end(
                "a gradient of a gradient through BatchNorm is not known in several processes: "
                "GroupNorm, LayerNorm and InstanceNorm have one"
            )

    class Normalise(torch.autograd.Function):
        """Of a loss that is the mean of the ranks' own, each as much of it as its part of the samples.

        PyTorch's own operators compute it, given the moments of all ranks, so that it takes no more memory than one
        process's: the values are kept, and nothing as large as they are is made in between.
        """

        @staticmethod
        def forward(ctx, values, weight, bias, eps):
            own, whole = ranks.part
            ctx.share, ctx.eps = own / whole, eps
            ctx.kinds = [parameter if parameter is None else parameter.dtype for parameter in (weight, bias)]
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
        def backward(ctx, grad_output, *_others):
            values, weight, mean, variance = ctx.saved_tensors
            with torch.no_grad():
                wide = grad_output.to(values.dtype)
                arguments = wide, values, weight, mean, variance, None, None, False, ctx.eps, [False, True, True]
                _, of_weight, of_bias = inverse(*arguments)
                sums = torch.stack([of_bias, of_weight])
                shared = sums * ctx.share if ctx.share else torch.zeros_like(sums)
                ranks.guarded(torch.distributed.all_reduce, shared, group=ranks.samples.group)
                if ctx.share:  # what is found here counts as this rank's share, and the others' part of it must not
                    means, scale = shared / (ctx.count * ctx.share), torch.rsqrt(variance + ctx.eps)
                    inner = scale * weight
                    gradients = (values - _beside(values, mean)).mul_(_beside(values, -scale * means[1] * inner))
                    gradients = gradients.addcmul_(wide, _beside(values, inner)).sub_(_beside(values, means[0] * inner))
                else:
                    gradients = torch.zeros_like(wide)
            kinds = grad_output.dtype, *ctx.kinds
            learned = [kind and gradient.to(kind) for gradient, kind in zip((gradients, of_weight, of_bias), kinds)]
            if torch.is_grad_enabled():
                learned = [
                    gradient if gradient is None else Once.apply(gradient, grad_output, values, weight)
                    for gradient in learned
                ]
            return (*learned, None)

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
    own_moments = torch.cat([mean, around, mean.new_tensor([size])])
    moments = own_moments.new_empty(ranks.samples.size, 2 * channels + 1)  # all at once: there may be hundreds of ranks
    ranks.guarded(torch.distributed.all_gather, [*moments.unbind()], own_moments, group=ranks.samples.group)
    sizes = moments[:, -1:]
    moments = moments.masked_fill(sizes == 0, 0)  # those of no sample are no numbers
    means, count = moments[:, :channels], count_of(sizes)
    mean_of_all = (means * sizes).sum(0) / count
    spread = (moments[:, channels:-1] + sizes * (means - mean_of_all).square()).sum(0)
    return mean_of_all, spread / count, count


def count_of(sizes):
    """Values of each channel, of all ranks."""
    return float(sizes.double().sum())  # single precision counts to 16 million
