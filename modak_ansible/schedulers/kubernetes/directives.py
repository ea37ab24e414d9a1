"""The Job of Kubernetes that a deployment is, as far as a plan knows it; the rest is filled in where it is submitted.

Source: the API reference of batch/v1 and core/v1, release 1.32.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from ..directives import CannotExpress, mebibytes, memory_of_node, plain

if TYPE_CHECKING:
    from modak_ansible.model.plan import PlannedJob
    from modak_ansible.model.target import Pods

# The name of an object of Kubernetes (RFC 1123), and of a resource of its nodes with a number.
_LABEL = r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?"
_NAME = re.compile(rf"{_LABEL}(?:\.{_LABEL})*", re.ASCII)
_LONGEST = 253
_RESOURCE = re.compile(rf"({_LABEL}(?:\.{_LABEL})*/[A-Za-z0-9][-A-Za-z0-9_.]{{0,62}})=([1-9][0-9]{{0,5}})", re.ASCII)
MANAGED = {"app.kubernetes.io/managed-by": "modak"}
QUEUE = "kueue.x-k8s.io/queue-name"
# How long, in seconds, a Job that has ended is remembered: its end is read, and noted, long before.
_REMEMBERED = 7 * 24 * 3600
# What a Pod may need besides the wall times of its training, in seconds: an image of several GB is pulled within, and
# the first of several waits as long for the last.
_GRACE = 1800
# Options that Kubernetes has nothing like, and what to do instead.
UNKNOWN = {
    "account": "there are no accounts; a Kueue queue has quotas",
    "project": "",
    "qos": "",
    "reservation": "",
    "licenses": "",
    "exclude": "request_specific_nodes names one node",
    "gres": "request accelerators with request_gpus",
    "architecture_constraint": "request_specific_nodes names one node",
    "job_array": "",
    "standard_output_file": "output.log comes back with the results",
    "standard_error_file": "error.log comes back with the results",
    "copy_environment": "set what it needs as environment variables of the training",
    "copy_environment_variable": "set them as environment variables of the training",
    "job_dependency": "deploy it when the other has ended",
    "request_event_notification": "modak deploy has webhooks",
    "email_address": "modak deploy has webhooks",
    "defer_job": "hold it, and release it later",
    "node_exclusive": "ask for as much as a node has",
}


def kubernetes_directives(
    job: PlannedJob, gpu_request: str, pods: Pods, image: str, *, is_one: bool = False
) -> list[str]:
    """The lines of the Job's manifest, which stand in the head of its script: a Pod for each of the job's nodes.

    Args:
        gpu_request: a resource of the nodes with its number, such as nvidia.com/gpu=2; empty for none.
        image: what the nodes pull.
        is_one: whether the processes are the ranks of one training, which the script in each Pod starts.

    Raises:
        CannotExpress: an option that Kubernetes does not have, or several nodes for what is none of ranks.
    """
    plain("job_options.job_name", job.name, what="a name")
    for name, hint in UNKNOWN.items():
        if getattr(job.options, name):
            raise CannotExpress(f"job_options.{name}", f"Kubernetes has no {name} for a Job", hint)
    if job.exclusive:
        raise CannotExpress(
            "resources.exclusive", "Kubernetes cannot keep nodes for one Job alone", UNKNOWN["node_exclusive"]
        )
    if job.nodes > 1 and not is_one:
        message = f"{job.nodes} nodes are requested, but on Kubernetes only ranks of a training can be in several Pods"
        raise CannotExpress("resources.nodes", message, "take one node with more processes or accelerators")
    indexed = {"completions": job.nodes, "parallelism": job.nodes, "completionMode": "Indexed"}
    queue = _named("job_options.queue", job.partition) if job.partition else ""
    manifest = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            **({"namespace": _named("namespace", pods.namespace)} if pods.namespace else {}),
            "labels": {**MANAGED, **({QUEUE: queue} if queue else {})},
        },
        "spec": {
            "backoffLimit": 0,
            **(indexed if job.nodes > 1 else {}),
            "ttlSecondsAfterFinished": _REMEMBERED,
            **({"suspend": True} if queue else {}),  # until Kueue admits it
            "template": {"metadata": {"labels": MANAGED}, "spec": _pod(job, gpu_request, pods, image)},
        },
    }
    return json.dumps(manifest, indent=1).splitlines()


def _pod(job: PlannedJob, gpu_request: str, pods: Pods, image: str) -> dict[str, Any]:
    nodes = [_named("job_options.request_specific_nodes", node) for node in job.options.request_specific_nodes]
    if nodes and (len(nodes) > 1 or job.nodes > 1):
        message = "the Pods of a Job can go to one named node, or to any"
        raise CannotExpress("job_options.request_specific_nodes", message, "name one, for one Pod")
    resource, _ = _accelerators(gpu_request)
    runs = 1 + (job.checkpoint.requeue if job.checkpoint else 0)
    secrets = [{"name": _named("image_pull_secrets", secret)} for secret in pods.image_pull_secrets]
    claim = {"claimName": _named("persistent_volume_claim", pods.persistent_volume_claim or "none")}
    volume = (
        {"persistentVolumeClaim": claim} if pods.persistent_volume_claim else {"hostPath": {"path": pods.host_path}}
    )
    return {
        "restartPolicy": "Never",
        # its script keeps the wall time; this ends what hangs before or behind it
        "activeDeadlineSeconds": runs * job.walltime + (_GRACE if job.nodes == 1 else 2 * _GRACE),
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        **({"imagePullSecrets": secrets} if secrets else {}),
        **({"nodeSelector": {"kubernetes.io/hostname": nodes[0]}} if nodes else {}),
        **({"tolerations": _tolerations(resource)} if resource else {}),
        "volumes": [
            {"name": "workspace", **volume},
            # the 64 MB that containers have by themselves are too few for workers that read data
            {"name": "shared-memory", "emptyDir": {"medium": "Memory"}},
        ],
        "containers": [
            {
                "name": "training",
                "image": image,
                "resources": _resources(job, gpu_request),
                "terminationMessagePolicy": "FallbackToLogsOnError",
                "volumeMounts": [
                    {"name": "workspace", "mountPath": pods.mount_path},
                    {"name": "shared-memory", "mountPath": "/dev/shm"},  # noqa: S108
                ],
            }
        ],
    }


def _resources(job: PlannedJob, gpu_request: str) -> dict[str, Any]:
    """What the Pod has, and no more: requests that are limits give it its cores for itself."""
    resources: dict[str, str] = {}
    if job.layout.cores:
        resources["cpu"] = str(job.layout.cores_per_node)
    if memory := memory_of_node(job):
        resources["memory"] = f"{mebibytes(memory)}Mi"
    resource, number = _accelerators(gpu_request)
    if resource:
        resources[resource] = number
    return {"requests": resources, "limits": resources} if resources else {}


def _named(about: str, text: str) -> str:
    """
    Raises:
        CannotExpress: it is no name that an object of Kubernetes can have.
    """
    if not _NAME.fullmatch(text) or len(text) > _LONGEST:
        hint = "use lower-case letters and digits, with - and . between them"
        raise CannotExpress(about, f"{text[:60]!r} is not a name for a Kubernetes object", hint)
    return text


def _tolerations(resource: str) -> list[dict[str, str]]:
    """Of the taints that keep nodes for such Pods, named as the resource, or as its vendor's whole devices."""
    names = dict.fromkeys([resource, f"{resource.partition('/')[0]}/gpu"])
    return [{"key": name, "operator": "Exists", "effect": "NoSchedule"} for name in names]


def _accelerators(gpu_request: str) -> tuple[str, str]:
    """The resource and its number, as in ``nvidia.com/gpu=2``; nothing of both where none is asked for.

    Raises:
        CannotExpress: it is none.
    """
    if not gpu_request:
        return "", ""
    match = _RESOURCE.fullmatch(gpu_request)
    if not match:
        hint = 'gpu_request: "nvidia.com/gpu={count}", or the name that the cluster\'s nodes use for it'
        raise CannotExpress("host", f"{gpu_request[:60]!r} is not a Kubernetes resource with a number", hint)
    return match.group(1), match.group(2)
