"""Which memory allocator the training's process has."""

from __future__ import annotations

from modak_ansible.model.plan import Choice, Rejected
from modak_ansible.optimisations.base import CannotPlan, Draft, Optimisation

# The name that the dynamic loader looks up; every base image has the library.
_LIBRARIES = {"tcmalloc": "libtcmalloc_minimal.so.4"}


class Allocator(Optimisation):
    name = "allocator"
    after = ("image",)

    def decide(self, draft: Draft) -> Choice | None:
        wanted = draft.request.optimisation.allocator
        why_not = self._why_not(draft)
        if wanted == "system":
            return Choice(name=self.name, value="system", reason="asked for")
        if wanted in _LIBRARIES:
            if not self._has_library(draft, wanted):
                raise CannotPlan(
                    "optimisation.allocator", f"{wanted} is not to be had: {why_not}", "take any or system"
                )
            return self._take(draft, wanted, "asked for")
        if why_not:
            rejected = (Rejected(value="tcmalloc", reason=why_not),)
            return Choice(name=self.name, value="system", reason="stock", rejected=rejected)
        reason = "it keeps the large blocks of a step for the next one, where glibc gives them back to the kernel"
        rejected = (Rejected(value="system", reason="every step pays for fresh pages from the kernel"),)
        return self._take(draft, "tcmalloc", reason, rejected)

    def _take(self, draft: Draft, value: str, reason: str, rejected: tuple[Rejected, ...] = ()) -> Choice:
        preloaded = draft.environment.get("LD_PRELOAD")  # by the build itself
        draft.environment["LD_PRELOAD"] = ":".join(filter(None, (preloaded, _LIBRARIES[value])))
        evidence = "optimisations/allocator.md"
        return Choice(name=self.name, value=value, reason=reason, evidence=evidence, rejected=rejected)

    @staticmethod
    def _has_library(draft: Draft, name: str) -> bool:
        return draft.in_container and draft.entry is not None and name in draft.entry.allocators

    def _why_not(self, draft: Draft) -> str:
        if not draft.in_container:
            return "without a container only the machine's own libraries are there"
        if draft.entry is None:
            return "nobody knows what a given image holds"
        if not self._has_library(draft, "tcmalloc"):
            return f"{draft.entry.name} does not carry it"
        if draft.entry.framework != "pytorch":
            return f"{draft.entry.framework} gained nothing measurable from it"
        if draft.entry.accelerator:
            return "the accelerator's memory is not the allocator's"
        return ""
