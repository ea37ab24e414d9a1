"""Findings of the other hosts that a target's first one starts ranks on. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from modak_ansible.discovery.aim import Aim
from modak_ansible.discovery.finding import Finding, missing, ok, warning
from modak_ansible.discovery.surveying import OLDEST_PYTHON, version_numbers
from modak_ansible.model.quantities import format_seconds, format_size
from modak_ansible.target.images.runtimes import NEEDED_BYTES
from modak_ansible.target.survey.hosts import HostFacts
from modak_ansible.target.survey.survey import SurveyFacts

# Files whose dates say when something was used, and hosts that wait for each other, bear so many seconds.
_CLOCK_SECONDS = 60
# What ssh says, and what to do about it on the first host.
_CURES = (
    ("Host key verification failed", "enter it from {first} once by hand and compare the key: ssh {host}"),
    (
        "Permission denied",
        "have a key on {first} without a passphrase, and its public half in ~/.ssh/authorized_keys there",
    ),
    ("Could not resolve hostname", "give it a Host entry in ~/.ssh/config on {first}, or name it otherwise"),
    ("", "ssh -o BatchMode=yes {host} true has to say nothing on {first}: is it up, and does sshd listen there?"),
)


def host_findings(aim: Aim, facts: SurveyFacts) -> Iterator[Finding]:
    """What is amiss with each host, by its name; of a good one what it has."""
    first = facts["machine"]["hostname"]
    for host in facts["hosts"]:
        about, place = f"host {host['host']}", host["place"]
        if host["problem"]:
            todo = next(todo for complaint, todo in _CURES if complaint in host["problem"])
            seen = f"{place} cannot be entered from {first}: {host['problem']}"
            yield missing(about, seen, todo.format(first=first, host=host["host"]))
            continue
        faults = [*_faults(aim, facts, host)]
        yield from (kind(about, f"{place}: {seen}", todo) for kind, seen, todo in faults)
        if not faults:
            files = "shares the workspace" if host["shared"] else f"{format_size(host['free_bytes'] or 0)} free"
            yield ok(about, f"{place} is entered from {first}; {files}")


def _faults(
    aim: Aim, facts: SurveyFacts, host: HostFacts
) -> Iterator[tuple[Callable[[str, str, str], Finding], str, str]]:
    first, runtime = facts["machine"]["hostname"], facts["containers"]["runtime"]
    if not host["rsync"]:
        yield missing, "rsync is not there: nothing can be copied to it", "have rsync installed there"
    if runtime and aim.target.container_runtime != "none" and not host["runtime"]:
        yield missing, f"{runtime} is not there, which {first} has", "have it installed there, at the same path"
    if host["machine"] and host["machine"] != facts["machine"]["machine"]:
        seen = f"{host['machine']}, and {first} is {facts['machine']['machine']}: its images do not run there"
        yield missing, seen, "name hosts of one kind"
    workspace = facts["folders"]["workspace"]["path"]
    if not host["writable"] and not host["shared"]:
        yield (
            missing,
            f"{workspace} cannot be written there",
            f"make it there, or give {aim.target.name} another workspace",
        )
    elif not host["shared"] and host["free_bytes"] is not None and host["free_bytes"] < NEEDED_BYTES:
        seen = f"{format_size(host['free_bytes'])} are free for {workspace}"
        yield warning, seen, "make room there: the image and the data are copied to it"
    ahead = host["ahead"]
    if ahead is not None and abs(ahead) > _CLOCK_SECONDS:
        where = "ahead of" if ahead > 0 else "behind"
        yield warning, f"its clock is {format_seconds(abs(ahead))} {where} {first}'s", "set both by NTP"
    if version_numbers(host["python"]) < OLDEST_PYTHON:
        oldest = ".".join(map(str, OLDEST_PYTHON))
        yield (
            warning,
            f"python3 is {host['python'] or 'not there'}",
            f"modak top, shell and gc need {oldest} or later there",
        )
