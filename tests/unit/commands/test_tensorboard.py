"""modak tensorboard: what is new of runs is added to event files, and TensorBoard runs as long as the command does."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from modak_ansible.deployment.exporting.tensorboard import LiveEvents
from modak_ansible.store.deployment import DeploymentStore
from modak_ansible.target.metrics.curves import read_curves

# Answers on its port as TensorBoard does, and notes that it was ended.
SERVER = """\
import signal, socket, sys, time
words = dict(zip(sys.argv[1::2], sys.argv[2::2]))
assert words["--host"] == "127.0.0.1"
def end(*_):
    open(sys.argv[0] + ".ended", "w").close()
    sys.exit()
signal.signal(signal.SIGTERM, end)
listener = socket.create_server((words["--host"], int(words["--port"])))
open(sys.argv[0] + ".folder", "w").write(words["--logdir"])
time.sleep(60)
"""


@pytest.fixture
def project(tmp_path):
    """A project with a run that has ended, and whose numbers are here."""
    folder = tmp_path / ".modak/deployments/mine-012345678901"
    (folder / "results").mkdir(parents=True)
    plan = {"digest": "d", "name": "mine", "training": "t", "application": {"arguments": []}, "target": {"name": "x"}}
    (folder / "plan.json").write_text(json.dumps(plan))
    job = {"state": "COMPLETED", "job_id": "7", "started": 100.0, "ended": 160.0}
    (folder / "state.json").write_text(json.dumps({"job": job, "brought": "7 1 1"}))
    (folder / "results/manifest.json").write_text('{"files": [{"path": "metrics.jsonl", "size": 1, "sha256": ""}]}')
    log(folder, 2)
    return tmp_path


def log(folder, steps):
    lines = [json.dumps({"step": step, "loss": 1 / step}) + "\n" for step in range(1, steps + 1)]
    (folder / "results/metrics.jsonl").write_text("".join(lines))


def test_what_is_new_is_added_and_nothing_twice(project, tmp_path):
    (folder,) = (project / ".modak/deployments").iterdir()
    events = LiveEvents(project / "live")
    (project / "live").mkdir()
    assert [events.add([DeploymentStore(folder)]) for _ in range(2)] == [2, 0]
    (file,) = (project / "live/mine-012345678901").iterdir()
    before = file.read_bytes()
    log(folder, 5)
    assert events.add([DeploymentStore(folder)]) == 3
    assert file.read_bytes().startswith(before)
    found = read_curves(file.parent, [file.name])
    assert found.by_name["loss"].points == {step: pytest.approx(1 / step) for step in range(1, 6)}
    assert not found.remarks


def begun(project, *options, path):
    return subprocess.Popen(
        [sys.executable, "-m", "modak_ansible", "tensorboard", "mine-01", *options], cwd=project, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, "PATH": str(path)},
    )  # fmt: skip


@pytest.mark.component
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_ends_with_the_command(project, number):
    program = project / "bin/tensorboard"
    program.parent.mkdir()
    program.write_text(f"#!{sys.executable}\n{SERVER}")
    program.chmod(0o755)
    process = begun(project, path=program.parent)
    assert process.stdout.readline().startswith("1 training at http://127.0.0.1:")
    time.sleep(0.5)
    process.send_signal(number)
    _, errors = process.communicate(timeout=20)
    assert "Traceback" not in errors
    assert Path(f"{program}.ended").exists()
    assert not Path(Path(f"{program}.folder").read_text()).exists()


@pytest.mark.component
def test_what_stands_in_its_way_is_said(project):
    process = begun(project, path=project)
    _, errors = process.communicate(timeout=20)
    assert process.returncode == 2
    assert errors.startswith(
        "error: tensorboard is not installed here\n  pip install tensorboard; or for one elsewhere"
    )
    (project / "tensorboard").write_text("#!/bin/sh\necho it has no eyes >&2; exit 3\n")
    (project / "tensorboard").chmod(0o755)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        process = begun(project, "--port", str(taken.getsockname()[1]), path=project)
        assert ": Address already in use\n  leave --port out for a free one" in process.communicate(timeout=20)[1]
    process = begun(project, path=project)
    assert process.communicate(timeout=20)[1] == "error: TensorBoard did not start: it has no eyes\n"


@pytest.mark.component
@pytest.mark.skipif(
    not shutil.which("tensorboard") or not shutil.which("chromium"), reason="needs tensorboard and chromium"
)
def test_tensorboard_shows_it(project):
    process = begun(project, path=os.environ["PATH"])
    try:
        address = process.stdout.readline().split()[3].rstrip(";")
        time.sleep(10)
        page = subprocess.run(
            ["chromium", "--headless=new", "--no-sandbox", "--virtual-time-budget=15000", "--dump-dom", address],
            capture_output=True, text=True, timeout=60, check=True,
        )  # fmt: skip
        assert "mine-012345678901" in page.stdout
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(20)
