"""How a bucket of gradients travels between ranks: as it is, in half the bytes, or as factors of small rank."""

import importlib

_HALF = {"fp16": "float16", "bf16": "bfloat16"}
NAME = "gradient_compression"


def compression(torch, ranks, report):
    """What sends a bucket as the plan has chosen; it gives what waits until the bucket holds the sum over ranks."""
    planned = report.planned.get(NAME)
    if planned in _HALF:
        report.applied(NAME, "prepare")
        return _half(torch, getattr(torch, _HALF[planned]))
    if planned == "powersgd":
        report.applied(NAME, "prepare")
        return _factors(torch, ranks)
    if planned not in (None, "none"):
        report.refused(NAME, "prepare knows fp16, bf16 and powersgd", "prepare")
    return lambda bucket: torch.distributed.all_reduce(bucket.whole, async_op=True).wait


def _half(torch, dtype):
    def send(bucket):
        half = bucket.whole.to(dtype)
        work = torch.distributed.all_reduce(half, async_op=True)

        def received():
            work.wait()
            bucket.whole.copy_(half)

        return received

    return send


def _factors(torch, ranks):
    """PowerSGD of rank 1, from PyTorch itself: after ten steps, with what was left out added to the next step.

    It is waited for at once: it sends its factors from other threads, in an order that need not be that of all ranks.
    """
    hooks = importlib.import_module("torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook")
    state = hooks.PowerSGDState(None, matrix_approximation_rank=1, start_powerSGD_iter=10)

    def send(bucket):
        torch.distributed.all_reduce(bucket.flags)
        bucket.buffer().mul_(ranks.world)  # the hook takes means, and shares are in it already
        found = hooks.powerSGD_hook(state, bucket).wait()
        bucket.buffer().copy_(found[0] if isinstance(found, (list, tuple)) else found)
        return _nothing

    return send


def _nothing():
    """What was sent is there already."""
