"""The ranks of a training as a job script starts them: what each is told, where it writes, and whose failure counts."""

from __future__ import annotations

import json
import os
import shutil
import socket
import time
from dataclasses import replace

import pytest
from rank_scripts import Deployment

from modak_ansible.model.application import Checkpoint
from modak_ansible.model.plan import PlannedJob
from modak_ansible.model.target import Scheduler
from modak_ansible.schedulers.script import Launch, Ranks, ScriptParts, render_script
from modak_ansible.target.jobs.markers import failed_rank
from modak_ansible.target.jobs.progress import crowded

pytestmark = pytest.mark.component

_TELL = (
    'echo "$RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE $NODE_RANK $MASTER_ADDR [$MODAK_STRATEGY]'
    ' $MODAK_RENDEZVOUS_TIMEOUT $GLOO_SOCKET_IFNAME ${MODAK_METRICS##*/deployments/} ${MODAK_APPLIED##*/}"'
)


@pytest.fixture
def deployment(tmp_path):
    return Deployment(tmp_path)


LOCAL = Ranks(3, 3, "ddp", timeout=60, is_local=True)


def test_the_script_itself_starts_those_of_one_machine(deployment):
    assert deployment.run(f"{_TELL}; echo to stderr >&2", LOCAL) == 0
    assert deployment.log() == "0/3 0/3 0 127.0.0.1 [ddp] 60 lo one/metrics.json applied.json\n"
    assert deployment.log(2) == "2/3 2/3 0 127.0.0.1 [ddp] 60 lo one/ranks/2/metrics.json applied.json\n"
    assert deployment.log(1, "error") == "to stderr\n"
    assert deployment.failed is None


def test_libraries_are_told_in_their_own_words(deployment):
    shell = 'echo "$GROUP_RANK/$GROUP_WORLD_SIZE $PL_TRAINER_NUM_NODES $LT_DEVICES $ACCELERATE_USE_CPU" "${JAX_COORDINATOR_ADDRESS%:*}"'
    deployment.slurm(4)
    assert deployment.run(shell, Ranks(4, 2), "slurm") == 0
    assert deployment.log(3) == "1/2 2 2 true 127.0.0.1\n"
    other = Deployment(deployment.folder / "other")
    other.run('echo "[$ACCELERATE_USE_CPU]"', Ranks(2, 2, accelerators=2, is_local=True))
    assert other.log(1) == "[]\n"


@pytest.mark.parametrize("scheduler", ["none", "slurm"])
def test_those_of_tensorflow_are_told_where_all_are(deployment, scheduler):
    stale = deployment.folder / "state/workers/1"
    stale.parent.mkdir(parents=True)
    stale.write_text("10.9.9.9:9\n")
    deployment.slurm(3)
    asked = LOCAL if scheduler == "none" else Ranks(3, 1, timeout=60)
    assert deployment.run('echo "$TF_CONFIG"', replace(asked, tells_all=True), scheduler) == 0
    told = [json.loads(deployment.log(rank)) for rank in range(3)]
    assert [each["task"] for each in told] == [{"type": "worker", "index": rank} for rank in range(3)]
    workers = told[0]["cluster"]["worker"]
    assert len(set(workers)) == 3
    assert all(worker.startswith("127.0.0.1:") for worker in workers)
    assert told[1]["cluster"] == told[2]["cluster"] == told[0]["cluster"]


def test_one_of_tensorflows_that_does_not_come_is_named(deployment):
    deployment.slurm(2)
    assert deployment.run("echo never", Ranks(3, 1, timeout=1, tells_all=True), "slurm") == 68
    assert deployment.log(name="error").endswith("rank 2 has not said where it is within 1 s\n")
    assert deployment.log() == ""


def test_a_container_that_sees_nothing_of_the_job_is_told_all_the_same(deployment):
    deployment.tool("apptainer", '#!/bin/bash\nfor name in ${!APPTAINERENV_*}; do echo "$name=${!name}"; done\n')
    job = PlannedJob(
        scheduler=Scheduler.NONE, name="example", nodes=1, script="", environment={}, processes_per_node=2,
        cores_per_process=1, threads=1, walltime=600,
    )  # fmt: skip
    (deployment.folder.parent.parent / "image.sif").write_text("")
    launch = Launch(ranks=Ranks(2, 2, "ddp", is_local=True))
    parts = ScriptParts(
        image="image.sif", python="python3", script="train.py", container_runtime="apptainer", launch=launch,
        container_flags=("--cleanenv",),
    )  # fmt: skip
    (deployment.folder / "job.sh").write_text(render_script(job, parts))
    assert deployment.start().wait() == 0
    told = deployment.log(1).splitlines()
    for line in (
        "RANK=1",
        "WORLD_SIZE=2",
        "LOCAL_WORLD_SIZE=2",
        "MASTER_ADDR=127.0.0.1",
        "MODAK_STRATEGY=ddp",
        "LT_DEVICES=2",
    ):
        assert f"APPTAINERENV_{line}" in told
    assert any(line.endswith("ranks/1/metrics.json") for line in told)


def test_each_has_a_port_in_common_and_no_other_job_has_it(deployment):
    deployment.run('echo "$MASTER_PORT"', LOCAL)
    first, second = deployment.log(), deployment.log(1)
    assert first == second
    assert 20000 <= int(first) < 30100


@pytest.mark.parametrize("variable", ["SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK"])
def test_whatever_launcher_started_it_a_rank_knows_which_it_is(deployment, variable):
    deployment.slurm(4, variable=variable)
    if variable != "SLURM_PROCID":
        deployment.environment["SLURM_PROCID"] = "0"  # as in every batch script
    assert deployment.run(_TELL, Ranks(4, 2), "slurm") == 0
    assert deployment.log().startswith("0/4 0/2 0 127.0.0.1 [] 300 lo one/metrics.json")
    assert deployment.log(3).startswith("3/4 1/2 1 127.0.0.1 [] 300 lo one/ranks/3/metrics.json")


def test_a_launcher_that_starts_too_many_or_tells_nothing_is_named(deployment):
    deployment.slurm(3)
    assert deployment.run("true", Ranks(2, 1), "slurm") == 64
    assert "which of 2 ranks it is: it says 2" in deployment.log(name="error")
    other = Deployment(deployment.folder / "other")
    other.slurm(2, variable="NOTHING")
    assert other.run("true", Ranks(2, 1), "slurm") == 64
    assert "it says nothing" in other.log(name="error")


def test_nodes_without_a_way_to_each_other_do_not_begin(deployment):
    deployment.slurm(2, address="no-such-node.invalid")
    deployment.tool("getent", "#!/bin/bash\nexit 2\n")
    assert deployment.run("echo began", Ranks(2, 1), "slurm") == 68
    said = deployment.log(name="error")
    assert "no-such-node.invalid" in said or "node02" in said
    assert "distributed: { interface: NAME }" in said
    assert deployment.log() == ""


def test_an_interface_that_a_node_has_not_is_said_with_those_that_it_has(deployment):
    deployment.slurm(2)
    assert deployment.run("echo began", Ranks(2, 1, interface="ib7"), "slurm") == 68
    said = deployment.log(name="error")
    assert "no IPv4 address on ib7" in said
    assert " lo " in said.splitlines()[-1] + " "


def test_the_first_that_failed_counts_and_the_others_are_ended(deployment):
    begun = time.monotonic()
    shell = 'if [ "$RANK" = 1 ]; then sleep 0.2; echo broken >&2; exit 7; fi; exec sleep 50'
    assert deployment.run(shell, LOCAL) == 7
    assert time.monotonic() - begun < 20
    assert deployment.failed == (1, 7)
    assert deployment.log(1, "error") == "broken\n"
    assert (deployment.folder / "state/finished").read_text() == "7\n"


def test_one_that_is_killed_from_outside_ends_all(deployment):
    shell = 'if [ "$RANK" = 2 ]; then kill -KILL $$; fi; exec sleep 50'
    assert deployment.run(shell, LOCAL) == 137
    assert deployment.failed == (2, 137)


def test_one_that_is_ended_at_once_ends_all(deployment):
    assert deployment.run('[ "$RANK" != 0 ] && exec sleep 50; exit 3', LOCAL) == 3
    assert deployment.failed == (0, 3)


def test_a_job_that_is_cancelled_has_no_rank_that_failed(deployment):
    deployment.write('touch "began$RANK"; exec sleep 50', LOCAL)
    process = deployment.start()
    for _ in range(200):
        if len(list((deployment.folder / "code").glob("began*"))) == 3:
            break
        time.sleep(0.05)
    process.terminate()
    assert process.wait(20) == 143
    assert deployment.failed is None


def test_ranks_that_are_to_go_on_end_none_of_the_others(deployment):
    shell = '[ "$RANK" = 0 ] || { sleep 1; : > "saved$RANK"; }; exit 85'
    deployment.write(shell, Ranks(2, 2, "ddp", is_local=True), checkpoint=Checkpoint(requeue=0))
    assert deployment.start().wait() == 85
    assert (deployment.folder / "code/saved1").exists()
    assert deployment.failed is None


def test_each_has_an_accelerator_of_its_own_where_modak_makes_it_parallel(deployment):
    ranks = Ranks(3, 3, "ddp", devices="CUDA_VISIBLE_DEVICES", accelerators=2, is_local=True)
    deployment.run('echo "$CUDA_VISIBLE_DEVICES"', ranks)
    assert [deployment.log(each) for each in range(3)] == ["0\n", "1\n", "0\n"]
    other = Deployment(deployment.folder / "other")
    other.environment["CUDA_VISIBLE_DEVICES"] = "5,GPU-7"
    other.run('echo "$CUDA_VISIBLE_DEVICES"', ranks)
    assert [other.log(each) for each in range(3)] == ["5\n", "GPU-7\n", "5\n"]


def test_a_run_that_begins_anew_forgets_who_failed(deployment):
    assert deployment.run("exit 3", LOCAL) == 3
    assert deployment.failed
    (deployment.folder / "state/claim").unlink()
    assert deployment.run("exit 0", LOCAL) == 0
    assert deployment.failed is None


def test_one_that_ends_for_the_sake_of_another_is_not_the_one_that_failed(deployment):
    lost = 'echo "2 68 node03 silent" > "${MODAK_APPLIED%/*}/lost"'
    assert deployment.run(f'if [ "$RANK" = 1 ]; then {lost}; exit 68; fi; exec sleep 50', LOCAL) == 68
    assert deployment.failed == (2, 68)
    assert "rank 2 on node03 was no longer heard from" in failed_rank(deployment.folder / "state").words
    shutil.rmtree(deployment.folder / "state")
    assert deployment.run('[ "$RANK" != 1 ] || exit 5', LOCAL) == 5
    assert deployment.failed == (1, 5), "what an earlier run of the job left counts no more"


def test_an_abort_after_the_end_of_the_script_is_no_failure(deployment):
    ends = ': > "${MODAK_APPLIED%/*}/came_to_its_end"; '
    abort = 'if [ "$RANK" = 1 ]; then kill -ABRT $$; fi'
    assert deployment.run(ends + abort, LOCAL) == 0
    assert deployment.failed is None
    assert "rank 1 was aborted while it ended" in deployment.log(1, "error")
    other = Deployment(deployment.folder / "other")
    assert other.run(abort, LOCAL) == 134
    assert other.failed == (1, 134)


def test_a_port_that_is_taken_is_left_to_whoever_has_it(deployment):
    deployment.slurm(3)
    deployment.run('echo "$MASTER_PORT"', LOCAL, "slurm")
    usual = int(deployment.log())
    other = Deployment(deployment.folder / "other")
    other.slurm(3)
    with socket.create_server(("127.0.0.1", usual)):
        other.run('echo "$MASTER_PORT"', LOCAL, "slurm")
    assert int(other.log()) == usual + 1


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="two ranks cannot have a core each")
def test_each_has_cores_of_its_own_where_the_node_is_the_jobs(deployment):
    shell = "grep Cpus_allowed_list /proc/self/status | cut -f 2"
    assert deployment.run(shell, Ranks(2, 2, cores=1, is_local=True)) == 0
    first, second = sorted(os.sched_getaffinity(0))[:2]
    assert [deployment.log(), deployment.log(1)] == [f"{first}\n", f"{second}\n"]
    assert crowded(deployment.folder / "state/cores") == ""


def test_ranks_on_the_same_core_are_found(deployment):
    allowed = os.sched_getaffinity(0)
    core = min(allowed)
    os.sched_setaffinity(0, {core})
    try:
        assert deployment.run("true", Ranks(2, 2, is_local=True)) == 0
    finally:
        os.sched_setaffinity(0, allowed)
    assert f"ranks 0, 1 on {socket.gethostname()} have core {core} for 2 threads" in crowded(
        deployment.folder / "state/cores"
    )


def test_more_cores_than_there_are_leave_ranks_where_they_are(deployment):
    many = len(os.sched_getaffinity(0)) + 1
    assert deployment.run("nproc", Ranks(2, 2, cores=many, is_local=True)) == 0
    assert int(deployment.log(1)) == many - 1
