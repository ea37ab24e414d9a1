"""What optimisations of the script's own code share: how a choice gets there, and what is fixed already.

A script is reached by its own options where workload.yaml beside it names them, by hooks in Keras and in PyTorch's
settings, or by the line that calls prepare; see docs/prepare.md.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from typing import ClassVar

from modak_ansible.allocation.ranks import ranks_of
from modak_ansible.catalogue.entry import PLAIN, version_from
from modak_ansible.model.application import Application
from modak_ansible.optimisations.base import Draft, Numerics, Optimisation, Option, why_unseen

OLDEST_PYTHON = (3, 8)  # that the runtime can act in
# GFLOP of a step: both networks that were measured on an accelerator have more (benchmarks/accelerator), and what
# takes its time in calls gains nothing.
_LARGE_STEP = 1000.0
# NVIDIA's from Ampere on, by the names that nvidia-smi and sites give them.
_WITH_BF16 = re.compile(
    r"^nvidia .*\b(a(10|16|30|40|100|800)|h(20|100|200|800)|gh200|b(100|200|300)|gb[23]00|l(4|20|40s?))(?![a-z0-9])",
    re.IGNORECASE,
)
_OLDEST_KERAS = "2.6"  # TensorFlow's, that the runtime knows

NO_PREPARE = "the script does not call prepare; one line would let it: see docs/prepare.md"


def switches_of(application: Application) -> set[str]:
    """The names of arguments, with _ for -, that optimisations look at."""
    scripts = application.workload.scripts if application.workload else ()
    return {"batch_size", *(name for script in scripts for name in script.switches)}


def switch_of(draft: Draft, name: str) -> tuple[str, ...]:
    """The values of the script's own switch, its default first; none where it has no such switch."""
    return draft.script.switches.get(name, ()) if draft.script else ()


def argument_of(draft: Draft, name: str) -> str:
    """What the user's own arguments say; empty where they leave it open."""
    values = [value for option, value in draft.request.application.arguments if option.replace("-", "_") == name]
    return str(values[-1]) if values and values[-1] is not False else ""


def framework_of(draft: Draft) -> str:
    return draft.entry.framework if draft.entry else draft.request.application.framework


def python_of(draft: Draft) -> tuple[int, ...] | None:
    """The version of Python that the script runs in; None where nobody knows it."""
    if draft.entry is None:
        return None
    text = draft.base.python if draft.base else draft.entry.python_version
    return tuple(map(int, text.split("."))) if text else None


def why_nothing_acts(draft: Draft) -> str:
    """Why nothing of ours can be in the script's process; empty where it can."""
    python = python_of(draft)
    if python is None:
        return why_unseen(draft) if draft.entry is None else "an image of a hub does not contain modak's code"
    return "its Python is too old for modak's code" if python < OLDEST_PYTHON else ""


def is_at_least(draft: Draft, version: str) -> bool:
    """Whether the build that was chosen has this version of its framework, or a later one."""
    return draft.entry is not None and version_from(draft.entry.version) >= version_from(version)


def fills_accelerator(draft: Draft, optimisation: CodeOptimisation, value: str) -> bool:
    """Whether a value can be taken: by steps as large as those that were measured, on accelerators that have bf16."""
    request, accelerator = draft.request, draft.request.target.accelerator
    if not request.resources.accelerators or not _WITH_BF16.search(f"{accelerator.vendor} {accelerator.model}"):
        return False
    work, ranks = draft.question().work, ranks_of(request, draft.layout)
    gflop = (work.gflop_per_sample or 0.0) * (work.batch_size or 0) / (draft.layout.processes if ranks else 1)
    is_large = framework_of(draft) == "pytorch" and gflop >= _LARGE_STEP
    return is_large and optimisation.can_be(draft, value)


class CodeOptimisation(Optimisation):
    """A matter of the script's own code."""

    after: ClassVar[tuple[str, ...]] = ("image",)
    acts_on = "code"
    # the frameworks in whose scripts the runtime can do it without any line; TensorFlow's in its Keras
    hook_frameworks: ClassVar[tuple[str, ...]] = ()
    # those in whose scripts it can do it with the line that calls prepare
    prepare_frameworks: ClassVar[tuple[str, ...]] = ()
    # whether prepare can do it only where a process has all of the parameters
    needs_whole_model: ClassVar[bool] = False
    numerics: ClassVar[Numerics]  # what any value but stock does to results
    reasons: ClassVar[dict[str, str]]  # what each value does, for people

    def options(self, draft: Draft) -> tuple[Option, ...]:
        switch_values = switch_of(draft, self.name)
        values = switch_values or self.values(draft)
        is_plain = framework_of(draft) == PLAIN and not switch_values
        if not values or (is_plain and not self.requested(draft)):
            return ()
        argument = argument_of(draft, self.name) if switch_values else ""
        stock = argument or values[0]
        options = [Option(stock, "the script's own argument" if argument else self.reasons.get(stock, ""))]
        for value in dict.fromkeys((*values, *self.askable_values(draft))):
            if value != stock:
                why_not = "the script's own argument overrides it" if argument else ""
                why_not = why_not or ("" if is_plain else self.why_not(draft, value)) or self.why_out_of_reach(draft)
                if switch_values and value not in switch_values:
                    why_not = why_not or f"the switch of {draft.request.application.script} has no such value"
                options.append(Option(value, self.reasons.get(value, ""), self.numerics, why_not))
        return tuple(options)

    def apply(self, draft: Draft, value: str) -> None:
        values = switch_of(draft, self.name) or self.values(draft)
        if value != values[0]:
            self._send(draft, value)

    def _send(self, draft: Draft, value: str) -> None:
        """Lets a value that differs from stock get to the script."""
        draft.settings[self.name] = value
        if argument_of(draft, self.name):
            return  # the user's own argument stands in the command already
        if self.way_to(draft) == "switch":
            draft.options[self.name.replace("_", "-")] = value
        else:
            draft.choices[self.name] = value

    def way_to(self, draft: Draft, switch: str = "") -> str:
        """How a choice gets to the script: switch, hook or prepare; empty where it does not.

        Args:
            switch: the name of the script's switch; the optimisation's without it.
        """
        if switch_of(draft, switch or self.name):
            return "switch"
        if why_nothing_acts(draft):
            return ""
        framework = framework_of(draft)
        if framework in self.hook_frameworks and (framework != "tensorflow" or is_at_least(draft, _OLDEST_KERAS)):
            return "hook"
        return "prepare" if draft.request.application.prepares and framework in self.prepare_frameworks else ""

    def why_out_of_reach(self, draft: Draft, switch: str = "") -> str:
        """Why a choice does not get to the script; empty where it does."""
        way = self.way_to(draft, switch)
        if way == "prepare" and self.needs_whole_model:
            ranks = ranks_of(draft.request, draft.layout)
            if ranks and ranks.shares_out:
                return f"a rank of {ranks.strategy} has only parts of the model's parameters"
        if way:
            return ""
        if draft.entry is None:
            return why_unseen(draft)
        framework = framework_of(draft)
        if draft.script is not None:
            return f"{draft.script.script} has no switch for it"
        reason = (
            NO_PREPARE if framework in self.prepare_frameworks else f"this has no effect in a script of {framework}"
        )
        return why_nothing_acts(draft) or reason

    def askable_values(self, draft: Draft) -> tuple[str, ...]:  # noqa: ARG002 - of compilers it depends on the framework
        """Values that a user may ask for anywhere, to be told why not."""
        return self.property_values()

    @abstractmethod
    def values(self, draft: Draft) -> tuple[str, ...]:
        """Of a script without a switch of its own: stock, and what the runtime can do; none where nothing is open."""

    def why_not(self, draft: Draft, value: str) -> str:  # noqa: ARG002 - most values need nothing
        """What a value needs and has not got here; empty when it can be had."""
        return ""


class OfPyTorch(CodeOptimisation):
    """What PyTorch alone leaves open."""

    def values(self, draft: Draft) -> tuple[str, ...]:
        return self.property_values() if framework_of(draft) == "pytorch" else self.stock


class OnProcessors(OfPyTorch):
    """A choice among what PyTorch itself has for processors."""

    hook_frameworks: ClassVar[tuple[str, ...]] = ("pytorch",)
    numerics: ClassVar[Numerics] = "reassociation"
    in_other_frameworks: ClassVar[str]  # what another framework does, behind its name
    why_not_accelerated: ClassVar[str] = "it applies only to processors"  # why not on accelerators

    def why_not(self, draft: Draft, value: str) -> str:
        if value in self.stock:
            return ""
        if framework_of(draft) != "pytorch":
            return f"{framework_of(draft)} {self.in_other_frameworks}"
        return self.why_not_accelerated if draft.request.resources.accelerators else self.why_not_here(draft)

    @abstractmethod
    def why_not_here(self, draft: Draft) -> str:
        """What anything but the default needs of PyTorch on processors, and has not got; empty when it can be had."""
