"""Steps that each rank makes by itself; every so many the ranks take the mean of where they went: local SGD.

Ranks are together at first, as without it, for a training is least steady then. A step of a rank is by the mean over
its own part of the batch. The mean is taken early where others look at the model: at the end of a loop that trains, and
before one that evaluates.
"""

NAME = "local_sgd"
TOGETHER = 32  # steps of the beginning


class Apart:
    """When ranks step by themselves.

    Attributes:
        gradients: whose parameters go apart.
        steps: made so far.
        now: whether the next step is a rank's own.
        own_steps: since ranks were alike the last time.

    Args:
        every: own steps between two means.
    """

    def __init__(self, torch, ranks, every, optimizer):
        self._torch, self._ranks, self._every, self.gradients = torch, ranks, every, []
        self.steps, self.own_steps, self.now = 0, 0, False
        optimizer.register_step_pre_hook(self._begins)
        optimizer.register_step_post_hook(self._ended)

    def _begins(self, *_):
        if self.now and not self.own_steps:
            for gradients in self.gradients:
                gradients.leave()

    def _ended(self, *_):
        self.steps += 1
        if self.now:
            self.own_steps += 1
            if self.own_steps == self._every:
                self.meet()
        self.now = self.steps >= TOGETHER

    def meet(self):
        """Makes ranks alike, where they are not; all of them call it."""
        if not self.own_steps:
            return
        self.own_steps = 0
        for gradients in self.gradients:
            gradients.gather()
        buffers = [buffer for model in self._ranks.models for buffer in model.buffers() if buffer.is_floating_point()]
        for kind in {(buffer.dtype, buffer.device) for buffer in buffers}:
            same_kind = [buffer for buffer in buffers if (buffer.dtype, buffer.device) == kind]
            with self._torch.no_grad():
                flat = self._torch.cat([buffer.reshape(-1) for buffer in same_kind]).div_(self._ranks.world)
                self._ranks.guarded(self._torch.distributed.all_reduce, flat)
                for buffer, part in zip(same_kind, flat.split([buffer.numel() for buffer in same_kind])):
                    buffer.copy_(part.view(buffer.shape))

    def load(self, steps):
        """Takes that so many steps were made before, the last of which left all ranks alike."""
        self.steps, self.now = steps, steps >= TOGETHER


def apart(torch, ranks, report, optimizers):
    """When ranks step by themselves; None where nobody asks for it, or it cannot be."""
    planned = report.planned.get(NAME)
    if planned in (None, "none"):
        return None
    why = ""
    if not planned.isdigit() or int(planned) < 2:
        why = "it is a number of steps, 2 or more"
    elif not optimizers:
        why = "no optimizer was given to prepare, whose steps would be counted"
    elif not ranks.shares:
        why = "each rank learns from the whole batch"
    elif ranks.has_parts:
        why = "each rank has a part of the model only"
    if why:
        report.refused(NAME, why, "prepare")
        return None
    report.applied(NAME, "prepare")
    return Apart(torch, ranks, int(planned), optimizers[0])
