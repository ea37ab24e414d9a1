"""Jobs, Pods and events of Kubernetes, as kubectl prints them in JSON: how a deployment's job is, or how it ended.

Sources: the API reference of batch/v1 and core/v1, release 1.32; "Pod disruption conditions" and "Node-pressure
eviction" of its documentation; the reasons in the kubelet's sources.
"""

from __future__ import annotations

import time
from calendar import timegm
from contextlib import suppress
from typing import Any, Dict, List, NamedTuple, Sequence, Tuple

from ..base import JobRecord, JobState

# What a Job of ours says of itself: in annotations the deployment's folder and its job's name, in labels both a
# digest of that folder and the Job's own name, which its Pods have, too.
FOLDER, NAME, JOB = "modak/folder", "modak/name", "modak/job"
_QUEUE = "kueue.x-k8s.io/queue-name"
_INDEX = "batch.kubernetes.io/job-completion-index"
_UID = 8
_SIGNAL_OFFSET = 128
_LAST_SIGNAL = 64
_TERM = 15
# Why a container waits, where that is no more than its beginning.
_BEGINNING = ("", "ContainerCreating", "PodInitializing")
# Why a Pod ended, in the words of its node or of what removed it.
_POD_ENDS = {
    "DeadlineExceeded": JobState.TIMEOUT,
    "Preempting": JobState.PREEMPTED,
    "Preempted": JobState.PREEMPTED,
    "NodeLost": JobState.NODE_FAIL,
    "NodeShutdown": JobState.NODE_FAIL,
    "Shutdown": JobState.NODE_FAIL,
    "Terminated": JobState.NODE_FAIL,  # "in response to imminent node shutdown"
    "NodeAffinity": JobState.BOOT_FAIL,
    "UnexpectedAdmissionError": JobState.BOOT_FAIL,
    "TopologyAffinityError": JobState.BOOT_FAIL,
    "SysctlForbidden": JobState.BOOT_FAIL,
    "AppArmor": JobState.BOOT_FAIL,
}
# The same in a Pod's condition DisruptionTarget.
_DISRUPTIONS = {
    "PreemptionByScheduler": JobState.PREEMPTED,
    "EvictionByEvictionAPI": JobState.PREEMPTED,
    "DeletionByTaintManager": JobState.NODE_FAIL,
    "DeletionByPodGC": JobState.NODE_FAIL,
    "TerminationByKubelet": JobState.NODE_FAIL,
}
# The same in events, of Pods that are there no more.
_EVENTS = {
    "Preempted": JobState.PREEMPTED,
    "TaintManagerEviction": JobState.NODE_FAIL,
    "NodeNotReady": JobState.NODE_FAIL,
    "Evicted": JobState.PREEMPTED,
}
_CONTAINER_ENDS = {
    "OOMKilled": JobState.OUT_OF_MEMORY,
    "ContainerCannotRun": JobState.BOOT_FAIL,
    "StartError": JobState.BOOT_FAIL,
    "ContainerStatusUnknown": JobState.NODE_FAIL,
}
_UNSAID = ("Error", "Completed", "")

Object = Dict[str, Any]


class End(NamedTuple):
    state: JobState
    exit_code: int | None = None
    signal: int | None = None
    reason: str = ""


class JobId(NamedTuple):
    """What a job is called here: a Job that is made anew under the same name is another one."""

    number: str  # the beginning of its uid, which its script makes of that, too
    name: str
    namespace: str

    def __str__(self) -> str:
        return ".".join(self)


def id_of(job: Object) -> JobId:
    meta = job["metadata"]
    return JobId(str(int(meta["uid"][:_UID], 16)), meta["name"], meta.get("namespace", "default"))


def parsed_id(text: str) -> JobId | None:
    """The parts of an id; None for what is none of ours."""
    parts = text.split(".")
    return JobId(*parts) if len(parts) == len(JobId._fields) and all(parts) else None


def is_over(job: Object) -> bool:
    """Whether a Job has come to its end, well or not."""
    return any(name in _conditions(job) for name in ("Complete", "Failed"))


def record_of(job: Object, pods: Sequence[Object], events: Sequence[Object]) -> JobRecord:
    """What a job is, by the Job, by those of some Pods that are its own, and by those of some events about them."""
    uid, name = job["metadata"]["uid"], job["metadata"]["name"]
    pods = sorted((pod for pod in pods if _is_owned(pod, uid)), key=_place)
    named = {uid, *(pod["metadata"]["uid"] for pod in pods)}
    about = [event for event in events if _is_about(event, named, job)]
    about.sort(key=lambda event: str(event.get("lastTimestamp") or event.get("eventTime") or ""))
    notes = job["metadata"].get("annotations", {})
    state, exit_code, signal, reason = _state(job, pods, about)
    labels = job["metadata"].get("labels", {})
    return JobRecord(
        str(id_of(job)),
        state,
        exit_code,
        signal,
        reason,
        nodes=",".join(dict.fromkeys(pod["spec"]["nodeName"] for pod in pods if pod["spec"].get("nodeName"))),
        name=notes.get(NAME, name),
        folder=notes.get(FOLDER, ""),
        queue=labels.get(_QUEUE, "") if state is JobState.QUEUED else "",
        held_by="user" if state is JobState.HELD else "",
        limit="walltime" if state is JobState.TIMEOUT else "",
        elapsed=_elapsed(pods) if state.is_final else None,
        down=",".join(pod["spec"].get("nodeName", "") for pod in pods if _is_out_of_reach(pod)),
    )


def _state(job: Object, pods: List[Object], events: List[Object]) -> End:
    conditions, spec = _conditions(job), job.get("spec", {})
    if "Complete" in conditions:
        return End(JobState.COMPLETED, 0)
    if "Failed" in conditions:
        return _failure(conditions["Failed"], pods, events)
    if job["metadata"].get("deletionTimestamp"):
        return End(JobState.ENDING, reason="it is being deleted")
    if spec.get("suspend"):
        queue = job["metadata"].get("labels", {}).get(_QUEUE)
        if queue:
            return End(JobState.QUEUED, reason=_latest(events) or f"Kueue has not admitted it to {queue} yet")
        return End(JobState.HELD)
    phases = [pod.get("status", {}).get("phase", "Pending") for pod in pods]
    completions = spec.get("completions") or 1
    if "Pending" in phases:  # of several they begin together
        waits = pods[phases.index("Pending")]
        return End(JobState.QUEUED, reason=_of_several(waits, completions, _why_it_waits(waits, events)))
    if len(pods) < completions and "Failed" not in phases:
        return End(JobState.QUEUED, reason=_latest(events))
    if "Running" in phases or "Unknown" in phases:
        return End(JobState.RUNNING)
    if pods:
        return End(JobState.ENDING, reason="its Pod has ended")
    return End(JobState.QUEUED, reason=_latest(events))


def _failure(condition: Object, pods: List[Object], events: List[Object]) -> End:
    """How a Job failed: by its first Pod that did, else by events, else by its own word."""
    words = ": ".join(filter(None, (condition.get("reason"), condition.get("message"))))
    failed = [pod for pod in pods if pod.get("status", {}).get("phase") == "Failed" and not _is_ended_for(pod, pods)]
    ends = sorted(failed, key=lambda pod: str(_terminated(pod).get("finishedAt") or "9"))
    if ends:
        end = _end_of(ends[0], events)
        return end._replace(reason=_of_several(ends[0], len(pods), end.reason))
    if condition.get("reason") == "DeadlineExceeded":
        return End(JobState.TIMEOUT, reason=words)
    for event in reversed(events):
        if event.get("reason") in _EVENTS:
            return End(_EVENTS[event["reason"]], reason=_said(event))
    return End(JobState.FAILED, reason=words)


def _end_of(pod: Object, events: List[Object]) -> End:
    """How a Pod ended that failed: what its node says of it goes before its container's own code."""
    status, ended = pod.get("status", {}), _terminated(pod)
    reason, cause = status.get("reason", ""), ": ".join(filter(None, (status.get("reason"), status.get("message"))))
    code = ended.get("exitCode")
    own = _container_end(ended)
    if reason == "Evicted":
        needs_memory = "low on resource: memory" in cause
        return End(JobState.OUT_OF_MEMORY if needs_memory else _of_storage(cause), reason=cause)
    if reason == "DeadlineExceeded" and not (ended.get("startedAt") or _has_begun(pod)):
        return End(JobState.BOOT_FAIL, reason=_why_it_waits(pod, events) or cause)
    if reason.startswith("OutOf"):  # its node had taken others meanwhile
        return End(JobState.BOOT_FAIL, reason=cause)
    if reason in _POD_ENDS:
        return End(_POD_ENDS[reason], None, own.signal, cause)
    disruption = _conditions(pod).get("DisruptionTarget")
    if disruption and disruption.get("reason") in _DISRUPTIONS:
        return End(_DISRUPTIONS[disruption["reason"]], None, own.signal, _said(disruption))
    if code is None:
        return End(JobState.FAILED, reason=cause or _latest(events))
    return own


def _of_storage(cause: str) -> JobState:
    """Of an eviction: whether the Pod itself wrote too much, or made way for what its node needs."""
    return JobState.FAILED if "storage" in cause or "emptyDir" in cause else JobState.PREEMPTED


def _container_end(ended: Object) -> End:
    code, reason = ended.get("exitCode"), ended.get("reason", "")
    message = " ".join(str(ended.get("message") or "").split())[-500:]
    words = ": ".join(filter(None, ("" if reason in _UNSAID else reason, message)))
    signal = ended.get("signal") or None
    if code is not None and _SIGNAL_OFFSET < code <= _SIGNAL_OFFSET + _LAST_SIGNAL:
        signal = signal or code - _SIGNAL_OFFSET
    if reason in _CONTAINER_ENDS:
        return End(_CONTAINER_ENDS[reason], None, signal, words)
    state = JobState.CANCELLED if signal == _TERM else JobState.FAILED
    return End(state, None if signal else code, signal, words)


def _why_it_waits(pod: Object, events: List[Object]) -> str:
    """What keeps a Pod from running; empty where it is on its way."""
    for container in pod.get("status", {}).get("containerStatuses", []):
        waiting = container.get("state", {}).get("waiting") or {}
        if waiting.get("reason", "") not in _BEGINNING:
            # that it is tried again says less than what came of it, which an event has
            failed = [_said(event) for event in events if event.get("reason") == "Failed" and _is_of(event, pod)]
            words = next((text for text in reversed(failed) if text.startswith("Failed: Failed to")), "")
            return f"{waiting['reason']}: {words.partition(': ')[2] or waiting.get('message', '')}".strip(" :")
    scheduled = _condition(pod, "PodScheduled")
    if scheduled.get("status") == "False":
        return _said(scheduled)
    return _latest([event for event in events if event.get("type") == "Warning" and _is_of(event, pod)])


def _of_several(pod: Object, count: int, words: str) -> str:
    """What is said of a Pod, with its number where it is not alone."""
    return f"Pod {index_of(pod)}: {words}" if count > 1 and words else words


# --- parts of objects


def index_of(pod: Object) -> int:
    """Which of a Job's Pods one is, from 0; 0 for one that is alone."""
    text = str(pod["metadata"].get("annotations", {}).get(_INDEX, ""))
    return int(text) if text.isdecimal() else 0


def _place(pod: Object) -> Tuple[int, str]:
    return index_of(pod), pod["metadata"].get("creationTimestamp", "")


def _is_ended_for(pod: Object, pods: Sequence[Object]) -> bool:
    """Whether one of several Pods was ended because another had failed."""
    return bool(pods[1:] and pod["metadata"].get("deletionTimestamp")) and "DisruptionTarget" not in _conditions(pod)


def _conditions(resource: Object) -> Dict[str, Object]:
    """The conditions that hold, by their types."""
    return {
        condition["type"]: condition
        for condition in resource.get("status", {}).get("conditions") or []
        if condition.get("status") == "True"
    }


def _condition(resource: Object, kind: str) -> Object:
    conditions = (
        condition for condition in resource.get("status", {}).get("conditions") or [] if condition.get("type") == kind
    )
    return next(conditions, {})


def _terminated(pod: Object) -> Object:
    """How the container of a Pod ended; empty where it has not."""
    for container in pod.get("status", {}).get("containerStatuses") or []:
        if terminated := container.get("state", {}).get("terminated"):
            return dict(terminated)
    return {}


def _has_begun(pod: Object) -> bool:
    statuses = pod.get("status", {}).get("containerStatuses") or []
    return any("running" in status.get("state", {}) for status in statuses)


def _is_out_of_reach(pod: Object) -> bool:
    """Whether a Pod runs, for all that is known, on a node that does not answer."""
    status = pod.get("status", {})
    if status.get("phase") not in ("Running", "Unknown"):
        return False
    disruption = _conditions(pod).get("DisruptionTarget", {}).get("reason")
    return (
        status.get("reason") == "NodeLost" or status.get("phase") == "Unknown" or disruption == "DeletionByTaintManager"
    )


def _is_owned(pod: Object, uid: str) -> bool:
    return any(owner.get("uid") == uid for owner in pod["metadata"].get("ownerReferences") or [])


def _is_about(event: Object, uids: set[str], job: Object) -> bool:
    """Whether an event is of a Job or of its Pods, of which some may be there no more: their names begin with its."""
    subject = event.get("involvedObject", {})
    if subject.get("uid") in uids:
        return True
    stem, _, tail = str(subject.get("name", "")).rpartition("-")
    if job.get("spec", {}).get("completionMode") == "Indexed":  # then its number stands between
        stem = stem.rpartition("-")[0]
    return subject.get("kind") == "Pod" and stem == job["metadata"]["name"] and bool(tail)


def _is_of(event: Object, pod: Object) -> bool:
    return bool(event.get("involvedObject", {}).get("uid") == pod["metadata"]["uid"])


def _said(statement: Object) -> str:
    """The reason and the message of a condition or an event."""
    return ": ".join(
        filter(None, (str(statement.get("reason") or ""), " ".join(str(statement.get("message") or "").split())))
    )


def _latest(events: Sequence[Object]) -> str:
    return next((_said(event) for event in reversed(events) if event.get("type") == "Warning"), "")


def _elapsed(pods: Sequence[Object]) -> float | None:
    for pod in pods:
        ended = _terminated(pod)
        with suppress(ValueError, TypeError):
            return max(0.0, _seconds(ended.get("finishedAt")) - _seconds(ended.get("startedAt")))
    return None


def _seconds(text: Any) -> float:
    """
    Raises:
        ValueError, TypeError: it is no moment.
    """
    return float(timegm(time.strptime(text, "%Y-%m-%dT%H:%M:%SZ")))
