"""A real registry (Debian's docker-registry, with TLS and a login): images are pushed to it, and found before they are built."""

from __future__ import annotations

import json

import pytest
from catalogues import path_of_catalogue_with
from cluster import modak
from docker_registry import PASSWORD, USER, Registry

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


@pytest.fixture
def registry(testbed, tmp_path):
    folder = tmp_path / "registry"
    folder.mkdir()
    made = Registry(folder, 25443, testbed)
    yield made
    made.stop()
    testbed.ssh(f"rm -f {made.certificate}")


def test_images_are_pushed_signed_and_found_before_they_are_built(project, registry, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", path_of_catalogue_with(tmp_path / "known", NAME, ENTRY, ""))
    testbed, site = project.testbed, {"certificate_bundle": registry.certificate}
    place = f"oras://{registry.host}/team/images"
    login = {
        "MODAK_REGISTRY": registry.host, "MODAK_REGISTRY_USERNAME": USER, "MODAK_REGISTRY_PASSWORD": PASSWORD,
    }  # fmt: skip
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
        done = project.deploy(**login)
        assert done.returncode == 0, done.stderr
        assert (project.folder / "results" / "output.log").read_text() == "hello\n"
        return done.stdout

    try:
        absent = catalogue("push", place)
        assert absent.returncode == 1
        assert f"the image of {NAME} is not on the target" in absent.stderr
        assert catalogue("build").returncode == 0
        refused = catalogue("push", place)
        assert f"{registry.host} wants a login for" in refused.stderr, refused.stderr
        pushed = catalogue("push", place, "--json", **login)
        assert pushed.returncode == 0, pushed.stderr
        names = json.loads(pushed.stdout)["names"]
        assert names == [f"{place}:{digest}", f"{place}:pytorch-1.0-x86_64-cpu"]
        assert PASSWORD not in pushed.stdout + pushed.stderr

        # found by its digest, but not where a signature is wanted that it has not got
        site["image_sources"] = [place]
        assert f"{NAME} was found in {place}" in deployed_without_it()
        site["image_signer"] = f"{keys}/k.pub"
        assert f"is not signed with {keys}/k.pub" in deployed_without_it()
        assert catalogue("verify").returncode == 1
        signed = catalogue("sign", "--key", f"{keys}/k")
        assert signed.returncode == 0, signed.stderr
        assert catalogue("verify").returncode == 0
        assert catalogue("push", place, **login).returncode == 0
        assert f"{NAME} was found in {place}" in deployed_without_it()

        # pulled alone; what another image lies under its name is not taken
        testbed.ssh(f"rm -f {image}.*")
        pulled = catalogue("pull", place, "--json", **login)
        assert pulled.returncode == 0, pulled.stderr
        assert catalogue("verify").returncode == 0
        small = testbed.ssh("ls -S modak/images/*.sif | tail -1")
        testbed.ssh(
            f"export SSL_CERT_FILE={registry.certificate} APPTAINER_DOCKER_USERNAME=alice APPTAINER_DOCKER_PASSWORD={PASSWORD}; "
            f"apptainer push -U {small} {place}:{digest} 2> /dev/null"
        )
        assert f"where {digest[:12]} is wanted" in deployed_without_it()
        registry.stop()
        assert f"{registry.host} cannot be reached from the target" in deployed_without_it()
        lost = catalogue("push", place, **login)
        assert "cannot be reached" in lost.stderr
    finally:
        testbed.ssh(f"rm -rf {keys} {image}.*")
