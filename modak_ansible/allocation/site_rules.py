"""Decides which of a site's rules apply to a job, why, and what they make of it.

A default partition comes first, for the conditions of others ask for it. Lists of several rules are joined, single
values have to agree, and what the user asks for comes before all of them.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from modak_ansible.errors import CannotPlan
from modak_ansible.model.request import Request
from modak_ansible.model.rule import Conditions, Effects, Rule
from modak_ansible.model.target import destinations

_COMPARISON = re.compile(r"(>=|<=|>|<|=)?\s*(\d{1,9})", re.ASCII)
_OPERATORS = {
    "": operator.eq, "=": operator.eq, ">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le,
}  # fmt: skip


class RuleOutcome(NamedTuple):
    rule: Rule
    applies: bool
    reason: str


class RequestFacts(NamedTuple):
    """What rules may ask about a job."""

    framework: str
    app_type: tuple[str, ...]
    scheduler: str
    partition: str
    accelerator: str
    nodes: int
    processes: int
    container: bool
    mpi: bool


def facts_of(request: Request) -> RequestFacts:
    """What a request says of the things that rules may ask about."""
    application, resources, target = request.application, request.resources, request.target
    hpc = application.hpc
    if hpc:
        kinds: tuple[str, ...] = ("hpc", hpc.parallelisation)
    else:
        kinds = ("python",) if application.script else ()
        kinds += ("ai_training",) if application.framework else ()
    partition = target.partition(resources.partition)
    return RequestFacts(
        framework=application.framework,
        app_type=kinds,
        scheduler=target.scheduler.value,
        partition=partition.name if partition else resources.partition or target.site.partition or "",
        accelerator=(target.accelerator.vendor or "unknown") if resources.accelerators else "none",
        nodes=resources.nodes,
        processes=resources.nodes * resources.processes_per_node,
        container=target.container_runtime != "none",
        mpi=bool(hpc and hpc.parallelisation == "mpi") or application.framework == "mpi",
    )


def outcomes_of(request: Request) -> tuple[RuleOutcome, ...]:
    """Every rule of the target's site, in its order, with what becomes of it."""
    facts = facts_of(request)
    return tuple(_outcome(rule, facts) for rule in request.target.site.rules)


def effects_of(request: Request) -> Effects:
    """What all rules that apply do together.

    Raises:
        CannotPlan: two of them contradict each other.
    """
    return _joined([outcome.rule for outcome in outcomes_of(request) if outcome.applies])


def enforced(request: Request) -> Request:
    """The request with the defaults, modules, binds and launcher that the site's rules give it.

    Raises:
        CannotPlan: two rules that apply contradict each other.
    """
    if not request.target.site.rules:
        return request
    request = _with_partition(request)
    effects = effects_of(request)
    site = request.target.site
    changed = {
        "modules": _union(site.modules, effects.modules),
        "binds": _union(site.binds, effects.binds),
        "launcher": effects.launcher or site.launcher,
        "account": effects.account or site.account,
    }
    return _with_site(request, changed)


def _with_partition(request: Request) -> Request:
    """The default partition comes first: other rules may ask where the job runs."""
    outcomes = [outcome for outcome in outcomes_of(request) if outcome.applies and outcome.rule.then.partition]
    if not outcomes or request.resources.partition:
        return request
    partition = _joined([outcome.rule for outcome in outcomes]).partition
    return _with_site(request, {"partition": partition})


def _with_site(request: Request, changed: Mapping[str, object]) -> Request:
    site = request.target.site.model_copy(update=dict(changed))
    return request.model_copy(update={"target": request.target.model_copy(update={"site": site})})


def _outcome(rule: Rule, facts: RequestFacts) -> RuleOutcome:
    reasons: list[str] = []
    for holds, reason in _checked(rule.when, facts):
        if not holds:
            return RuleOutcome(rule, applies=False, reason=reason)
        reasons.append(reason)
    return RuleOutcome(rule, applies=True, reason=", ".join(reasons) or "it is for every job")


def _checked(when: Conditions, facts: RequestFacts) -> Iterator[tuple[bool, str]]:
    """Each condition that is stated: whether it holds, and the fact in words."""
    for name in ("framework", "scheduler", "partition", "accelerator"):
        allowed, fact = getattr(when, name), getattr(facts, name)
        if allowed:
            # a job may run in any of the partitions that it is sent to
            holds = not set(allowed).isdisjoint(destinations(fact) if name == "partition" else (fact,))
            yield holds, f"{name} is {fact or 'none'}" + ("" if holds else f", not {_or(allowed)}")
    if when.app_type:
        holds = not set(when.app_type).isdisjoint(facts.app_type)
        kind = " and ".join(facts.app_type) or "none"
        yield holds, f"app_type is {kind}" + ("" if holds else f", not {_or(when.app_type)}")
    for name in ("nodes", "processes"):
        comparison, number = getattr(when, name), getattr(facts, name)
        if comparison:
            holds = _compares(number, comparison)
            yield holds, f"{name} is {number}" + ("" if holds else f", not {comparison}")
    for name, so, not_so in (
        ("container", "runs in a container", "runs in no container"),
        ("mpi", "uses MPI", "uses no MPI"),
    ):
        condition, fact = getattr(when, name), getattr(facts, name)
        if condition is not None:
            yield condition == fact, f"the job {so if fact else not_so}"


def _compares(number: int, comparison: str) -> bool:
    match = _COMPARISON.fullmatch(comparison)
    return match is not None and bool(_OPERATORS[match[1] or ""](number, int(match[2])))


def _or(values: tuple[str, ...]) -> str:
    return " or ".join(values)


def _joined(rules: list[Rule]) -> Effects:
    return Effects(
        modules=_union(*(rule.then.modules for rule in rules)),
        binds=_union(*(rule.then.binds for rule in rules)),
        container_flags=_union(*(rule.then.container_flags for rule in rules)),
        environment=_environment(rules),
        pre=tuple(line for rule in rules for line in one_text(rule.then.pre)),
        post=tuple(line for rule in rules for line in one_text(rule.then.post)),
        launcher=_only(rules, "launcher"),
        account=_only(rules, "account"),
        partition=_only(rules, "partition"),
    )


def one_text(lines: tuple[str, ...]) -> tuple[str, ...]:
    """Shell lines as one text, so that a loop may span several of them."""
    return ("\n".join(lines),) if lines else ()


def _only(rules: list[Rule], name: str) -> str | None:
    values = {rule.name: getattr(rule.then, name) for rule in rules if getattr(rule.then, name)}
    if len(set(values.values())) > 1:
        contradiction = " and ".join(f"{rule} says {value}" for rule, value in values.items())
        raise CannotPlan(
            "host", f"the site's rules contradict each other on the {name}: {contradiction}", "restrict one of them"
        )
    return next(iter(values.values()), None)


def _environment(rules: list[Rule]) -> tuple[tuple[str, str], ...]:
    variables: dict[str, tuple[str, str]] = {}
    for rule in rules:
        for name, value in rule.then.environment:
            if name in variables and variables[name][1] != value:
                contradiction = f"{variables[name][0]} says {variables[name][1]} and {rule.name} says {value}"
                raise CannotPlan("host", f"the site's rules contradict each other on {name}: {contradiction}")
            variables[name] = (rule.name, value)
    return tuple((name, value) for name, (_, value) in variables.items())


def _union(*lists: tuple[str, ...]) -> tuple[str, ...]:
    """All values in their order, each once."""
    return tuple(dict.fromkeys(value for values in lists for value in values))
