"""A cluster of Kubernetes in a box: its own servers, a registry, and one node, which is the container host of the tests.

What is deployed there comes through that host's sshd, too, which has kubectl. A kubelet is not among it: see
:mod:`control_plane.kubelet`.
"""

from __future__ import annotations

import base64
import json
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster import Project, Testbed, modak
from control_plane.containers import Podman
from control_plane.kubelet import Kubelet
from control_plane.programs import programs
from control_plane.servers import NAMESPACE, ControlPlane, free_ports
from docker_registry import PASSWORD, USER, Registry
from podman_host import ContainerHost

ENTRY = "python-3.13"
SECRET = "registry"


class Cluster:
    """The servers, the registry with an image of the catalogue's, and the node."""

    def __init__(self, host: Testbed, folder: Path) -> None:
        self.host = host
        self.servers = ControlPlane(programs())
        try:
            (folder / "registry").mkdir()
            self.registry = Registry(folder / "registry", free_ports(1)[0], host)
            try:
                self._prepare(folder)
                self.podman = Podman(["ssh", "-F", str(host.folder / "ssh_config"), "testbed"], "~/.certificates")
                self.node = Kubelet(self.servers, self.podman)
            except BaseException:
                self.registry.stop()
                raise
        except BaseException:
            self.servers.stop()
            raise

    @property
    def images(self) -> str:
        return f"docker://{self.registry.host}/team/images"

    def stop(self) -> None:
        self.node.stop()
        self.registry.stop()
        self.servers.stop()
        self.host.ssh(f"rm -rf .kube .certificates .pods {self.registry.certificate}")

    def objects(self, kind: str) -> list[dict]:
        result = self.servers.kubectl("get", kind, f"--namespace={NAMESPACE}", "--output=json")
        assert result.returncode == 0, result.stderr
        return json.loads(result.stdout)["items"]

    def names(self, kind: str) -> list[str]:
        return [item["metadata"]["name"] for item in self.objects(kind)]

    def create_secret(self) -> None:
        """The login of the registry, for Pods that name it."""
        auths = {self.registry.host: {"auth": base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()}}
        data = base64.b64encode(json.dumps({"auths": auths}).encode()).decode()
        meta = {"name": SECRET, "namespace": NAMESPACE}
        kind = "kubernetes.io/dockerconfigjson"
        self.servers.create(
            {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "type": kind, "data": {".dockerconfigjson": data}}
        )

    def create_claim(self, name: str, folder: str) -> None:
        """A claim of a volume, which a folder of the node's is."""
        size, modes = {"storage": "1Gi"}, ["ReadWriteMany"]
        volume = {"capacity": size, "accessModes": modes, "hostPath": {"path": folder}}
        claim = {"accessModes": modes, "storageClassName": "", "resources": {"requests": size}, "volumeName": name}
        self.servers.create(
            {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": volume}
        )
        meta = {"name": name, "namespace": NAMESPACE}
        self.servers.create({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta, "spec": claim})

    # --- how it is made

    def _prepare(self, folder: Path) -> None:
        ssh = ["ssh", "-F", str(self.host.folder / "ssh_config"), "testbed"]
        with (self.servers.programs / "kubectl").open("rb") as program:
            subprocess.run([*ssh, "cat > kubectl"], stdin=program, check=True, timeout=120)
        self.host.root("install /home/modak/kubectl /usr/local/bin/ && rm /home/modak/kubectl")
        self.host.ssh(f"mkdir -p -m 700 .certificates .kube && cp {self.registry.certificate} .certificates/ca.crt")
        self.create_secret()
        self._push(ContainerHost(folder / "builder", self.host))

    def _push(self, builder: ContainerHost) -> None:
        """The image of the catalogue's, built by the container host, which then forgets it."""
        self.host.ssh("podman rm --all --force > /dev/null")  # what a run that was killed left
        self._catalogue(builder, "build")
        login = f"podman login --cert-dir ~/.certificates --username {USER} --password-stdin {self.registry.host}"
        self.host.ssh(f"echo {PASSWORD} | {login} > /dev/null")
        site = {"certificate_bundle": self.registry.certificate}
        builder.target["capabilities"]["site"] = {"properties": site}
        self._catalogue(builder, "push", self.images)
        self.host.ssh("podman logout --all > /dev/null; podman rmi --all --force > /dev/null")

    def _catalogue(self, builder: ContainerHost, verb: str, *arguments: str) -> None:
        builder.write()
        result = modak(
            "catalogue", verb, ENTRY, *arguments, "-b", builder.path, cwd=builder.path, **builder.environment
        )
        assert result.returncode == 0, result.stdout + result.stderr


class OnKubernetes(Project):
    """A project whose target is that cluster, with a folder of the node's as its volume."""

    def __init__(self, path: Path, cluster: Cluster) -> None:
        super().__init__(path, cluster.host)
        self.cluster = cluster
        self.volume = f"/home/modak/volume-{self.name}"
        self.testbed.ssh(f"mkdir {self.volume}")
        self.target = {
            "type": "modak.nodes.Kubernetes",
            "attributes": {"public_address": "testbed"},
            "properties": {
                "workspace": f"{self.volume}/modak", "mount_path": self.volume, "host_path": self.volume,
                "namespace": NAMESPACE, "image_pull_secrets": [SECRET],
            },
            "capabilities": {
                "processor": {"properties": {"cores": 1, "memory": "1 GB"}},
                "site": {"properties": {"image_sources": [cluster.images]}},
            },
        }  # fmt: skip
        self.training = {"framework": "python", "script": "train/train.py", "walltime": "00:05:00"}
        self.by("alice")

    def by(self, user: str) -> None:
        """Who asks the API server from now on."""
        config = shlex.quote(self.cluster.servers.portable_kubeconfig(user))
        self.testbed.ssh(f"umask 077; echo {config} > .kube/config")

    def modak(self, *words: str) -> subprocess.CompletedProcess[str]:
        return modak(*words, cwd=self.path, **self.environment)

    def containers(self) -> list[str]:
        return self.cluster.podman.names()

    def clear(self) -> None:
        self.by("alice")
        super().clear()
        self.testbed.ssh(f"rm -rf {self.volume}")


@pytest.fixture(scope="module")
def kubernetes(host: Testbed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    cluster = Cluster(host, tmp_path_factory.mktemp("kubernetes"))
    yield cluster
    cluster.stop()
