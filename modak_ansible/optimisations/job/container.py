"""What of the machine a container sees: its accelerators, and the site's folders."""

from __future__ import annotations

from modak_ansible.allocation.site_rules import effects_of
from modak_ansible.optimisations.base import Default, Draft, Optimisation, Option
from modak_ansible.schedulers.containers import CONTAINER_RUNTIMES


class Container(Optimisation):
    name = "container"
    suite_default = "image"
    stock = ("plain", "image")
    is_switch = False
    after = ("image",)
    acts_on = "job"

    def options(self, draft: Draft) -> tuple[Option, ...]:
        if not draft.in_container:
            return ()
        plain = Option("plain", "the workspace is bound, and nothing else is needed")
        flags, _ = _flags(draft)
        return plain, *(Option(value) for value in [self._value(draft)] if value != plain.value), *_unused(draft, flags)

    @classmethod
    def property_values(cls) -> tuple[str, ...]:
        """Of suites: nobody else asks for it."""
        return ("image", "native")

    def default(self, draft: Draft) -> Default | None:
        _, reasons = _flags(draft)
        binds = draft.request.target.site.binds
        if binds:
            reasons.append(f"the site has {', '.join(binds)} bound")
        return Default(self._value(draft), "; ".join(reasons) or "the workspace is bound, and nothing else is needed")

    def apply(self, draft: Draft, value: str) -> None:
        if value != "plain":
            draft.container_flags = tuple(_flags(draft)[0])
            draft.binds = draft.request.target.site.binds

    @staticmethod
    def _value(draft: Draft) -> str:
        binds = [f"--bind {bind}" for bind in draft.request.target.site.binds]
        return " ".join([*_flags(draft)[0], *binds]) or "plain"


def _flags(draft: Draft) -> tuple[list[str], list[str]]:
    """Options of the container, and why each is there."""
    request = draft.request
    own_flag = (
        _accelerator_flags(draft).get(request.target.accelerator.vendor or "", "")
        if request.resources.accelerators
        else ""
    )
    reason = (
        f"{own_flag} lets the container reach the {request.target.accelerator.vendor} accelerators "
        "that the job asks for"
    )
    rule_flags = [
        container_flag for container_flag in effects_of(request).container_flags if container_flag != own_flag
    ]
    reasons = [*([reason] if own_flag else []), *(f"{flag} comes from the site's rules" for flag in rule_flags)]
    return [*([own_flag] if own_flag else []), *rule_flags], reasons


def _accelerator_flags(draft: Draft) -> dict[str, str]:
    runtime = CONTAINER_RUNTIMES.get(draft.request.target.container_runtime)
    return dict(runtime.accelerators) if runtime else {}


def _unused(draft: Draft, flags: list[str]) -> list[Option]:
    """Flags for accelerators that this job does not take, and why not."""
    vendor, count = draft.request.target.accelerator.vendor, draft.request.resources.accelerators
    options = []
    for name, flag in _accelerator_flags(draft).items():
        if flag in flags:
            continue
        reason = "the job asks for no accelerator" if not count else f"the accelerators are {vendor or 'not described'}"
        if vendor == name or count:
            options.append(Option(flag, why_not=reason))
    return options
