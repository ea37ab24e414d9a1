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
    for each in facts["hosts"]:
        about, place = f"host {each['host']}", each["place"]
        if each["problem"]:
            todo = next(todo for said, todo in _CURES if said in each["problem"])
            seen = f"{place} cannot be entered from {first}: {each['problem']}"
            yield missing(about, seen, todo.format(first=first, host=each["host"]))
            continue
        faults = [*_faults(aim, facts, each)]
        yield from (kind(about, f"{place}: {seen}", todo) for kind, seen, todo in faults)
        if not faults:
            files = "shares the workspace" if each["shared"] else f"{format_size(each['free_bytes'] or 0)} free"
            yield ok(about, f"{place} is entered from {first}; {files}")


def _faults(
    aim: Aim, facts: SurveyFacts, found: HostFacts
) -> Iterator[tuple[Callable[[str, str, str], Finding], str, str]]:
    first, runtime = facts["machine"]["hostname"], facts["containers"]["runtime"]
    if not found["rsync"]:
        yield missing, "rsync is not there: nothing can be copied to it", "have rsync installed there"
    if runtime and aim.target.container_runtime != "none" and not found["runtime"]:
        yield missing, f"{runtime} is not there, which {first} has", "have it installed there, at the same path"
    if found["machine"] and found["machine"] != facts["machine"]["machine"]:
        seen = f"{found['machine']}, and {first} is {facts['machine']['machine']}: its images do not run there"
        yield missing, seen, "name hosts of one kind"
    workspace = facts["folders"]["workspace"]["path"]
    if not found["writable"] and not found["shared"]:
        yield (
            missing,
            f"{workspace} cannot be written there",
            f"make it there, or give {aim.target.name} another workspace",
        )
    elif not found["shared"] and found["free_bytes"] is not None and found["free_bytes"] < NEEDED_BYTES:
        seen = f"{format_size(found['free_bytes'])} are free for {workspace}"
        yield warning, seen, "make room there: the image and the data are copied to it"
    ahead = found["ahead"]
    if ahead is not None and abs(ahead) > _CLOCK_SECONDS:
        where = "ahead of" if ahead > 0 else "behind"
        yield warning, f"its clock is {format_seconds(abs(ahead))} {where} {first}'s", "set both by NTP"
    if version_numbers(found["python"]) < OLDEST_PYTHON:
        oldest = ".".join(map(str, OLDEST_PYTHON))
        yield (
            warning,
            f"python3 is {found['python'] or 'not there'}",
            f"modak top, shell and gc need {oldest} or later there",
        )
