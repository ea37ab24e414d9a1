"""A deployment that nobody watches: limited in time, reported, told of, and cleaned up, on a real cluster."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from xml.etree import ElementTree as Xml

import pytest
from cluster import MODAK, ROOT, run

pytestmark = [pytest.mark.testbed, pytest.mark.thorough]
SCRIPT = ROOT / "docs" / "example" / "ci-smoke.sh"


def smoke(project, **environment):
    return run("bash", SCRIPT, project.write(), cwd=project.path, MODAK=str(MODAK), **environment)


def suites(path):
    return {case.get("name"): case for case in Xml.parse(path).getroot().iter("testcase")}


def is_gone(project):
    return project.testbed.ssh(f"ls -d {project.remote} 2> /dev/null || echo gone") == "gone"


def test_a_deployment_that_works_is_reported_and_told_of(project):
    note = project.path / "note"
    done = project.deploy("--junit", "reports/junit.xml", "--notify-command", f"sh -c 'env > {note}'")
    assert done.returncode == 0, done.stderr
    cases = suites(project.path / "reports" / "junit.xml")
    assert set(cases) == {"target", "dataset", "image", "job", "results", "report"}
    assert all(case.find("failure") is None and case.find("skipped") is None for case in cases.values())
    told = dict(line.split("=", 1) for line in note.read_text().splitlines() if line.startswith("MODAK_"))
    assert (told["MODAK_STATE"], told["MODAK_DEPLOYMENT"]) == ("COMPLETED", project.deployment)
    assert told["MODAK_JOB_ID"] == project.jobs()[0]


def test_a_training_that_fails_is_a_case_that_fails(project):
    project.script("import sys\nsys.exit('the data is odd')\n")
    done = project.deploy("--junit", "junit.xml", "--notify-command", "/no/such/program")
    assert done.returncode == 5
    assert "warning: the notification failed: /no/such/program" in done.stderr
    failure = suites(project.path / "junit.xml")["report"].find("failure")
    assert "ended as FAILED" in failure.get("message")
    assert "the data is odd" in failure.text


def test_a_time_limit_leaves_the_job_running_and_says_so(project):
    project.script("import time\nprint('began', flush=True)\ntime.sleep(600)\n")
    done = project.deploy("--time-limit", "40s", "--junit", "junit.xml")
    assert done.returncode == 6
    assert "the time limit is over" in done.stderr
    assert f"modak undeploy {project.deployment}" in done.stderr
    assert project.testbed.ssh(f"squeue --noheader --name={project.deployment} --format=%i").split() == project.jobs()
    assert suites(project.path / "junit.xml")["deploy"].find("error").get("type") == "TimeIsOver"
    again = project.deploy("--time-limit", "40s", "--at-time-limit", "undeploy")
    assert again.returncode == 6
    assert is_gone(project)
    assert project.testbed.ssh(f"squeue --noheader --name={project.deployment}") == ""
    assert len(project.jobs()) == 1
    if project.record["job"]["started"]:  # it may have waited behind other tests' jobs
        assert (project.folder / "results" / "output.log").read_text() == "began\n"


def test_a_smoke_deployment_leaves_reports_and_nothing_else(project):
    done = smoke(project)
    assert done.returncode == 0, done.stderr
    reports = project.path / "reports"
    assert json.loads((reports / "plan.json").read_text())["digest"] == project.plan()["digest"]
    assert json.loads((reports / "deployment.json").read_text())["job"]["state"] == "COMPLETED"
    assert len(suites(reports / "junit.xml")) == 6
    assert is_gone(project)


def test_a_smoke_deployment_of_what_is_wrong(project):
    project.training["walltime"] = "30"
    done = smoke(project)
    assert done.returncode == 3
    assert "is not a wall time" in done.stderr
    assert not (project.path / ".modak" / "deployments").exists()


def test_a_smoke_deployment_that_is_ended_ends_its_job(project):
    project.script("import time\ntime.sleep(600)\n")
    command = ["bash", str(SCRIPT), str(project.write())]
    running = subprocess.Popen(command, cwd=project.path, env={**os.environ, "MODAK": str(MODAK)}, text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)  # fmt: skip
    deadline = time.monotonic() + 300
    while not project.jobs():
        assert time.monotonic() < deadline
        time.sleep(1)
    running.send_signal(signal.SIGTERM)
    said = running.communicate(timeout=300)
    assert running.returncode == 143, said
    assert is_gone(project)
    assert project.testbed.ssh(f"squeue --noheader --name={project.deployment}") == ""
