"""What differs between a plan that was deployed and the plan that would be now."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypedDict, cast

from modak_ansible.model.quantities import counted, some_of

if TYPE_CHECKING:
    from modak_ansible.planning.service import Planned

Plan = Mapping[str, Any]
_OTHERS = ("target", "application", "runtime", "candidates", "tuning")
_WORDS = {"changed": "changed", "added": "came along", "removed": "is gone"}
_SHOWN = 3  # names in a sentence


class Pair(TypedDict):
    """What is other than it was, in words; empty for what is not there."""

    before: str
    after: str


class Changed(Pair):
    name: str


class Differences(TypedDict, total=False):
    """What differs, by its part of the plan; parts that are the same are left out."""

    choices: list[Changed]
    image: Pair
    data: Pair
    files: dict[str, list[str]]  # names, by whether they were changed, added or removed
    script: str  # a unified diff
    other: list[str]  # parts that a person rarely looks at, and that change what is deployed or told all the same


def differences(before: Plan, after: Plan) -> Differences:
    """What a person would want to know.

    Args:
        before: a plan as JSON, which an earlier version of the project may have written.
    """
    parts: dict[str, object] = {
        "choices": _choices(before, after),
        "image": _pair(_image(before), _image(after)),
        "data": _pair(_data(before), _data(after)),
        "files": _files(before, after),
        "script": _script(before, after),
        "other": [name for name in _OTHERS if _without(before, name) != _without(after, name)],
    }
    return cast(Differences, {name: part for name, part in parts.items() if part})


def difference_lines(changes: Differences) -> Iterator[str]:
    for choice in changes.get("choices", ()):
        before, after = choice["before"] or "not there", choice["after"] or "not there"
        yield f"  {choice['name'].replace('_', ' ')}: {before} -> {after}"
    for name, pair in (("image", changes.get("image")), ("data", changes.get("data"))):
        if pair:
            yield f"  {name}: {pair['before'] or 'none'} -> {pair['after'] or 'none'}"
    for word, names in changes.get("files", {}).items():
        yield from (f"  file {word}: {name}" for name in names)
    if "other" in changes:
        yield f"  changed, too: {', '.join(changes['other'])}"
    if "script" in changes:
        yield from ("", *(f"  {line}".rstrip() for line in changes["script"].splitlines()))


def lines_again(planned: Sequence[Planned]) -> list[str]:
    """A line for each reason for which trainings run again; none for those that are new, or that run no more.

    Args:
        planned: what is to be deployed, before it is saved.
    """
    from modak_ansible.store.deployments import deployments_of

    new = [training for training in planned if not training.store.is_there]
    deployments = deployments_of(new[0].blueprint) if new else []
    before = {
        deployment.plan.get("training"): deployment.plan for deployment in deployments if deployment.record.get("job")
    }  # the newest of each
    reasons: dict[str, list[str]] = {}
    for training in new:
        if training.plan.training in before:
            reason = _why_again(before[training.plan.training], training.plan.model_dump(mode="json"))
            reasons.setdefault(reason, []).append(training.plan.training)
    return [f"{_who_runs(names)} again, because {reason}" for reason, names in reasons.items()]


def _who_runs(names: list[str]) -> str:
    return f"{names[0]} runs" if len(names) == 1 else f"{counted(len(names), 'training')} run"


def _why_again(before: Plan, after: Plan) -> str:
    """Why a training runs again that ran before: what of it is another, in a few words."""
    changes = differences(before, after)
    files = changes.get("files", {})
    parts = [f"{some_of(names, _SHOWN)} {_WORDS[word]}" for word, names in files.items()]
    old, new = (plan.get("application", {}).get("arguments") for plan in (before, after))
    parts += ["its arguments changed"] if old != new else []
    parts += ["its image changed"] if "image" in changes else []
    parts += ["its data changed"] if "data" in changes else []
    if not parts:
        names = [choice["name"].replace("_", " ") for choice in changes.get("choices", ())]
        parts += [f"the plan changed: {some_of(names, _SHOWN)}"] if names else []
        parts += ["its job script changed"] if "script" in changes and not names else []
    return " and ".join(parts) or "what modak brings along changed"


def beside_lines(before: Plan, after: Plan) -> list[str]:
    """What changed beside a script that does not depend on it, for people."""
    old, new = ({file["path"]: file["sha256"] for file in plan.get("beside", ())} for plan in (before, after))
    changed = sorted(name for name in old.keys() | new.keys() if old.get(name) != new.get(name))
    script = after["application"]["script"]
    return [
        f"  {some_of(changed, _SHOWN)} changed beside {script}, which does not depend on it: nothing runs again"
    ] * bool(changed)


def _pair(before: str, after: str) -> Pair | None:
    return {"before": before, "after": after} if before != after else None


def _choices(before: Plan, after: Plan) -> list[Changed]:
    old, new = (
        {choice["name"]: str(choice["value"]) for choice in plan.get("choices", ())} for plan in (before, after)
    )
    names = list(dict.fromkeys((*new, *old)))
    return [
        {"name": name, "before": old.get(name, ""), "after": new.get(name, "")}
        for name in names
        if old.get(name) != new.get(name)
    ]


def _image(plan: Plan) -> str:
    image = plan.get("image") or {}
    return f"{image.get('entry', '')} {str(image.get('digest', ''))[:12]}".strip()


def _data(plan: Plan) -> str:
    datasets = [plan["dataset"], *plan.get("more_datasets", ())] if plan.get("dataset") else []
    words = (
        (data["name"], str(data["digest"])[:12], data["staging"], *((data["pack"],) if data.get("pack") else ()))
        for data in datasets
    )
    return ", ".join(map(" ".join, words))


def _files(before: Plan, after: Plan) -> dict[str, list[str]]:
    old, new = (
        {file["path"]: file["sha256"] for file in plan.get("application", {}).get("files", ())}
        for plan in (before, after)
    )
    by_change = {
        "changed": sorted(name for name in old.keys() & new.keys() if old[name] != new[name]),
        "added": sorted(new.keys() - old.keys()),
        "removed": sorted(old.keys() - new.keys()),
    }
    return {word: names for word, names in by_change.items() if names}


def _script(before: Plan, after: Plan) -> str:
    old, new = (str(plan.get("job", {}).get("script", "")).splitlines(keepends=True) for plan in (before, after))
    return "".join(difflib.unified_diff(old, new, "job.sh as deployed", "job.sh as planned"))


def _without(plan: Plan, name: str) -> Any:
    part = plan.get(name)
    return {key: value for key, value in part.items() if key != "files"} if isinstance(part, dict) else part
