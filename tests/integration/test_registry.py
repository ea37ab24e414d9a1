"""A real registry (Debian's docker-registry, with TLS and a login): images are pushed to it, and found before they are built."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from catalogues import path_of_catalogue_with
from cluster import modak, run
from test_secrets import CERTIFICATE

pytestmark = [pytest.mark.testbed, pytest.mark.thorough]

NAME = "small-1.0"
ENTRY = f"""\
name: {NAME}
framework: pytorch
version: "1.0"
origin: pip
architectures: [x86_64]
base: debian-trixie
requirements: []
probe: print("small")
provenance: a test
licence: MIT
"""
# alice's password is secretword, in bcrypt
PASSWORD = "secretword"
HTPASSWD = "import crypt; print('alice:' + crypt.crypt('secretword', crypt.mksalt(crypt.METHOD_BLOWFISH, rounds=16)))"
CONFIGURATION = """\
version: 0.1
storage: {{ filesystem: {{ rootdirectory: {folder}/data }}, delete: {{ enabled: true }} }}
http: {{ addr: "127.0.0.1:{port}", tls: {{ certificate: {folder}/cert.pem, key: {folder}/key.pem }} }}
auth: {{ htpasswd: {{ realm: box, path: {folder}/htpasswd }} }}
"""


class Registry:
    def __init__(self, program: str, folder: Path, port: int, testbed) -> None:
        self._program, self._folder = program, folder
        run("bash", "-c", CERTIFICATE.format(folder))
        (folder / "htpasswd").write_text(run("/usr/bin/python3", "-W", "ignore", "-c", HTPASSWD).stdout)
        (folder / "config.yml").write_text(CONFIGURATION.format(folder=folder, port=port))
        self.place = f"oras://127.0.0.1:{port}/team/images"
        self.told = {
            "MODAK_REGISTRY": f"127.0.0.1:{port}", "MODAK_REGISTRY_USERNAME": "alice", "MODAK_REGISTRY_PASSWORD": PASSWORD,
        }  # fmt: skip
        self.certificate = testbed.ssh("mktemp")
        testbed.ssh(f"echo '{(folder / 'cert.pem').read_text()}' > {self.certificate}")
        self.start()

    def start(self):
        with (self._folder / "log").open("a") as log:
            command = [self._program, "serve", str(self._folder / "config.yml")]
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        time.sleep(2)
        assert self._process.poll() is None, (self._folder / "log").read_text()

    def stop(self):
        self._process.terminate()
        self._process.wait(timeout=20)


@pytest.fixture
def registry(testbed, tmp_path):
    program = shutil.which("docker-registry")
    if program is None:
        done = run("bash", "-c", "apt-get download docker-registry && dpkg -x docker-registry_*.deb .", cwd=tmp_path)
        program = str(tmp_path / "usr" / "bin" / "docker-registry")
        if done.returncode != 0:
            pytest.skip("there is no docker-registry, nor a Debian mirror that has it")
    folder = tmp_path / "registry"
    folder.mkdir()
    made = Registry(program, folder, 25443, testbed)
    yield made
    made.stop()
    testbed.ssh(f"rm -f {made.certificate}")


def test_images_are_pushed_signed_and_found_before_they_are_built(project, registry, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", path_of_catalogue_with(tmp_path / "known", NAME, ENTRY, ""))
    testbed, site = project.testbed, {"certificate_bundle": registry.certificate}
    project.target["capabilities"]["site"] = {"properties": site}
    project.training["optimisation"] = {"entry": NAME}
    steps = project.training["environment"] = {"STEP": "0"}
    digest = project.plan()["image"]["digest"]
    image, keys = f"modak/images/{digest}", testbed.ssh("mktemp -d -p ~ .keys.XXXXXX")
    testbed.ssh(
        f"cd {keys} && umask 077 && openssl genpkey -algorithm ed25519 -out k 2> /dev/null && openssl pkey -in k -pubout -out k.pub"
    )

    def catalogue(verb, *more, **told):
        return modak("catalogue", verb, NAME, *more, "-b", project.path, cwd=project.path, **told)

    def deployed_without_it():
        testbed.ssh(f"rm -f {image}.*")
        steps["STEP"] = str(int(steps["STEP"]) + 1)  # another deployment, of the same image
        done = project.deploy(**registry.told)
        assert done.returncode == 0, done.stderr
        assert (project.folder / "results" / "output.log").read_text() == "hello\n"
        return done.stdout

    try:
        absent = catalogue("push", registry.place)
        assert absent.returncode == 1
        assert f"the image of {NAME} is not on the target" in absent.stderr
        assert catalogue("build").returncode == 0
        refused = catalogue("push", registry.place)
        assert "127.0.0.1:25443 wants a login for" in refused.stderr, refused.stderr
        pushed = catalogue("push", registry.place, "--json", **registry.told)
        assert pushed.returncode == 0, pushed.stderr
        names = json.loads(pushed.stdout)["names"]
        assert names == [f"{registry.place}:{digest}", f"{registry.place}:pytorch-1.0-x86_64-cpu"]
        assert PASSWORD not in pushed.stdout + pushed.stderr

        # found by its digest, but not where a signature is wanted that it has not got
        site["image_sources"] = [registry.place]
        assert f"{NAME} was found in {registry.place}" in deployed_without_it()
        site["image_signer"] = f"{keys}/k.pub"
        assert f"has no signature of {keys}/k.pub" in deployed_without_it()
        assert catalogue("verify").returncode == 1
        signed = catalogue("sign", "--key", f"{keys}/k")
        assert signed.returncode == 0, signed.stderr
        assert catalogue("verify").returncode == 0
        assert catalogue("push", registry.place, **registry.told).returncode == 0
        assert f"{NAME} was found in {registry.place}" in deployed_without_it()

        # pulled alone; what another image lies under its name is not taken
        testbed.ssh(f"rm -f {image}.*")
        pulled = catalogue("pull", registry.place, "--json", **registry.told)
        assert pulled.returncode == 0, pulled.stderr
        assert catalogue("verify").returncode == 0
        small = testbed.ssh("ls -S modak/images/*.sif | tail -1")
        testbed.ssh(
            f"export SSL_CERT_FILE={registry.certificate} APPTAINER_DOCKER_USERNAME=alice APPTAINER_DOCKER_PASSWORD={PASSWORD}; "
            f"apptainer push -U {small} {registry.place}:{digest} 2> /dev/null"
        )
        assert f"where {digest[:12]} is wanted" in deployed_without_it()
        registry.stop()
        assert "127.0.0.1:25443 cannot be reached from the target" in deployed_without_it()
        lost = catalogue("push", registry.place, **registry.told)
        assert "cannot be reached" in lost.stderr
    finally:
        testbed.ssh(f"rm -rf {keys} {image}.*")
