"""Trainings that are stopped and go on: their losses are those of a training at one go, to the bit."""

from __future__ import annotations

import ast
import json
import os
import signal
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from cluster import ROOT, Project, thorough

from modak_ansible.catalogue import digits
from modak_ansible.runtime import FILES

HERE = Path(__file__).parent / "checkpoints"
WORKLOAD = ROOT / "benchmarks" / "mnist_cnn"
SAVED, TOLD, KILLED = 85, 143, -9


@dataclass
class Case:
    """A training that can be begun again and again in one folder."""

    python: str
    script: Path
    folder: Path
    arguments: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def stop(self) -> Path:
        return self.folder / "stop"

    def start(self, *, saves: bool = True, **more: str) -> subprocess.Popen[str]:
        ours = {name: value for name, value in os.environ.items() if not name.startswith(("MODAK", "PYTHON"))}
        ours |= {"OMP_WAIT_POLICY": "PASSIVE", "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
        ours |= {
            "PYTHONPATH": str(FILES),
            "TF_CPP_MIN_LOG_LEVEL": "2",
            "KERAS_BACKEND": "tensorflow",
            **self.environment,
        }
        if saves:
            ours |= {"MODAK_CHECKPOINTS": str(self.folder / "checkpoints"), "MODAK_STOP": str(self.stop)}
        return subprocess.Popen(
            [self.python, self.script.name, *self.arguments], cwd=self.script.parent, env=ours | more, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def run(self, *, saves: bool = True, **more: str) -> tuple[int, str]:
        process = self.start(saves=saves, **more)
        output, errors = process.communicate(timeout=600)
        self.stop.unlink(missing_ok=True)
        assert process.returncode in (0, SAVED), errors
        return process.returncode, output


def losses_of(output: str) -> list:
    found: list = ast.literal_eval(output.rpartition("losses ")[2])
    return found


# --- scripts of one's own


@pytest.mark.parametrize("kind", ["plain", *thorough("workers", "own", "epoch", "replacement")])
def test_pytorch_goes_on_to_the_bit(pytorch_python: str, tmp_path: Path, kind: str) -> None:
    """Stopped after the first step of all, within an epoch, after the last step of one, and before the very last."""
    case = Case(pytorch_python, HERE / "loaders.py", tmp_path, (kind,))
    whole = losses_of(case.run(saves=False)[1])
    assert len(whole) == 4 * 7
    for seen in (1, 4, 6, 18, 26):  # losses, with the one that follows each epoch
        assert case.run(STOP_AFTER=str(seen))[0] == SAVED
    code, output = case.run()
    assert "the training continues" in output
    assert (code, losses_of(output)) == (0, whole)


@pytest.mark.parametrize("at_once", ["1", *thorough("2")])
def test_fit_goes_on_to_the_bit(tensorflow_python: str, tmp_path: Path, at_once: str) -> None:
    case = Case(tensorflow_python, HERE / "fits.py", tmp_path, (at_once,))
    whole = losses_of(case.run(saves=False)[1])
    assert len(whole) == 3
    for steps in (2, 8, 14):
        assert case.run(STOP_AFTER=str(steps))[0] == SAVED
    code, output = case.run()
    assert (code, losses_of(output)) == (0, whole)


# --- the workload


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("digits")
    digits.write(folder)
    return folder


def workload(python: str, script: str, drawn: Path, folder: Path, metrics: str, *switches: str) -> Case:
    arguments = ("--data", drawn, "--metrics", folder / metrics, "--epochs", 3, "--limit", 1500, *switches)
    return Case(python, WORKLOAD / script, folder, tuple(map(str, arguments)), {"MODAK_CHECKPOINT_EVERY": "0.2"})


def numbers(path: Path) -> tuple:
    metrics = json.loads(path.read_text())
    assert metrics["finished"] is True
    names = ("training_loss", "test_loss", "test_accuracy")
    return metrics["first_losses"], [[epoch[name] for name in names] for epoch in metrics["epochs"]]


def newest(folder: Path) -> int:
    """The number of the newest checkpoint; 0 without any."""
    return max((int(path.name[:8]) for path in (folder / "checkpoints").glob("*.checkpoint")), default=0)


def interrupt(case: Case, how: int) -> None:
    """Lets it save once or twice of itself, then ends it; it ends with what such an end gives."""
    before = newest(case.folder)
    process = case.start()
    while newest(case.folder) < before + 2:
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)
    if how == SAVED:
        case.stop.touch()
    else:
        process.send_signal(signal.SIGTERM if how == TOLD else signal.SIGKILL)
    process.communicate(timeout=120)
    assert process.returncode == how
    case.stop.unlink(missing_ok=True)


@pytest.mark.parametrize(
    ("framework", "script", "switches"),
    [
        ("pytorch", "pytorch.py", ()),
        ("tensorflow", "tensorflow_keras.py", ()),
        *thorough(
            ("pytorch", "pytorch.py", ("--input", "loader")),
            ("tensorflow", "tensorflow_keras.py", ("--input", "tfdata")),
            ("tensorflow", "tensorflow_keras.py", ("--step-loop", "whole")),
        ),
    ],
)
def test_the_mnist_cnn_goes_on_to_the_bit(
    request: pytest.FixtureRequest, drawn: Path, tmp_path: Path, framework: str, script: str, switches: tuple[str, ...]
) -> None:
    """Asked by the file, told by a signal, and killed, each in the middle of an epoch."""
    python = request.getfixturevalue(f"{framework}_python")
    assert workload(python, script, drawn, tmp_path, "whole.json", *switches).run(saves=False)[0] == 0
    case = workload(python, script, drawn, tmp_path, "metrics.json", *switches)
    for how in (SAVED, TOLD, KILLED):
        interrupt(case, how)
    assert case.run()[0] == 0
    assert numbers(tmp_path / "metrics.json") == numbers(tmp_path / "whole.json")


# --- jobs


def begin(project: Project, pause: int, walltime: str, **checkpoint: int) -> subprocess.Popen[str]:
    """A job of 24 steps, each of so many seconds."""
    text = (HERE / "loaders.py").read_text()
    project.script(f"import sys\n\nsys.argv[1:] = ['own', '{pause}']\n{text}")
    project.training.update(walltime=walltime, checkpoint={"every": 5, **checkpoint})
    return project.start()


@pytest.fixture
def whole(pytorch_python: str, tmp_path: Path) -> list:
    """The losses of a training at one go; the image of a job has the same PyTorch."""
    return losses_of(Case(pytorch_python, HERE / "loaders.py", tmp_path, ("own",)).run(saves=False)[1])


def wait_for(project: Project, what: str, seconds: float = 300) -> None:
    deadline = time.monotonic() + seconds
    while what not in project.testbed.ssh(f"cat {project.remote}/output.log 2> /dev/null || true"):
        assert time.monotonic() < deadline
        time.sleep(1)


def hurry(project: Project) -> None:
    """Slurm has a job that was queued again wait for two minutes; its owner need not, once it is seen to wait."""
    deadline, (job_id,) = time.monotonic() + 60, set(project.jobs())
    while project.record["job"]["state"] != "QUEUED":
        assert time.monotonic() < deadline
        time.sleep(0.5)
    project.testbed.ssh(f"scontrol update jobid={job_id} starttime=now")


def completed(project: Project, process: subprocess.Popen[str], whole: list) -> str:
    """What was said of a job that went on in several runs, once it has completed with the losses of one."""
    said = process.communicate(timeout=900)[0]
    assert process.returncode == 0, said
    output = (project.folder / "results" / "output.log").read_text()
    assert losses_of(output) == whole
    runs = project.record["job"]["run"]
    assert output.count("the training continues") == runs - 1 > 0
    return said


@pytest.mark.testbed
@pytest.mark.thorough
def test_a_job_is_stopped_before_its_wall_and_completes(project: Project, whole: list) -> None:
    """Slurm's signal comes a minute or two before the wall of three, and the steps take longer."""
    process = begin(project, 8, "00:03:00", signal_before_wall=60)
    wait_for(project, "was stopped, and its state saved")
    hurry(project)
    assert "queued again for run 2" in completed(project, process, whole)
    (job_id,) = set(project.jobs())
    accounted = f"sacct --noheader --duplicates --allocations --jobs={job_id} --format=State"
    states = project.testbed.ssh(accounted).split()
    assert states[0] == "REQUEUED"
    assert states[-1] == "COMPLETED"


@pytest.mark.testbed
@pytest.mark.thorough
def test_a_job_that_makes_way_and_loses_its_node_completes(project: Project, whole: list) -> None:
    process = begin(project, 2, "00:10:00")
    wait_for(project, "step 4\n")
    (job_id,) = set(project.jobs())
    project.testbed.ssh(f"scontrol requeue {job_id}")
    hurry(project)
    wait_for(project, "step 12\n")
    node = project.testbed.ssh(f"squeue --noheader --jobs={job_id} --format=%N")
    project.testbed.root(f"scontrol update nodename={node} state=down reason=test")
    try:
        hurry(project)
    finally:
        project.testbed.root(f"scontrol update nodename={node} state=resume || true")
    said = completed(project, process, whole)
    assert all(f"queued again for run {run}" in said for run in (2, 3))
    assert project.record["job"]["run"] == 3


@pytest.mark.testbed
@pytest.mark.thorough
def test_a_job_that_is_cancelled_stays_so(project: Project) -> None:
    process = begin(project, 2, "00:10:00")
    wait_for(project, "step 2\n")
    project.testbed.ssh(f"scancel {project.jobs()[0]}")
    said = process.communicate(timeout=120)[0]
    assert process.returncode == 5
    assert "ended as CANCELLED" in said


@pytest.mark.testbed
@pytest.mark.thorough
def test_torques_commands(project: Project, whole: list) -> None:
    """Each job submits the next, half a minute before its wall; that begins when the first has ended."""
    project.target["type"] = "modak.nodes.Torque"
    process = begin(project, 4, "00:01:00", signal_before_wall=30, requeue=9)
    completed(project, process, whole)
    jobs = sorted(set(project.jobs()), key=int)
    assert len(jobs) == project.record["job"]["run"]
    assert project.record["job"]["job_id"].split(".")[0] == jobs[-1]
