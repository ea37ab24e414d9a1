"""A target that is not as it should be: one clear message, a hint, a non-zero exit code, nothing half-done."""

from __future__ import annotations

import shutil
import socket

import pytest

pytestmark = pytest.mark.testbed


def refuse(project, code, *words):
    done = project.deploy()
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    for word in words:
        assert word in done.stderr, done.stderr
    return done


def test_another_host_key(project, tmp_path):
    """The front end presents a key that is not the one that is known."""
    own = tmp_path / "own-testbed"
    shutil.copytree(project.testbed.folder, own)
    config = own / "ssh_config"
    config.write_text(config.read_text().replace(str(project.testbed.folder / "known_hosts"), str(own / "known_hosts")))
    host, kind, key = (own / "known_hosts").read_text().split()[:3]
    (own / "known_hosts").write_text(f"{host} {kind} {key[:-6]}AAAAAA\n")
    (project.path / ".modak" / "testbed").unlink()
    (project.path / ".modak" / "testbed").symlink_to(own)
    refuse(project, 4, "testbed has a different host key from the one that is known", "ssh-keygen -R")
    assert project.jobs() == []


def test_an_unknown_host_key(project, tmp_path):
    own = tmp_path / "own-testbed"
    shutil.copytree(project.testbed.folder, own)
    config = own / "ssh_config"
    config.write_text(config.read_text().replace(str(project.testbed.folder / "known_hosts"), str(own / "known_hosts")))
    (own / "known_hosts").write_text("")
    (project.path / ".modak" / "testbed").unlink()
    (project.path / ".modak" / "testbed").symlink_to(own)
    refuse(project, 4, "testbed has a host key that is not known", "compare the key")


def test_a_user_that_is_refused(project):
    project.target["properties"]["username"] = "root"
    refuse(project, 4, "testbed refuses the login", "authorized_keys")


def test_a_host_that_refuses(project):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    project.target["attributes"]["public_address"] = "127.0.0.1"
    project.target["properties"]["port"] = port
    refuse(project, 4, "127.0.0.1 refuses the connection", "check the address and the port")


def test_a_host_that_does_not_answer(project):
    with socket.create_server(("127.0.0.1", 0)) as server:
        project.target["attributes"]["public_address"] = "127.0.0.1"
        project.target["properties"]["port"] = server.getsockname()[1]
        refuse(project, 4, "127.0.0.1 does not answer within 15 s")


def test_no_scheduler(project):
    project.testbed.root("chmod 600 /usr/bin/sbatch")
    try:
        refuse(project, 1, "Slurm is not on frontend: sbatch not found", "check the type of the target")
    finally:
        project.testbed.root("chmod 755 /usr/bin/sbatch")


def test_no_container_runtime(project):
    project.target["properties"]["container_runtime"] = "singularity"
    project.training["requirements_txt"] = ["six==1.15.0"]
    project.testbed.root("mv /usr/bin/singularity /usr/bin/singularity.away || true")
    try:
        refuse(project, 1, "singularity is not on the target", "container_runtime")
    finally:
        project.testbed.root(
            "[ -e /usr/bin/singularity.away ] && mv /usr/bin/singularity.away /usr/bin/singularity || true"
        )
    assert project.jobs() == []


def test_no_subuid(project):
    project.training["requirements_txt"] = ["six==1.15.0"]
    project.testbed.root("cp /etc/subuid /etc/subuid.away && sed -i /^modak/d /etc/subuid")
    try:
        refuse(project, 1, "modak has no range in /etc/subuid", "--add-subuids")
    finally:
        project.testbed.root("mv /etc/subuid.away /etc/subuid")


def test_a_full_disk(project):
    project.testbed.root("mkdir -p /small && mount -t tmpfs -o size=100m,mode=1777 small /small")
    try:
        project.target["properties"]["workspace"] = "/small/modak"
        refuse(project, 1, "the disk is full: /small/modak has", "make room there")
    finally:
        project.testbed.root("umount /small")


def test_no_room_for_an_image(project):
    project.testbed.root("mkdir -p /small && mount -t tmpfs -o size=900m,mode=1777 small /small")
    try:
        project.target["properties"]["workspace"] = "/small/modak"
        refuse(project, 1, "building an image needs 5000 MB, and /small/modak has", "make room there")
        assert project.testbed.ssh("ls -A /small/modak/images") == ""
    finally:
        project.testbed.root("umount /small")


def test_no_room_for_the_data(project, tmp_path):
    (tmp_path / "data").mkdir()
    with (tmp_path / "data" / "train-images-idx3-ubyte").open("wb") as file:
        file.truncate(400 * 10**6)
    project.dataset = {"name": "large", "source": [str(tmp_path / "data")]}
    project.testbed.root("mkdir -p /small && mount -t tmpfs -o size=300m,mode=1777 small /small")
    try:
        project.target["properties"]["workspace"] = "/small/modak"
        refuse(project, 1, "the dataset large needs 400 MB, and /small/modak has", "make room there")
    finally:
        project.testbed.root("umount /small")


def test_a_workspace_that_cannot_be_written(project):
    project.target["properties"]["workspace"] = "/etc/modak"
    refuse(project, 1, "the workspace /etc/modak", "cannot be created: Permission denied")


def test_slurm_refuses_the_job(project):
    project.target["properties"]["partitions"] = []
    project.training["resources"] = {"partition": "nosuch"}
    refuse(project, 1, "Slurm refuses the job: invalid partition specified: nosuch", "nothing was submitted")
    project.training.update(resources={"nodes": 9}, distributed_training=True)
    refuse(project, 1, "Slurm refuses the job")
    assert project.jobs() == []


def test_an_image_that_is_not_there(project):
    service = project.write() / "service.yaml"
    image = (
        "    mine:\n      type: modak.nodes.Image\n      properties: { source: /none/such.sif }\n"
        "      requirements:\n      - host: cluster\n    training:\n"
    )
    text = service.read_text().replace("    training:\n", image, 1)
    service.write_text(
        text.replace("      - host: cluster\n  outputs", "      - host: cluster\n      - image: mine\n  outputs")
    )
    from cluster import modak

    done = modak("deploy", project.path, cwd=project.path)
    assert done.returncode == 1
    assert "the image /none/such.sif is not there" in done.stderr
