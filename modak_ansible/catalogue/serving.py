"""Whether a target can have a build, and run it, whatever a job asks for."""

from __future__ import annotations

import archspec.cpu

from modak_ansible.catalogue.entry import Catalogue, Entry
from modak_ansible.catalogue.processor import family_of
from modak_ansible.catalogue.reader import load_catalogue
from modak_ansible.model.target import Processor, Target


def accelerated(framework: str, version: str, target: Target, entry: str = "") -> list[Entry]:
    """The builds that a target's accelerators can be used with, the newest first.

    Args:
        entry: the only one that is wanted, where there is such a preference.
    """
    catalogue = load_catalogue()
    return [
        build
        for build in catalogue.accelerated(framework, version, target.accelerator.vendor)
        if entry in ("", build.name)
        and not why_not_on_processor(build, target.processor)
        and not why_not_made(build, target, catalogue, version)
    ]


def why_not_on_processor(entry: Entry, processor: Processor) -> str:
    architecture = processor.architecture
    if family_of(architecture).isdisjoint(entry.architectures):
        return f"it needs {' or '.join(entry.architectures)}, and the processor is {architecture}"
    microarchitecture, has = archspec.cpu.TARGETS.get(architecture), processor.features
    missing_features = [
        feature
        for feature in entry.features
        if (microarchitecture is None or feature not in microarchitecture) and feature not in has
    ]
    return f"it needs {', '.join(missing_features)}, which {architecture} lacks" if missing_features else ""


def why_not_made(entry: Entry, target: Target, catalogue: Catalogue, version: str) -> str:
    """Why the target has no way to come by the build.

    Args:
        version: of the framework, as a user wants it; empty for any.
    """
    in_container = target.container_runtime != "none"
    if not in_container and (entry.source or entry.packages or entry.libraries):
        return "it needs a container runtime, and the target is set to use none"
    if not in_container and catalogue.bases[entry.base].python.startswith("2."):
        return "its Python is too old for a virtual environment, and the target is set to use no container runtime"
    if not in_container and entry.framework == "python" and version:
        return "without a container the host's own Python is used, whatever its version"
    if entry.origin == "hub" and target.image_base != "docker":
        return "the target cannot reach a hub"
    if entry.address and entry.address != target.address:
        return f"its image is on {entry.address}"
    return ""
