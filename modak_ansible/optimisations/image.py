"""Which build of the framework runs."""

from __future__ import annotations

from collections.abc import Iterable

import archspec.cpu

from modak_ansible.catalogue import Entry
from modak_ansible.catalogue.reader import satisfies
from modak_ansible.errors import nearest
from modak_ansible.model.plan import Choice, Rejected, by_reason
from modak_ansible.model.refusal import Refusal
from modak_ansible.model.target import Target
from modak_ansible.optimisations.base import CannotPlan, Draft, Optimisation

# Who asks for nothing in particular gets what the framework's own project publishes.
_ORIGINS = ("pip", "hub", "opt-build")


class Image(Optimisation):
    name = "image"

    def decide(self, draft: Draft) -> Choice | None:
        given, wanted = draft.request.image, draft.request.optimisation.entry
        if given and wanted:
            raise CannotPlan("optimisation.entry", f"{wanted} is asked for, and the training has an image of its own")
        if given:
            return Choice(name=self.name, value=given.source, reason="the blueprint names this image")
        choice = self._take_wanted(draft, wanted) if wanted else self._choose(draft)
        assert draft.entry is not None  # noqa: S101 - both have set it
        draft.environment.update(draft.entry.environment)
        return choice

    def _take_wanted(self, draft: Draft, wanted: str) -> Choice:
        entries = {entry.name: entry for entry in draft.catalogue.entries}
        if wanted not in entries:
            hint = nearest(wanted, entries) or "modak catalogue lists its entries"
            raise CannotPlan("optimisation.entry", f"the catalogue has no entry {wanted}", hint)
        entry, framework = entries[wanted], draft.request.application.framework
        if entry.framework != framework:
            raise CannotPlan(
                "optimisation.entry", f"{wanted} is a build of {entry.framework}, not of {framework}",
                f"framework: {entry.framework}, or another entry",
            )  # fmt: skip
        reason = _why_not(entry, draft)
        if reason:
            raise CannotPlan("optimisation.entry", f"{wanted} cannot be taken: {reason}", "take another entry")
        draft.entry = entry
        return Choice(name=self.name, value=wanted, reason="asked for", evidence=entry.provenance)

    def _choose(self, draft: Draft) -> Choice:
        rejected: list[Rejected] = []
        fitting: list[Entry] = []
        for entry in draft.catalogue.of_framework(draft.request.application.framework):
            reason = _why_not(entry, draft) or _why_not_unasked(entry, draft)
            if reason:
                rejected.append(Rejected(value=entry.name, reason=reason))
            else:
                fitting.append(entry)
        if not fitting:
            raise _nothing_fits(draft, rejected)
        entry, *others = sorted(fitting, key=lambda each: _ORIGINS.index(each.origin))  # stable: newest first
        draft.entry = entry
        rejected += [Rejected(value=other.name, reason=_why_other(other, entry)) for other in others]
        reason = f"{entry.framework} {entry.version} fits the request and {draft.request.target.processor.architecture}"
        return Choice(
            name=self.name, value=entry.name, reason=reason, evidence=entry.provenance, rejected=tuple(rejected)
        )


def _why_not(entry: Entry, draft: Draft) -> str:
    """Why a build cannot serve; empty when it can."""
    request = draft.request
    wish = request.optimisation
    if not satisfies(entry.version, request.application.version):
        return f"version {entry.version} is not {request.application.version}"
    if wish.build not in ("any", entry.origin):
        return f"its build is {entry.origin}, and {wish.build} is asked for"
    return (
        _why_not_on_processor(entry, request.target.processor.architecture)
        or _why_not_accelerated(entry, draft)
        or _why_not_made(entry, draft)
        or why_refused(entry, draft.request.target, draft.refusals)
    )


def _why_not_on_processor(entry: Entry, architecture: str) -> str:
    if _family(architecture).isdisjoint(entry.architectures):
        return f"it needs {' or '.join(entry.architectures)}, and the processor is {architecture}"
    known = archspec.cpu.TARGETS.get(architecture)
    missing = [each for each in entry.features if known is None or each not in known]
    return f"it needs {', '.join(missing)}, which {architecture} has not" if missing else ""


def _why_not_accelerated(entry: Entry, draft: Draft) -> str:
    wants_accelerator = draft.request.resources.accelerators > 0
    vendor = draft.request.target.accelerator.vendor
    if entry.accelerator and not wants_accelerator:
        return f"it needs an accelerator ({entry.accelerator}), and the job asks for none"
    if wants_accelerator and not entry.accelerator:
        return "it uses no accelerator, and the job asks for one"
    if wants_accelerator and vendor not in (None, entry.accelerator):
        return f"it is for {entry.accelerator}, and the target has {vendor}"
    return ""


def _why_not_made(entry: Entry, draft: Draft) -> str:
    """Why the target has no way to come by the build."""
    if not draft.in_container and (entry.origin == "hub" or entry.packages or entry.libraries):
        return "it needs a container runtime, and the target is told to use none"
    if entry.origin == "hub" and draft.request.target.image_base != "docker":
        return "the target reaches no hub"
    return ""


def why_refused(entry: Entry, target: Target, refusals: Iterable[Refusal]) -> str:
    """What is known against a build's probe on a target's processor; empty where nothing is."""
    architecture = target.processor.architecture
    for name in sorted(_family(architecture) & set(entry.refusals)):
        return f"its probe fails on {name}: {entry.refusals[name]}"
    for refusal in refusals:
        place = (refusal.entry, refusal.address, refusal.architecture)
        if place == (entry.name, target.address, architecture) and refusal.entry_digest == entry.digest:
            return f"its probe failed on {refusal.processor}: {refusal.reason}"
    return ""


def _why_not_unasked(entry: Entry, draft: Draft) -> str:
    """Why a build that would serve has to be asked for."""
    if entry.untried:
        return f"nobody has tried it yet ({entry.untried}); optimisation.entry takes it"
    base = draft.catalogue.bases.get(entry.base)
    is_old = base is not None and base.python.startswith("2.")
    if is_old and not draft.request.application.version and _has_present_build(draft, entry.framework):
        return f"its Python is {base.python if base else ''}; its version, or optimisation.entry, takes it"
    return ""


def _has_present_build(draft: Draft, framework: str) -> bool:
    bases = (draft.catalogue.bases.get(entry.base) for entry in draft.catalogue.of_framework(framework))
    return any(base is not None and not base.python.startswith("2.") for base in bases)


def _why_other(other: Entry, taken: Entry) -> str:
    if other.origin != taken.origin:
        return f"{taken.name} is a build of {taken.origin}; build: {other.origin} takes this one"
    if other.version == taken.version:
        return f"{taken.name} is as new; optimisation.entry takes this one"
    return f"{taken.name} is newer"


def _family(architecture: str) -> set[str]:
    """A microarchitecture and those that it descends from."""
    known = archspec.cpu.TARGETS.get(architecture)
    return {architecture, *(ancestor.name for ancestor in known.ancestors)} if known else {architecture}


def _nothing_fits(draft: Draft, rejected: list[Rejected]) -> CannotPlan:
    application = draft.request.application
    if not rejected:
        known = sorted({entry.framework for entry in draft.catalogue.entries})
        return CannotPlan("framework", f"the catalogue has no {application.framework}", f"it has {', '.join(known)}")
    architecture = draft.request.target.processor.architecture
    if architecture not in archspec.cpu.TARGETS:
        hint = nearest(architecture, archspec.cpu.TARGETS) or "leave architecture out, or take x86_64 or aarch64"
        return CannotPlan("host", f"{architecture} is not a processor that archspec knows", hint)
    about = "version" if all("is not" in each.reason and "version" in each.reason for each in rejected) else "framework"
    reasons = "; ".join(f"{', '.join(values)}: {reason}" for reason, values in by_reason(rejected).items())
    hint = "ask for another version, or give an image of your own as a modak.nodes.Image"
    return CannotPlan(about, f"no build of {application.framework} fits ({reasons})", hint)
