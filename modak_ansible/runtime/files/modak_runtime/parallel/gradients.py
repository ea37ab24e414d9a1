"""Gradients of the whole batch: summed over ranks in buckets, while the backward pass still computes the others.

The buckets and their order never change, so a training that is gone on with adds in the same order. What one rank did
not use counts as zero where another did; what none used keeps no gradient. Summing again what was summed changes
nothing but the last bits, since the ranks' shares add up to one: so passes may be added up, and models be called in any
way.
"""

from modak_runtime.parallel.compression import AsItIs, compression
from modak_runtime.parallel.whole import local_of, with_local

_FIRST, _NEXT = 1 << 20, 25 << 20  # bytes: a small bucket leaves soon, while the others still fill
SIZE = "bucket_size"


class Gradients:
    """The gradients of a model's parameters, or of an optimizer's.

    Args:
        torch: the module.
        ranks: the processes that share them.
        report: says what was planned of their transport.
        parameters: floating, each once.
    """

    def __init__(self, torch, ranks, report, parameters):
        self.parameters, self.passes, self._apart = parameters, None, None
        self._torch, self._ranks, self._task, self._launched = torch, ranks, None, 0
        self._all = 1.0  # how much the samples of a pass count in all ranks
        self._queue = torch.autograd.Variable._execution_engine.queue_callback
        self._buckets = _buckets(torch, parameters, _size(report))
        for number, bucket in enumerate(self._buckets):
            bucket.number = number
        self._plain, self.way = AsItIs(torch, ranks.samples), compression(torch, ranks, report)
        self._anchors = None  # where the parameters were when ranks were alike the last time
        self._buckets_of = {parameter: bucket for bucket in self._buckets for parameter in bucket.members}
        for bucket in self._buckets:
            for parameter in bucket.members:
                self._watch(parameter, bucket)

    def arrived(self, parameter):
        """Takes that a parameter has a gradient which autograd did not leave there."""
        bucket = self._buckets_of.get(parameter)
        if bucket is not None:
            self._arrived(parameter, bucket)

    def _watch(self, parameter, bucket):
        """Waits for a gradient; of what does not learn yet, too: a script may thaw it."""
        needs = parameter.requires_grad
        parameter.requires_grad_(True)
        parameter.register_post_accumulate_grad_hook(lambda parameter: self._arrived(parameter, bucket))
        parameter.requires_grad_(needs)

    def _arrived(self, parameter, bucket):
        task = self._torch._C._current_graph_task_id()
        self._ranks.arrived(task)
        if self._apart and self._apart.now:
            if not self._ranks.part[0]:
                parameter.grad.zero_()
            return
        if task != self._task:
            self._finish()  # one within another, such as of what a checkpoint computes again
            self._task, self._launched = task, 0
            if self.passes and self._ranks.drops:  # each is a mean of its own
                own, whole = self._ranks.part
                self._all = self._ranks.total(own / whole) or 1.0
            for each_bucket in self._buckets:
                each_bucket.begin()
            self._queue(self._finish)
        if self.passes and self.passes.more:
            return
        bucket.awaited -= 1
        bucket.is_stale = bucket.number < self._launched
        while self._launched < len(self._buckets) and self._buckets[self._launched].awaited <= 0:
            self._send_next()

    def _send_next(self):
        bucket = self._buckets[self._launched]
        self._fill(bucket)
        self._launched += 1
        self._send(bucket, self._plain if self._apart else self._way(bucket))

    def _share(self):
        """How much this rank's samples count."""
        own, whole = self._ranks.part
        return own / whole / self._all

    def _way(self, bucket):
        """As planned; complex numbers have no half, and no factors."""
        return self._plain if bucket.whole.is_complex() else self.way

    def _send(self, bucket, way):
        bucket.sent = way.send(bucket)
        self._ranks.guarded(next, bucket.sent)

    def _receive(self):
        """Takes the steps of all that was sent in turn, in the order of all ranks."""
        left = [bucket.sent for bucket in self._buckets]
        while left:
            left = [sent for sent in left if self._ranks.guarded(next, sent, self) is not self]

    def _finish(self):
        """Ends a backward pass: its gradients are those of all ranks, unless more passes are added to them."""
        if self._task is None:
            return
        self._task = None
        if self.passes and self.passes.more:
            for bucket in self._buckets:
                bucket.keep(self._share())
            return
        while self._launched < len(self._buckets):
            self._send_next()
        self._receive()
        for bucket in self._buckets:
            if bucket.is_stale:  # more of it came when it had left
                self._fill(bucket)
                self._send(bucket, self._plain)
                self._ranks.guarded(next, bucket.sent, None)
            self._ranks.compare_steps(bucket.flags[-1], bucket.turn)
            bucket.empty(self._ranks.drops and not self.passes)

    def _fill(self, bucket):
        bucket.fill(self._share())
        bucket.flags[-1] = bucket.turn = 1 - 2 * (self._ranks.steps % 2)

    def end_loop(self):
        """Ends ranks one of which makes another pass of a loop's last step: it would be summed with what follows."""
        if not self._launched or self._apart or self.passes or self.way.state() is not None:
            return
        bucket, self._launched = self._buckets[0], 0
        bucket.whole.zero_()
        self._send(bucket, self._way(bucket))
        self._ranks.guarded(next, bucket.sent, None)
        self._ranks.compare_steps(bucket.flags[-1], 0)

    # --- steps that ranks make apart from each other

    def let_apart(self, apart):
        """Takes when ranks step by themselves; then it is not sums that are compressed, but where each rank went."""
        if self._apart is None:
            self._apart, self.way.start = apart, 0
            apart.gradients.append(self)

    def leave(self):
        """Takes that ranks, which are alike, go their own ways from here."""
        self._anchors = [[parameter.detach().clone() for parameter in bucket.members] for bucket in self._buckets]

    def gather(self):
        """Gives all ranks the mean of where they went; it travels as gradients do."""
        for bucket, anchors in zip(self._buckets, self._anchors):
            bucket.depart(anchors, 1 / self._ranks.samples.size)
            self._send(bucket, self._way(bucket))
        self._receive()
        for bucket, anchors in zip(self._buckets, self._anchors):
            bucket.arrive(anchors)
        self._anchors = None


class Bucket:
    """Gradients that travel together; behind them for each whether there was one, how much all count, of which step.

    Attributes:
        number: of this bucket; whole: all that is sent; views: the part of each parameter in it; flags: what follows.
        sent: what is left to be done until it holds the sum; turn: 1 before an even number of steps, else -1.
    """

    def __init__(self, torch, members):
        self._torch, self.members = torch, members
        self.number, self.awaited, self.is_stale, self.sent, self._is_kept = 0, 0, False, None, False
        self.turn = 0
        local_parts = [local_of(parameter) for parameter in members]
        size = sum(part.numel() for part in local_parts)
        self.whole = torch.zeros(size + len(members) + 2, dtype=members[0].dtype, device=members[0].device)
        self._flat, self.flags = self.whole[:size], self.whole[size:]
        parts = self._flat.split([part.numel() for part in local_parts])
        self.views = [part.view(local_part.shape) for part, local_part in zip(parts, local_parts)]

    def begin(self):
        self.awaited, self.is_stale = sum(1 for parameter in self.members if parameter.requires_grad), False

    def fill(self, share):
        """Takes the gradients, as much of them as this rank's share of the samples, beside those of earlier passes."""
        earlier = self.whole.clone() if self._is_kept else None
        self._is_kept = False
        with self._torch.no_grad():
            for view, parameter in zip(self.views, self.members):
                if parameter.grad is None:
                    view.zero_()
                else:
                    gradient = local_of(parameter.grad)
                    view.copy_(gradient.to_dense() if gradient.is_sparse else gradient)
            flags = [*(0.0 if parameter.grad is None else 1.0 for parameter in self.members), 1.0, 0.0]
            self.flags.copy_(self._torch.tensor(flags)) if 0.0 in flags[:-1] else self.flags.fill_(1)
            if share:
                self.whole.mul_(share)
            else:  # of nothing, even what is not finite
                self.whole.zero_()
            if earlier is not None:
                self.whole.add_(earlier)

    def keep(self, share):
        """Takes the gradients of a pass to which others are added before ranks sum them."""
        self.fill(share)
        self._is_kept = True
        for parameter in self.members:
            if parameter.grad is not None:
                parameter.grad.detach_().zero_()  # not None: what clips or scales expects some

    def depart(self, anchors, share):
        """Takes how far the parameters went, as this rank's share of the mean."""
        with self._torch.no_grad():
            for view, anchor, parameter in zip(self.views, anchors, self.members):
                self._torch.sub(anchor, parameter, out=view).mul_(share)
            self.flags.fill_(1)

    def arrive(self, anchors):
        """Gives the parameters what all went in the mean."""
        with self._torch.no_grad():
            for view, anchor, parameter in zip(self.views, anchors, self.members):
                self._torch.sub(anchor, view, out=parameter)

    def empty(self, drops):
        """Gives the sums back as gradients; what no rank had stays without one.

        Args:
            drops: whether samples may be left out of batches, of which those that are left are to count whole.
        """
        with self._torch.no_grad():
            if drops:
                weight = self.flags[-2:-1]
                self.whole.div_(self._torch.where(weight == 0, self._torch.ones_like(weight), weight))
            has_all = all(parameter.grad is not None for parameter in self.members)
            used = None if has_all else self.flags.tolist()
            for number, (view, parameter) in enumerate(zip(self.views, self.members)):
                if parameter.grad is None:
                    if used[number]:
                        parameter.grad = with_local(view.clone(memory_format=self._torch.preserve_format), parameter)
                elif parameter.grad.is_sparse:
                    parameter.grad = view.to_sparse(parameter.grad.sparse_dim())
                else:
                    local_of(parameter.grad).copy_(view)


def _size(report):
    """Bytes that close a bucket after the first."""
    planned = report.planned.get(SIZE)
    if planned is None:
        return _NEXT
    if not planned.isdigit() or not int(planned):
        report.refused(SIZE, "it is a number of MiB", "prepare")
        return _NEXT
    report.applied(SIZE, "prepare")
    return int(planned) << 20


def _buckets(torch, parameters, usual):
    """Those that are made last have their gradients first; a bucket is of one kind."""
    groups, open_groups = [], {}
    for parameter in reversed(parameters):
        kind = (parameter.dtype, parameter.device)
        members, size, limit = open_groups.get(kind) or ([], 0, min(_FIRST, usual) if not open_groups else usual)
        members.append(parameter)
        size += local_of(parameter).numel() * parameter.element_size()
        if len(members) == 1:
            groups.append(members)
        open_groups[kind] = (members, size, limit) if size < limit else ([], 0, usual)
    return [Bucket(torch, members) for members in groups]
