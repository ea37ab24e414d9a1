"""What nobody uses on a target: looked for, and removed."""

from __future__ import annotations

from modak_ansible.model.quantities import format_size
from modak_ansible.stages.base import Answer, Outcome, Stage
from modak_ansible.target.garbage.garbage import GarbageItem


def survey(stage: Stage, older_than: float) -> Outcome:
    """What could be removed, and what stays with the reason.

    Args:
        older_than: what was used within so many seconds stays.
    """
    answer = _call(stage, "look", older_than)
    return Outcome(False, f"unused: {_summary(answer['garbage'])}", _data(answer))


def collect(stage: Stage, older_than: float, only: list[str]) -> Outcome:
    """Removes what nobody uses, as far as it is among ``only``; all of it where that is empty."""
    answer = _call(stage, "look" if stage.check else "remove", older_than, only)
    if stage.check:
        garbage = answer["garbage"]
        return Outcome(bool(garbage), f"would remove {_summary(garbage)}", _data(answer))
    return Outcome(bool(answer["removed"]), f"removed {_summary(answer['removed'])}", _data(answer))


def _call(stage: Stage, action: str, older_than: float, only: list[str] | None = None) -> Answer:
    target = stage.plan["target"]
    return stage.call(
        "modak_gc", workspace=target["workspace"], action=action, older_than=older_than, only=only or [],
        hosts=list(target.get("hosts", ())),
    )  # fmt: skip


def _data(answer: Answer) -> Answer:
    return {name: answer[name] for name in ("workspace", "garbage", "kept", "removed", "problems")}


def _summary(items: list[GarbageItem]) -> str:
    names = f"{len(items)} things" if len(items) > 1 else "".join(item["name"] for item in items)
    return f"{names}, {format_size(sum(item['size'] for item in items))}" if items else "nothing"
