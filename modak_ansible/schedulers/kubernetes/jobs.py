"""Kubernetes: a deployment's job is a Job whose name follows from the deployment's folder, asked for by kubectl.

Its script runs in the Pod: the folder lies on a volume that is mounted at the same path there and where kubectl is.
Sources: kubectl's reference; the API reference of batch/v1, release 1.32.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from itertools import compress
from typing import Any, Dict, List, Sequence, Tuple

from ..base import (
    NO_WAITS,
    ActionRefused,
    CommandResult,
    JobRecord,
    JobState,
    Run,
    Scheduler,
    SchedulerSilent,
    SubmissionRefused,
    SubmissionUncertain,
    Waits,
)
from .objects import FOLDER, JOB, NAME, JobId, Object, id_of, index_of, is_over, parsed_id, record_of

PREFIX = "#KUBERNETES "
_MANAGED = "app.kubernetes.io/managed-by=modak"
_LONGEST = 40  # of the part of a name that people read; Pods have theirs with more behind it, 63 in all
_DIGITS = 8
_ATTEMPTS = 100
_UID = re.compile(r"[0-9a-f]{8}", re.ASCII)
# What kubectl says where it has not come to the API server at all, and where its request may have.
_UNREACHED = ("was refused", "connection refused", "no such host", "Unable to connect", "no route to host")
_UNCERTAIN = ("imeout", "timed out", "EOF", "connection reset", "ServiceUnavailable", "InternalError", "etcdserver")
# Where the folder is not to be seen, the volume is not what the target's description says.
_BEGIN = (
    'cd "$0" 2> /dev/null || { echo "$(hostname) does not see $0: the volume that is mounted in Pods is not '
    'that of the workspace" >&2; exit 66; }; [ "${JOB_COMPLETION_INDEX:-0}" != 0 ] || exec > scheduler.log 2>&1; '
    "exec bash job.sh"
)
# Of several Pods, the mode of a Job in which each is told which of them it is; and what is said where there is none.
_INDEXED = "completionMode"
_NOT_INDEXED = (
    "the API server does not know Indexed Jobs, so the Pods of several nodes would not know their ranks: they came "
    "with 1.22, and in 1.21 behind a feature gate; use one node"
)


class Kubernetes(Scheduler):
    """Kubernetes, whose API server itself refuses a second Job of the same name."""

    name = "kubernetes"
    title = "Kubernetes"
    commands = ("kubectl",)
    knows_success = True

    def submit(self, run: Run, script: str, name: str, waits: Waits = NO_WAITS) -> str:
        if waits:
            raise SubmissionRefused("Kubernetes does not start a Job after another one")
        folder = run(["pwd", "-P"]).out.strip()
        manifest = _manifest(run, script)
        if not manifest or not folder:
            raise SubmissionRefused(f"{script} has no Job in its head; deploy again")
        if _INDEXED in manifest["spec"]:
            shown = run(_create(job_of(manifest, folder, name), "--dry-run=server"))
            if _is_left_out(shown):
                raise SubmissionRefused(_NOT_INDEXED)
        for attempt in range(1, _ATTEMPTS):
            job = job_of(manifest, folder, name, attempt)
            made = run(_create(job))
            if made.code == 0:
                return str(id_of(_read(made)))
            if "AlreadyExists" not in made.err:
                raise _refusal(made)
            if there := self._living(run, job, folder):
                return there
        raise SubmissionRefused(f"there are {_ATTEMPTS} Jobs of this deployment")

    def _living(self, run: Run, job: Object, folder: str) -> str:
        """The id of the deployment's Job that has the name already; empty for one of an earlier attempt."""
        wanted = job["metadata"]
        scope = [f"--namespace={wanted['namespace']}"] if "namespace" in wanted else []
        found = run(["kubectl", "get", "job", wanted["name"], *scope, "--ignore-not-found", "--output=json"])
        if found.code != 0 or not found.out.strip():
            raise SubmissionUncertain(
                found.said_by("kubectl") if found.code else f"{wanted['name']} appeared and disappeared"
            )
        there = _read(found)
        if there["metadata"].get("annotations", {}).get(FOLDER) != folder:
            raise SubmissionRefused(f"there is already another Job named {wanted['name']}")
        return "" if is_over(there) or there["metadata"].get("deletionTimestamp") else str(id_of(there))

    def find(self, run: Run, name: str, folder: str) -> list[str]:
        scope = _manifest(run, f"{folder}/job.sh").get("metadata", {}).get("namespace")
        place = [f"--namespace={scope}"] if scope else []
        jobs, _ = _listed(run, "jobs", [f"--selector={FOLDER}={digest_of(folder)}", *place])
        ours = [job for job in jobs if job["metadata"].get("annotations", {}).get(NAME) == name]
        ours.sort(key=lambda job: job["metadata"].get("creationTimestamp", ""))
        return [str(id_of(job)) for job in ours]

    def statuses(self, run: Run, job_ids: Sequence[str]) -> dict[str, JobRecord]:
        found: Dict[str, JobRecord] = {}
        for namespace, names in _by_namespace(job_ids).items():
            selector = f"{JOB}={names[0]}" if len(names) == 1 else _MANAGED
            scope = [f"--namespace={namespace}"]
            jobs, pods = _listed(run, "jobs,pods", [f"--selector={selector}", *scope])
            events, _ = _listed(run, "events", scope) if jobs else ([], [])
            for job in jobs:
                record = record_of(job, pods, events)
                if record.job_id in job_ids:
                    found[record.job_id] = record
        return found

    def objection(self, run: Run, directives: str) -> str:
        """What the API server says of a Job that it is only shown, and whether what its Pod would mount is there."""
        lines = [line[len(PREFIX) :] for line in directives.splitlines() if line.startswith(PREFIX)]
        manifest = _parsed("\n".join(lines))
        if not manifest:
            return ""
        job = job_of(manifest, "/modak/deployments/check", "check")
        shown = run(_create(job, "--dry-run=server"))
        if _INDEXED in job["spec"] and _is_left_out(shown):
            return _NOT_INDEXED
        if shown.code != 0:
            return _words(shown)
        scope = [f"--namespace={_read(shown)['metadata']['namespace']}"]
        pod = job["spec"]["template"]["spec"]
        wanted = [("secret", each["name"]) for each in pod.get("imagePullSecrets", [])]
        claims = [each["persistentVolumeClaim"] for each in pod["volumes"] if "persistentVolumeClaim" in each]
        wanted += [("persistentvolumeclaim", claim["claimName"]) for claim in claims]
        # whoever may not look learns nothing: the Pod then says it
        answers = [run(["kubectl", "get", kind, name, *scope, "--output=name"]) for kind, name in wanted]
        return next((_words(answer) for answer in answers if "NotFound" in answer.err), "")

    def cancel(self, run: Run, *job_ids: str) -> None:
        living = [each for each, job in self.statuses(run, job_ids).items() if not job.state.is_final]
        for namespace, names in _by_namespace(living).items():
            words = ["--ignore-not-found", "--wait=false", "--cascade=foreground"]
            done = run(["kubectl", "delete", "job", *names, f"--namespace={namespace}", *words])
            if done.code != 0:
                raise SchedulerSilent(done.said_by("kubectl"))

    def hold(self, run: Run, job_id: str) -> None:
        record = self.status(run, job_id)
        if record is None or record.state is not JobState.QUEUED:
            raise ActionRefused("it is not waiting: suspending it would end its Pod")
        if record.queue:
            raise ActionRefused(f"Kueue decides when it begins: kubectl lists it among the workloads of {record.queue}")
        _suspend(run, job_id, suspend=True)

    def release(self, run: Run, job_id: str) -> None:
        _suspend(run, job_id, suspend=False)

    def requeue(self, run: Run, job_id: str) -> None:  # noqa: ARG002
        raise ActionRefused("a Pod that has ended is not started again; cancel it, and resume the deployment")

    def enter(
        self,
        run: Run,
        job: JobRecord,
        nodes: int,
        words: Sequence[str],
        *,
        first: int = 0,
        terminal: bool = False,
    ) -> list[list[str]]:
        known = parsed_id(job.job_id)
        if known is None:
            raise ActionRefused(f"{job.job_id} is not a Kubernetes job")
        scope = f"--namespace={known.namespace}"
        pods, _ = _listed(
            run, "pods", [f"--selector={JOB}={known.name}", "--field-selector=status.phase=Running", scope]
        )
        pods = sorted((pod for pod in pods if first <= index_of(pod) < first + nodes), key=index_of)
        if not pods:
            raise ActionRefused("it has no running Pod")
        asked = ["--stdin", "--tty"] if terminal else []
        return [["kubectl", "exec", *asked, scope, pod["metadata"]["name"], "--", *words] for pod in pods]

    def marks(self, job_id: str) -> tuple[str, ...]:
        known = parsed_id(job_id)
        return "", f"MODAK_JOB_NAME={known.name if known else job_id}"


def name_of(folder: str, attempt: int = 1) -> str:
    """The name of the Job of a deployment's folder: one that RFC 1123 allows, and nobody else's."""
    words = re.sub(r"[^a-z0-9]+", "-", folder.rstrip("/").rpartition("/")[2].lower())[:_LONGEST].strip("-")
    again = f"-{attempt}" if attempt > 1 else ""
    return f"{words or 'job'}-{digest_of(folder)[:_DIGITS]}{again}"


def digest_of(folder: str) -> str:
    return hashlib.sha256(folder.encode()).hexdigest()[:32]


def job_of(manifest: Object, folder: str, name: str, attempt: int = 1) -> Object:
    """The Job that is submitted: the plan's, with what is known on the target alone."""
    job: Object = json.loads(json.dumps(manifest))
    called = name_of(folder, attempt)
    meta, template = job["metadata"], job["spec"]["template"]
    meta["name"] = called
    meta["annotations"] = {FOLDER: folder, NAME: name}
    meta["labels"].update({FOLDER: digest_of(folder), JOB: called})
    template["metadata"]["labels"][JOB] = called
    # what it writes belongs to whoever submits it, as on any other target
    groups = sorted({*os.getgroups()} - {os.getgid()})
    template["spec"]["securityContext"] = {
        "runAsUser": os.getuid(), "runAsGroup": os.getgid(), **({"supplementalGroups": groups} if groups else {}),
    }  # fmt: skip
    container = template["spec"]["containers"][0]
    if os.getuid():  # as namespaces of the PodSecurity level restricted want it; root has nothing left without it
        template["spec"]["securityContext"].update(runAsNonRoot=True, seccompProfile={"type": "RuntimeDefault"})
        container["securityContext"] = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    container["command"] = ["bash", "-c", _BEGIN, folder]
    container["env"] = [
        {"name": "MODAK_JOB_NAME", "value": called},
        _told("MODAK_JOB_NAMESPACE", "metadata.namespace"),
        _told("MODAK_JOB_UID", "metadata.labels['controller-uid']"),
        {"name": "HOME", "value": "/tmp"},  # noqa: S108 - users of the target have no home in the image
    ]
    if _INDEXED in job["spec"]:  # where ranks meet is the first Pod's own address: no name, and no Service, is needed
        container["env"] += [_told("MODAK_POD", "metadata.name"), _told("MODAK_POD_ADDRESS", "status.podIP")]
    return job


def _is_left_out(shown: CommandResult) -> bool:
    """Whether a Job that was only shown to the API server has lost its mode there, or kubectl knows of none."""
    if shown.code != 0:
        return _INDEXED in shown.err
    return _INDEXED not in _read(shown).get("spec", {})


def _told(name: str, path: str) -> Dict[str, Any]:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


def _create(job: Object, *options: str) -> List[str]:
    command = " ".join(["kubectl create --output=json --filename=-", *options])
    return ["bash", "-c", f'{command} <<< "$1"', "kubectl", json.dumps(job)]


def _manifest(run: Run, script: str) -> Object:
    """The Job in the head of a script; empty where there is none."""
    return _parsed(run(["sed", "-n", f"s/^{PREFIX}//p", script]).out)


def _parsed(text: str) -> Object:
    try:
        return dict(json.loads(text)) if text.strip() else {}
    except (ValueError, TypeError):
        return {}


def _by_namespace(job_ids: Sequence[str]) -> Dict[str, List[str]]:
    """The names of jobs by their namespaces; what is no id of ours is left out."""
    found: Dict[str, List[str]] = {}
    known: List[JobId] = [each for each in map(parsed_id, job_ids) if each]
    for each in known:
        found.setdefault(each.namespace, []).append(each.name)
    return found


def _listed(run: Run, kinds: str, options: List[str]) -> Tuple[List[Object], List[Object]]:
    """The first of some kinds of objects, and those of the others.

    Raises:
        SchedulerSilent: kubectl does not answer, or prints no list.
    """
    listed = run(["kubectl", "get", kinds, *options, "--output=json"])
    if listed.code != 0:
        raise SchedulerSilent(listed.said_by("kubectl"))
    found, first = _read(listed).get("items"), kinds.partition(",")[0].rstrip("s")
    items = [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []
    if kinds != "events":
        items = [item for item in items if _is_named(item.get("metadata"))]
    alike = [str(item.get("kind", first)).lower() == first for item in items]
    return list(compress(items, alike)), [item for item, is_first in zip(items, alike) if not is_first]


def _is_named(meta: object) -> bool:
    return isinstance(meta, dict) and "name" in meta and bool(_UID.match(str(meta.get("uid"))))


def _read(result: CommandResult) -> Object:
    """
    Raises:
        SchedulerSilent: it is no JSON.
    """
    try:
        return dict(json.loads(result.out))
    except (ValueError, TypeError) as error:
        raise SchedulerSilent(f"kubectl printed broken JSON: {error}") from error


def _refusal(result: CommandResult) -> Exception:
    words = _words(result)
    if result.timed_out:
        return SubmissionUncertain(words)
    if result.missing or any(each in result.err for each in _UNREACHED):
        return SchedulerSilent(words)
    return SubmissionUncertain(words) if any(each in result.err for each in _UNCERTAIN) else SubmissionRefused(words)


def _words(result: CommandResult) -> str:
    return result.said_by("kubectl").replace('error when creating "STDIN": ', "")


def _suspend(run: Run, job_id: str, *, suspend: bool) -> None:
    known = parsed_id(job_id)
    if known is None:
        raise ActionRefused(f"{job_id} is not a Kubernetes job")
    patch = json.dumps({"spec": {"suspend": suspend}})
    scope = f"--namespace={known.namespace}"
    done = run(["kubectl", "patch", "job", known.name, scope, "--type=merge", "--output=json", f"--patch={patch}"])
    if done.code != 0:
        said = done.said_by("kubectl")
        raise ActionRefused(said) if "Error from server" in done.err else SchedulerSilent(said)
    if bool(_read(done).get("spec", {}).get("suspend")) is not suspend:  # the field is dropped without a word
        raise ActionRefused("the API server left the Job as it was: before 1.21 it cannot suspend one")
