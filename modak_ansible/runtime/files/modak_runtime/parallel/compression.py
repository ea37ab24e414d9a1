"""How a bucket travels between ranks: as it is, in half the bytes, or as factors of small rank.

Each way is a generator: what it does before its first ``yield`` begins the sum, and behind its last one the bucket
holds it. Whoever drives several of them takes their steps in turn, in the same order in all ranks.
"""

import functools

NAME = "gradient_compression"
_HALF = {"fp16": "float16", "bf16": "bfloat16"}
_RANKS = {"powersgd": 1, "powersgd_2": 2, "powersgd_4": 4}


class AsItIs:
    """Sums a bucket in its own number format.

    Attributes:
        start: how many sums of a bucket go as they are before what is left out of one shows in the next.
    """

    start = 10

    def __init__(self, torch, axis):
        self._torch, self._group = torch, axis.group

    def send(self, bucket):
        work = self._torch.distributed.all_reduce(bucket.whole, group=self._group, async_op=True)
        yield
        work.wait()

    def state(self):
        """What a rank keeps from one sum to the next, as plain things and tensors; None where there is nothing."""

    def load(self, states, number):
        """Takes what so many ranks kept, of which this one is to be that of a number; None: they were others."""


class Half(AsItIs):
    """Sums a bucket in half the bytes."""

    def __init__(self, torch, axis, name):
        AsItIs.__init__(self, torch, axis)
        self._dtype = getattr(torch, _HALF[name])

    def send(self, bucket):
        half = bucket.whole.to(self._dtype)
        work = self._torch.distributed.all_reduce(half, group=self._group, async_op=True)
        yield
        work.wait()
        bucket.whole.copy_(half)


class Factors(AsItIs):
    """PowerSGD (Vogels, Karimireddy, Jaggi, 2019): matrices as two factors of small rank.

    What the factors leave out of a rank's own matrix is added to its next one. All that is no matrix, or would not be
    half as many numbers, travels as it is beside the first factors: two messages a bucket.

    Args:
        torch: the module.
        axis: of the ranks that share them.
        rank: of the factors.
    """

    def __init__(self, torch, axis, rank):
        AsItIs.__init__(self, torch, axis)
        self._size, self._rank = axis.size, rank
        self._states, self._loaded = {}, {}

    def send(self, bucket):
        state = self._states.get(bucket.number)
        if state is None:
            state = self._states[bucket.number] = _BucketState(self._torch, bucket, self._rank)
            if bucket.number in self._loaded:
                state.load(self._loaded.pop(bucket.number))
        state.sums += 1
        if state.sums <= self.start or not state.matrices:
            return AsItIs.send(self, bucket)
        return self._factors(state)

    def _factors(self, state):
        torch = self._torch
        reduce = functools.partial(torch.distributed.all_reduce, group=self._group, async_op=True)
        with torch.no_grad():
            for matrix in state.matrices:
                matrix.whole.add_(matrix.error)
                torch.mm(matrix.tall, _upright(torch, matrix.right, matrix.fallback), out=matrix.left)
            for place, view in state.uncompressed:
                place.copy_(view)
            work = reduce(state.first)
            yield
            work.wait()
            for matrix in state.matrices:
                matrix.left.copy_(_upright(torch, matrix.left, matrix.left))
                torch.mm(matrix.tall.t(), matrix.left, out=matrix.right)
            own_factors = state.second.clone()
            work = reduce(state.second)
            for matrix, right in zip(state.matrices, state.rights(own_factors)):
                torch.addmm(matrix.tall, matrix.left, right.t(), alpha=-1, out=matrix.tall_error)
            yield
            work.wait()
            for matrix in state.matrices:
                torch.mm(matrix.left, matrix.right.t(), out=matrix.tall)
            for place, view in state.uncompressed:
                view.copy_(place)

    def state(self):
        return {number: state.state() for number, state in self._states.items()}

    def load(self, states, number):
        """Others' errors are shared out evenly: none of what was left out is lost, whoever had it."""
        own_states = states[0] if number is None else states[number]
        for bucket, saved in (own_states or {}).items():
            state = dict(saved)
            if number is None:
                sums = [sum(errors) for errors in zip(*(saved_state[bucket]["errors"] for saved_state in states))]
                state["errors"] = [error / self._size for error in sums]
            if bucket in self._states:
                self._states[bucket].load(state)
            else:
                self._loaded[bucket] = state


class _Matrix:
    """A matrix in a bucket, with its factors: ``tall`` is about ``left`` times ``right`` turned over."""

    def __init__(self, torch, view, rank):
        self.whole = view.view(view.shape[0], -1)
        self.error = torch.zeros_like(self.whole)
        self.is_wide = self.whole.shape[0] < self.whole.shape[1]
        self.tall, self.tall_error = (view.t() if self.is_wide else view for view in (self.whole, self.error))
        self.left = self.right = None
        seed = torch.Generator().manual_seed(self.whole.numel())  # the same in all ranks, and nothing of the script's
        self.fallback = torch.randn(self.tall.shape[1], rank, generator=seed).to(view)


class _BucketState:
    """What a bucket keeps: its matrices, and where all that is sent lies side by side."""

    def __init__(self, torch, bucket, rank):
        self.sums, self.matrices, small = 0, [], [bucket.flags]
        for view in bucket.views:
            rows = view.shape[0] if view.dim() > 1 else view.numel()
            columns = view.numel() // max(1, rows)
            if 2 * rank * (rows + columns) <= view.numel() and view.dtype in (torch.float32, torch.float64):
                self.matrices.append(_Matrix(torch, view, rank))
            else:
                small.append(view)
        lefts = [matrix.tall.shape[0] * rank for matrix in self.matrices]
        self._sizes, self._rank = [matrix.tall.shape[1] * rank for matrix in self.matrices], rank
        self.first = bucket.whole.new_zeros(sum(lefts) + sum(tensor.numel() for tensor in small))
        self.second = bucket.whole.new_zeros(sum(self._sizes))
        parts = self.first.split(lefts + [tensor.numel() for tensor in small])
        self.uncompressed = [(part.view(tensor.shape), tensor) for part, tensor in zip(parts[len(lefts) :], small)]
        for matrix, left, right in zip(self.matrices, parts, self.rights(self.second)):
            matrix.left, matrix.right = left.view(-1, rank), right
            right.copy_(matrix.fallback)

    def rights(self, flat):
        return [part.view(-1, self._rank) for part in flat.split(self._sizes)] if self._sizes else []

    def state(self):
        return {
            "sums": self.sums,
            "rights": self.second.clone(),
            "errors": [matrix.error.clone() for matrix in self.matrices],
        }

    def load(self, state):
        self.sums = state["sums"]
        if state["rights"].shape != self.second.shape:
            return
        self.second.copy_(state["rights"])
        for matrix, error in zip(self.matrices, state["errors"]):
            matrix.error.copy_(error)


def _upright(torch, matrix, fallback):
    """Columns at right angles and of length 1 that span what the columns of a matrix do; those of another for none."""
    if matrix.shape[1] > 1:
        return torch.linalg.qr(matrix)[0]
    length = matrix.norm()
    return matrix / length if length > 0 else fallback


def compression(torch, ranks, report):
    """What sends a bucket as the plan has chosen."""
    planned = report.planned.get(NAME)
    if planned in _HALF:
        report.applied(NAME, "prepare")
        return Half(torch, ranks.samples, planned)
    if planned in _RANKS:
        report.applied(NAME, "prepare")
        return Factors(torch, ranks.samples, _RANKS[planned])
    if planned not in (None, "none"):
        report.refused(NAME, "prepare knows %s" % ", ".join(sorted({**_HALF, **_RANKS})), "prepare")
    return AsItIs(torch, ranks.samples)
