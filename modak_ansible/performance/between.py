"""What the processes of a training wait for each other: how long, and why nobody can tell."""

from __future__ import annotations

from math import sqrt

from modak_ansible.model.measured.prediction import Interval, Question
from modak_ansible.performance.data_parallel import FLOAT, Layer, Link, even_layers, exposed, straggler
from modak_ansible.performance.run import Run

UNKNOWN = "no record of several processes that train together"
LAW = "several processes: no record of them together; by the law of one process's steps and the network as measured"
_LAYERS = 16  # of a network of which nobody says how many it has
_OFF = 0.1  # of a sum's time, that the law may be off: what it is held to in the tests


def why_unknown(run: Run, question: Question) -> str:
    """Why it is not known how long processes wait for each other; empty where it is, or where there is only one."""
    if processes_of(question) == 1:
        return ""
    if not (question.latency and question.bandwidth):
        return f"{UNKNOWN}, nor of what messages between nodes cost (network: latency, bandwidth)"
    if not run.work.parameters:
        return f"{UNKNOWN}, and the work says nothing of its parameters"
    return ""


def processes_of(question: Question) -> int:
    """All that train together."""
    return question.nodes * question.processes_per_node


def slowest(question: Question, step: float, variance: float) -> float:
    """Seconds of compute of a step of the slowest process.

    Args:
        question: with how many processes.
        step: seconds of one of them.
        variance: of the logarithm of a run's step around what is known of it.
    """
    return step * straggler(processes_of(question), sqrt(variance))


def waiting_seconds(run: Run, question: Question, step: float) -> Interval | None:
    """Seconds of a step in which gradients are under way and nothing is computed; None where that is not known.

    Processes of one node are taken to talk no faster than those of several.
    Nobody says in which layers a network has its parameters: the middle has all layers alike. At the low end all
    gradients are ready as the backward pass begins, at the high end as it ends.
    """
    processes = processes_of(question)
    if processes == 1 or why_unknown(run, question):
        return None
    assert question.latency and question.bandwidth and run.work.parameters  # noqa: S101 - else the reason is told
    link = Link(question.latency * 1e-6, 1e-9 / question.bandwidth)
    size = FLOAT * run.work.parameters
    even = even_layers(run.work.parameters, run.work.layers or _LAYERS)
    compute, gradients = Layer((), 1 / 3, 2 / 3), Layer((size,), 0.0, 0.0)
    middle, high, low = (
        exposed(processes, step, layers, link) for layers in (even, (gradients, compute), (compute, gradients))
    )
    return Interval(middle=middle, low=min(low, middle) * (1 - _OFF), high=max(high, middle) * (1 + _OFF))
