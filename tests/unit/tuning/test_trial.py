"""One trial: its command and environment are the job's own, and nothing of it gets into the user's results."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from modak_tuner.halving import Failed, Stopped
from modak_tuner.trial import Runner, command_of, environment_of

from modak_ansible.model.plan import PlannedJob
from modak_ansible.model.target import Scheduler
from modak_ansible.schedulers.script import DataPlace, ScriptParts, render_script

TEXT = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=20)
REPORT = {"schema": "modak.applied/1", "hostname": "n1", "choices": {}, "steps": {"count": 20, "median_seconds": 0.1}}


def plan_of(script="train.py", words=()):
    application = {"script": script, "words": list(words)}
    return {"application": application, "tuning": {"candidates": [{"values": {"compiler": "none"}}]}}


def candidate_of(arguments=(), environment=(), compiler="xla"):
    values = {"compiler": compiler}
    return {"name": "c1", "values": values, "arguments": list(arguments), "environment": list(environment)}


@pytest.mark.component
@given(
    values=st.lists(st.tuples(st.from_regex(r"[a-z][a-z-]{0,8}", fullmatch=True), st.one_of(TEXT, st.just(True)))),
    words=st.lists(TEXT, max_size=3),
    dataset=st.from_regex(r"/[ -~]{0,10}", fullmatch=True),
)
def test_a_trials_command_is_that_of_the_job(values, words, dataset):
    """Bash makes the same words of the job's script."""
    job = PlannedJob(
        scheduler=Scheduler.NONE, name="example", nodes=1, processes_per_node=1, cores_per_process=1, threads=1,
        walltime=600, environment={}, script="",
    )  # fmt: skip
    parts = ScriptParts(
        image="i.venv", python="bin/python", script="it's a $script.py", arguments=tuple(values), words=tuple(words),
        data=(DataPlace("d", "d"),),
    )  # fmt: skip
    text = render_script(job, parts)
    found = re.search(r"^command=\(.*?^\)$", text, re.MULTILINE | re.DOTALL).group()
    code = f"image=/i dataset=$1 deployment=/x\n{found}\n" + 'printf "%s\\0" "${command[@]}"'
    done = subprocess.run(["bash", "-c", code, "bash", dataset], capture_output=True, check=True)
    in_bash = done.stdout.decode().split("\0")[:-1]
    ours = command_of(plan_of("it's a $script.py", words), candidate_of(values), "/i/bin/python", dataset)
    assert in_bash[in_bash.index("/i/bin/python") :] == ours


# Hypothesis draws words of our own code, too: {dataset} stands for a folder.
@given(
    environment=st.dictionaries(
        st.from_regex(r"[A-Z_]{1,8}", fullmatch=True), TEXT.filter(lambda text: "{" not in text)
    )
)
def test_every_value_reaches_the_trial_as_it_is(environment):
    made = environment_of({"PATH": "/bin"}, candidate_of(environment=environment.items()), "/scratch", 20, 1.5)
    assert {name: made[name] for name in environment} == environment
    assert made["MODAK_TRIAL_STEPS"] == "20"
    assert made["MODAK_TRIAL_SECONDS"] == "1.500"


def test_a_user_cannot_lead_a_trials_files_into_the_results():
    given_by_user = [
        ("MODAK_METRICS", "/results/metrics.json"),
        ("MODAK_APPLIED", "/results/a"),
        ("PYTHONPATH", "/lib"),
    ]
    made = environment_of({"PYTHONPATH": "/runtime:/image"}, candidate_of(environment=given_by_user), "/s", 1, 1)
    assert (made["MODAK_METRICS"], made["MODAK_APPLIED"]) == ("/s/metrics.json", "/s/applied.json")
    assert made["PYTHONPATH"] == "/runtime:/lib"


@pytest.fixture
def trial(tmp_path):
    """Runs a script as a trial in a deployment."""
    (tmp_path / "code").mkdir()

    def run(script, seconds=20.0, runner=None):
        (tmp_path / "code" / "train.py").write_text(script)
        runner = runner or Runner(str(tmp_path), plan_of(), sys.executable)
        return runner.run(candidate_of(), 20, seconds)

    return run


def writes(report):
    return f"import json, os; json.dump({report!r}, open(os.environ['MODAK_APPLIED'], 'w'))\n"


@pytest.mark.component
def test_the_steps_come_back_and_the_scratch_goes(trial, tmp_path):
    script = "open('checkpoint.pt', 'w').write('x'); open(__file__, 'a').write('#')\n" + writes(REPORT)
    measured = trial(script)
    assert (measured["count"], measured["median_seconds"]) == (20, 0.1)
    assert measured["report"]["hostname"] == "n1"
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["code", "train.py"]
    assert (tmp_path / "code" / "train.py").read_text() == script


@pytest.mark.component
@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("raise SystemExit(3)", "exit code 3"),
        ("import sys; print('no such\\x1b kernel\\n', file=sys.stderr); sys.exit(2)", "exit code 2: no such  kernel"),
        ("import os; os.kill(os.getpid(), 11)", "signal 11"),
        ("pass", "it reported no steps"),
        (writes({**REPORT, "steps": None}), "none of its steps were counted in"),
        (
            writes({**REPORT, "choices": {"compiler": {"planned": "xla", "applied": None, "reason": "not here"}}}),
            "compiler xla was not applied: not here",
        ),
    ],
)
def test_why_a_candidate_is_out(trial, script, reason):
    with pytest.raises(Failed, match=re.escape(reason)):
        trial(script)


@pytest.mark.component
def test_what_the_plans_choice_does_not_apply_either_puts_nobody_out(tmp_path):
    """A network without convolutions has no memory format, whichever candidate trains it."""
    (tmp_path / "code").mkdir()
    refused = {"memory_format": {"planned": "channels_last", "applied": None, "reason": "no convolutions"}}
    (tmp_path / "code" / "train.py").write_text(writes({**REPORT, "choices": refused}))
    runner = Runner(str(tmp_path), plan_of(), sys.executable)
    assert runner.run(candidate_of(), 20, 10.0)["count"] == 20
    assert runner.run(candidate_of(compiler="none"), 20, 10.0)["count"] == 20


@pytest.mark.component
def test_what_is_only_compared_is_measured_as_it_is_applied(trial, tmp_path):
    """The training does not apply it either."""
    refused = {"compiler": {"planned": "xla", "applied": None, "reason": "not here"}}
    runner = Runner(str(tmp_path), plan_of(), sys.executable, chooses=False)
    assert trial(writes({**REPORT, "choices": refused}), runner=runner)["count"] == 20


@pytest.mark.component
def test_a_trial_that_does_not_end_is_ended_with_all_that_it_started(trial, tmp_path):
    pid = tmp_path / "pid"
    script = f"""import subprocess, time
child = subprocess.Popen(["sleep", "100"])
open({str(pid)!r}, "w").write(str(child.pid))
time.sleep(100)
"""
    with pytest.raises(Failed, match="it completed no step in 1 s"):
        trial(script, seconds=1.0)
    state = subprocess.run(["ps", "-o", "stat=", "-p", pid.read_text()], capture_output=True, text=True, check=False)
    assert state.stdout.strip()[:1] in ("", "Z")


def test_after_a_signal_nothing_is_run_any_more(trial, tmp_path):
    runner = Runner(str(tmp_path), plan_of(), sys.executable)
    runner.stop(15)
    with pytest.raises(Stopped, match="signal 15"):
        trial(writes(REPORT), runner=runner)
    assert runner.is_stopped


@pytest.mark.component
def test_a_deployment_that_cannot_be_copied_fails_the_candidate(tmp_path):
    runner = Runner(str(tmp_path), plan_of(), "/no/such/python")
    (tmp_path / "code").mkdir()
    with pytest.raises(Failed, match="it could not be started"):
        runner.run(candidate_of(), 20, 1.0)
    assert os.listdir(tmp_path) == ["code"]
