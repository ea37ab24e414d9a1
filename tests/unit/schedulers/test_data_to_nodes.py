"""How the nodes of a job get their data: run by bash, with the scheduler's programs in its place."""

from __future__ import annotations

import os
import subprocess

import pytest

from modak_ansible.model.plan import PlannedJob
from modak_ansible.model.target import Scheduler
from modak_ansible.schedulers.script import DataPlace, ScriptParts, render_script

pytestmark = pytest.mark.component

# Runs a command once on each of two nodes, whose disks are two folders here.
_SRUN = """#!/bin/bash
if [ "${SLURM_TRES_PER_TASK:-cpu=$SLURM_CPUS_PER_TASK}" != "cpu=$SLURM_CPUS_PER_TASK" ]; then
    echo "srun: fatal: cpus-per-task set by two different environment variables" >&2
    exit 1
fi
shift 2
code=0
for node in 0 1; do
    words=("${@//DISK/node$node}")
    SLURM_NODEID=$node "${words[@]}" || code=$?
done
exit $code
"""
_SBCAST = """#!/bin/bash
for node in 0 1; do cp "$2" "${3//DISK/node$node}" || exit; done
echo "$2" >> "$SENT"
"""
NAMES = [f"part/{number:03} '.tar" for number in range(6)]


@pytest.fixture
def nodes(tmp_path):
    """Runs the script of a job of two nodes with two ranks each; gives its output."""
    data, tools = tmp_path / "datasets" / "s-1", tmp_path / "tools"
    deployment = tmp_path / "deployments" / "one"
    for path in (data / "part", tools, deployment / "code", tmp_path / "node0", tmp_path / "node1", tmp_path / "DISK"):
        path.mkdir(parents=True)
    for name in NAMES:
        (data / name).write_text(name)
    for name, text in (("srun", _SRUN), ("sbcast", _SBCAST)):
        (tools / name).write_text(text)
        (tools / name).chmod(0o755)

    def run(staging, *, before="", **tool):
        for name, text in tool.items():
            (tools / name).write_text(text)
            (tools / name).chmod(0o755)
        parts = ScriptParts(
            image="", python="", script="", staging_path=str(tmp_path / "DISK"),
            command=("sh", "-c", 'echo "reads $MODAK_DATASET"'), data=(DataPlace("s", "datasets/s-1", staging=staging),),
            environment=(("MODAK_DATASET", "{dataset}"),), site_pre=(before,) if before else (),
        )  # fmt: skip
        job = PlannedJob(
            scheduler=Scheduler.SLURM, name="example", nodes=2, processes_per_node=2, cores_per_process=1, threads=1,
            walltime=60, environment={}, script="",
        )  # fmt: skip
        text = render_script(job, parts).replace("rm -rf", "true")  # what is there is looked at afterwards
        (deployment / "job.sh").write_text(text)
        place = {"SLURM_SUBMIT_DIR": str(deployment), "SLURM_JOB_ID": "1", "SENT": str(tmp_path / "sent")}
        # of one core with the memory of four
        place |= {"SLURM_CPUS_PER_TASK": "4", "SLURM_TRES_PER_TASK": "cpu=1"}
        path = f"{tools}:{os.environ['PATH']}"
        done = subprocess.run(
            ["bash", "job.sh"], cwd=deployment, env={**os.environ, **place, "PATH": path}, capture_output=True, text=True,
            check=False,
        )  # fmt: skip
        said = {name: (deployment / f"{name}.log").read_text() for name in ("output", "error")}
        assert done.returncode == 0, (done.stderr, said)
        return said

    run.folder = tmp_path
    return run


def seen(folder, node):
    """The files of a node's copy: whether they are its own, and that all can be read."""
    (copy,) = (folder / node).iterdir()
    files = sorted(path for path in copy.rglob("*") if not path.is_dir())
    assert [path.read_text() for path in files] == NAMES
    return [not path.is_symlink() for path in files]


def test_each_node_brings_the_shards_of_its_ranks_and_sees_the_others(nodes):
    said = nodes("by-node")
    # ranks 0 and 1 read files 0, 1, 4, 5 in the order of their names, and ranks 2 and 3 the others
    assert seen(nodes.folder, "node0") == [True, True, False, False, True, True]
    assert seen(nodes.folder, "node1") == [False, False, True, True, False, False]
    assert said["output"].startswith(f"reads {nodes.folder}/DISK/modak-")


def test_a_node_without_room_says_so_and_reads_where_the_data_lies(nodes):
    fails = (
        '#!/bin/bash\n[[ $2 == *node1* ]] && { echo "cp: $2: No space left on device" >&2; exit 1; }\n/bin/cp "$@"\n'
    )
    said = nodes("by-node", cp=fails)
    assert seen(nodes.folder, "node0") == [True, True, False, False, True, True]
    assert seen(nodes.folder, "node1") == [False] * 6
    assert "2 files of" in said["error"]
    assert f"could not be copied to {os.uname().nodename}; they are read from the original place" in said["error"]
    assert "reads" in said["output"]


def test_a_few_files_go_from_node_to_node(nodes):
    nodes("node-local")
    for node in ("node0", "node1"):
        assert seen(nodes.folder, node) == [True] * 6
    assert len((nodes.folder / "sent").read_text().splitlines()) == 6


def test_where_they_do_not_arrive_all_read_where_the_data_lies(nodes):
    said = nodes("node-local", sbcast="#!/bin/bash\necho 'sbcast: error: node1: No space left' >&2\nexit 1\n")
    assert f"it is read from {nodes.folder}/datasets/s-1" in said["output"]
    assert f"reads {nodes.folder}/datasets/s-1" in said["output"]


def test_of_many_files_each_node_fetches_its_own(nodes, monkeypatch):
    monkeypatch.setattr("modak_ansible.schedulers.script._BROADCAST", 5)
    nodes("node-local")
    assert seen(nodes.folder, "node1") == [True] * 6
    assert not (nodes.folder / "sent").exists()


def test_a_node_that_cannot_fetch_its_own_names_itself(nodes, monkeypatch):
    monkeypatch.setattr("modak_ansible.schedulers.script._BROADCAST", 5)
    said = nodes("node-local", cp="#!/bin/bash\nexit 1\n")
    assert f"the data could not be copied to {os.uname().nodename}" in said["error"]
    assert f"reads {nodes.folder}/datasets/s-1" in said["output"]
