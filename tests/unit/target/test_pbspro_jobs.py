"""Jobs under PBS Professional, from submission to their end: the commands are emulated, the script really runs."""

from __future__ import annotations

import os
import time

import pytest

from modak_ansible.errors import ModakError
from modak_ansible.model.plan import PlannedJob
from modak_ansible.model.target import Scheduler
from modak_ansible.schedulers.script import ScriptParts, render_script
from modak_ansible.target.core.workspace import Workspace
from modak_ansible.target.jobs.job import Deployment

# A server is a folder: of each job its name, its folder, and its exit code when it has ended.
QSUB = r"""#!/bin/bash
while [ $# -gt 1 ]; do [ "$1" = -N ] && name=$2; shift 2; done
id=$(($(ls "$PBS_HOME" | grep -c name) + 1)).pbs
echo "$name" > "$PBS_HOME/$id.name"; echo "$PWD" > "$PBS_HOME/$id.folder"; hostname > "$PBS_HOME/$id.hosts"
export PBS_JOBID=$id PBS_JOBNAME=$name PBS_O_WORKDIR=$PWD PBS_NODEFILE=$PBS_HOME/$id.hosts
script=$PWD/$1
(cd / && setsid bash "$script" < /dev/null; echo $? > "$PBS_HOME/$id.exit") > "$PWD/scheduler.log" 2>&1 &
[ -e "$PBS_HOME/deaf" ] || echo "$id"
"""
QSTAT = r"""#!/bin/bash
[ -e "$PBS_HOME/away" ] && { echo 'qstat: cannot connect to server pbs (errno=15010)' >&2; exit 255; }
[ "$1 $2 $3 $4" = "-x -f -F json" ] || exit 2
shift 4
code=0
for id in "${@:-}"; do [ -z "$id" ] || [ -e "$PBS_HOME/$id.name" ] || code=153; done
echo '{"pbs_version":"20.0.1","Jobs":{'
first=
for file in "$PBS_HOME"/*.name; do
    [ -e "$file" ] || continue
    id=$(basename "$file" .name)
    state='"job_state":"R","exec_host":"node1/0"'
    [ -s "$PBS_HOME/$id.exit" ] && state="\"job_state\":\"F\",\"Exit_status\":$(cat "$PBS_HOME/$id.exit")"
    echo "$first\"$id\":{\"Job_Name\":\"$(cat "$file")\",$state,\"Variable_List\":{\"PBS_O_WORKDIR\":\"$(cat "$PBS_HOME/$id.folder")\"}}"
    first=,
done
echo '}}'
exit $code
"""


@pytest.fixture
def deployment(tmp_path, monkeypatch):
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, text in {"qsub": QSUB, "qstat": QSTAT, "qdel": "#!/bin/sh\nexit 35\n", "pbsnodes": "#!/bin/sh\n"}.items():
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    (tmp_path / "pbs").mkdir()
    monkeypatch.setenv("PBS_HOME", str(tmp_path / "pbs"))
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    python = tmp_path / "w" / "images" / "abc.venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    made = Deployment(Workspace(str(tmp_path / "w")), "train-0123456789ab", "pbspro")
    (made.path / "code").mkdir(parents=True)
    job = PlannedJob(
        scheduler=Scheduler.PBSPRO, name="train-0123456789ab", nodes=1, processes_per_node=1, cores_per_process=1, threads=1,
        walltime=60, environment={}, script="",
    )  # fmt: skip
    parts = ScriptParts(image="images/abc.venv", python="bin/python", script="train.py")
    (made.path / "job.sh").write_text(render_script(job, parts))

    def program(code):
        python.write_text(f"#!/bin/bash\n{code}\n")
        python.chmod(0o755)
        return made

    return program


def ended(deployment):
    deadline = time.monotonic() + 20
    while not (situation := deployment.situation()).is_final and time.monotonic() < deadline:
        time.sleep(0.1)
    return situation


@pytest.mark.component
@pytest.mark.parametrize(("code", "state"), [("echo trained >> ../runs", "COMPLETED"), ("exit 3", "FAILED")])
def test_a_job_is_submitted_runs_and_ends(deployment, code, state):
    made = deployment(code)
    job_id, submitted = made.submit()
    assert (job_id, submitted) == ("1.pbs", True)
    assert made.submit() == ("1.pbs", False), "once is enough"
    assert str(ended(made).state) == state


@pytest.mark.component
def test_a_submission_that_nobody_heard_of_is_found_and_not_made_twice(deployment, tmp_path):
    made = deployment("sleep 1; echo trained >> ../runs")
    (tmp_path / "pbs" / "deaf").touch()
    with pytest.raises(ModakError):
        made.submit()
    (tmp_path / "pbs" / "deaf").unlink()
    again = Deployment(Workspace(str(tmp_path / "w")), "train-0123456789ab", "pbspro")
    assert again.submit() == ("1.pbs", False)
    assert str(ended(again).state) == "COMPLETED"
    assert (made.path / "runs").read_text() == "trained\n"
    assert len(list((tmp_path / "pbs").glob("*.name"))) == 1


@pytest.mark.component
def test_a_server_that_is_away_is_not_the_end_of_a_job(deployment, tmp_path):
    made = deployment("sleep 1")
    made.submit()
    (tmp_path / "pbs" / "away").touch()
    assert not made.situation().is_final
    time.sleep(1.5)
    (tmp_path / "pbs" / "away").unlink()
    assert str(ended(made).state) == "COMPLETED"
