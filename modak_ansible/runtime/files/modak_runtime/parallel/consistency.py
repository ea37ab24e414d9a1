"""Whether ranks stay alike: a script may change its model in ways that no sum of gradients has, and nothing shows.

Behind the first step of each loop that trains, ranks compare what they have learned, and which samples they drew.
"""

import functools
import math
import sys
import threading
import weakref
import zlib

from modak_runtime.ranks import prepared

_FIRST, _LATER = 1e-5, 1e-3  # of a tensor's norm: processors of two kinds round differently, more so in many steps
_AT_ONCE = 1 << 20  # numbers of which PyTorch makes a copy as float64
_PASSES = "another number of backward passes for a step, such as for pieces of a batch that has parts of several sizes"
_JOINS = ("cat", "concat", "concatenate", "hstack", "vstack", "row_stack")
_CURE = "make as many in all, such as by pieces of so many samples, of batches that the number of ranks divides"


def compare_before_steps(ranks, optimizer):
    """Ends ranks that do not compute the same layers in the same order: each would take one's parts for another's."""
    optimizer.register_step_pre_hook(lambda *_: end_step(ranks))


def end_step(ranks):
    """Ends ranks that have not done the same since the last step, and takes that they have."""
    compare_now(ranks)
    ranks.trace.clear()
    ranks.is_compared = True


def compare_message(ranks, kind):
    """Ends ranks whose messages are of different kinds, which would wait for each other.

    Before the first step each is compared; later the first of a forward pass, which a rank may begin where others step,
    or leave their loop.
    """
    begins = ranks.begun != ranks.passes and ranks.torch._C._current_graph_task_id() == -1
    ranks.begun = ranks.passes if begins else ranks.begun
    ranks.trace.append(kind)
    if begins or not ranks.is_compared:
        compare_now(ranks)


def compare_now(ranks):
    """Ends ranks that have not done the same since the last step."""
    digest = zlib.crc32(repr(ranks.trace).encode()) >> 1
    most, least = ranks.largest([digest, -digest], ranks.model if ranks.is_alike else ranks.samples)
    if most != -least:
        if not ranks.has_parts:
            end_unlike_passes(ranks)
        difference = "were given other samples" if ranks.is_alike else "in another order"
        ranks.rank.end(
            "ranks compute different layers of a model, or %s: ddp can train it, not %s; or they make %s: %s"
            % (difference, ranks.strategy, _PASSES, _CURE)
        )


def end_loop(ranks, turn):
    """Ends ranks one of which makes another pass of the last step of a loop."""
    if ranks.is_alike or turn.arrivals == ranks.arrivals or threading.current_thread() is not threading.main_thread():
        return
    if ranks.has_parts:
        compare_now(ranks)
        return
    for gradients in ranks.present()[1]:
        gradients.end_loop()


def follow_joins(ranks):
    """Ends a rank that joins batches which were not cut alike: the samples of one would count more than the others'.

    PyTorch tells a mode of every call, by whatever name; like its own for default devices, this one lies below those
    that a script enters, and leaves again.
    """
    overrides, joins = ranks.torch.overrides, _joins(ranks)
    others = [overrides._pop_mode() for _ in range(overrides._len_torch_function_stack())]
    for mode in [joins, *(mode for mode in reversed(others) if mode is not joins)]:
        overrides._push_mode(mode)


@functools.lru_cache(maxsize=None)
def _joins(ranks):
    is_compiling = getattr(ranks.torch.compiler, "is_compiling", bool)

    class Joins(ranks.torch.overrides.TorchFunctionMode):
        def __torch_function__(self, function, _types, arguments=(), options=None):
            options = options or {}
            if not is_compiling() and getattr(function, "__name__", "") in _JOINS and ranks.has_part():
                _end_unlike_joins(ranks, arguments[0] if arguments else options["tensors"])
            return function(*arguments, **options)

    return Joins()


def _end_unlike_joins(ranks, tensors):
    cuts = [{parts for rows, parts in ranks.cuts if rows == len(tensor)} for tensor in tensors if tensor.dim()]
    if len(cuts) > 1 and all(cuts) and not set.intersection(*cuts):
        ranks.rank.end(
            "the script joins batches that the number of ranks does not divide, of %s samples here, which would not "
            "count alike: let it divide all of them (drop_last=True leaves out a last one), or let one loader read both"
            % " and ".join(str(len(tensor)) for tensor in tensors)
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
    models, gradients = ranks.present() if not ranks.is_alike else ((), ())
    parameters = [parameter for group in gradients for parameter in group.parameters if not ranks.has_parts]
    buffers = {
        (number, name): buffer
        for number, model in enumerate(models) for name, buffer in model.named_buffers() if buffer.is_floating_point()
    }  # fmt: skip
    own_sums = drawn, _sums(ranks.torch, parameters), dict(zip(buffers, _sums(ranks.torch, buffers.values())))
    sums_by_rank, allowed = ranks.gathered(own_sums), _LATER if ranks.has_looked else _FIRST
    ranks.has_looked = True
    for number, sums in enumerate(sums_by_rank):
        _compare(ranks, parameters, sums_by_rank[0], sums, number, allowed)
    if any(
        parameter._backward_hooks or len(parameter._post_accumulate_grad_hooks or ()) > 1 for parameter in parameters
    ):
        ranks.say_once("a hook on a parameter is given the gradient of a rank's part of a batch, before ranks sum them")


def _compare(ranks, parameters, first_rank, other_rank, number, allowed):
    if first_rank[0] != other_rank[0]:
        ranks.rank.end(
            "ranks 0 and %d draw other batches of one loader: what its sampler draws from is seeded by something that "
            "they do not have alike, such as the time, or its stream shares samples out by rank, as split_by_node "
            "does, which is to be left to prepare" % number
        )
    for parameter, expected, sums in zip(parameters, first_rank[1], other_rank[1]):
        if _differ(expected, sums, allowed):
            ranks.rank.end(
                "%s is no longer the same in ranks 0 and %d: the script changes it by what each rank has alone, such "
                "as gradients of torch.autograd.grad (backward gives those of the whole batch, and modak_runtime.mean "
                "that of one), numbers that it draws, or a step within the backward pass"
                % (_name(ranks, parameter), number)
            )
    for key, expected in first_rank[2].items():
        if key in other_rank[2] and _differ(expected, other_rank[2][key], allowed):
            ranks.say_once("the buffer %s is not the same in all ranks: each has that of its parts of batches" % key[1])


def _sums(torch, tensors):
    """Of each tensor its sum, its norm, and how many numbers it has."""
    sums = []
    for tensor in tensors:
        numbers = tensor.detach()
        numbers = torch.view_as_real(numbers) if numbers.is_complex() else numbers
        pieces = numbers.reshape(-1).split(_AT_ONCE)
        norms = [torch.linalg.vector_norm(piece, dtype=torch.float64).item() for piece in pieces]
        total = sum(piece.sum(dtype=torch.float64).item() for piece in pieces)
        sums.append((total, math.hypot(*norms), numbers.numel()))
    return sums


def _differ(expected, sums, allowed):
    """Whether tensors of as many numbers are others; what is not a number is left to the script."""
    return expected[2] == sums[2] and abs(expected[0] - sums[0]) > allowed * (expected[1] + sums[1])


def _name(ranks, parameter):
    names = (name for model in ranks.models for name, candidate in model.named_parameters() if candidate is parameter)
    return next(names, "a parameter")


# --- what passes the sums by


def imported(torch):
    """Has gradients be spoken of that no backward pass leaves in a parameter: of these PyTorch tells nobody."""
    original = torch.autograd.grad

    @functools.wraps(original)
    def grad(outputs, inputs, *arguments, **options):
        ranks = prepared()
        if ranks is not None and ranks.strategy == "fsdp" and (options.get("create_graph") or any(arguments[2:3])):
            ranks.rank.end("a gradient of a gradient is not known with fsdp, which would leave out some: ddp has it")
        if ranks is not None and ranks.has_part():
            if not isinstance(inputs, (torch.Tensor, dict, list, tuple)):  # the latter of which an edge is, too
                inputs = tuple(inputs)  # which may be read once only
            differentiated = (inputs,) if isinstance(inputs, torch.Tensor) else inputs
            differentiated = differentiated.values() if isinstance(differentiated, dict) else differentiated
            if not ranks.summed_ids().isdisjoint(map(id, differentiated)):
                ranks.arrivals += 1
                ranks.say_once(
                    "torch.autograd.grad gives a rank the gradients of its part of a batch: backward gives those of "
                    "the whole batch, and so does modak_runtime.mean of each"
                )
        return original(outputs, inputs, *arguments, **options)

    torch.autograd.grad = grad


def follow_steps(torch, ranks):
    """Looks at what optimizers step, as often as they have more or fewer parameters; and at why none does."""
    parameter_counts = weakref.WeakKeyDictionary()

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
        parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        if ranks.has_parts or not ranks.has_part():
            return
        if not ranks.is_compared:
            end_step(ranks)
        ranks.stepped.update(parameters)
        if turn.pieces and id(optimizer) in turn.stepped:
            ranks.say_once(
                "the script steps for each piece of a batch: ranks, which have parts of it, make fewer such steps than "
                "one process, of more samples each: let the loader's batches be as large as the pieces, or leave it "
                "out of prepare"
            )
        turn.stepped.add(id(optimizer))
        count, is_known = parameter_counts.get(optimizer, (0, False))
        ranks.steps += is_known
        if count == len(parameters):
            return
        summed_ids = ranks.summed_ids()
        model_ids = {id(parameter) for model in ranks.models for parameter in model.parameters()}
        parameter_counts[optimizer] = len(parameters), not summed_ids.isdisjoint(map(id, parameters))
        if isinstance(optimizer, torch.optim.LBFGS) and not summed_ids.isdisjoint(map(id, parameters)):
            ranks.rank.end("LBFGS looks at losses, which ranks have of their parts alone: give it to prepare")
        unsummed = [
            parameter for parameter in parameters if parameter.grad is not None and id(parameter) not in summed_ids
        ]
        if unsummed and (optimizer in ranks.optimizers or not model_ids.isdisjoint(map(id, unsummed))):
            ranks.rank.end(
                "%s steps parameters that its model had not when prepare was called, and whose gradients ranks do not "
                "sum: call prepare when the model is complete" % type(optimizer).__name__
            )
        if unsummed:
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
