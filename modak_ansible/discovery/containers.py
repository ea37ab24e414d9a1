"""Findings about images: whether they can be built and run. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from modak_ansible.discovery.aim import Aim
from modak_ansible.discovery.finding import Finding, missing, ok, warning
from modak_ansible.schedulers.containers import CONTAINER_RUNTIMES
from modak_ansible.target.survey.survey import SurveyFacts

_PACKAGES = {
    "mksquashfs": "squashfs-tools",
    "newuidmap": "uidmap (shadow-utils)",
    "newgidmap": "uidmap (shadow-utils)",
    "jq": "jq",
    "parallel": "parallel",
    "ch-image": "charliecloud-builders",
    "ch-convert": "charliecloud-builders",
}


def container_findings(aim: Aim, facts: SurveyFacts) -> Iterator[Finding]:
    """What stands in the way of building and running images on the target."""
    containers = facts["containers"]
    if aim.target.container_runtime == "none":
        yield ok("containers", "not used: the target runs in a virtual environment")
        return
    if aim.target.pods:
        yield ok("containers", "the cluster's own: its nodes pull the image")
        return
    if not containers["runtime"]:
        yield _no_runtime(aim, facts)
        return
    suid = " (with setuid)" if containers["suid"] else ""
    yield ok("containers", f"{containers['version'] or 'version not known'}{suid} ({containers['runtime']})")
    yield from _build_findings(aim, facts)


def _no_runtime(aim: Aim, facts: SurveyFacts) -> Finding:
    runtime = aim.target.container_runtime
    programs = CONTAINER_RUNTIMES[runtime].programs
    name = f"neither {' nor '.join(programs)}" if len(programs) > 1 else f"no {programs[0]}"
    offers = facts["shell"]["offers"]
    todo = f"have {'Apptainer' if runtime == 'any' else runtime} installed, or set container_runtime to none"
    if offers:
        todo = f"module load {offers[0]} in the user's profile: builds on the front end need it, too"
    seen = f"{name} is in PATH on {facts['machine']['hostname']}"
    if not aim.is_described and facts["scheduler"] == "none" and not offers:
        return warning("containers", seen, "jobs can run in a virtual environment: container_runtime: none")
    return missing("containers", seen, todo)


def _build_findings(aim: Aim, facts: SurveyFacts) -> Iterator[Finding]:
    containers = facts["containers"]
    has_image = aim.request is not None and aim.request.image is not None
    stops_builds = warning if has_image else missing
    runtime = CONTAINER_RUNTIMES[aim.target.container_runtime]
    if containers["namespaces"]:
        seen = f"user namespaces cannot be used: {containers['namespaces']}"
        todo = "ask the administrators to allow them (sysctl user.max_user_namespaces), or build images elsewhere"
        yield (stops_builds if containers["suid"] else missing)("namespaces", seen, todo)
    else:
        yield ok("namespaces", "a user may make them")
    if containers["range"] and _takes_ranges(aim):
        yield stops_builds("fakeroot", containers["range"], containers["range_hint"])
    elif _takes_ranges(aim):
        yield ok("fakeroot", "the user has a range in /etc/subuid and /etc/subgid")
    absent = [name for name in runtime.tools if name in containers["missing"]]
    if absent:
        packages = ", ".join(dict.fromkeys(_PACKAGES[name] for name in absent))
        yield warning("build tools", f"{', '.join(absent)} not found", f"builds may need them: install {packages}")
    if aim.target.site.signing_key and containers["signing"]:
        yield missing("signing key", containers["signing"], containers["signing_hint"])
    elif aim.target.site.signing_key:
        yield ok("signing key", f"{aim.target.site.signing_key}, in both halves")
    if runtime.builds:
        yield from _base(aim, facts)


def _takes_ranges(aim: Aim) -> bool:
    """Whether what builds takes more ids than the user's own; mmdebstrap does, too."""
    runtime = CONTAINER_RUNTIMES[aim.target.container_runtime]
    return (runtime.builds and aim.target.image_base == "debootstrap") or "newuidmap" in runtime.tools


def _base(aim: Aim, facts: SurveyFacts) -> Iterator[Finding]:
    if aim.target.image_base != "debootstrap":
        yield ok("base image", "from a hub; whether the target reaches one is not tried")
        return
    tool = "mmdebstrap" if CONTAINER_RUNTIMES[aim.target.container_runtime].reads_containerfiles else "debootstrap"
    if tool in facts["containers"]["missing"]:
        seen, todo = f"{tool} is not on the target", f"set image_base to docker, or have {tool} installed"
        yield (missing if aim.is_described else warning)("base image", seen, todo)
    elif not facts["apt_mirror"]:
        seen = f"{tool}; apt on the target names no Debian mirror, so that this machine's serves"
        yield warning("base image", seen, "give the target's site an apt_mirror where that one cannot be reached")
    else:
        yield ok("base image", f"{tool}, from {facts['apt_mirror']}")
