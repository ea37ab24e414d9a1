"""Findings of a compute node's own view. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from modak_ansible.discovery.aim import Aim
from modak_ansible.discovery.finding import Finding, missing, ok, warning
from modak_ansible.model.quantities import format_size
from modak_ansible.schedulers.containers import CONTAINER_RUNTIMES
from modak_ansible.target.survey.node_view import LATE, REFUSED, SILENT, NodePlace, NodeView
from modak_ansible.target.survey.survey import SurveyFacts


def node_findings(aim: Aim, facts: SurveyFacts) -> Iterator[Finding]:
    """What a job on a node saw, or why none did."""
    node = facts["node"]
    if node is None:
        return
    if node["problem"]:
        yield _unanswered(node["problem"])
        return
    host = node["host"]
    yield ok("node", f"{host} answered: {node['processors'] or 'an unknown number of'} processors, {_memory(node)}")
    if node["same_home"]:
        yield ok("node's home", "the same files as on the front end")
    else:
        yield missing("node's home", "other files than on the front end", "give the target a shared workspace")
    if aim.target.container_runtime != "none":
        yield from _runtime(aim, node)
        if not node["namespaces"] and not facts["containers"]["suid"]:
            todo = (
                "ask the administrators to allow them there (sysctl user.max_user_namespaces), or for a setuid starter"
            )
            yield missing("node's namespaces", f"a user may make none on {host}, and containers need them", todo)
    if aim.target.scratch:
        yield from _scratch(aim.target.scratch.path, node)
    front_end = facts["machine"]["machine"]
    if node["machine"] and node["machine"] != front_end:
        seen = f"{node['machine']}, and the front end is {front_end}: images built there do not run"
        yield missing("node's processor", seen, "build images on such a node, and name them")


def _unanswered(problem: str) -> Finding:
    if LATE in problem:
        return warning(
            "node", problem, "the cluster is busy, or starts its nodes first: try again with more --patience"
        )
    if REFUSED in problem:
        todo = "what its jobs have to say is described: the target's partitions and account, a rule of its site"
        return missing("node", problem, todo)
    if SILENT in problem:
        return missing("node", problem, "is it up? try again when it answers, or ask the administrators")
    return missing("node", problem, "look at the job's folder and at the scheduler's log on the target")


def _memory(node: NodeView) -> str:
    return f"{format_size(node['memory'])} memory" if node["memory"] else "memory not known"


def _runtime(aim: Aim, node: NodeView) -> Iterator[Finding]:
    programs = CONTAINER_RUNTIMES[aim.target.container_runtime].programs
    runtimes = [runtime for runtime in node["runtimes"] if any(f"/{name} " in runtime for name in programs)]
    if runtimes:
        yield ok("node's containers", runtimes[0])
    else:
        todo = f"have {programs[0]} installed on the nodes, or name its module in the site's modules"
        yield missing("node's containers", f"no {programs[0]} is in PATH on {node['host']}", todo)


def _scratch(path: str, node: NodeView) -> Iterator[Finding]:
    place = next((place for place in node["places"] if path in (place["name"], place["path"])), None)
    if place and place["writable"]:
        yield ok("node's scratch", f"{place['path']} ({place_words(place)})")
    elif place:
        yield missing("node's scratch", f"{place['path']} cannot be written", "give the target another scratch")
    else:
        writable = ", ".join(place["name"] for place in node["places"] if place["writable"]) or "none"
        todo = f"those that can be written there: {writable}"
        yield warning("node's scratch", f"whether {path} is on {node['host']} was not seen", todo)


def place_words(place: NodePlace) -> str:
    """What kind of file system a place of a node is on, and what is free there."""
    free = place["free_bytes"]
    return f"{place['type']}, {format_size(free) if free is not None else 'an unknown size'} free"
