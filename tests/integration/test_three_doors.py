"""One blueprint through each of the three doors: one plan, one image, one job."""

from __future__ import annotations

import json

import pytest
from cluster import ROOT, SCRIPTS, modak, run

pytestmark = pytest.mark.testbed
OPERA = ROOT / ".venv-opera" / "bin"
PLAYBOOK = ROOT / "playbooks" / "deploy.yml"


def ansible(project, *options):
    """Door 2, with the project's own ansible.cfg."""
    config = {"ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "ANSIBLE_STDOUT_CALLBACK": "default"}
    return run(
        SCRIPTS / "ansible-playbook", PLAYBOOK, "-e", f"blueprint={project.write()}", *options, cwd=ROOT, **config
    )


def opera(project, *arguments):
    """Door 3, from the blueprint's folder, as its user stands there."""
    project.write()
    return run(OPERA / "opera", *arguments, cwd=project.path, PATH=f"{OPERA}:/usr/bin:/bin")


def opera_outputs(project):
    shown = opera(project, "outputs", "--format", "json")
    return {name: each["value"] for name, each in json.loads(shown.stdout).items()}


def doors(project):
    """Each door's way to deploy: gives the job's id, and whether anything changed where the door tells."""

    def first():
        done = project.deploy("--json")
        assert done.returncode == 0, done.stderr
        answer = json.loads(done.stdout)
        return answer["job"]["job_id"], answer["digest"], answer["changed"]

    def second():
        done = ansible(project)
        assert done.returncode == 0, done.stdout + done.stderr
        changed = sum(
            int(line.split("changed=")[1].split()[0]) for line in done.stdout.splitlines() if "changed=" in line
        )
        return (
            project.record["job"]["job_id"],
            json.loads((project.folder / "plan.json").read_text())["digest"],
            changed,
        )

    def third():
        done = opera(project, "deploy", "-c", "-f", "service.yaml")
        assert done.returncode == 0, done.stdout
        status = json.loads(opera(project, "info", "--format", "json").stdout)["status"]
        assert status == "deployed", done.stdout
        outputs = opera_outputs(project)
        assert outputs["job_state"] == "COMPLETED"
        return outputs["job_id"], outputs["plan_digest"], None

    return {"modak": first, "ansible": second, "opera": third}


@pytest.mark.parametrize("order", [("modak", "ansible", "opera"), ("opera", "ansible", "modak")], ids="-".join)
def test_one_plan_one_image_one_job(project, order):
    if order[0] == "modak":  # a layer of its own, so that an image is really built on the way
        project.training["requirements_txt"] = ["six==1.16.0"]
        project.testbed.ssh(f"rm -f modak/{project.plan()['image']['path'].replace('.sif', '.*')}")
    image = project.plan()["image"]["path"].replace(".sif", "")
    opened = doors(project)
    results, builds = [], []
    for name in order:
        results.append(opened[name]())
        builds.append(project.testbed.ssh(f"stat --format='%i %y' modak/{image}.sif"))  # another build is another file
    assert {(job_id, digest) for job_id, digest, _ in results} == {(project.jobs()[0], project.plan()["digest"])}
    assert len(project.jobs()) == 1
    assert len(set(builds)) == 1
    assert {changed for _, _, changed in results[1:]} <= {0, None}
    known = json.loads(project.testbed.ssh(f"cat modak/{image}.json"))
    assert project.testbed.ssh(f"sha256sum modak/{image}.sif").split()[0] == known["sha256"]


def test_check_mode_changes_nothing(project):
    before = project.testbed.ssh("find modak -type f -o -type d | sort | sha256sum")
    done = run(
        SCRIPTS / "ansible-playbook", PLAYBOOK, "-v", "--check", "-e", f"blueprint={project.write()}",
        ANSIBLE_CONFIG=str(ROOT / "ansible.cfg"),
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "would submit the job" in done.stdout
    assert project.testbed.ssh("find modak -type f -o -type d | sort | sha256sum") == before
    assert not (project.path / ".modak" / "deployments").exists()
    assert project.jobs() == []


def test_the_parts_serve_alone(project):
    for part in ("probe", "dataset", "image", "job", "results", "undeploy"):
        done = run(
            SCRIPTS / "ansible-playbook", ROOT / "playbooks" / f"{part}.yml", "-e", f"blueprint={project.write()}",
            ANSIBLE_CONFIG=str(ROOT / "ansible.cfg"),
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
    assert len(project.jobs()) == 1


def test_a_failed_job_is_explained_by_every_door(project):
    project.script("import sys\nsys.exit('the data is odd')\n")
    for said in (
        project.deploy().stderr,
        ansible(project).stdout,
        opera(project, "deploy", "-c", "-f", "service.yaml").stdout,
    ):
        assert "ended as FAILED, exit code 1" in said
        assert "the data is odd" in said
    assert json.loads(opera(project, "info", "--format", "json").stdout)["status"] == "error"
    assert len(project.jobs()) == 1


def test_a_bad_blueprint_is_explained_by_every_door(project):
    project.training["walltime"] = "30"
    for said in (
        project.deploy().stderr,
        ansible(project).stdout,
        opera(project, "deploy", "-c", "-f", "service.yaml").stdout,
    ):
        assert "walltime: '30' is not a wall time" in said
        assert "service.yaml:" in said


def test_opera_undeploys(project):
    assert opera(project, "deploy", "-c", "-f", "service.yaml").returncode == 0
    assert opera(project, "undeploy", "-f").returncode == 0
    assert project.testbed.ssh(f"ls -d {project.remote} 2> /dev/null || echo gone") == "gone"


def test_opera_packages_and_validates_the_shipped_blueprints(tmp_path):
    for name in ("mnist-pytorch-slurm", "mnist-pytorch-torque", "mnist-tensorflow-slurm", "mnist-pytorch-local"):
        folder = ROOT / "tosca" / "blueprints" / name
        done = run(
            OPERA / "opera", "validate", "-p", tmp_path, "service.yaml", cwd=folder, PATH=f"{OPERA}:/usr/bin:/bin"
        )
        assert "Done." in done.stdout, done.stdout


@pytest.mark.parametrize("name", ["mnist-pytorch-slurm", "mnist-pytorch-torque", "mnist-tensorflow-slurm"])
def test_the_shipped_blueprints_train(testbed, tmp_path, name):
    """Torque's commands stand in front of Slurm here."""
    (tmp_path / ".modak").mkdir()
    (tmp_path / ".modak" / "testbed").symlink_to(testbed.folder)
    inputs = ["--input", "mnist=[digits]", "--input", "epochs=2", "--json"]
    done = modak("deploy", name, *inputs, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["job"]["state"] == "COMPLETED"
    assert answer["metrics"]["epochs"] == 2
    assert answer["metrics"]["accuracy"] > 0.9
    assert modak("undeploy", name, cwd=tmp_path).returncode == 0
