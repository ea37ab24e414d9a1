"""Deployments that have come to a stage of theirs, where a test has something happen to them."""

from __future__ import annotations

import os
import signal
import threading
import time

import pytest
from cluster import Project, wait_for
from faults import Line

SIZE = 24_000_000
SPEED = 3_000_000  # bytes in a second: what is sent or fetched takes eight seconds
REQUIREMENT = "six==1.14.0"  # a layer that no other test has
STAGES = ("plan", "dataset", "image", "files", "submission", "watching", "results")

SCRIPT = """\
import os, time
print('epoch 1', flush=True)
time.sleep({seconds})
os.makedirs('out')
with open('out/big', 'wb') as file:
    for _ in range({blocks}):
        file.write(os.urandom(1 << 20))
print('done')
"""
# The job is taken; whoever submitted it waits for the answer.
_SLOW_SBATCH = r"""#!/bin/bash
said=$(/usr/bin/sbatch.real "$@"); code=$?
[ "$1" = --parsable ] && touch /tmp/sbatch-took-it && sleep 8
echo "$said"; exit $code
"""


class Started:
    """A running ``modak deploy``, and what it has said so far."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self.process = project.start()
        self.said = ""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        for text in self.process.stdout or ():
            self.said += text

    def end(self, number: int = 0, seconds: float = 300) -> int:
        """Its exit code, after a signal to its whole process group if one is given."""
        if number:
            os.killpg(self.process.pid, number)
        code = self.process.wait(seconds)
        self._reader.join(10)
        return code


class Stages:
    """Brings a project's deployment into one of its stages, and cleans up behind it."""

    def __init__(self, project: Project, line: Line) -> None:
        self._project = project
        self._line = line
        self._testbed = project.testbed
        self._clean: list[str] = []

    def start(self, stage: str) -> Started:
        """A deployment that is in the middle of a stage."""
        self._project.script(SCRIPT.format(seconds=0 if stage == "results" else 6, blocks=0))
        getattr(self, f"_prepare_{stage}", lambda: None)()
        name = self._project.deployment
        started = Started(self._project)
        is_there = getattr(self, f"_is_{stage}")
        wait_for(lambda: started.process.poll() is not None or is_there(started, name), 180, every=0.1)
        assert started.process.poll() is None, f"it ended before it came to the stage {stage}:\n{started.said}"
        return started

    def clean(self) -> None:
        for command in self._clean:
            self._testbed.root(command)

    # --- what a stage needs to take a while, and how it is known to be reached

    def _is_plan(self, started: Started, name: str) -> bool:
        time.sleep(0.3)  # a plan is there after 0.6 s
        return not started.said

    def _prepare_dataset(self) -> None:
        folder = self._project.path.parent / "data"
        folder.mkdir(exist_ok=True)
        (folder / "train-images-idx3-ubyte").write_bytes(os.urandom(SIZE))
        self._project.dataset = {"name": "own", "source": [str(folder)]}
        self._line.speed = SPEED
        self._data = self._project.plan()["dataset"]["path"]
        self._clean.append(f"rm -rf /home/modak/modak/{self._data}*")

    def _is_dataset(self, started: Started, name: str) -> bool:
        folder, _, last = self._data.rpartition("/")
        return self._has_begun(f"modak/{folder}/.{last}.part/train-images-idx3-ubyte")

    def _prepare_image(self) -> None:
        self._project.training["requirements_txt"] = [REQUIREMENT]
        digest = self._project.plan()["image"]["digest"]
        remove = f"rm -rf /home/modak/modak/images/{digest}.* /home/modak/modak/images/.{digest}.*"
        self._testbed.root(remove)
        self._clean.append(remove)

    def _is_image(self, started: Started, name: str) -> bool:
        return "building requirements" in started.said

    def _prepare_files(self) -> None:
        (self._project.path / "train" / "weights").write_bytes(os.urandom(SIZE))
        self._line.speed = SPEED

    def _is_files(self, started: Started, name: str) -> bool:
        return self._has_begun("modak/deployments/.incoming-*/*.tar.gz")

    def _prepare_submission(self) -> None:
        self._testbed.root(
            f"rm -f /tmp/sbatch-took-it; mv /usr/bin/sbatch /usr/bin/sbatch.real; "
            f"cat > /usr/bin/sbatch <<'END'\n{_SLOW_SBATCH}END\nchmod 755 /usr/bin/sbatch"
        )
        self._clean.append("mv /usr/bin/sbatch.real /usr/bin/sbatch; rm -f /tmp/sbatch-took-it")

    def _is_submission(self, started: Started, name: str) -> bool:
        return self._testbed.ssh("ls /tmp/sbatch-took-it 2> /dev/null || true") != ""

    def _is_watching(self, started: Started, name: str) -> bool:
        return "epoch 1" in started.said

    def _prepare_results(self) -> None:
        self._project.script(SCRIPT.format(seconds=0, blocks=SIZE >> 20))
        self._project.training["outputs"] = ["out"]
        self._line.speed = SPEED

    def _is_results(self, started: Started, name: str) -> bool:
        part = self._project.path / ".modak" / "deployments" / name / ".results.part" / "code" / "out" / "big"
        return part.exists() and part.stat().st_size > SIZE // 3

    def _has_begun(self, pattern: str) -> bool:
        size = self._testbed.ssh(f"stat -c %s {pattern} 2> /dev/null || echo 0")
        return int(size.split()[0]) > SIZE // 3


@pytest.fixture
def stages(project, line):
    new_stages = Stages(project, line)
    yield new_stages
    new_stages.clean()


KILL, INTERRUPT = signal.SIGKILL, signal.SIGINT
