"""Gradients of the whole batch: summed over ranks in buckets, while the backward pass still computes the others.

The buckets and their order never change, so a training that is gone on with adds in the same order. What one rank did
not use counts as zero where another did; what none used keeps no gradient. Summing again what was summed changes
nothing but the last bits, since the ranks' shares add up to one: so passes may be added up, and models be called in any
way.
"""

from modak_runtime.parallel.compression import compression

_FIRST, _NEXT = 1 << 20, 25 << 20  # bytes: a small bucket leaves soon, while the others still fill


class Gradients:
    """The gradients of a model's parameters, or of an optimizer's.

    Args:
        torch: the module.
        ranks: the processes that share them.
        report: says what was planned of their transport.
        parameters: floating, each once.
    """

    def __init__(self, torch, ranks, report, parameters):
        self.parameters = parameters
        self._torch, self._ranks, self._task, self._launched = torch, ranks, None, 0
        self._queue = torch.autograd.Variable._execution_engine.queue_callback
        self._buckets = _buckets(torch, parameters)
        for number, bucket in enumerate(self._buckets):
            bucket.number, bucket.is_final = number, number == len(self._buckets) - 1
        self._send = compression(torch, ranks, report)
        for bucket in self._buckets:
            for parameter in bucket.members:
                self._watch(parameter, bucket)

    def _watch(self, parameter, bucket):
        """Waits for a gradient; of what does not learn yet, too: a script may thaw it."""
        needs = parameter.requires_grad
        parameter.requires_grad_(True)
        parameter.register_post_accumulate_grad_hook(lambda _parameter: self._arrived(bucket))
        parameter.requires_grad_(needs)

    def _arrived(self, bucket):
        task = self._torch._C._current_graph_task_id()
        if task != self._task:
            self._finish()  # one within another, such as of what a checkpoint computes again
            self._task, self._launched = task, 0
            for each in self._buckets:
                each.begin()
            self._queue(self._finish)
        bucket.awaited -= 1
        bucket.is_stale = bucket.number < self._launched
        while self._launched < len(self._buckets) and self._buckets[self._launched].awaited <= 0:
            self._send_next()

    def _send_next(self):
        self._send_one(self._buckets[self._launched])
        self._launched += 1

    def _send_one(self, bucket):
        own, whole = self._ranks.part
        bucket.fill(own / whole)
        bucket.sent = self._ranks.guarded(self._send, bucket)

    def _finish(self):
        """Ends a backward pass: its gradients are those of all ranks."""
        if self._task is None:
            return
        self._task = None
        while self._launched < len(self._buckets):
            self._send_next()
        for bucket in self._buckets:
            self._ranks.guarded(bucket.sent)
            if bucket.is_stale:  # more of it came when it had left
                self._send_one(bucket)
                self._ranks.guarded(bucket.sent)
            bucket.empty()


class Bucket:
    """Gradients that travel together, and behind them for each whether there was one.

    The names of its public methods are those that PyTorch's own hooks call.
    """

    def __init__(self, torch, members):
        self._torch, self.members = torch, members
        self.number, self.is_final, self.awaited, self.is_stale, self.sent = 0, False, 0, False, None
        size = sum(each.numel() for each in members)
        self.whole = torch.zeros(size + len(members), dtype=members[0].dtype, device=members[0].device)
        self._flat, self.flags = self.whole[:size], self.whole[size:]
        parts = self._flat.split([each.numel() for each in members])
        self._views = [part.view(each.shape) for part, each in zip(parts, members)]

    def begin(self):
        self.awaited, self.is_stale = sum(1 for each in self.members if each.requires_grad), False

    def fill(self, share):
        """Takes the gradients, as much of them as this rank's share of the samples."""
        with self._torch.no_grad():
            for view, each in zip(self._views, self.members):
                if each.grad is None:
                    view.zero_()
                else:
                    view.copy_(each.grad.to_dense() if each.grad.is_sparse else each.grad)
            known = [0.0 if each.grad is None else 1.0 for each in self.members]
            self.flags.copy_(self._torch.tensor(known)) if 0.0 in known else self.flags.fill_(1)
            if share:
                self.whole.mul_(share)
            else:  # of nothing, even what is not finite
                self.whole.zero_()

    def empty(self):
        """Gives the sums back as gradients; what no rank had stays without one."""
        with self._torch.no_grad():
            known = all(each.grad is not None for each in self.members)
            used = None if known else self.flags.tolist()
            for number, (view, each) in enumerate(zip(self._views, self.members)):
                if each.grad is None:
                    if used[number]:
                        each.grad = view.clone(memory_format=self._torch.preserve_format)
                elif each.grad.is_sparse:
                    each.grad = view.to_sparse(each.grad.sparse_dim())
                else:
                    each.grad.copy_(view)

    # --- as PyTorch's own hooks for gradients ask

    def buffer(self):
        return self._flat

    def gradients(self):
        return self._views

    def index(self):
        return self.number

    def is_last(self):
        return self.is_final


def _buckets(torch, parameters):
    """Those that are made last have their gradients first; a bucket is of one kind."""
    found, open_ones = [], {}
    for each in reversed(parameters):
        kind = (each.dtype, each.device)
        members, size, limit = open_ones.get(kind) or ([], 0, _FIRST if not open_ones else _NEXT)
        members.append(each)
        size += each.numel() * each.element_size()
        if len(members) == 1:
            found.append(members)
        open_ones[kind] = (members, size, limit) if size < limit else ([], 0, _NEXT)
    return [Bucket(torch, members) for members in found]
