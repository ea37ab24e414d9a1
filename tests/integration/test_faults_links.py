"""Two ranks on two nodes with links of their own: one hangs, is slow, or is cut off from the other."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator

import pytest
from cluster import Project, Testbed, modak, play_testbed, wait_for
from workers import provide_images

pytestmark = [pytest.mark.testbed, pytest.mark.thorough]

TRAINS = """\
import os, time
import torch
from modak_runtime import prepare

model = torch.nn.Linear(1000, 100)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.rand(4 * STEPS, 1000)), batch_size=4)
model, optimizer, loader = prepare(model, optimizer, loader)
for step, (batch,) in enumerate(loader):
    time.sleep(0.2 if os.environ["RANK"] == "1" and SLOW else 0.02)
    optimizer.zero_grad()
    model(batch).sum().backward()
    optimizer.step()
    if step in (20, STEPS - 1):
        print("step", step, os.uname().nodename, flush=True)
"""
# All that runs in the network of the second node ends at once, and nobody there says a word of it.
POWER_OFF = """
network=$(readlink "/proc/$(cat /run/testbed/slurmd-node02.pid)/ns/net")
bash /usr/local/libexec/testbed/link node02 cut
for process in /proc/[0-9]*; do
    [ "$(readlink "$process/ns/net")" != "$network" ] || kill -KILL "${process#/proc/}"
done
"""


@pytest.fixture(scope="module")
def with_images(linked: Testbed, tmp_path_factory) -> Iterator[Testbed]:
    provide_images(linked, tmp_path_factory.mktemp("linked-images") / "project")
    yield linked


@pytest.fixture
def training(tmp_path, with_images) -> Iterator[Project]:
    made = Project(tmp_path / "project", with_images)
    made.training.update(resources={"nodes": 2}, distributed={"timeout": 45})
    yield made
    made.clear()


def script(project: Project, steps: int, *, slow: bool = False) -> Project:
    return project.script(TRAINS.replace("STEPS", str(steps)).replace("SLOW", str(slow)))


def started(project: Project, node: str = "node02"):
    command = project.start()
    wait_for(lambda: f"step 20 {node}" in project.testbed.ssh(f"cat {project.remote}/ranks/1/output.log || true"), 240)
    return command


def of_rank_one(testbed: Testbed) -> str:
    """Process numbers in the box of the second rank's Python."""
    search = 'for p in /proc/[0-9]*; do tr "\\\\0" "\\\\n" < $p/environ 2> /dev/null | grep -qx RANK=1 && grep -q python $p/comm && echo ${p#/proc/}; done; true'
    return " ".join(testbed.root(search).split())


def test_a_rank_that_is_stopped_ends_the_training_and_is_named(training):
    command = started(script(training, 100000))
    time.sleep(5)  # the ranks tell each other every two seconds at which step they are
    began = time.monotonic()
    training.testbed.root(f"kill -STOP {of_rank_one(training.testbed)}")
    said, _ = command.communicate(timeout=300)
    assert command.returncode == 5, said
    assert time.monotonic() - began < 180
    assert "rank 1 on node02 was no longer heard from" in said
    log = training.testbed.ssh(f"cat {training.remote}/error.log")
    assert re.search(
        r"rank 1 on node02 \(198\.\S+\) was not heard of for 45 s after step \d+, from node01 \(198\.", log
    )


def test_a_link_that_is_cut_for_thirty_seconds_costs_time_alone(training):
    command = started(script(training, 400))
    training.testbed.root("bash /usr/local/libexec/testbed/link node02 cut")
    time.sleep(30)
    training.testbed.root("bash /usr/local/libexec/testbed/link node02 join")
    said, _ = command.communicate(timeout=300)
    assert command.returncode == 0, said


def test_a_link_that_stays_cut_ends_the_training_with_both_addresses(training):
    command = started(script(training, 100000))
    training.testbed.root("bash /usr/local/libexec/testbed/link node02 cut")
    try:
        said, _ = command.communicate(timeout=400)
    finally:
        training.testbed.root("bash /usr/local/libexec/testbed/link node02 join")
    assert command.returncode == 5, said
    log = training.testbed.ssh(f"cat {training.remote}/error.log")
    assert re.search(r"rank 1 on node02 \(198\.\S+\) was not heard of for 45 s.* from node01 \(198\.", log), said


def test_a_rank_that_is_slow_is_named_while_it_runs_and_in_the_results(training):
    command = started(script(training, 150, slow=True))
    slow = re.compile(r"rank 1 on node02 \(198\.\S+\) takes 0\.2\S* s of its own for a step, the others 0\.0")

    def status() -> str:
        return json.loads(modak("status", "--json", cwd=training.path).stdout)[0]["explanation"]

    wait_for(lambda: slow.search(status()), 60)
    said, _ = command.communicate(timeout=300)
    assert command.returncode == 0, said
    assert slow.search(said)


def test_a_node_that_loses_its_power_ends_the_training_and_another_run_goes_on_when_it_is_back(training):
    testbed = training.testbed
    command = started(script(training, 100000))
    testbed.root(POWER_OFF)
    began = time.monotonic()
    try:
        said, _ = command.communicate(timeout=500)
    finally:
        play_testbed("up", testbed.state["name"], testbed.folder, testbed_links=True)
    assert command.returncode == 5, said
    assert time.monotonic() - began < 300
    assert re.search(r"rank 1 on node02 was no longer heard from|NODE_FAIL: its node failed", said), said
    assert f"modak resume {training.deployment} runs it again" in said
    wait_for(lambda: testbed.ssh("sinfo --noheader --nodes=node02 --format=%T") == "idle", 120)
    done = script(training, 40).deploy()
    assert done.returncode == 0, done.stdout + done.stderr
