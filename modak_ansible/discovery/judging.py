"""From a survey to findings: what is fine, what is missing, and how to mend it. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from modak_ansible.catalogue import load_catalogue
from modak_ansible.catalogue.locks import pythons_of
from modak_ansible.discovery.aim import Aim
from modak_ansible.discovery.containers import container_findings
from modak_ansible.discovery.finding import Finding, missing, ok, warning
from modak_ansible.discovery.hosts import host_findings
from modak_ansible.discovery.limits import limit_findings
from modak_ansible.discovery.node import node_findings
from modak_ansible.discovery.storage import storage_findings
from modak_ansible.discovery.surveying import OLDEST_PYTHON, Entrance, Survey, version_numbers
from modak_ansible.model.quantities import format_seconds
from modak_ansible.schedulers.cluster import ClusterFacts
from modak_ansible.schedulers.registry import SCHEDULERS
from modak_ansible.store.deployments import glance
from modak_ansible.store.forecasts import accuracy_of, forecasts_of, machine_of, words_of_start
from modak_ansible.target.core.probe import why_not_there
from modak_ansible.target.survey.survey import SurveyFacts

_SLOW_SECONDS = 5
_CLOCK_SECONDS = 60


def findings_of(aim: Aim, survey: Survey) -> list[Finding]:
    """Everything that was looked at, in the order in which a deployment needs it."""
    findings = [*_entrance_findings(aim, survey.entrance)]
    facts = survey.facts
    if facts is None:
        return findings
    findings += [_rsync(aim, facts), *_scheduler_findings(aim, facts, survey.cluster)]
    findings += limit_findings(aim, survey.cluster) if survey.cluster and survey.cluster.partitions else []
    findings += _start(aim, facts)
    findings += [*container_findings(aim, facts), *environment_findings(aim, survey.entrance)]
    findings += storage_findings(aim, facts)
    findings += _module_findings(aim, facts)
    return [*findings, *node_findings(aim, facts), *host_findings(aim, facts)]


def _entrance_findings(aim: Aim, entrance: Entrance) -> Iterator[Finding]:
    if entrance.seconds is None:
        yield ok("ssh", "this machine needs none")
    elif entrance.seconds > _SLOW_SECONDS:
        todo = "look at the target's name service (UseDNS of sshd) and at what the login shell does"
        yield warning("ssh", f"the login takes {format_seconds(entrance.seconds)}; host key and key are right", todo)
    else:
        yield ok("ssh", f"host key known, key accepted, logged in within {format_seconds(entrance.seconds)}")
    yield from _clock(entrance)
    python = entrance.python
    if python:
        yield ok("python", f"{python[1]} ({python[0]})")
        return
    oldest = ".".join(map(str, OLDEST_PYTHON))
    installed = ", ".join(f"{version} ({path})" for path, version in entrance.pythons) or "none"
    todo = f"have Python {oldest} or later on {aim.target.address}, in PATH"
    yield missing("python", f"{installed}; {oldest} or later is needed", todo)


def _clock(entrance: Entrance) -> Iterator[Finding]:
    if entrance.ahead is None:
        return
    distance = abs(entrance.ahead)
    where = "ahead of" if entrance.ahead > 0 else "behind"
    if distance > _CLOCK_SECONDS:
        seen = f"the target's clock is {format_seconds(distance)} {where} this machine's"
        yield warning("clock", seen, "set both by NTP: ages and times of files mislead otherwise")
    else:
        yield ok("clock", f"within {max(1, round(distance + 0.5))} s of this machine's")


def _rsync(aim: Aim, facts: SurveyFacts) -> Finding:
    if facts["rsync"] or aim.target.local:
        return ok("rsync", "there" if facts["rsync"] else "not needed on this machine")
    return missing("rsync", "not on the target: files cannot be copied there", "have rsync installed")


def _scheduler_findings(aim: Aim, facts: SurveyFacts, cluster: ClusterFacts | None) -> Iterator[Finding]:
    name, host = facts["scheduler"], facts["machine"]["hostname"]
    title = SCHEDULERS[name].title
    problem, todo = why_not_there(name, host, facts["missing"], facts["another"])
    if problem:
        yield missing("scheduler", problem, todo)
        return
    if cluster is None and facts["others"] and name == "none" and not aim.is_described:
        seen = f"{' and '.join(facts['others'])} is on {host}, which modak does not submit to"
        todo = "it submits to Slurm, Torque, PBS Professional and LSF; as a plain host that machine itself would train"
        yield warning("scheduler", seen, todo)
        return
    if facts["objection"]:
        yield missing(
            "scheduler",
            f"{title}: {facts['objection']}",
            "what it names is the administrators', or a word of the blueprint or of the target's description",
        )
    if facts["objection"] and cluster is None:
        return
    if cluster is None and SCHEDULERS[name].commands:
        yield ok(
            "scheduler",
            f"{title}, by {', '.join(SCHEDULERS[name].commands)}{'; it would take the job' if aim.plan else ''}",
        )
        return
    if cluster is None:
        seen = "none: jobs run directly, as on a modak.nodes.Host" if not aim.is_described else "none is needed"
        yield ok("scheduler", seen)
        return
    if cluster.partitions:
        yield ok(
            "scheduler", " ".join(part for part in (title, cluster.version, f"({cluster.name})") if part.strip("()"))
        )
    else:
        reason = "; ".join(cluster.unknown) or "it names no partition"
        yield missing(
            "scheduler", f"{title} does not tell its partitions: {reason}", "is it up? ask the administrators"
        )
        return
    for unknown in cluster.unknown:
        yield warning("scheduler", f"not told: {unknown}", "what this would show is not checked")
    yield from _accounts(aim, cluster)


def _start(aim: Aim, facts: SurveyFacts) -> Iterator[Finding]:
    """When a job would begin, and how far the last forecasts of that held."""
    expected = facts["forecast"]
    if expected and aim.plan:
        forecasts = [forecast for store in glance(aim.state) for forecast in forecasts_of(store.record)]
        words = accuracy_of(forecasts, machine_of(aim.plan), aim.target.name)
        yield ok(
            "start", f"{aim.plan['training']} would begin {words_of_start(expected)}{f' ({words})' if words else ''}"
        )


def _accounts(aim: Aim, cluster: ClusterFacts) -> Iterator[Finding]:
    account, accounts = aim.target.site.account, cluster.accounts
    if accounts is None:
        return
    names = ", ".join(accounts) or "none"
    if account and account not in accounts:
        seen = f"{account} is not one of the user's accounts: {names}"
        finding = missing if cluster.needs_account else warning
        yield finding("account", seen, "give the target's site one of them as its account")
    elif cluster.needs_account and not accounts:
        yield missing("account", "the user has no account, and Slurm requires one", "ask the administrators for one")
    elif accounts:
        default = f" ({cluster.default_account} is the default)" if cluster.default_account else ""
        yield ok("account", f"{account or names}{'' if account else default}")


def _module_findings(aim: Aim, facts: SurveyFacts) -> Iterator[Finding]:
    shell, modules = facts["shell"], aim.target.site.modules
    if shell["problem"]:
        todo = "look at what the login shell's profile does"
        yield warning("login shell", f"it does not come to its end: {shell['problem']}", todo)
        return
    absent = [name for name in modules if name not in shell["loads"]]
    if absent:
        seen = f"{', '.join(absent)} cannot be loaded" if shell["modules"] else "there are no environment modules"
        yield missing("modules", seen, "module avail lists those that are there; the site's modules must be among them")
    elif shell["modules"]:
        yield ok("modules", f"{shell['modules']}{': ' + ', '.join(modules) + ' can be loaded' if modules else ''}")
    else:
        yield ok("modules", "no environment modules, and none are asked for")


def environment_findings(aim: Aim, entrance: Entrance) -> Iterator[Finding]:
    """Whether there is a Python whose packages a lock of the catalogue knows, for a framework that is asked for."""
    framework = aim.request.application.framework if aim.request else ""
    if aim.target.container_runtime != "none":
        return
    entries = [entry for entry in load_catalogue().of_framework(framework) if not entry.source]
    pythons = {version_numbers(python) for entry in entries for python in pythons_of(entry)}
    supported = sorted(python for python in pythons if python >= (3,))
    if not supported:
        return
    for path, version in entrance.pythons:
        if version_numbers(version) in supported:
            yield ok("environment", f"{framework} can be installed for Python {version} ({path})")
            return
    versions = " or ".join(".".join(map(str, numbers)) for numbers in supported)
    installed = ", ".join(version for _, version in entrance.pythons) or "none"
    todo = f"have one of them in PATH on {aim.target.address}, or use a container runtime"
    yield missing(
        "environment", f"{framework} needs Python {versions} without a container, and there is {installed}", todo
    )
