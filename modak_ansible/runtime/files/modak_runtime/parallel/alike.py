"""Whether ranks stay alike: a script may change its model in ways that no sum of gradients has, and nothing shows.

Behind the first step of each loop that trains, ranks compare what they have learned, and which samples they drew.
"""

import functools
import sys
import weakref
import zlib

_FIRST, _LATER = 1e-5, 1e-3  # of a tensor's norm: processors of two kinds round differently, more so in many steps
_PASSES = "another number of backward passes for a step, such as for pieces of a batch that has parts of several sizes"
_CURE = "make as many in all, such as by pieces of so many samples, of batches that the number of ranks divides"


def compare_before_steps(ranks, optimizer):
    """Ends ranks that do not compute the same layers in the same order: each would take one's parts for another's."""
    optimizer.register_step_pre_hook(lambda *_: end_step(ranks))


def end_step(ranks):
    """Ends ranks that have not done the same since the last step, and takes that they have."""
    compare_now(ranks)
    ranks.trace.clear()
    ranks.is_compared = True


def compare_now(ranks):
    """Ends ranks that have not done the same since the last step."""
    mine = zlib.crc32(repr(ranks.trace).encode()) >> 1
    most, least = ranks.largest([mine, -mine], ranks.model if ranks.is_alike else ranks.samples)
    if most != -least:
        if not ranks.has_parts:
            end_unlike_passes(ranks)
        others = "were given other samples" if ranks.is_alike else "in another order"
        ranks.rank.end(
            "ranks compute different layers of a model, or %s: ddp can train it, not %s; or they make %s: %s"
            % (others, ranks.strategy, _PASSES, _CURE)
        )


def end_unlike_passes(ranks):
    ranks.rank.end("ranks make %s: %s" % (_PASSES, _CURE))


def look(ranks, drawn):
    """Ends ranks whose models or batches are not alike; of buffers, and of hooks on gradients, it is said once.

    Args:
        ranks: the processes, all of which call it.
        drawn: a digest of the samples of a batch; None where they have no numbers.
    """
    if not ranks.is_whole():
        return
    if not (ranks.is_compared or ranks.has_parts):
        end_step(ranks)
    models, gradients = ranks.present() if not ranks.has_parts else ((), ())
    learned = [each for group in gradients for each in group.parameters]
    buffers = {
        (number, name): each
        for number, model in enumerate(models) for name, each in model.named_buffers() if each.is_floating_point()
    }  # fmt: skip
    mine = drawn, _sums(ranks.torch, learned), dict(zip(buffers, _sums(ranks.torch, buffers.values())))
    everyone, allowed = ranks.gathered(mine), _LATER if ranks.has_looked else _FIRST
    ranks.has_looked = True
    for number, theirs in enumerate(everyone):
        _compare(ranks, learned, everyone[0], theirs, number, allowed)
    if any(each._backward_hooks or len(each._post_accumulate_grad_hooks or ()) > 1 for each in learned):
        ranks.say_once("a hook on a parameter is given the gradient of a rank's part of a batch, before ranks sum them")


def _compare(ranks, learned, first, theirs, number, allowed):
    if first[0] != theirs[0]:
        ranks.rank.end(
            "ranks 0 and %d draw other batches of one loader: what its sampler draws from is seeded by something that "
            "they do not have alike, such as the time, or its stream shares samples out by rank, as split_by_node "
            "does, which is to be left to prepare" % number
        )
    for parameter, one, other in zip(learned, first[1], theirs[1]):
        if _differ(one, other, allowed):
            ranks.rank.end(
                "%s is no longer the same in ranks 0 and %d: the script changes it by what each rank has alone, such "
                "as gradients of torch.autograd.grad (backward gives those of the whole batch, and modak_runtime.mean "
                "that of one), numbers that it draws, or a step within the backward pass"
                % (_name(ranks, parameter), number)
            )
    for place, one in first[2].items():
        if place in theirs[2] and _differ(one, theirs[2][place], allowed):
            ranks.say_once(
                "the buffer %s is not the same in all ranks: each has that of its parts of batches" % place[1]
            )


def _sums(torch, tensors):
    """Of each tensor its sum, its norm, and how many numbers it has."""
    found = []
    for tensor in tensors:
        each = tensor.detach()
        each = torch.view_as_real(each) if each.is_complex() else each
        norm = torch.linalg.vector_norm(each, dtype=torch.float64)
        found.append((each.sum(dtype=torch.float64).item(), norm.item(), each.numel()))
    return found


def _differ(one, other, allowed):
    """Whether tensors of as many numbers are others; what is not a number is left to the script."""
    return one[2] == other[2] and abs(one[0] - other[0]) > allowed * (one[1] + other[1])


def _name(ranks, parameter):
    names = (name for model in ranks.models for name, each in model.named_parameters() if each is parameter)
    return next(names, "a parameter")


# --- what passes the sums by


def imported(torch):
    """Has gradients be spoken of that no backward pass leaves in a parameter: of these PyTorch tells nobody."""
    plain = torch.autograd.grad

    @functools.wraps(plain)
    def grad(outputs, inputs, *arguments, **options):
        processes = sys.modules.get("modak_runtime.parallel.processes")
        here = processes.here() if processes else None
        if here is not None and here.strategy == "fsdp" and (options.get("create_graph") or any(arguments[2:3])):
            here.rank.end("a gradient of a gradient is not known with fsdp, which would leave out some: ddp has it")
        if here is not None and here.has_part():
            if not isinstance(inputs, (torch.Tensor, dict, list, tuple)):  # the latter of which an edge is, too
                inputs = tuple(inputs)  # which may be read once only
            of = (inputs,) if isinstance(inputs, torch.Tensor) else inputs
            of = of.values() if isinstance(of, dict) else of
            if not here.known().isdisjoint(map(id, of)):
                here.arrivals += 1
                here.say_once(
                    "torch.autograd.grad gives a rank the gradients of its part of a batch: backward gives those of "
                    "the whole batch, and so does modak_runtime.mean of each"
                )
        return plain(outputs, inputs, *arguments, **options)

    torch.autograd.grad = grad


def follow_steps(torch, ranks):
    """Looks at what optimizers step, as often as they have more or fewer parameters; and at why none does."""
    looked = weakref.WeakKeyDictionary()

    def about_to_step(optimizer, *_):
        turn = ranks.turn
        if turn is not None and turn.is_over and not turn.ahead and ranks.looks is None:
            if turn.behind in (None, ranks.arrivals):  # the last batch may be learned from here, or passes be added up
                ranks.part, turn.behind = (1, ranks.samples.size), ranks.arrivals
            else:
                ranks.say_once(
                    "the script steps on behind a loader's loop: of batches that it kept all parts count alike, which "
                    "is right where the number of ranks divides their samples"
                )
        stepped = [each for group in optimizer.param_groups for each in group["params"]]
        if ranks.has_parts or not ranks.has_part():
            return
        if not ranks.is_compared:
            end_step(ranks)
        ranks.stepped.update(stepped)
        if turn.pieces and id(optimizer) in turn.stepped:
            ranks.say_once(
                "the script steps for each piece of a batch: ranks, which have parts of it, make fewer such steps than "
                "one process, of more samples each: let the loader's batches be as large as the pieces, or leave it "
                "out of prepare"
            )
        turn.stepped.add(id(optimizer))
        many, is_known = looked.get(optimizer, (0, False))
        ranks.steps += is_known
        if many == len(stepped):
            return
        known, own = ranks.known(), {id(each) for model in ranks.models for each in model.parameters()}
        looked[optimizer] = len(stepped), not known.isdisjoint(map(id, stepped))
        if isinstance(optimizer, torch.optim.LBFGS) and not known.isdisjoint(map(id, stepped)):
            ranks.rank.end("LBFGS looks at losses, which ranks have of their parts alone: give it to prepare")
        others = [each for each in stepped if each.grad is not None and id(each) not in known]
        if others and (optimizer in ranks.optimizers or not own.isdisjoint(map(id, others))):
            ranks.rank.end(
                "%s steps parameters that its model had not when prepare was called, and whose gradients ranks do not "
                "sum: call prepare when the model is complete" % type(optimizer).__name__
            )
        if others:
            ranks.say_once(
                "%s steps parameters that prepare was not given: each rank learns them from its parts of batches"
                % type(optimizer).__name__
            )

    sys.modules["torch.optim.optimizer"].register_optimizer_step_pre_hook(about_to_step)
    show = sys.excepthook

    def explain(kind, error, trace):
        show(kind, error, trace)
        if ranks.has_part() and not ranks.is_compared and issubclass(kind, (RuntimeError, ValueError)):
            ranks.rank.say(
                "this is before the first step. Each rank is given its part of a batch, here %d of %d samples: where "
                "sizes do not match, the script may have that of a whole batch as a number, instead of len(x)"
                % ranks.part,
                by_all=True,
            )

    sys.excepthook = explain
