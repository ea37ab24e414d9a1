"""opera's commands on our blueprints, as its users type them, and packages that both doors deploy."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from cluster import ROOT, modak, run

pytestmark = [pytest.mark.testbed, pytest.mark.thorough]
OPERA = ROOT / ".venv-opera" / "bin"


def opera(project, *arguments):
    return run(OPERA / "opera", *arguments, cwd=project.path, PATH=f"{OPERA}:/usr/bin:/bin")


def template(project, epochs):
    """The service template of a training with so many epochs, and with a trigger for opera notify."""
    project.training["arguments"] = {"epochs": epochs}
    path = project.write() / "service.yaml"
    data = yaml.safe_load(path.read_text())
    trigger = {
        "event": "refresh",
        "target_filter": {"node": "training"},
        "condition": {"evaluations": 1},
        "action": [{"call_operation": "Operate.refresh"}],
    }
    policy = {"type": "modak.policies.Refresh", "targets": ["training"], "triggers": {"refresh": trigger}}
    data["topology_template"]["policies"] = [{"refreshing": policy}]
    path.write_text(yaml.safe_dump(data, sort_keys=False))
    return path


def outputs(project):
    shown = json.loads(opera(project, "outputs", "--format", "json").stdout)
    return {name: each["value"] for name, each in shown.items()}


def test_validate_deploy_diff_update_notify_undeploy(project):
    template(project, 1)
    assert "Done." in opera(project, "validate", "service.yaml").stdout
    assert opera(project, "deploy", "service.yaml").returncode == 0
    first, old = outputs(project), project.remote
    assert first["job_state"] == "COMPLETED"

    template(project, 2).rename(project.path / "changed.yaml")
    template(project, 1)  # opera reads the old template where it was
    diff = opera(project, "diff", "--format", "json", "changed.yaml")
    assert diff.returncode == 0, diff.stdout
    changed = json.loads(diff.stdout)["nodes"]["training"]["properties"]
    assert changed == {"arguments": [{"epochs": 1}, {"epochs": 2}]}

    done = opera(project, "update", "changed.yaml")
    assert done.returncode == 0, done.stdout
    second = outputs(project)
    assert second["job_state"] == "COMPLETED"
    assert second["plan_digest"] != first["plan_digest"]
    assert project.testbed.ssh(f"ls -d {old} 2> /dev/null || echo gone") == "gone"
    assert json.loads(opera(project, "info", "--format", "json").stdout)["status"] == "deployed"

    results = Path(second["results"])
    (results / "output.log").unlink()
    told = opera(project, "notify", "--trigger", "refresh", "--force")
    assert told.returncode == 0, told.stdout
    assert (results / "output.log").read_text() == "hello\n"
    told = opera(project, "notify", "--trigger", "nothing", "--force")
    assert "trigger or event name does not exist: nothing" in told.stdout

    assert opera(project, "undeploy", "--force").returncode == 0
    new = f"modak/deployments/{project.name}-{second['plan_digest'][:12]}"
    assert project.testbed.ssh(f"ls -d {new} 2> /dev/null || echo gone") == "gone"


def test_a_package_is_one_deployment_through_both_doors(project, tmp_path):
    (project.path / "playbooks").unlink()  # opera's, which the package has nonetheless
    packed = modak("package", project.write(), "-o", "mine.csar", cwd=project.path)
    assert packed.returncode == 0, packed.stderr
    first = (project.path / "mine.csar").read_bytes()
    assert modak("package", project.path, "-o", "mine.csar", cwd=project.path).returncode == 0
    assert (project.path / "mine.csar").read_bytes() == first

    digest = project.plan()["digest"]
    cache = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    for name in ("service.yaml", "train", "types"):  # a machine that has the package only
        (project.path / name).rename(tmp_path / name)
    done = modak("deploy", "mine.csar", "--json", cwd=project.path, **cache)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert (answer["digest"], answer["job"]["state"]) == (digest, "COMPLETED")

    done = opera(project, "deploy", "mine.csar")
    assert done.returncode == 0, done.stdout
    assert (outputs(project)["plan_digest"], outputs(project)["job_id"]) == (digest, answer["job"]["job_id"])

    gone = modak("undeploy", "mine.csar", cwd=project.path, **cache)
    assert gone.returncode == 0, gone.stderr
    remote = f"modak/deployments/{answer['deployment']}"
    assert project.testbed.ssh(f"ls -d {remote} 2> /dev/null || echo gone") == "gone"
    for name in ("service.yaml", "train", "types"):
        (tmp_path / name).rename(project.path / name)
