"""Jobs that are stopped and go on: the script asks, waits, queues itself again, and counts; run by the real bash."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from modak_ansible.model.application import Checkpoint
from modak_ansible.model.plan import PlannedJob
from modak_ansible.model.target import Scheduler
from modak_ansible.schedulers.script import ScriptParts, render_script

pytestmark = pytest.mark.component

# A training that saves when it is asked to end, and is done in its third run.
SAVES = """\
runs=$(wc -l < ../state/runs)
echo "run $runs"
[ "$runs" -ge 3 ] && exit 0
for i in {1..300}; do
    if [ -e "$MODAK_STOP" ]; then touch "$MODAK_CHECKPOINTS/$runs"; exit 85; fi
    sleep 0.1
done
"""


class Box:
    """A deployment on a machine whose scheduler's commands are scripts of the test's."""

    def __init__(self, folder: Path, scheduler: str, training: str, walltime: int = 3600, **checkpoint: int) -> None:
        self.folder = folder / "deployments" / "one"
        (self.folder / "code").mkdir(parents=True)
        python = folder / "images" / "abc.venv" / "bin" / "python"
        python.parent.mkdir(parents=True)
        python.write_text(f"#!/bin/bash\n{training}\n")
        python.chmod(0o755)
        self.commands = folder / "commands"
        self.commands.mkdir()
        job = PlannedJob(
            scheduler=Scheduler(scheduler), name="example", nodes=1, processes_per_node=1, cores_per_process=1,
            threads=1, walltime=walltime, environment={}, script="", checkpoint=Checkpoint(**checkpoint),
        )  # fmt: skip
        parts = ScriptParts(image="images/abc.venv", python="bin/python", script="train.py", runtime=True)
        (self.folder / "job.sh").write_text(render_script(job, parts))

    def command(self, name: str, text: str) -> None:
        path = self.commands / name
        path.write_text(f"#!/bin/bash\n{text}\n")
        path.chmod(0o755)

    def start(self, **environment: str) -> subprocess.Popen[str]:
        ours = os.environ | {"PATH": f"{self.commands}:{os.environ['PATH']}", "SLURM_SUBMIT_DIR": str(self.folder)}
        return subprocess.Popen(
            ["bash", "job.sh"], cwd=self.folder, env=ours | environment, stdout=subprocess.PIPE, text=True
        )

    def run(self, **environment: str) -> int:
        process = self.start(**environment)
        process.communicate(timeout=60)
        return process.returncode

    def read(self, name: str) -> str:
        path = self.folder / name
        return path.read_text() if path.exists() else ""

    def wait_for(self, name: str, text: str) -> None:
        deadline = time.monotonic() + 20
        while text not in self.read(name):
            assert time.monotonic() < deadline, self.read("error.log")
            time.sleep(0.05)


def test_without_a_scheduler_the_script_begins_anew_by_itself(tmp_path):
    box = Box(tmp_path, "none", SAVES, walltime=11, signal_before_wall=10)
    assert box.run() == 0
    assert box.read("output.log") == "run 1\nrun 2\nrun 3\n"
    assert box.read("state/finished") == "0\n"
    assert len(box.read("state/runs").splitlines()) == 3
    assert not (box.folder / "state" / "ended").exists()


def test_it_is_queued_again_so_often_and_no_more(tmp_path):
    box = Box(tmp_path, "none", SAVES, walltime=11, signal_before_wall=10, requeue=1)
    assert box.run() == 85
    assert box.read("output.log") == "run 1\nrun 2\n"
    assert "queued again as often as allowed: 1" in box.read("error.log")
    assert (box.read("state/finished"), box.read("state/ended")) == ("85\n", "timeout\n")


def test_slurms_signal_asks_and_the_job_requeues_itself(tmp_path):
    box = Box(tmp_path, "slurm", SAVES)
    box.command("scontrol", f'echo "$*" >> {tmp_path}/asked')
    for run in (1, 2):
        process = box.start(SLURM_JOB_ID="12")
        box.wait_for("output.log", f"run {run}\n")
        process.send_signal(signal.SIGUSR1)
        assert process.wait(timeout=30) == 85
        assert (box.folder / "state" / "requeued").exists()
        assert box.read("state/finished") == ""
    assert (tmp_path / "asked").read_text() == "requeue 12\n" * 2
    assert box.run(SLURM_JOB_ID="12") == 0
    assert box.read("state/finished") == "0\n"
    assert not (box.folder / "state" / "requeued").exists()


def test_a_job_that_has_completed_does_not_train_again(tmp_path):
    box = Box(tmp_path, "slurm", "echo trained")
    assert box.run(SLURM_JOB_ID="12") == 0
    assert box.run(SLURM_JOB_ID="12") == 0
    assert box.read("output.log") == "trained\n"


def test_one_that_slurm_will_not_requeue_says_so(tmp_path):
    box = Box(tmp_path, "slurm", SAVES)
    box.command("scontrol", "echo 'Requested operation is presently disabled' >&2; exit 1")
    process = box.start(SLURM_JOB_ID="12")
    box.wait_for("output.log", "run 1\n")
    process.send_signal(signal.SIGUSR1)
    assert process.wait(timeout=30) == 85
    assert box.read("state/finished") == "85\n"
    errors = box.read("error.log")
    assert "presently disabled" in errors
    assert f"what the training has saved stays in {box.folder}/checkpoints" in errors


def test_a_job_that_is_cancelled_is_not_queued_again(tmp_path):
    """TERM is the scheduler's: whoever sent it decides whether the job runs again."""
    told = "trap 'touch \"$MODAK_CHECKPOINTS/1\"; exit 143' TERM\n"
    box = Box(tmp_path, "slurm", told + SAVES)
    box.command("scontrol", f"touch {tmp_path}/asked")
    process = box.start(SLURM_JOB_ID="12")
    box.wait_for("output.log", "run 1\n")
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=30) == 143
    assert box.read("state/finished") == "143\n"
    assert not (tmp_path / "asked").exists()


def test_one_that_saves_nothing_is_not_begun_again_for_nothing(tmp_path):
    box = Box(tmp_path, "none", "exit 85")
    assert box.run() == 85
    assert "has saved nothing to continue from" in box.read("error.log")
    assert len(box.read("state/runs").splitlines()) == 1


def test_a_failure_stays_one(tmp_path):
    box = Box(tmp_path, "none", 'touch "$MODAK_CHECKPOINTS/1"; exit 3')
    assert box.run() == 3
    assert box.read("state/finished") == "3\n"
    assert len(box.read("state/runs").splitlines()) == 1


def test_what_does_not_end_in_time_goes_on_from_what_it_saved_before(tmp_path):
    deaf = 'touch "$MODAK_CHECKPOINTS/1"\nruns=$(wc -l < ../state/runs)\n[ "$runs" -ge 2 ] && exit 0\nexec sleep 60'
    box = Box(tmp_path, "none", deaf, walltime=11, signal_before_wall=10)
    assert box.run() == 0
    assert "run 1 was stopped; the job is queued again" in box.read("error.log")
    assert len(box.read("state/runs").splitlines()) == 2


@pytest.mark.parametrize("printed", ["13.frontend", "a word of the site\n13.frontend"])
def test_under_torque_another_job_takes_the_place(tmp_path, printed):
    box = Box(tmp_path, "torque", SAVES, walltime=11, signal_before_wall=10)
    box.command("qsub", f'printf "%s\\n" "$*" >> {tmp_path}/asked\necho "{printed}"')
    environment = {"PBS_O_WORKDIR": str(box.folder), "PBS_JOBNAME": "one"}
    assert box.run(**environment, PBS_JOBID="12.frontend") == 85
    assert (tmp_path / "asked").read_text() == "-N one -W depend=afterany:12.frontend job.sh\n"
    assert '"job_id": "13.frontend"' in box.read("state/submitted.json")
    assert box.read("state/finished") == ""
    # one that nobody waits for leaves the deployment alone, when the one that was meant has taken it
    assert box.run(**environment, PBS_JOBID="13.frontend") == 85
    assert box.read("state/claim") == "13.frontend\n"
    (box.folder / "state" / "requeued").unlink()
    assert box.run(**environment, PBS_JOBID="99.frontend") == 75
    assert box.read("output.log") == "run 1\nrun 2\n"


def test_where_nodes_may_submit_nothing_the_host_that_the_job_came_from_does(tmp_path):
    box = Box(tmp_path / "a b", "torque", SAVES, walltime=11, signal_before_wall=10)
    (tmp_path / "there").mkdir()
    box.command("qsub", 'echo "qsub: Bad UID for job execution" >&2; exit 159')
    box.command("ssh", f'printf "%s\n" "${{@:1:$#-1}}" > {tmp_path}/asked; exec sh -c "${{*: -1}}"')
    frontend = tmp_path / "there" / "qsub"
    frontend.write_text(f'#!/bin/sh\necho "$PWD $*" >> {tmp_path}/asked\necho 13.frontend\n')
    frontend.chmod(0o755)
    environment = {"PBS_O_WORKDIR": str(box.folder), "PBS_JOBNAME": "one", "PBS_O_HOST": "login1"}
    path = f"{tmp_path}/there:{os.environ['PATH']}"
    assert box.run(**environment, PBS_JOBID="12.frontend", PBS_O_PATH=path) == 85
    options = ["-n", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10"]
    asked = (tmp_path / "asked").read_text().splitlines()
    assert asked == [*options, "login1", f"{box.folder} -N one -W depend=afterany:12.frontend job.sh"]
    assert '"job_id": "13.frontend"' in box.read("state/submitted.json")


def test_nothing_is_left_running(tmp_path):
    box = Box(tmp_path, "none", "echo run; sleep 0.1", walltime=7654)
    assert box.run() == 0
    deadline = time.monotonic() + 10
    while subprocess.run(["pgrep", "-f", "^timeout 7534 "], capture_output=True, check=False).returncode == 0:
        assert time.monotonic() < deadline
        time.sleep(0.1)
