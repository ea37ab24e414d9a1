"""Planned against applied: what of the plan's choices in the code really acted, by the word of the process itself."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from modak_ansible.model.distributed import mesh_of
from modak_ansible.store.record import AppliedChoice
from modak_ansible.target.core.files import read_json
from modak_ansible.target.core.plan import Choice, Plan

# What a file of a job holds that the runtime or a script has written, in a form that has to be looked at.
Report = Mapping[str, Any]

REPORT = "applied.json"
_REPORTS = "modak.applied/1"
OURS = "modak.metrics/1"  # metrics.json as our own workloads write it


def planned_in_code(plan: Plan) -> list[Choice]:
    """The plan's choices that act in the script's own code, and differ from stock."""
    choices = [choice for choice in plan["choices"] if choice.get("reaches") == "code"]
    return [choice for choice in choices if choice["value"] != choice.get("stock")]


def report_of(folder: Path) -> Report | None:
    """The report in a folder of results; None where there is none of our form."""
    report = read_json(folder / REPORT)
    if not isinstance(report, dict) or report.get("schema") != _REPORTS:
        return None
    return report


def switches_of(metrics: Report | None) -> dict[str, str] | None:
    """How the switches of a script stood that writes a metrics.json of our form; None of any other."""
    if not isinstance(metrics, dict) or metrics.get("schema") != OURS:
        return None
    switches = metrics.get("switches")
    return {name: str(value) for name, value in switches.items()} if isinstance(switches, dict) else None


def compare_choices(plan: Plan, report: Report | None, metrics: Report | None) -> list[AppliedChoice]:
    """Each of the choices with what became of it, in the plan's order; none of a trace, which computes nothing."""
    if report and report.get("memory"):
        return []
    switches = switches_of(metrics) or {}
    reported = (report or {}).get("choices")
    reported = reported if isinstance(reported, dict) else {}
    return [
        *_together(plan, report),
        *(_outcome(name, value, switches, reported) for name, value in _planned_choices(plan)),
    ]


def _together(plan: Plan, report: Report | None) -> list[AppliedChoice]:
    """Whether the runtime made one training of several processes, where the plan has it do so."""
    planned = next((str(choice["value"]) for choice in plan["choices"] if choice["name"] == "strategy"), "")
    if mesh_of(planned, 1) is None:
        return []
    outcome: AppliedChoice = {
        "name": "strategy",
        "planned": planned,
        "applied": None,
        "known": True,
        "how": "",
        "reason": "",
    }
    ranks = (report or {}).get("ranks")
    if isinstance(ranks, dict) and ranks.get("strategy") == planned:
        how = [f"prepare, {ranks.get('world')} ranks", *([str(ranks["slow"])] if ranks.get("slow") else [])]
        if ranks.get("loaders") == 0:
            how.append("it was given no loader, and each rank computes all of what the script reads otherwise")
        return [{**outcome, "applied": planned, "how": "; ".join(how)}]
    if report is None:
        return [{**outcome, "known": False, "reason": "the process did not report it"}]
    return [{**outcome, "reason": "prepare was not called, and each process trained the whole model"}]


def _planned_choices(plan: Plan) -> list[tuple[str, str]]:
    """Names and values; halves of a batch that make one gradient are two choices of the process's."""
    choices = []
    for choice in planned_in_code(plan):
        value, passes = str(choice["value"]), ""
        if choice["name"] == "batch_size":
            value, _, passes = value.partition("x")
        choices.append((choice["name"], value))
        choices += [("accumulation", passes)] if passes else []
    return choices


def _outcome(name: str, value: str, switches: dict[str, str], reported: Report) -> AppliedChoice:
    outcome: AppliedChoice = {"name": name, "planned": value, "applied": None, "known": True, "how": "", "reason": ""}
    if name in switches:
        stands = switches[name]
        reason = "" if stands == value else f"the script's own switch stands at {stands}"
        return {**outcome, "applied": stands if stands == value else None, "how": "switch", "reason": reason}
    own_report = reported.get(name)
    if not isinstance(own_report, dict):
        return {**outcome, "known": False, "reason": "the process did not report it"}
    applied = own_report.get("applied")
    return {
        **outcome,
        "applied": None if applied is None else str(applied),
        "how": str(own_report.get("how") or ""),
        "reason": str(own_report.get("reason") or ""),
    }


def summary_pairs(outcomes: list[AppliedChoice]) -> list[tuple[str, str]]:
    """What became of the choices, as pairs of a title and a text; nothing where none acts in the code."""
    applied = [
        f"{outcome['name']} {outcome['applied']} ({outcome['how']})"
        for outcome in outcomes
        if outcome["applied"] is not None
    ]
    pairs = [("applied", ", ".join(applied))] if applied else []
    return pairs + [("applied", text) for text in warnings_of(outcomes)]


def warnings_of(outcomes: list[AppliedChoice]) -> list[str]:
    """A line for each choice that did not act, or of which nobody knows whether it did."""
    lines = []
    for outcome in outcomes:
        if outcome["applied"] is None:
            words = "planned but not applied" if outcome["known"] else "planned; whether it was applied is not known"
            lines.append(f"{words}: {outcome['name']} {outcome['planned']}: {outcome['reason']}")
    return lines
