"""A registry of containers: Debian's docker-registry, with TLS and a login, on this machine's own loopback."""

from __future__ import annotations

import shutil
import subprocess
import time
from pathlib import Path

import pytest
from cluster import Testbed, run
from test_secrets import CERTIFICATE

USER = "alice"
PASSWORD = "secretword"
# The password in bcrypt.
HTPASSWD = "import crypt; print('alice:' + crypt.crypt('secretword', crypt.mksalt(crypt.METHOD_BLOWFISH, rounds=16)))"
CONFIGURATION = """\
version: 0.1
storage: {{ filesystem: {{ rootdirectory: {folder}/data }}, delete: {{ enabled: true }} }}
http: {{ addr: "127.0.0.1:{port}", tls: {{ certificate: {folder}/cert.pem, key: {folder}/key.pem }} }}
auth: {{ htpasswd: {{ realm: box, path: {folder}/htpasswd }} }}
"""


class Registry:
    """From when it is made until it is stopped.

    Args:
        folder: an empty one of its own.
        testbed: where its certificate is put, for those who ask it from there.
    """

    def __init__(self, folder: Path, port: int, testbed: Testbed) -> None:
        self._program, self._folder = _program(folder), folder
        run("bash", "-c", CERTIFICATE.format(folder))
        (folder / "htpasswd").write_text(run("/usr/bin/python3", "-W", "ignore", "-c", HTPASSWD).stdout)
        (folder / "config.yml").write_text(CONFIGURATION.format(folder=folder, port=port))
        self.host = f"127.0.0.1:{port}"
        self.certificate = testbed.ssh("mktemp -p ~")
        testbed.ssh(f"echo '{(folder / 'cert.pem').read_text()}' > {self.certificate}")
        self.start()

    def start(self) -> None:
        with (self._folder / "log").open("a") as log:
            command = [self._program, "serve", str(self._folder / "config.yml")]
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        time.sleep(2)
        assert self._process.poll() is None, (self._folder / "log").read_text()

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(timeout=20)


def _program(folder: Path) -> str:
    if program := shutil.which("docker-registry"):
        return program
    result = run("bash", "-c", "apt-get download docker-registry && dpkg -x docker-registry_*.deb .", cwd=folder)
    if result.returncode != 0:
        pytest.skip("there is no docker-registry, nor a Debian mirror that has it")
    return str(folder / "usr" / "bin" / "docker-registry")
