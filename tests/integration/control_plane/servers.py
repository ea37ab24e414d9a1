"""etcd, an API server, its controllers and its scheduler on loopback, with users of their own, for as long as a test runs.

Each has its process id, and when that began, in a file: what a run that was killed left is ended by the next.
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

BASE = Path(tempfile.gettempdir()) / f"modak-control-plane-{os.getuid()}"
CONTROLLERS = (
    "job,garbagecollector,serviceaccount,serviceaccount-token,namespace,resourcequota,podgc,ttl-after-finished,"
    "persistentvolume-binder"
)
PATIENCE = 240  # seconds until all answer
NAMESPACE = "team-a"
# What docs/kubernetes.md says that a user of modak needs, and no more.
RIGHTS = [
    {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["create", "get", "list", "patch", "delete"]},
    {"apiGroups": [""], "resources": ["pods", "events"], "verbs": ["get", "list"]},
]


class ControlPlane:
    """The servers, which run from when it is made until it is stopped."""

    def __init__(self, programs: Path) -> None:
        sweep()
        self.programs = programs
        self.folder = Path(tempfile.mkdtemp(dir=BASE, prefix="run-"))
        self._lock = _locked(self.folder)
        self.ports = free_ports(5)
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        try:
            self._prepare()
            self.start("etcd", *self._etcd())
            self.start("kube-apiserver", *self._apiserver())
            self._wait("the API server", lambda: self.kubectl("get", "--raw=/readyz").stdout == "ok")
            for name, port in (("kube-controller-manager", 3), ("kube-scheduler", 4)):
                self.start(name, *self._client(name, self.ports[port]))
            self.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
            self._allow("alice")
            account = ("get", "serviceaccount", "default", f"--namespace={NAMESPACE}")
            self._wait("the controllers", lambda: self.kubectl(*account).returncode == 0)
        except BaseException:
            self.stop()
            raise

    def kubeconfig(self, user: str) -> Path:
        return self.folder / f"{user}.kubeconfig"

    def portable_kubeconfig(self, user: str) -> str:
        """The same as a text that names no file of this machine."""
        config = json.loads(self.kubeconfig(user).read_text())
        authority = Path(config["clusters"][0]["cluster"].pop("certificate-authority")).read_bytes()
        config["clusters"][0]["cluster"]["certificate-authority-data"] = base64.b64encode(authority).decode()
        return json.dumps(config)

    def kubectl(self, *words: str, user: str = "admin", given: str = "") -> subprocess.CompletedProcess[str]:
        command = [str(self.programs / "kubectl"), f"--kubeconfig={self.kubeconfig(user)}", *words]
        return subprocess.run(command, input=given, capture_output=True, text=True, timeout=60, check=False)

    def create(self, thing: dict) -> None:
        done = self.kubectl("create", "--filename=-", given=json.dumps(thing))
        assert done.returncode == 0, done.stderr

    def start(self, name: str, *options: str) -> None:
        with (self.folder / f"{name}.log").open("ab") as log:
            command = [str(self.programs / name), *options]
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        (self.folder / f"{name}.pid").write_text(f"{process.pid} {_began(process.pid)}")
        self._processes[name] = process

    def end(self, name: str) -> None:
        process = self._processes.pop(name)
        process.kill()
        process.wait()
        (self.folder / f"{name}.pid").unlink()

    @contextmanager
    def without_api(self, *, hangs: bool) -> Iterator[None]:
        """Meanwhile the API server does not answer, or is not there at all."""
        name = "kube-apiserver"
        if hangs:
            self._processes[name].send_signal(signal.SIGSTOP)
            try:
                yield
            finally:
                self._processes[name].send_signal(signal.SIGCONT)
        else:
            self.end(name)
            try:
                yield
            finally:
                self.start(name, *self._apiserver())
                self._wait("the API server", lambda: self.kubectl("get", "--raw=/readyz").stdout == "ok")

    def stop(self) -> None:
        for name in [*self._processes]:
            self.end(name)
        shutil.rmtree(self.folder, ignore_errors=True)
        self._lock.close()

    # --- how it is made

    def _wait(self, what: str, holds) -> None:
        deadline = time.monotonic() + PATIENCE
        while not holds():
            for name, process in self._processes.items():
                assert process.poll() is None, f"{name} ended: {self.log(name)}"
            last = [*self._processes][-1]
            assert time.monotonic() < deadline, f"{what} did not answer within {PATIENCE} s: {self.log(last)}"
            time.sleep(0.5)

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text(errors="replace")[-2000:]

    def _prepare(self) -> None:
        made = subprocess.run(
            ["openssl", "genrsa", "-out", str(self.folder / "accounts.key"), "2048"], capture_output=True, text=True,
            check=False,
        )  # fmt: skip
        assert made.returncode == 0, made.stderr
        users = {"admin": "system:masters", "controller": "system:masters", "alice": "team", "bob": "others"}
        tokens = {name: os.urandom(16).hex() for name in users}
        rows = [f'{tokens[name]},{name},{name},"{group}"\n' for name, group in users.items()]
        _private(self.folder / "tokens.csv", "".join(rows))
        for name in users:
            _private(self.kubeconfig(name), json.dumps(self._config(name, tokens[name])))

    def _config(self, name: str, token: str) -> dict:
        cluster = {
            "server": f"https://127.0.0.1:{self.ports[2]}",
            "certificate-authority": str(self.folder / "apiserver.crt"),
        }
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "here", "cluster": cluster}],
            "users": [{"name": name, "user": {"token": token}}],
            "contexts": [{"name": "here", "context": {"cluster": "here", "user": name, "namespace": NAMESPACE}}],
            "current-context": "here",
        }

    def _allow(self, user: str) -> None:
        api, meta = "rbac.authorization.k8s.io", {"name": "modak", "namespace": NAMESPACE}
        self.create({"apiVersion": f"{api}/v1", "kind": "Role", "metadata": meta, "rules": RIGHTS})
        subjects = [{"kind": "User", "name": user, "apiGroup": api}]
        role = {"kind": "Role", "name": "modak", "apiGroup": api}
        self.create(
            {
                "apiVersion": f"{api}/v1",
                "kind": "RoleBinding",
                "metadata": meta,
                "subjects": subjects,
                "roleRef": role,
            }
        )

    def _etcd(self) -> list[str]:
        client, peer = (f"http://127.0.0.1:{port}" for port in self.ports[:2])
        return [
            f"--data-dir={self.folder / 'etcd'}", f"--listen-client-urls={client}", f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}", f"--initial-advertise-peer-urls={peer}", f"--initial-cluster=default={peer}",
            "--unsafe-no-fsync",
        ]  # fmt: skip

    def _apiserver(self) -> list[str]:
        key = self.folder / "accounts.key"
        return [
            f"--etcd-servers=http://127.0.0.1:{self.ports[0]}", f"--secure-port={self.ports[2]}",
            "--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", f"--cert-dir={self.folder}",
            f"--token-auth-file={self.folder / 'tokens.csv'}", "--authorization-mode=RBAC",
            "--service-account-issuer=https://kubernetes.default.svc", f"--service-account-signing-key-file={key}",
            f"--service-account-key-file={key}", "--service-cluster-ip-range=10.0.0.0/24",
            "--endpoint-reconciler-type=none",
        ]  # fmt: skip

    def _client(self, name: str, port: int) -> list[str]:
        options = [
            f"--kubeconfig={self.kubeconfig('controller')}", "--leader-elect=false", f"--secure-port={port}",
            "--bind-address=127.0.0.1", "--port=0", f"--cert-dir={self.folder / name}",
        ]  # fmt: skip
        if name == "kube-controller-manager":
            key = f"--service-account-private-key-file={self.folder / 'accounts.key'}"
            options += [f"--controllers={CONTROLLERS}", key]
        return options


def sweep() -> None:
    """Ends what runs of the tests left that were killed; those that live hold their folder's lock."""
    BASE.mkdir(mode=0o700, exist_ok=True)
    for folder in BASE.glob("run-*"):
        with suppress(BlockingIOError), _locked(folder):
            for path in folder.glob("*.pid"):
                pid, _, began = path.read_text().partition(" ")
                if pid and began and _began(int(pid)) == began:
                    os.killpg(int(pid), signal.SIGKILL)
            shutil.rmtree(folder, ignore_errors=True)


def _locked(folder: Path):
    lock = (folder / "lock").open("w")
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return lock


def _began(pid: int) -> str:
    """When a process began, as the kernel counts; empty for one that is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except OSError:
        return ""


def free_ports(number: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(number)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def _private(path: Path, text: str) -> None:
    path.touch(mode=0o600)
    path.write_text(text)
