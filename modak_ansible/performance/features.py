"""What the model knows a run by: its features, each with the group whose spread it shares.

Everything is in natural logarithms, so that a coefficient is the logarithm of a factor. A feature is (group, name,
value). Those of a single workload, of a single machine and of a single configuration stand beside the general ones and
are held small: they say how far the general ones may be off where nothing was measured.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import log
from typing import NamedTuple

from modak_ansible.model.measured.work import Rates, Work

FEATURES = 16  # of this list; a model that was fitted with another one is not read

DAY = "day"  # the group of what all runs of a machine's day have in common
_OF = ": "

_VERSION = re.compile(r"\d+\.\d+(?![^.+\s])")
Feature = tuple[str, str, float]

_STEP_GFLOP = 10.0  # a step of middling work: what coefficients of log(work) are centred on
_PARAMETERS_A_GFLOP = 1e5
_BYTES_A_GFLOP = 1e5
_FLOP_A_BYTE = 5.0
_OVER_IDEAL = 1.6
_MEASURED = "pytorch"  # whose kernels were measured one by one
_OF_OTHERS = {"memory_format": "channels_last"}  # TensorFlow has channels last by itself


class Facts(NamedTuple):
    """A run, as far as the model sees it."""

    framework: str
    entry: str
    workload: str
    switches: Mapping[str, str]  # what differs from stock
    machine: str  # processor's or accelerator's name; empty where it is not known
    container: bool = True
    step_gflop: float | None = None  # GFLOP of one step of one process; None where it is not known
    parameters: int | None = None
    threads: int | None = None  # of one process
    step_bytes: float | None = None  # of the samples of such a step
    # FLOP that the machine does in the time in which it moves a byte; None where nobody measured it
    balance: float | None = None
    # a step's time by its operators' rooflines, and what they take besides, over that of its work at the peak; None
    # where nobody traced them
    over_ideal: float | None = None
    version: str = ""  # of the framework, major and minor; empty where it is not known
    # speed of the machine's products in the number format of the run over single precision, of which the roofline is
    # made; None where nobody measured it
    format_gain: float | None = 1.0
    has_own_speeds: bool = True  # and not those of a machine that may be another
    day: str = ""  # of a run on record, the newest of its machine's of another one; empty where there is none

    def of_work(self, work: Work, batch: int | None, rates: Rates | None, peak: float | None) -> Facts:
        """The run with what is known of its work, ``batch`` samples of which are a step of one process.

        Args:
            rates: the machine's speeds in the number format of the run; None where nobody measured them.
            peak: GFLOP/s of the processor's threads; None where it is not known, and of an accelerator, which computes
                while its process calls the next operators.
        """
        step_gflop = work.gflop_per_sample * batch if work.gflop_per_sample and batch else None
        over_ideal = work.over_ideal(self.balance, rates or Rates.usual())
        if over_ideal and peak and step_gflop and batch:
            switches = self.switches if self.framework == _MEASURED else _OF_OTHERS
            over_ideal += work.seconds_beside(batch, self.threads or 1, switches) * peak / step_gflop
        return self._replace(
            workload=work.workload,
            step_gflop=step_gflop,
            parameters=work.parameters,
            step_bytes=work.sample_bytes * batch if work.sample_bytes and batch else None,
            over_ideal=over_ideal,
            version=short_version(self.version),
            format_gain=rates.products if rates else None,
        )


def group_of(group: str, owner: str) -> str:
    """A group that one thing has for itself, with a spread of its own."""
    return f"{group}{_OF}{owner}"


def usual_group(group: str) -> str:
    """The group whose usual spread is expected of one that a thing has for itself."""
    return group.partition(_OF)[0]


def switch_name(framework: str, name: str, value: str) -> str:
    return f"{framework} {name}={value}"


def in_version(switch: str, version: str) -> str:
    return f"{switch} with {version}"


def short_version(version: str) -> str:
    """Major and minor number; empty where there are none, as of a range."""
    match = _VERSION.match(version)
    return match.group() if match else ""


def step_features(facts: Facts) -> list[Feature]:
    """Of the logarithm of (seconds of a step x peak / work of the step): what is lost to the machine's peak."""
    framework, workload = facts.framework, facts.workload
    features: list[Feature] = [
        *_identity(facts),
        ("workload", f"workload {workload}", 1.0),
        ("framework in workload", f"{framework} in {workload}", 1.0),
        *_of_machine(facts),
    ]
    size = log(facts.step_gflop / _STEP_GFLOP) if facts.step_gflop else 0.0
    if facts.step_gflop:
        features += [("size", "log(step work)", size), ("framework and size", f"{framework} log(step work)", size)]
        for fact, amount, typical in (
            ("parameters", facts.parameters, _PARAMETERS_A_GFLOP),
            ("bytes", facts.step_bytes, _BYTES_A_GFLOP),
        ):
            if amount and amount > 0:
                features.append(("size", f"log({fact} / step work)", log(amount / facts.step_gflop / typical)))
            else:
                features.append(("size", f"{fact} not known", 1.0))
        if not facts.over_ideal:
            features.append(("size", "operators not known", 1.0))
    features.append(("roofline", "log(roofline / ideal)", _roofline(facts)))
    if facts.balance:
        features.append(("balance", "log(peak / bandwidth)", log(facts.balance / _FLOP_A_BYTE)))
    if facts.threads and facts.threads > 1:
        features.append(("threads", f"{framework} log(threads)", log(facts.threads)))
    for name, value in facts.switches.items():
        switch = switch_name(framework, name, value)
        features += [
            ("switch", switch, 1.0),
            ("switch in version", in_version(switch, facts.version), 1.0),
            # another build of a version may have in it already what a switch is for
            ("switch in build", f"{switch} built as {facts.entry}", 1.0),
            # how far works differ is each switch's own: an allocator gains everywhere, a number format here and there
            (group_of("switch in workload", switch), f"{switch} in {workload}", 1.0),
            # and what differs much between works is the first to differ between machines
            (group_of("switch in workload", switch), f"{switch} on {facts.machine}", 1.0),
        ]
        if size:
            features.append(("switch and size", f"{switch} log(step work)", size))
        if name == "precision" and facts.format_gain is None:
            # units for a number format have twice the speed of those for another, or half of it
            features.append(("format not measured", f"{switch} not measured on {facts.machine}", 1.0))
    return features + _pairs(facts)


def _roofline(facts: Facts) -> float:
    """Of usual operators where nobody traced them: a number format speeds up what they compute, not what they move."""
    over_ideal = facts.over_ideal or 1.0 / (facts.format_gain or 1.0) + _OVER_IDEAL - 1.0
    return log(over_ideal / _OVER_IDEAL)


def _of_machine(facts: Facts) -> list[Feature]:
    """What is the machine's own: of all that runs there, of a framework, of a workload, and of one configuration.

    The last is as free as runs of one configuration differ from what everything else says, so that some runs of it
    here outweigh all others elsewhere. Two hosts with one processor differ, and one host on two days: what all runs of
    a day have in common says nothing of the configurations that ran on that day alone.
    """
    machine = f"machine {facts.machine}"
    return [
        ("machine" if facts.balance and facts.has_own_speeds else "machine not measured", machine, 1.0),
        *([(DAY, f"{facts.machine} on {facts.day}", 1.0)] if facts.day else []),
        ("framework on machine", f"{facts.framework} on {facts.machine}", 1.0),
        ("workload on machine", f"{facts.workload} on {facts.machine}", 1.0),
        ("configuration on machine", configuration_words(facts), 1.0),
    ]


def configuration_words(facts: Facts) -> str:
    switches = " ".join(f"{name}={value}" for name, value in facts.switches.items())
    words = [facts.entry, switches, *([] if facts.container else ["native"]), f"by {facts.threads} threads"]
    return f"{' '.join(filter(None, words))} in {facts.workload} on {facts.machine}"


def unmeasured(facts: Facts, counts: Mapping[str, int]) -> list[str]:
    """Which matters of a run are not among the measured ones, as ``calibration`` names them; none where it ran."""
    matters = {"machines": f"machine {facts.machine}", "workloads": f"workload {facts.workload}"}
    kinds = [kind for kind, name in matters.items() if name not in counts]
    return kinds or (["configurations"] if configuration_words(facts) not in counts else [])


def start_features(facts: Facts) -> list[Feature]:
    """Of the logarithm of the seconds from the start of the process to its first step."""
    native: list[Feature] = [] if facts.container else [("container", f"{facts.framework} native", 1.0)]
    machine = ("process on machine", f"machine {facts.machine}", 1.0)
    return [*_identity(facts), machine, *native, *_size(facts), *_switches(facts)]


def first_step_features(facts: Facts) -> list[Feature]:
    """Of the logarithm of the seconds that the first step takes longer than a steady one, compilation included."""
    machine = ("process on machine", f"machine {facts.machine}", 1.0)
    return [*_identity(facts), machine, *_size(facts), *_switches(facts)]


def evaluation_features(facts: Facts) -> list[Feature]:
    """Of the logarithm of (seconds to evaluate a sample / seconds to train with it)."""
    return [*_identity(facts), ("workload", f"workload {facts.workload}", 1.0), *_switches(facts)]


FEATURES_OF = {
    "step": step_features,
    "start": start_features,
    "first_step": first_step_features,
    "evaluation": evaluation_features,
}


def _identity(facts: Facts) -> list[Feature]:
    return [
        ("all", "all", 1.0),
        ("framework", f"framework {facts.framework}", 1.0),
        ("entry", f"entry {facts.entry}", 1.0),
    ]


def _size(facts: Facts) -> list[Feature]:
    features: list[Feature] = [("workload", f"workload {facts.workload}", 1.0)]
    if facts.step_gflop:
        features.append(("size", "log(step work)", log(facts.step_gflop / _STEP_GFLOP)))
    return features


def _switches(facts: Facts) -> list[Feature]:
    return [("switch", switch_name(facts.framework, *item), 1.0) for item in facts.switches.items()]


def _pairs(facts: Facts) -> list[Feature]:
    """Two switches together.

    Where the samples come from is added to what the step costs, whatever computes it.
    """
    switches = [f"{name}={value}" for name, value in facts.switches.items() if name != "input"]
    return [
        ("pair", f"{facts.framework} {one} {other}", 1.0)
        for place, one in enumerate(switches)
        for other in switches[place + 1 :]
    ]
