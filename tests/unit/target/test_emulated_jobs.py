"""Jobs under PBS Professional and LSF, from submission to their end: the commands are emulated, the script really runs."""

from __future__ import annotations

import os
import time

import pytest

from modak_ansible.errors import ModakError
from modak_ansible.model.application import Checkpoint
from modak_ansible.model.plan import PlannedJob
from modak_ansible.model.target import Scheduler
from modak_ansible.schedulers.script import ScriptParts, render_script
from modak_ansible.target.core.workspace import Workspace
from modak_ansible.target.jobs.job import Deployment

# A server is a folder: of each job its name, its folder, and its exit code when it has ended.
QSUB = r"""#!/bin/bash
while [ $# -gt 1 ]; do [ "$1" = -N ] && name=$2; shift 2; done
id=$(($(ls "$SERVER" | grep -c name) + 1)).pbs
echo "$name" > "$SERVER/$id.name"; echo "$PWD" > "$SERVER/$id.folder"; hostname > "$SERVER/$id.hosts"
export PBS_JOBID=$id PBS_JOBNAME=$name PBS_O_WORKDIR=$PWD PBS_NODEFILE=$SERVER/$id.hosts
script=$PWD/$1
(cd / && setsid bash "$script" < /dev/null; echo $? > "$SERVER/$id.exit") > "$PWD/scheduler.log" 2>&1 &
[ -e "$SERVER/deaf" ] || echo "$id"
"""
QSTAT = r"""#!/bin/bash
[ -e "$SERVER/away" ] && { echo 'qstat: cannot connect to server pbs (errno=15010)' >&2; exit 255; }
[ "$1 $2 $3 $4" = "-x -f -F json" ] || exit 2
shift 4
code=0
for id in "${@:-}"; do [ -z "$id" ] || [ -e "$SERVER/$id.name" ] || code=153; done
echo '{"pbs_version":"20.0.1","Jobs":{'
first=
for file in "$SERVER"/*.name; do
    [ -e "$file" ] || continue
    id=$(basename "$file" .name)
    state='"job_state":"R","exec_host":"node1/0"'
    [ -s "$SERVER/$id.exit" ] && state="\"job_state\":\"F\",\"Exit_status\":$(cat "$SERVER/$id.exit")"
    echo "$first\"$id\":{\"Job_Name\":\"$(cat "$file")\",$state,\"Variable_List\":{\"PBS_O_WORKDIR\":\"$(cat "$SERVER/$id.folder")\"}}"
    first=,
done
echo '}}'
exit $code
"""
# It keeps the script of its standard input, runs it in the folder of the submission, and again when it is requeued.
BSUB = r"""#!/bin/bash
while [ $# -gt 1 ]; do [ "$1" = -J ] && name=$2; shift 2; done
id=$(($(ls "$SERVER" | grep -c name) + 1))
cat > "$SERVER/$id.script"
grep -q '^#BSUB -o scheduler.log$' "$SERVER/$id.script" || { echo 'no -o. Job not submitted.' >&2; exit 255; }
echo "$name" > "$SERVER/$id.name"; echo "$PWD" > "$SERVER/$id.folder"; hostname > "$SERVER/$id.hosts"
export LSB_JOBID=$id LSB_JOBNAME=$name LS_SUBCWD=$PWD LSB_DJOB_HOSTFILE=$SERVER/$id.hosts
(
    while :; do
        rm -f "$SERVER/$id.again"
        (setsid bash "$SERVER/$id.script" < /dev/null; echo $? > "$SERVER/$id.code") >> "$PWD/scheduler.log" 2>&1
        [ -e "$SERVER/$id.again" ] || break
    done
    mv "$SERVER/$id.code" "$SERVER/$id.exit"
) > /dev/null 2>&1 &
[ -e "$SERVER/deaf" ] || echo "Job <$id> is submitted to default queue <normal>."
"""
BJOBS = r"""#!/bin/bash
[ -e "$SERVER/away" ] && { echo 'Failed in an LSF library call: LIM is down; try later' >&2; exit 255; }
case " $* " in *" -json "*) ;; *) exit 255 ;; esac
echo '{"COMMAND":"bjobs","JOBS":1,"RECORDS":['
first=
for file in "$SERVER"/*.name; do
    [ -e "$file" ] || continue
    id=$(basename "$file" .name)
    state='"STAT":"RUN","EXIT_CODE":""'
    code=$(cat "$SERVER/$id.exit" 2> /dev/null)
    [ "$code" = 0 ] && state='"STAT":"DONE","EXIT_CODE":""'
    [ "${code:-0}" = 0 ] || state="\"STAT\":\"EXIT\",\"EXIT_CODE\":\"$code\""
    echo "$first{\"JOBID\":\"$id\",\"JOB_NAME\":\"$(cat "$file")\",$state,\"SUB_CWD\":\"$(cat "$SERVER/$id.folder")\"}"
    first=,
done
echo ']}'
"""
BREQUEUE = '#!/bin/sh\ntouch "$SERVER/$1.again"\necho "Job <$1> is being requeued"\n'
COMMANDS = {
    "pbspro": {"qsub": QSUB, "qstat": QSTAT, "qdel": "#!/bin/sh\nexit 35\n", "pbsnodes": "#!/bin/sh\n"},
    "lsf": {"bsub": BSUB, "bjobs": BJOBS, "bhist": "#!/bin/sh\nexit 255\n", "brequeue": BREQUEUE},
}
IDS = {"pbspro": "1.pbs", "lsf": "1"}


@pytest.fixture(params=sorted(COMMANDS))
def scheduler(request):
    return request.param


@pytest.fixture
def deployment(tmp_path, monkeypatch, scheduler):
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, text in COMMANDS[scheduler].items():
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    (tmp_path / "server").mkdir()
    monkeypatch.setenv("SERVER", str(tmp_path / "server"))
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    python = tmp_path / "w" / "images" / "abc.venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    made = Deployment(Workspace(str(tmp_path / "w")), "train-0123456789ab", scheduler)
    (made.path / "code").mkdir(parents=True)

    def program(code, **changes):
        job = PlannedJob(
            scheduler=Scheduler(scheduler), name="train-0123456789ab", nodes=1, processes_per_node=1, cores_per_process=1,
            threads=1, environment={}, script="", **{"walltime": 60, **changes},
        )  # fmt: skip
        parts = ScriptParts(image="images/abc.venv", python="bin/python", script="train.py")
        (made.path / "job.sh").write_text(render_script(job, parts))
        python.write_text(f"#!/bin/bash\n{code}\n")
        python.chmod(0o755)
        return made

    return program


def ended(deployment):
    deadline = time.monotonic() + 30
    while not (situation := deployment.situation()).is_final and time.monotonic() < deadline:
        time.sleep(0.1)
    return situation


@pytest.mark.component
@pytest.mark.parametrize(("code", "state"), [("echo trained >> ../runs", "COMPLETED"), ("exit 3", "FAILED")])
def test_a_job_is_submitted_runs_and_ends(deployment, scheduler, code, state):
    made = deployment(code)
    job_id, submitted = made.submit()
    assert (job_id, submitted) == (IDS[scheduler], True)
    assert made.submit() == (IDS[scheduler], False), "once is enough"
    assert str(ended(made).state) == state


@pytest.mark.component
def test_a_submission_that_nobody_heard_of_is_found_and_not_made_twice(deployment, scheduler, tmp_path):
    made = deployment("sleep 1; echo trained >> ../runs")
    (tmp_path / "server" / "deaf").touch()
    with pytest.raises(ModakError):
        made.submit()
    (tmp_path / "server" / "deaf").unlink()
    again = Deployment(Workspace(str(tmp_path / "w")), "train-0123456789ab", scheduler)
    assert again.submit() == (IDS[scheduler], False)
    assert str(ended(again).state) == "COMPLETED"
    assert (made.path / "runs").read_text() == "trained\n"
    assert len(list((tmp_path / "server").glob("*.name"))) == 1


@pytest.mark.component
def test_a_server_that_is_away_is_not_the_end_of_a_job(deployment, tmp_path):
    made = deployment("sleep 1")
    made.submit()
    (tmp_path / "server" / "away").touch()
    assert not made.situation().is_final
    time.sleep(1.5)
    (tmp_path / "server" / "away").unlink()
    assert str(ended(made).state) == "COMPLETED"


@pytest.mark.component
@pytest.mark.parametrize("scheduler", ["lsf"], indirect=True)
def test_a_training_that_was_stopped_is_requeued_and_goes_on_under_its_id(deployment):
    saves = 'echo run >> ../runs; [ -e "$MODAK_CHECKPOINTS/1" ] && exit 0; touch "$MODAK_CHECKPOINTS/1"; exit 85'
    made = deployment(saves, checkpoint=Checkpoint(every=60, signal_before_wall=40, requeue=1))
    assert made.submit() == ("1", True)
    assert str(ended(made).state) == "COMPLETED"
    assert (made.path / "runs").read_text() == "run\nrun\n"
