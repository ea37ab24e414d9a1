"""What is told when a deployment ends, and to whom: a command without a shell, and a report in JUnit's form."""

from __future__ import annotations

import json
import sys
from xml.etree import ElementTree as Xml

import pytest
from hypothesis import given
from hypothesis import strategies as st
from planned_once import planned_once

from modak_ansible.commands.deploy.junit import junit_xml
from modak_ansible.commands.deploy.notification import Ending, facts_of, run_command
from modak_ansible.errors import JobFailed, ModakError, TimeIsOver, UsageError
from modak_ansible.store.deployment import DeploymentStore
from modak_ansible.store.record import NOT_RUN
from modak_ansible.target.core.files import write_json

NOTE = (
    "import json, os, sys;"
    "json.dump([sys.argv[2:], {n: v for n, v in os.environ.items() if n.startswith('MODAK_')}], open(sys.argv[1], 'w'))"
)


@pytest.fixture
def planned(blueprint):
    (blueprint.path / ".modak").mkdir()
    made = planned_once(blueprint.service)
    return made.plan, made.save()


def done(seconds=1.5, message="fine", state="done"):
    return {"state": state, "seconds": seconds, "changed": True, "message": message}


def record(state="COMPLETED", **stages):
    known = {name: done() for name in ("target", "dataset", "image", "job", "results", "report")}
    job = {"job_id": "12", "state": state, "exit_code": 0}
    return {"job": job, "results": "/here/results", "stages": {**known, **stages}}


@pytest.mark.component
def test_the_command_finds_how_it_went_in_its_environment(planned, tmp_path):
    plan, folder = planned
    write_json(folder / "state.json", record())
    said = tmp_path / "a file"
    words = "$(touch x) `id` ; é"
    command = f"{sys.executable} -c \"{NOTE}\" '{said}' '{words}' $HOME"
    with Ending(command) as ending:
        ending.deployments.append((plan, folder))
    assert ending.problem == ""
    arguments, facts = json.loads(said.read_text())
    assert arguments == [words, "$HOME"]
    assert facts["MODAK_DEPLOYMENT"] == plan.deployment
    assert facts["MODAK_STATE"] == "COMPLETED"
    assert (facts["MODAK_JOB_ID"], facts["MODAK_EXIT_CODE"], facts["MODAK_MESSAGE"]) == ("12", "0", "")
    assert (facts["MODAK_TRAINING"], facts["MODAK_TARGET"]) == ("training", "cluster")
    assert facts["MODAK_RESULTS"] == "/here/results"


@pytest.mark.parametrize(
    ("job", "error", "state", "code"),
    [
        ("TIMEOUT", JobFailed("job 12 ended as TIMEOUT"), "TIMEOUT", "5"),
        ("RUNNING", TimeIsOver("the time limit is over"), "RUNNING", "6"),
        ("COMPLETED", ModakError("the disk is full"), "FAILED", "1"),
        ("", ModakError("no image"), "FAILED", "1"),
        ("CANCELLED", ModakError("no image"), "FAILED", "1"),
    ],
)
def test_a_failure_says_so(planned, job, error, state, code):
    facts = facts_of([(planned[0], record(job))], error, 3.4)
    assert (facts["MODAK_STATE"], facts["MODAK_EXIT_CODE"]) == (state, code)
    assert facts["MODAK_MESSAGE"] == str(error)
    assert facts["MODAK_SECONDS"] == "3"


def test_a_job_that_nobody_waits_for_has_not_completed(planned):
    assert facts_of([(planned[0], record("QUEUED"))], None, 3.4)["MODAK_STATE"] == "QUEUED"


def test_of_several_trainings_the_worst_end_is_told(planned):
    both = [(planned[0], record()), (planned[0], record("TIMEOUT"))]
    facts = facts_of(both, JobFailed("job 12 ended as TIMEOUT"), 3.4)
    assert facts["MODAK_STATE"] == "TIMEOUT"
    assert facts["MODAK_DEPLOYMENT"].split() == [planned[0].deployment] * 2


@pytest.mark.component
def test_a_blueprint_that_is_wrong_ends_a_deployment_too(tmp_path):
    said = tmp_path / "said"
    with pytest.raises(ModakError), Ending(f'{sys.executable} -c "{NOTE}" {said}', tmp_path / "reports" / "a.xml"):
        raise ModakError("the blueprint is wrong")
    assert json.loads(said.read_text())[1]["MODAK_MESSAGE"] == "the blueprint is wrong"
    suites = Xml.parse(tmp_path / "reports" / "a.xml").getroot()
    assert suites.find("testsuite/testcase/error").get("message") == "the blueprint is wrong"


def test_ctrl_c_needs_no_word_to_who_pressed_it(tmp_path):
    said = tmp_path / "said"
    with pytest.raises(KeyboardInterrupt), Ending(f'{sys.executable} -c "{NOTE}" {said}', tmp_path / "a.xml"):
        raise KeyboardInterrupt
    assert not said.exists()
    assert Xml.parse(tmp_path / "a.xml").getroot().find("testsuite/testcase/error").get("message") == "interrupted"


@pytest.mark.component
@pytest.mark.parametrize(
    ("command", "words"),
    [
        (["/no/such/program"], "/no/such/program: No such file"),
        ([sys.executable, "-c", "import sys; sys.exit('no mail today')"], "ended with code 1: no mail today"),
        ([sys.executable, "-c", "import sys; sys.exit(3)"], "ended with code 3"),
    ],
)
def test_a_notification_that_fails_says_why(command, words):
    assert words in run_command(command, {})


def test_a_command_line_that_does_not_end():
    with pytest.raises(UsageError, match="No closing quotation"):
        Ending("notify 'x")


def cases(text):
    suite = Xml.fromstring(text.split("\n", 1)[1]).find("testsuite")
    return suite, {case.get("name"): case for case in suite.iter("testcase")}


def test_a_report_has_a_case_for_every_stage(planned):
    suite, found = cases(junit_xml([(planned[0], record())], None, 9.0))
    assert list(found) == ["target", "dataset", "image", "job", "results", "report"]
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors"), suite.get("skipped")) == (
        "6",
        "0",
        "0",
        "0",
    )
    assert suite.get("name") == planned[0].deployment
    assert suite.get("time") == "9.00"


def test_the_stage_that_failed_is_the_case_that_fails_and_those_behind_it_were_skipped(planned):
    error = JobFailed("no room\n  make room")
    failed = done(message=str(error), state="failed")
    suite, found = cases(junit_xml([(planned[0], record(image=failed))], error, 9.0))
    assert found["image"].find("failure").get("message") == "no room"
    assert found["image"].find("failure").text == "no room\n  make room"
    assert [name for name, case in found.items() if case.find("skipped") is not None] == ["job", "results", "report"]
    assert suite.get("failures") == "1"


def test_of_several_trainings_each_suite_tells_how_its_own_ended(planned):
    ended = {
        "first": {"state": "COMPLETED", "job_id": "7"},
        "second": {"state": "FAILED", "job_id": "8", "explanation": "exit code 3", "error_tail": ["boom"]},
        "third": {"state": "CANCELLED", "job_id": "", "explanation": f"{NOT_RUN}second failed"},
    }
    several = [(planned[0], {**record(), "job": job}) for job in ended.values()]
    text = junit_xml(several, JobFailed("1 of 3 trainings failed, 1 not run"), 9.0)
    suites = Xml.fromstring(text.split("\n", 1)[1]).findall("testsuite")
    assert [(suite.get("failures"), suite.get("errors")) for suite in suites] == [("0", "0"), ("1", "0"), ("0", "0")]
    failure = suites[1].find("testcase/failure")
    assert failure.get("message") == "job 8 ended as FAILED: exit code 3"
    assert failure.text.endswith("\nboom")
    assert suites[2].find("testcase/skipped").get("message") == f"{NOT_RUN}second failed"


def test_a_failure_of_an_earlier_run_is_none_of_this_one(planned):
    _, found = cases(junit_xml([(planned[0], record(image=done(state="failed", message="earlier")))], None, 9.0))
    assert found["image"].find("failure") is None


def test_a_time_limit_is_an_error_of_its_own(planned):
    root = Xml.fromstring(junit_xml([(planned[0], {})], TimeIsOver("the time limit is over"), 9.0).split("\n", 1)[1])
    assert [suite.get("errors") for suite in root] == ["0", "1"]
    assert root[1].find("testcase/error").get("type") == "TimeIsOver"


@given(message=st.text(min_size=1))
def test_any_message_makes_xml(message):
    root = Xml.fromstring(junit_xml([], ModakError(message), 1.0).split("\n", 1)[1])
    assert root.find("testsuite").get("errors") == "1"


def test_a_report_that_cannot_be_written_does_not_hide_how_it_ended(tmp_path):
    (tmp_path / "file").touch()
    ending = Ending(junit=tmp_path / "file" / "a.xml")
    with pytest.raises(JobFailed), ending:
        raise JobFailed("job 12 ended as TIMEOUT")
    assert ending.problem.startswith(f"--junit {tmp_path}/file/a.xml: ")


def test_a_report_that_is_a_folder_is_refused_before_anything_runs(tmp_path):
    with pytest.raises(UsageError, match="is a folder"):
        Ending(junit=tmp_path)


def test_trials_of_a_search_are_told_of(planned, tmp_path):
    plan, folder = planned
    write_json(folder / "state.json", record())
    with Ending(junit=tmp_path / "a.xml", stores=lambda: [DeploymentStore(folder)]):
        pass
    suites = Xml.parse(tmp_path / "a.xml").getroot()
    assert [suite.get("name") for suite in suites] == [plan.deployment]
