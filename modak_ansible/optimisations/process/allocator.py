"""Which memory allocator the training's process has."""

from __future__ import annotations

from modak_ansible.optimisations.base import Draft, Optimisation, Option, why_unseen
from modak_ansible.optimisations.computation.memory import OUT_OF_CORE
from modak_ansible.optimisations.properties import Property

# The names that the dynamic loader looks up; every base image has tcmalloc.
_LIBRARIES = {"tcmalloc": "libtcmalloc_minimal.so.4", "jemalloc": "libjemalloc.so.2"}


class Allocator(Optimisation):
    name = "allocator"
    properties = (Property(values=("system", *_LIBRARIES)),)
    suite_default = "system"
    stock = ("system", "default")
    after = ("image", "memory")
    acts_on = "environment"

    def options(self, draft: Draft) -> tuple[Option, ...]:
        system = Option("system", "the C library's, which gives the large blocks of a step back to the kernel")
        reason = "it keeps the large blocks of a step for the next one, where glibc gives them back to the kernel"
        return system, *(Option(name, reason, why_not=_why_not(draft, name)) for name in _LIBRARIES)

    def apply(self, draft: Draft, value: str) -> None:
        if value not in _LIBRARIES:
            return
        preload = draft.environment.get("LD_PRELOAD")  # by the build itself
        library = draft.entry.preloads.get(value) if draft.entry else None
        draft.environment["LD_PRELOAD"] = ":".join(filter(None, (preload, library or _LIBRARIES[value])))
        draft.settings[self.name] = value


def _why_not(draft: Draft, name: str) -> str:
    if not draft.in_container:
        return "without a container only the machine's own libraries are available"
    if draft.settings.get("memory") == OUT_OF_CORE:
        return "memory freed by training out of core has to go back to the kernel"
    if draft.entry is None:
        return why_unseen(draft)
    if name not in draft.entry.allocators:
        return f"{draft.entry.name} does not include it"
    return ""
