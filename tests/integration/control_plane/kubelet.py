"""One node for Kubernetes' own servers, without containers: what a Pod's container would run is a process of this machine.

Nothing is pulled, nothing is mounted, nobody becomes another user and no limit is kept: a volume of a host's folder is the folder
itself, at the same path. What it tells the API server of a Pod has the form that a kubelet's words have.
"""

from __future__ import annotations

import json
import os
import re
import signal
import ssl
import subprocess
import threading
import urllib.error
import urllib.request
from contextlib import suppress
from datetime import UTC, datetime

from .servers import ControlPlane

NODE = "worker-1"
ROOM = {"cpu": "8", "memory": "64Gi", "pods": "110", "ephemeral-storage": "100Gi"}
EVERY = 0.3  # seconds
_LABEL = re.compile(r"metadata\.labels\['([^']+)'\]")


class Kubelet:
    """A node from when it is made until it is stopped, which then ends what it still runs."""

    def __init__(self, servers: ControlPlane) -> None:
        config = json.loads(servers.kubeconfig("admin").read_text())
        cluster = config["clusters"][0]["cluster"]
        self._server, self._token = cluster["server"], config["users"][0]["user"]["token"]
        self._tls = ssl.create_default_context(cafile=cluster["certificate-authority"])
        self.pulls = True
        self._running: dict[str, tuple[subprocess.Popen[bytes], str]] = {}  # by uids of Pods, with when each began
        self._over = threading.Event()
        self._register()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def cordon(self, *, closed: bool) -> None:
        """Whether new Pods are kept from the node."""
        self._ask("PATCH", f"/api/v1/nodes/{NODE}", {"spec": {"unschedulable": closed}})

    def stop(self) -> None:
        self._over.set()
        self._thread.join()
        for process, _ in self._running.values():
            _kill(process, signal.SIGKILL)
            process.wait()

    def _ask(self, method: str, path: str, body: object = None) -> dict:
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        request = urllib.request.Request(
            self._server + path, method=method, data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {self._token}", "Content-Type": kind},
        )  # fmt: skip
        with urllib.request.urlopen(request, context=self._tls, timeout=10) as answer:
            return json.load(answer)

    def _register(self) -> None:
        meta = {"name": NODE, "labels": {"kubernetes.io/hostname": NODE}}
        self._ask("POST", "/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": meta})
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "lastHeartbeatTime": _now()}
        status = {"capacity": ROOM, "allocatable": ROOM, "conditions": [ready]}
        self._ask("PATCH", f"/api/v1/nodes/{NODE}/status", {"status": status})
        # a node's taint of its beginning, which the controller of nodes takes away elsewhere
        self._ask("PATCH", f"/api/v1/nodes/{NODE}", {"spec": {"taints": None}})

    def _serve(self) -> None:
        while not self._over.wait(EVERY):
            with suppress(OSError, ValueError):  # of a server that is away, or has the Pod no more
                for pod in self._ask("GET", f"/api/v1/pods?fieldSelector=spec.nodeName={NODE}")["items"]:
                    with suppress(urllib.error.HTTPError):
                        self._tend(pod)

    def _tend(self, pod: dict) -> None:
        meta, phase = pod["metadata"], pod["status"].get("phase")
        known = self._running.get(meta["uid"])
        if meta.get("deletionTimestamp"):
            self._end(pod)
        elif known and phase in ("Pending", "Running"):
            process, began = known
            code = process.poll()
            if code is None and phase == "Pending":
                self._tell(pod, "Running", {"running": {"startedAt": began}})
            elif code is not None:
                _kill(process, signal.SIGKILL)  # what its first process left, as the end of a container does
                self._tell(pod, "Failed" if code else "Succeeded", {"terminated": _ended(code, began)})
        elif phase == "Pending" and self.pulls:
            self._running[meta["uid"]] = _start(pod), _now()
        elif phase == "Pending":
            image = pod["spec"]["containers"][0]["image"]
            waiting = {"reason": "ImagePullBackOff", "message": f'Back-off pulling image "{image}"'}
            self._tell(pod, "Pending", {"waiting": waiting})

    def _tell(self, pod: dict, phase: str, state: dict) -> None:
        container = pod["spec"]["containers"][0]
        status = {
            "name": container["name"], "image": container["image"], "imageID": "", "restartCount": 0,
            "ready": "running" in state, "state": state,
        }  # fmt: skip
        self._ask("PATCH", f"{_path(pod)}/status", {"status": {"phase": phase, "containerStatuses": [status]}})

    def _end(self, pod: dict) -> None:
        process, _ = self._running.get(pod["metadata"]["uid"], (None, ""))
        if process:
            _kill(process, signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                process.wait(pod["metadata"].get("deletionGracePeriodSeconds", 0))
            _kill(process, signal.SIGKILL)
            process.wait()
        self._ask("DELETE", _path(pod), {"gracePeriodSeconds": 0})
        self._running.pop(pod["metadata"]["uid"], None)


def _path(pod: dict) -> str:
    return f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"


def _start(pod: dict) -> subprocess.Popen[bytes]:
    container = pod["spec"]["containers"][0]
    told = {each["name"]: each.get("value") or _field(pod, each) for each in container.get("env", [])}
    return subprocess.Popen(
        [*container["command"], *container.get("args", [])], cwd=container.get("workingDir", "/"),
        env={"PATH": os.environ["PATH"], "HOSTNAME": pod["metadata"]["name"], **told}, start_new_session=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip


def _field(pod: dict, variable: dict) -> str:
    path = variable.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath", "")
    if label := _LABEL.fullmatch(path):
        return pod["metadata"]["labels"][label[1]]
    return {"metadata.namespace": pod["metadata"]["namespace"], "metadata.name": pod["metadata"]["name"]}.get(path, "")


def _ended(code: int, began: str) -> dict:
    shown = code if code >= 0 else 128 - code
    reason = "Error" if shown else "Completed"
    return {"exitCode": shown, "reason": reason, "startedAt": began, "finishedAt": _now()}


def _kill(process: subprocess.Popen[bytes], number: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, number)


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
