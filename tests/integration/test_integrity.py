"""On the testbed: an image that changed is not run, signatures are made and wanted, and nothing is open to others."""

from __future__ import annotations

import json
import os
import stat

import pytest
from cluster import MODAK, run
from test_secrets import Registry, environment, secret, with_site

pytestmark = pytest.mark.testbed
__all__ = ["secret"]


@pytest.fixture
def small(project, secret):
    """A project whose image of a few megabytes is pulled from a registry of this test's own."""
    registry = Registry(project.testbed, secret)
    with_site(project, registry)
    project.image = {"source": f"docker://{registry.host}/small:1", "python": "/usr/bin/python"}
    project.told = environment(registry, secret)
    yield project
    project.testbed.ssh(f"rm -f {image_of(project).removesuffix('sif')}*")
    registry.end()


def image_of(project):
    return f"modak/{project.plan()['image']['path']}"


def run_again(project):
    """Runs the staged script once more as a job of its own, as one that waited for long; gives its exit code and words."""
    folder = f"{project.remote}"
    return project.testbed.ssh(
        f"cd {folder} && rm -rf state && mkdir state && sbatch --wait job.sh > /dev/null 2>&1; echo code $?; cat error.log"
    )


def test_an_image_that_changed_is_not_run_and_is_made_anew(small):
    assert small.deploy(**small.told).returncode == 0
    image, testbed = image_of(small), small.testbed
    assert "code 0" in run_again(small)
    testbed.ssh(f"cp -p {image} {image}.copy && mv {image}.copy {image}")  # as a restored backup is
    assert "code 0" in run_again(small)
    size = testbed.ssh(f"stat -c %s {image}")
    testbed.ssh(
        f"touch -r {image} /tmp/$$.time; printf changed | dd of={image} bs=1 seek=40000 conv=notrunc 2> /dev/null; "
        f"touch -r /tmp/$$.time {image}; rm /tmp/$$.time"
    )
    assert testbed.ssh(f"stat -c %s {image}") == size
    said = run_again(small)
    assert "code 65" in said
    assert "has changed since it was made (SHA-256 " in said
    assert "deploy again to make it again" in said

    assert small.undeploy().returncode == 0
    done = small.deploy(**small.told)
    assert done.returncode == 0, done.stderr
    assert "is no longer the image that was made: it is made again" in done.stdout
    assert ", its tag is sha256:" in done.stdout
    assert (small.folder / "results" / "output.log").read_text() == "trained\n"


def test_images_are_signed_and_only_signed_ones_are_run(small):
    testbed = small.testbed
    folder = testbed.ssh("mktemp -d -p ~ .keys.XXXXXX")
    key = f"{folder}/key.pem"
    for name in ("key", "other"):
        testbed.ssh(
            f"cd {folder} && umask 077 && openssl genpkey -algorithm ed25519 -out {name}.pem 2> /dev/null "
            f"&& openssl pkey -in {name}.pem -pubout -out {name}.pem.pub"
        )
    site = small.target["capabilities"]["site"]["properties"]
    site["signing_key"] = f"{folder}/none.pem"
    missing = small.deploy(**small.told)
    assert missing.returncode == 1
    assert f"the key {folder}/none.pem is not on the target" in missing.stderr
    assert "openssl genpkey" in missing.stderr

    site["signing_key"] = key
    done = small.deploy(**small.told)
    assert done.returncode == 0, done.stderr
    assert (small.folder / "results" / "output.log").read_text() == "trained\n"
    assert "Verified signature" in testbed.ssh(f"apptainer verify --key {key}.pub {image_of(small)} 2>&1")

    testbed.ssh(f"cp {folder}/other.pem.pub {key}.pub")
    said = run_again(small)
    assert "code 65" in said
    assert f"is not signed with {key}.pub, and is not run" in said
    testbed.ssh(f"rm -r {folder}")


def test_nothing_is_open_to_others_under_an_open_umask(tmp_path):
    """On this machine, so that both sides have the umask."""
    project, home = tmp_path / "project", tmp_path / "home"
    project.mkdir()
    home.mkdir(mode=0o755)
    (project / ".git").mkdir()
    (project / "run.sh").write_text("#!/bin/sh\necho ran; umask\n")
    (project / "run.sh").chmod(0o755)
    job = {
        "job_options": {"job_name": "open", "wall_time_limit": "0:05:00"},
        "target": {"name": "local"},
        "application": {"app_type": "hpc", "executable": "./run.sh", "container_runtime": "none", "threads": 1},
        "optimisation": {"app_type": "hpc", "app_type-hpc": {"config": {"parallelisation": "openmp"}}},
    }
    (project / "request.json").write_text(json.dumps({"job": job}))
    done = run("bash", "-c", f"umask 000; exec {MODAK} deploy request.json", cwd=project, HOME=str(home))
    assert done.returncode == 0, done.stderr
    (output,) = project.glob(".modak/deployments/*/results/output.log")
    assert output.read_text() == "ran\n0000\n", "the script has the umask that the user has"
    for top in (home / "modak", project / ".modak"):
        assert open_to_others(top) == []


def open_to_others(folder):
    """Every path below a folder that others can reach: all above it may be entered, and it gives them a right."""
    found = []
    for path, folders, files in os.walk(folder):
        if stat.S_IMODE(os.stat(path).st_mode) & 0o077:
            found += [path, *(os.path.join(path, file) for file in files)]
        else:
            folders.clear()
    return found
