"""Findings about virtual environments, which hold a framework where there are no containers. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from modak_ansible.catalogue import load_catalogue
from modak_ansible.catalogue.locks import pythons_of
from modak_ansible.discovery.aim import Aim
from modak_ansible.discovery.finding import Finding, missing, ok
from modak_ansible.discovery.surveying import Entrance, version_numbers


def environment_findings(aim: Aim, entrance: Entrance) -> Iterator[Finding]:
    """Whether there is a Python whose packages a lock of the catalogue knows, for a framework that is asked for."""
    framework = aim.request.application.framework if aim.request else ""
    if aim.target.container_runtime != "none":
        return
    entries = [entry for entry in load_catalogue().of_framework(framework) if not entry.source]
    pythons = {version_numbers(python) for entry in entries for python in pythons_of(entry)}
    known = sorted(python for python in pythons if python >= (3,))
    if not known:
        return
    for path, version in entrance.pythons:
        if version_numbers(version) in known:
            yield ok("environment", f"{framework} can be installed for Python {version} ({path})")
            return
    wanted = " or ".join(".".join(map(str, each)) for each in known)
    there = ", ".join(version for _, version in entrance.pythons) or "none"
    todo = f"have one of them in PATH on {aim.target.address}, or use a container runtime"
    yield missing("environment", f"{framework} needs Python {wanted} without a container, and there is {there}", todo)
