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
    CommandRunner,
    JobRecord,
    JobState,
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

    def submit(self, run: CommandRunner, script: str, name: str, waits: Waits = NO_WAITS) -> str:
        if waits:
            raise SubmissionRefused("Kubernetes does not start a Job after another one")
        folder = run(["pwd", "-P"]).out.strip()
        manifest = _manifest(run, script)
        if not manifest or not folder:
            raise SubmissionRefused(f"{script} has no Job in its head; deploy again")
        if _INDEXED in manifest["spec"]:
            dry_run = run(_create(job_of(manifest, folder, name), "--dry-run=server"))
            if _is_left_out(dry_run):
                raise SubmissionRefused(_NOT_INDEXED)
        for attempt in range(1, _ATTEMPTS):
            job = job_of(manifest, folder, name, attempt)
            result = run(_create(job))
            if result.code == 0:
                return str(id_of(_read(result)))
            if "AlreadyExists" not in result.err:
                raise _refusal(result)
            if job_id := self._living(run, job, folder):
                return job_id
        raise SubmissionRefused(f"there are {_ATTEMPTS} Jobs of this deployment")

    def _living(self, run: CommandRunner, job: Object, folder: str) -> str:
        """The id of the deployment's Job that has the name already; empty for one of an earlier attempt."""
        metadata = job["metadata"]
        scope = [f"--namespace={metadata['namespace']}"] if "namespace" in metadata else []
        result = run(["kubectl", "get", "job", metadata["name"], *scope, "--ignore-not-found", "--output=json"])
        if result.code != 0 or not result.out.strip():
            raise SubmissionUncertain(
                result.said_by("kubectl") if result.code else f"{metadata['name']} appeared and disappeared"
            )
        present_job = _read(result)
        if present_job["metadata"].get("annotations", {}).get(FOLDER) != folder:
            raise SubmissionRefused(f"there is already another Job named {metadata['name']}")
        return (
            "" if is_over(present_job) or present_job["metadata"].get("deletionTimestamp") else str(id_of(present_job))
        )

    def find(self, run: CommandRunner, name: str, folder: str) -> list[str]:
        scope = _manifest(run, f"{folder}/job.sh").get("metadata", {}).get("namespace")
        place = [f"--namespace={scope}"] if scope else []
        jobs, _ = _listed(run, "jobs", [f"--selector={FOLDER}={digest_of(folder)}", *place])
        matches = [job for job in jobs if job["metadata"].get("annotations", {}).get(NAME) == name]
        matches.sort(key=lambda job: job["metadata"].get("creationTimestamp", ""))
        return [str(id_of(job)) for job in matches]

    def statuses(self, run: CommandRunner, job_ids: Sequence[str]) -> dict[str, JobRecord]:
        records: Dict[str, JobRecord] = {}
        for namespace, names in _by_namespace(job_ids).items():
            selector = f"{JOB}={names[0]}" if len(names) == 1 else _MANAGED
            scope = [f"--namespace={namespace}"]
            jobs, pods = _listed(run, "jobs,pods", [f"--selector={selector}", *scope])
            events, _ = _listed(run, "events", scope) if jobs else ([], [])
            for job in jobs:
                record = record_of(job, pods, events)
                if record.job_id in job_ids:
                    records[record.job_id] = record
        return records

    def objection(self, run: CommandRunner, directives: str) -> str:
        """What the API server says of a Job that it is only shown, and whether what its Pod would mount is there."""
        lines = [line[len(PREFIX) :] for line in directives.splitlines() if line.startswith(PREFIX)]
        manifest = _parsed("\n".join(lines))
        if not manifest:
            return ""
        job = job_of(manifest, "/modak/deployments/check", "check")
        dry_run = run(_create(job, "--dry-run=server"))
        if _INDEXED in job["spec"] and _is_left_out(dry_run):
            return _NOT_INDEXED
        if dry_run.code != 0:
            return _words(dry_run)
        scope = [f"--namespace={_read(dry_run)['metadata']['namespace']}"]
        pod = job["spec"]["template"]["spec"]
        references = [("secret", secret["name"]) for secret in pod.get("imagePullSecrets", [])]
        claims = [volume["persistentVolumeClaim"] for volume in pod["volumes"] if "persistentVolumeClaim" in volume]
        references += [("persistentvolumeclaim", claim["claimName"]) for claim in claims]
        # whoever may not look learns nothing: the Pod then says it
        answers = [run(["kubectl", "get", kind, name, *scope, "--output=name"]) for kind, name in references]
        return next((_words(answer) for answer in answers if "NotFound" in answer.err), "")

    def cancel(self, run: CommandRunner, *job_ids: str) -> None:
        living = [job_id for job_id, job in self.statuses(run, job_ids).items() if not job.state.is_final]
        for namespace, names in _by_namespace(living).items():
            words = ["--ignore-not-found", "--wait=false", "--cascade=foreground"]
            result = run(["kubectl", "delete", "job", *names, f"--namespace={namespace}", *words])
            if result.code != 0:
                raise SchedulerSilent(result.said_by("kubectl"))

    def hold(self, run: CommandRunner, job_id: str) -> None:
        record = self.status(run, job_id)
        if record is None or record.state is not JobState.QUEUED:
            raise ActionRefused("it is not waiting: suspending it would end its Pod")
        if record.queue:
            raise ActionRefused(f"Kueue decides when it begins: kubectl lists it among the workloads of {record.queue}")
        _suspend(run, job_id, suspend=True)

    def release(self, run: CommandRunner, job_id: str) -> None:
        _suspend(run, job_id, suspend=False)

    def requeue(self, run: CommandRunner, job_id: str) -> None:  # noqa: ARG002
        raise ActionRefused("a Pod that has ended is not started again; cancel it, and resume the deployment")

    def enter(
        self,
        run: CommandRunner,
        job: JobRecord,
        nodes: int,
        words: Sequence[str],
        *,
        first: int = 0,
        terminal: bool = False,
    ) -> list[list[str]]:
        parsed = parsed_id(job.job_id)
        if parsed is None:
            raise ActionRefused(f"{job.job_id} is not a Kubernetes job")
        scope = f"--namespace={parsed.namespace}"
        pods, _ = _listed(
            run, "pods", [f"--selector={JOB}={parsed.name}", "--field-selector=status.phase=Running", scope]
        )
        pods = sorted((pod for pod in pods if first <= index_of(pod) < first + nodes), key=index_of)
        if not pods:
            raise ActionRefused("it has no running Pod")
        flags = ["--stdin", "--tty"] if terminal else []
        return [["kubectl", "exec", *flags, scope, pod["metadata"]["name"], "--", *words] for pod in pods]

    def marks(self, job_id: str) -> tuple[str, ...]:
        parsed = parsed_id(job_id)
        return "", f"MODAK_JOB_NAME={parsed.name if parsed else job_id}"


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


def _is_left_out(dry_run: CommandResult) -> bool:
    """Whether a Job that was only shown to the API server has lost its mode there, or kubectl knows of none."""
    if dry_run.code != 0:
        return _INDEXED in dry_run.err
    return _INDEXED not in _read(dry_run).get("spec", {})


def _told(name: str, path: str) -> Dict[str, Any]:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


def _create(job: Object, *options: str) -> List[str]:
    command = " ".join(["kubectl create --output=json --filename=-", *options])
    return ["bash", "-c", f'{command} <<< "$1"', "kubectl", json.dumps(job)]


def _manifest(run: CommandRunner, script: str) -> Object:
    """The Job in the head of a script; empty where there is none."""
    return _parsed(run(["sed", "-n", f"s/^{PREFIX}//p", script]).out)


def _parsed(text: str) -> Object:
    try:
        return dict(json.loads(text)) if text.strip() else {}
    except (ValueError, TypeError):
        return {}


def _by_namespace(job_ids: Sequence[str]) -> Dict[str, List[str]]:
    """The names of jobs by their namespaces; what is no id of ours is left out."""
    by_namespace: Dict[str, List[str]] = {}
    parsed_ids: List[JobId] = [parsed for parsed in map(parsed_id, job_ids) if parsed]
    for parsed in parsed_ids:
        by_namespace.setdefault(parsed.namespace, []).append(parsed.name)
    return by_namespace


def _listed(run: CommandRunner, kinds: str, options: List[str]) -> Tuple[List[Object], List[Object]]:
    """The first of some kinds of objects, and those of the others.

    Raises:
        SchedulerSilent: kubectl does not answer, or prints no list.
    """
    result = run(["kubectl", "get", kinds, *options, "--output=json"])
    if result.code != 0:
        raise SchedulerSilent(result.said_by("kubectl"))
    objects, first = _read(result).get("items"), kinds.partition(",")[0].rstrip("s")
    items = [item for item in objects if isinstance(item, dict)] if isinstance(objects, list) else []
    if kinds != "events":
        items = [item for item in items if _is_named(item.get("metadata"))]
    are_first = [str(item.get("kind", first)).lower() == first for item in items]
    return list(compress(items, are_first)), [item for item, is_first in zip(items, are_first) if not is_first]


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
    if result.missing or any(sign in result.err for sign in _UNREACHED):
        return SchedulerSilent(words)
    return SubmissionUncertain(words) if any(sign in result.err for sign in _UNCERTAIN) else SubmissionRefused(words)


def _words(result: CommandResult) -> str:
    return result.said_by("kubectl").replace('error when creating "STDIN": ', "")


def _suspend(run: CommandRunner, job_id: str, *, suspend: bool) -> None:
    parsed = parsed_id(job_id)
    if parsed is None:
        raise ActionRefused(f"{job_id} is not a Kubernetes job")
    patch = json.dumps({"spec": {"suspend": suspend}})
    scope = f"--namespace={parsed.namespace}"
    result = run(["kubectl", "patch", "job", parsed.name, scope, "--type=merge", "--output=json", f"--patch={patch}"])
    if result.code != 0:
        message = result.said_by("kubectl")
        raise ActionRefused(message) if "Error from server" in result.err else SchedulerSilent(message)
    if bool(_read(result).get("spec", {}).get("suspend")) is not suspend:  # the field is dropped without a word
        raise ActionRefused("the API server left the Job as it was: before 1.21 it cannot suspend one")
