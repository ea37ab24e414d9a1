"""One node for Kubernetes' own servers: what a kubelet does for a Pod of one container, by Podman of an ordinary user.

The image is pulled with the Pod's secrets, the container has the Pod's command, environment, user and volumes, and what the
API server is told of it has the form of a kubelet's words. What a kubelet does besides is not here: limits of resources,
networks, probes, a deadline of the Pod's own, commands in a container that runs.
Sources: the kubelet's, of release 1.20 (pkg/kubelet: images, kuberuntime).
"""

from __future__ import annotations

import base64
import json
import re
import ssl
import threading
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from .containers import Podman, Volume, has_ended, moment
from .servers import ControlPlane

NODE = "worker-1"
ROOM = {"cpu": "8", "memory": "64Gi", "pods": "110", "ephemeral-storage": "100Gi"}
EVERY = 0.5  # seconds
_BACK_OFF = 3.0  # seconds until an image is pulled again; a kubelet's are 10, and twice as many each time
_LABEL = re.compile(r"metadata\.labels\['([^']+)'\]")
_CREATING = {"waiting": {"reason": "ContainerCreating"}}


class Kubelet:
    """A node from when it is made until it is stopped, which then ends what it still runs."""

    def __init__(self, servers: ControlPlane, podman: Podman) -> None:
        config = json.loads(servers.kubeconfig("admin").read_text())
        cluster = config["clusters"][0]["cluster"]
        self._server, self._token = cluster["server"], config["users"][0]["user"]["token"]
        self._tls = ssl.create_default_context(cafile=cluster["certificate-authority"])
        self._podman = podman
        self._running: dict[str, RunningPod] = {}  # by uids of Pods
        self._over = threading.Event()
        self._register()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def cordon(self, *, closed: bool) -> None:
        """Whether new Pods are kept from the node."""
        self.ask("PATCH", f"/api/v1/nodes/{NODE}", {"spec": {"unschedulable": closed}})

    def stop(self) -> None:
        self._over.set()
        self._thread.join()
        for each in self._running.values():
            each.end(0)
            each.join()

    def ask(self, method: str, path: str, body: object = None) -> dict:
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        request = urllib.request.Request(
            self._server + path, method=method, data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {self._token}", "Content-Type": kind},
        )  # fmt: skip
        with urllib.request.urlopen(request, context=self._tls, timeout=10) as answer:
            return json.load(answer)

    def _register(self) -> None:
        meta = {"name": NODE, "labels": {"kubernetes.io/hostname": NODE}}
        self.ask("POST", "/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": meta})
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "lastHeartbeatTime": moment()}
        status = {"capacity": ROOM, "allocatable": ROOM, "conditions": [ready]}
        self.ask("PATCH", f"/api/v1/nodes/{NODE}/status", {"status": status})
        # a node's taint of its beginning, which the controller of nodes takes away elsewhere
        self.ask("PATCH", f"/api/v1/nodes/{NODE}", {"spec": {"taints": None}})

    def _serve(self) -> None:
        while not self._over.wait(EVERY):
            with suppress(OSError, ValueError):  # of a server that is away, or has the Pod no more
                pods = self.ask("GET", f"/api/v1/pods?fieldSelector=spec.nodeName={NODE}")["items"]
                for pod in pods:
                    with suppress(urllib.error.HTTPError):
                        self._tend(pod)
                self._forget({pod["metadata"]["uid"] for pod in pods})

    def _tend(self, pod: dict) -> None:
        uid, phase = pod["metadata"]["uid"], pod["status"].get("phase")
        known = self._running.get(uid)
        if known is None and phase == "Pending" and not pod["metadata"].get("deletionTimestamp"):
            parts = (_environment(pod), self._volumes(pod), partial(self._logins, pod))
            known = self._running[uid] = RunningPod(self._podman, pod, *parts)
        if known and phase in ("Pending", "Running"):
            self._tell(pod, known)
        if pod["metadata"].get("deletionTimestamp"):
            if known:
                known.end(pod["metadata"].get("deletionGracePeriodSeconds", 0))
            if known is None or not known.is_alive():
                self.ask("DELETE", _path(pod), {"gracePeriodSeconds": 0})
                self._running.pop(uid, None)

    def _forget(self, there: set[str]) -> None:
        """Ends what is left of Pods that are there no more, as those that had ended are at once when they are deleted."""
        for uid in [*self._running.keys() - there]:
            self._running[uid].end(0)
            if not self._running[uid].is_alive():
                del self._running[uid]

    def _tell(self, pod: dict, known: RunningPod) -> None:
        while known.events:
            self._record(pod, *known.events[0])
            known.events.pop(0)
        container, state = pod["spec"]["containers"][0], known.state
        before = pod["status"].get("containerStatuses") or [{}]
        if before[0].get("state") == state:
            return
        code = state.get("terminated", {}).get("exitCode")
        phase = "Pending" if "waiting" in state else "Running" if code is None else "Failed" if code else "Succeeded"
        status = {
            "name": container["name"], "image": container["image"], "imageID": "", "restartCount": 0,
            "ready": "running" in state, "state": state,
        }  # fmt: skip
        self.ask("PATCH", f"{_path(pod)}/status", {"status": {"phase": phase, "containerStatuses": [status]}})

    def _record(self, pod: dict, reason: str, message: str) -> None:
        meta = pod["metadata"]
        about = {"kind": "Pod", "name": meta["name"], "namespace": meta["namespace"], "uid": meta["uid"]}
        event = {
            "metadata": {"generateName": f"{meta['name']}.", "namespace": meta["namespace"]}, "involvedObject": about,
            "reason": reason, "message": message, "type": "Warning", "source": {"component": "kubelet", "host": NODE},
            "firstTimestamp": moment(), "lastTimestamp": moment(), "count": 1,
        }  # fmt: skip
        self.ask("POST", f"/api/v1/namespaces/{meta['namespace']}/events", event)

    # --- what a Pod's specification means on this node

    def _volumes(self, pod: dict) -> list[Volume]:
        """
        Raises:
            HTTPError: a claim is not there.
        """
        given = {volume["name"]: volume for volume in pod["spec"].get("volumes", [])}
        return [
            self._volume(pod, given[mount["name"]], mount)
            for mount in pod["spec"]["containers"][0].get("volumeMounts", [])
        ]

    def _volume(self, pod: dict, volume: dict, mount: dict) -> Volume:
        path, read_only = mount["mountPath"], mount.get("readOnly", False)
        if claim := volume.get("persistentVolumeClaim"):
            place = f"/api/v1/namespaces/{pod['metadata']['namespace']}/persistentvolumeclaims/{claim['claimName']}"
            volume = self.ask("GET", f"/api/v1/persistentvolumes/{self.ask('GET', place)['spec']['volumeName']}")[
                "spec"
            ]
        if folder := volume.get("hostPath"):
            return Volume(path, "bind", folder["path"], read_only)
        return Volume(path, "tmpfs" if volume["emptyDir"].get("medium") == "Memory" else "volume", "", read_only)

    def _logins(self, pod: dict) -> str:
        """What the Pod's secrets say to registries, in Docker's form; without one that is there, nothing."""
        known: dict[str, dict] = {}
        for secret in pod["spec"].get("imagePullSecrets", []):
            path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/secrets/{secret['name']}"
            with suppress(OSError):  # a kubelet tries without
                data = self.ask("GET", path)["data"][".dockerconfigjson"]
                known |= json.loads(base64.b64decode(data))["auths"]
        return json.dumps({"auths": known}) if known else ""


class RunningPod(threading.Thread):
    """One Pod, from the pull of its image until its container is gone.

    Args:
        logins: for registries, which it asks for before each pull.

    Attributes:
        state: of its container, in the form that it has among a Pod's containerStatuses.
        events: what is to be told besides, each as a reason and a message.
    """

    def __init__(
        self,
        podman: Podman,
        pod: dict,
        environment: dict[str, str],
        volumes: list[Volume],
        logins: Callable[[], str],
    ) -> None:
        super().__init__(daemon=True)
        self.state: dict = _CREATING
        self.events: list[tuple[str, str]] = []
        self._podman, self._pod = podman, pod
        self._name = name_of(pod)
        self._environment, self._volumes, self._logins = environment, volumes, logins
        self._ending = threading.Event()
        self._grace = 0
        self.start()

    def end(self, grace: int) -> None:
        """Has it end within so many seconds, and be gone then."""
        self._grace = grace
        self._ending.set()

    def run(self) -> None:
        if not self._has_image():
            return
        container = self._pod["spec"]["containers"][0]
        began = moment()
        security = self._pod["spec"].get("securityContext", {})
        if problem := self._podman.start(self._name, container, self._environment, self._volumes, security):
            ended = {"exitCode": 128, "reason": "StartError", "message": problem, "finishedAt": moment()}
            self.state = {"terminated": {**ended, "startedAt": "1970-01-01T00:00:00Z"}}
            self.events.append(("Failed", f"Error: {problem}"))
        else:
            self.state = {"running": {"startedAt": began}}
            self._watch()
        self._ending.wait()
        self._podman.remove(self._name)

    def _has_image(self) -> bool:
        image = self._pod["spec"]["containers"][0]["image"]
        while problem := self._podman.pull(image, self._logins()):
            said = f"rpc error: code = Unknown desc = {problem}"
            self.events += [("Failed", f'Failed to pull image "{image}": {said}'), ("Failed", "Error: ErrImagePull")]
            self.state = {"waiting": {"reason": "ErrImagePull", "message": said}}
            if self._ending.wait(_BACK_OFF):
                return False
            back_off = {"reason": "ImagePullBackOff", "message": f'Back-off pulling image "{image}"'}
            self.state = {"waiting": back_off}
            if self._ending.wait(_BACK_OFF):
                return False
        return not self._ending.is_set()

    def _watch(self) -> None:
        """Waits for the container's end, which it brings about where it is to end."""
        state = self._podman.state(self._name)
        while not has_ended(state) and not self._ending.wait(EVERY):
            state = self._podman.state(self._name)
        if not has_ended(state):
            self._podman.stop(self._name, self._grace)
            state = self._podman.state(self._name)
        code = state["ExitCode"]
        reason = "OOMKilled" if state.get("OOMKilled") else "Error" if code else "Completed"
        message = {"message": words} if code and (words := self._podman.last_words(self._name)) else {}
        at = {"startedAt": moment(state["StartedAt"]), "finishedAt": moment(state["FinishedAt"])}
        self.state = {"terminated": {"exitCode": code, "reason": reason, **message, **at}}


def name_of(pod: dict) -> str:
    """What the container of a Pod is called on its node."""
    return f"pod-{pod['metadata']['uid']}"


def _path(pod: dict) -> str:
    return f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"


def _environment(pod: dict) -> dict[str, str]:
    variables = pod["spec"]["containers"][0].get("env", [])
    told = {each["name"]: each.get("value") or _field(pod, each) for each in variables}
    return {"HOSTNAME": pod["metadata"]["name"], **told}


def _field(pod: dict, variable: dict) -> str:
    path = variable.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath", "")
    if label := _LABEL.fullmatch(path):
        return pod["metadata"]["labels"][label[1]]
    return {"metadata.namespace": pod["metadata"]["namespace"], "metadata.name": pod["metadata"]["name"]}.get(path, "")
