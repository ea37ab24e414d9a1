"""What the processes of a training wait for each other: how long, and why nobody can tell."""

from __future__ import annotations

from collections.abc import Mapping
from math import sqrt

from modak_ansible.model.measured.prediction import Interval, Question
from modak_ansible.performance.data_parallel import (
    FLOAT,
    MIB,
    STOCK,
    Buckets,
    Layer,
    Link,
    all_gather,
    all_reduce,
    even_layers,
    exposed,
    reduce_scatter,
    straggler,
)
from modak_ansible.performance.run import Run, whole_number

UNKNOWN = "no record of several processes that train together"
LAW = "several processes: no record of them together; by the law of one process's steps and the network as measured"
_LAYERS = 16  # of a network of which nobody says how many it has
# Seconds for each byte of gradients. Factors by the steps of two ranks on record (suite scaling, group plans), whose
# cores others used, too: 7 to 18 ns; alone on a core it is 0.6 to 1.8.
_HALVING, _FACTORING, _FACTORING_A_RANK, _AVERAGING = 0.6e-9, 12e-9, 0.4e-9, 0.8e-9
# Seconds for an operator that a stage of a pipeline follows, with what its pieces cost that many small ones would not:
# a call of the backward pass each, and gradients that are tensors of several ranks. By steps of two ranks over 1 Gbit/s
# (suite scaling, Zen 4); four ranks, and 100 Mbit/s, had no part in it.
_FOLLOWING = 136e-6
_OFF = 0.1  # of a sum's time, that the law may be off: what it is held to in the tests


def why_unknown(run: Run, question: Question) -> str:
    """Why it is not known how long processes wait for each other; empty where it is, or where there is only one."""
    if processes_of(question) == 1:
        return ""
    if not (question.latency and question.bandwidth):
        return f"{UNKNOWN}, nor of the cost of messages between nodes (network: latency, bandwidth)"
    if question.split and not question.split.messages:
        return f"{UNKNOWN}, and no trace shows what ranks that share out layers send: modak trace"
    if not question.split and not run.work.parameters:
        return f"{UNKNOWN}, and the work does not give its parameters"
    return ""


def processes_of(question: Question) -> int:
    """All that train together."""
    return question.nodes * question.processes_per_node


def wait_alike(one: Question, other: Question) -> bool:
    """Whether the processes of both wait for each other in the same way."""

    def way(question: Question) -> tuple[object, ...]:
        return buckets_of(question.settings), question.shares_batch, question.gathers, question.copies, question.split

    return processes_of(one) == processes_of(other) == 1 or way(one) == way(other)


def slowest(question: Question, step: float, variance: float) -> float:
    """Seconds of compute of a step of the slowest process.

    Args:
        step: seconds of one of them.
        variance: of the logarithm of a run's step around what is known of it.
    """
    return step * straggler(processes_of(question), sqrt(variance))


def buckets_of(settings: Mapping[str, str]) -> Buckets:
    """How gradients leave where modak's runtime sums them, by the names and values of its optimisations."""
    buckets = STOCK
    size, every = (whole_number(settings.get(name)) for name in ("bucket_size", "local_sgd"))
    form = settings.get("gradient_compression", "")
    if size:
        buckets = buckets._replace(first=min(STOCK.first, size * MIB), others=size * MIB)
    if form in ("fp16", "bf16"):
        buckets = buckets._replace(kept=0.5, coding=_HALVING)
    elif form.startswith("powersgd"):
        rank = whole_number(form.partition("_")[2]) or 1
        buckets = buckets._replace(rank=rank, coding=_FACTORING + rank * _FACTORING_A_RANK)
    if every:
        buckets = buckets._replace(every=every, rank=0, coding=buckets.coding + _AVERAGING)
    return buckets


def what_link_permits(run: Run, question: Question, step: float | None) -> tuple[str, ...]:
    """What the link leaves of the efficiency as long as each step sends all gradients in float32, in words.

    Args:
        run: of the question.
        step: seconds of a step's compute; None where nobody knows.
    """
    ranks = processes_of(question)
    if not step or ranks == 1 or question.split or why_unknown(run, question):
        return ()
    assert question.bandwidth and run.work.parameters  # noqa: S101 - else the reason is told
    sums = all_reduce(ranks, FLOAT * run.work.parameters, Link(0.0, 1e-9 / question.bandwidth))
    if sums <= step:
        return ()
    words = (
        f"however much of it is hidden, the network permits steps of {sums * 1e3:.0f} ms, an efficiency of "
        f"{step / sums:.2f}, "
        "where each sends all gradients in float32; fewer bytes or fewer sums need numerics: any"
    )
    return (words,)


def waiting_seconds(run: Run, question: Question, step: float) -> Interval | None:
    """Seconds of a step in which gradients are under way and nothing is computed; None where that is not known.

    Processes of one node are taken to talk no faster than those of several.
    Nobody says in which layers a network has its parameters: the middle has all layers alike. At the low end all
    gradients are ready as the backward pass begins, at the high end as it ends. Where layers are gathered, each waits
    for its parameters: fully_shard hides none of it on processors.
    """
    processes = processes_of(question)
    if processes == 1 or why_unknown(run, question):
        return None
    assert question.latency and question.bandwidth  # noqa: S101 - else the reason is told
    link, split = Link(question.latency * 1e-6, 1e-9 / question.bandwidth), question.split
    along = max(1, processes // question.copies)  # with the parts of one
    if split:  # nothing is computed beside them
        size = split.size / split.messages
        seconds = all_reduce(along, size, link) if split.are_sums else link.alpha + size * link.beta
        waits = split.messages * seconds + split.followed * _FOLLOWING
        return _with_sums(waits, all_reduce(question.copies, split.gradients, link))
    assert run.work.parameters  # noqa: S101 - else the reason is told
    size = FLOAT * run.work.parameters
    even = even_layers(run.work.parameters, run.work.layers or _LAYERS)
    if question.gathers:  # twice all parameters, and the sums of their gradients go where they are kept
        layers, by_gloo = run.work.layers or _LAYERS, not question.accelerator
        unit = size / layers
        seconds = 2 * all_gather(along, unit, link, by_gloo=by_gloo) + reduce_scatter(
            along, unit, link, by_gloo=by_gloo
        )
        return _with_sums(layers * seconds, layers * all_reduce(question.copies, unit / along, link))
    sums = buckets_of(question.settings)
    compute, gradients = Layer((), 1 / 3, 2 / 3), Layer((size,), 0.0, 0.0)
    middle, high, low = (
        exposed(processes, step, layers, link, sums) for layers in (even, (gradients, compute), (compute, gradients))
    )
    return Interval(middle=middle, low=min(low, middle) * (1 - _OFF), high=max(high, middle) * (1 + _OFF))


def _with_sums(waits: float, sums: float) -> Interval:
    """What nothing hides, and sums of gradients between copies of a model, of which the backward pass may hide any."""
    return Interval(middle=waits + sums, low=waits * (1 - _OFF), high=(waits + sums) * (1 + _OFF))
