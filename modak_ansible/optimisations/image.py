"""Which build of the framework runs."""

from __future__ import annotations

import archspec.cpu

from modak_ansible.catalogue import Entry
from modak_ansible.catalogue.reader import satisfies
from modak_ansible.errors import nearest
from modak_ansible.model.plan import Choice, Rejected
from modak_ansible.optimisations.base import CannotPlan, Draft, Optimisation


class Image(Optimisation):
    name = "image"

    def decide(self, draft: Draft) -> Choice | None:
        given = draft.request.image
        if given:
            return Choice(name=self.name, value=given.source, reason="the blueprint names this image")
        rejected: list[Rejected] = []
        fitting: list[Entry] = []
        candidates = draft.catalogue.of_framework(draft.request.application.framework)
        for entry in candidates:
            reason = _why_not(entry, draft)
            if reason:
                rejected.append(Rejected(value=entry.name, reason=reason))
            else:
                fitting.append(entry)
        if not fitting:
            raise _nothing_fits(draft, rejected)
        entry, *others = fitting
        draft.entry = entry
        rejected += [Rejected(value=other.name, reason=f"{entry.name} is newer") for other in others]
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
        return f"it is a {entry.origin} build, and {wish.build} is asked for"
    architecture = request.target.processor.architecture
    if not _runs_on(architecture, entry.architectures):
        return f"it needs {' or '.join(entry.architectures)}, and the processor is {architecture}"
    wants_accelerator = request.resources.accelerators > 0
    if entry.accelerator and not wants_accelerator:
        return f"it needs an accelerator ({entry.accelerator}), and the job asks for none"
    if wants_accelerator and not entry.accelerator:
        return "it uses no accelerator, and the job asks for one"
    if wants_accelerator and request.target.accelerator.vendor not in (None, entry.accelerator):
        return f"it is for {entry.accelerator}, and the target has {request.target.accelerator.vendor}"
    return ""


def _runs_on(architecture: str, wanted: tuple[str, ...]) -> bool:
    """Whether a microarchitecture is one of the wanted ones or descends from one."""
    known = archspec.cpu.TARGETS.get(architecture)
    family = {architecture, *(ancestor.name for ancestor in known.ancestors)} if known else {architecture}
    return not family.isdisjoint(wanted)


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
    reasons = "; ".join(f"{each.value}: {each.reason}" for each in rejected)
    hint = "ask for another version, or give an image of your own as a modak.nodes.Image"
    return CannotPlan(about, f"no build of {application.framework} fits ({reasons})", hint)
