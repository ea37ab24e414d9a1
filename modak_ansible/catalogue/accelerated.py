"""Which builds of a framework a target's accelerators can be used with."""

from __future__ import annotations

from modak_ansible.catalogue.entry import Entry
from modak_ansible.catalogue.processor import family_of
from modak_ansible.catalogue.reader import load_catalogue
from modak_ansible.model.target import Target


def accelerated(framework: str, version: str, target: Target, entry: str = "") -> list[Entry]:
    """Those that can serve there, the newest first.

    Args:
        entry: the only one that is wanted, where there is such a wish.
    """
    family = family_of(target.processor.architecture)
    return [
        each
        for each in load_catalogue().accelerated(framework, version, target.accelerator.vendor)
        if entry in ("", each.name)
        and each.address in ("", target.address)
        and not family.isdisjoint(each.architectures)
        and (each.origin != "hub" or (target.image_base == "docker" and target.container_runtime != "none"))
    ]
