"""Whether memory comes in pages of 2 MB."""

from __future__ import annotations

from modak_ansible.optimisations.base import Draft, Optimisation, Option, why_unseen
from modak_ansible.optimisations.code import framework_of, is_at_least
from modak_ansible.optimisations.properties import Property

# glibc of the Debian releases that images begin with; it knows the tunable from 2.35 on.
_GLIBC = {"bullseye": (2, 31), "bookworm": (2, 36), "trixie": (2, 41)}
_TUNABLE_SINCE = (2, 35)
_PYTORCH_SINCE = "2.2"


class HugePages(Optimisation):
    name = "huge_pages"
    properties = (Property("Whether the allocator asks for huge pages.", ("none", "transparent")),)
    suite_default = "none"
    stock = ("none", "system", "default", "off")
    after = ("allocator",)
    acts_on = "environment"

    def options(self, draft: Draft) -> tuple[Option, ...]:
        none = Option("none", "the kernel's default pages")
        allocator = "PyTorch" if _by_pytorch(draft) else "glibc's allocator"
        reason = f"{allocator} asks the kernel for pages of 2 MB, where its setting is madvise or always"
        return none, Option("transparent", reason, why_not=_why_not(draft))

    def apply(self, draft: Draft, value: str) -> None:
        if value != "transparent":
            return
        draft.settings[self.name] = value
        if _by_pytorch(draft):
            draft.environment["THP_MEM_ALLOC_ENABLE"] = "1"
        else:
            draft.environment["GLIBC_TUNABLES"] = "glibc.malloc.hugetlb=1"


def _by_pytorch(draft: Draft) -> bool:
    return framework_of(draft) == "pytorch" and is_at_least(draft, _PYTORCH_SINCE)


def _why_not(draft: Draft) -> str:
    if draft.entry is None:
        return why_unseen(draft)
    if draft.entry.accelerator:
        return "the accelerator's memory is not the allocator's"
    if _by_pytorch(draft):
        return ""
    if draft.settings.get("allocator"):
        return f"{draft.settings['allocator']} takes them only from a file system that an administrator mounts"
    base = draft.base
    version = _GLIBC.get(base.suite) if base else _numbers(draft.entry.glibc)
    if not draft.in_container or not (base or version):
        return "its version of glibc is not known"
    if version is None or version < _TUNABLE_SINCE:
        image_name = base.suite if base else "the image"
        return f"glibc can ask for them from 2.35 on, and {image_name} has {'.'.join(map(str, version or ()))}".rstrip()
    return ""


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
