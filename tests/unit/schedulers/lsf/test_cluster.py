"""What an LSF cluster has, as recorded answers tell it."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml_files
from hypothesis import example, given
from hypothesis import strategies as st

from modak_ansible.schedulers.base import CommandResult
from modak_ansible.schedulers.cluster import NodeKind
from modak_ansible.schedulers.lsf.cluster import queue_of, read_groups, read_hosts, read_lsf, read_queues

RECORDED = yaml_files.read(Path(__file__).parents[1] / "recorded" / "lsf.yaml")
GIB = 2**30


def run(argv):
    name = "lshosts-gpu" if "-gpu" in argv else argv[0]
    return CommandResult(0, RECORDED[name]["out"])


def silent(argv):
    return CommandResult(255, err="Failed in an LSF library call: LIM is down; try later")


def test_queues_are_partitions():
    found = read_lsf(run, "alice", [])
    assert (found.scheduler, found.version, found.name, found.unknown) == ("lsf", "10.1.0.15", "cluster1", ())
    normal, small, admin = found.partitions
    assert (normal.name, normal.default, normal.closed, normal.nodes, normal.walltime) == ("normal", True, "", 4, None)
    assert (small.nodes, small.walltime, small.walltime_said) == (3, 86400, "1440.0 min")
    assert small.note == "only users in LSF's groups paiduigroup/ scc_group/ may use it"
    assert admin.closed == "it takes no jobs (Closed:Active)"


def test_hosts_are_nodes_with_their_slots():
    """One that manages the others has none, and is no node."""
    processors, gpus, gone = read_lsf(run, "alice", []).partitions[0].kinds
    assert (processors.count, processors.cores, processors.memory, processors.machine) == (
        2,
        8,
        int(15.4 * GIB),
        "x86_64",
    )
    assert processors.features == ("mvapich",)
    assert (gpus.cores, gpus.accelerators) == (4, (("TeslaV100_PCIE_", 2),))
    assert (gone.example, gone.unusable, gone.memory) == ("gpu-2.cluster.example", 1, None)


def test_hosts_that_are_shown_as_their_group_are_asked_for_one_by_one():
    """A group with CONDENSE is one line of bhosts, with the slots of all its hosts, unless that is asked otherwise."""

    def condensing(argv):
        hosts = "HOST_NAME STATUS JL/U MAX NJOBS RUN SSUSP USUSP RSV\nbig ok - 4096 0 0 0 0 0\n"
        return CommandResult(0, hosts) if argv[0] == "bhosts" and "-X" not in argv else run(argv)

    assert read_lsf(condensing, "alice", []).partitions == read_lsf(run, "alice", []).partitions


def test_a_cluster_that_says_nothing_is_told_so():
    found = read_lsf(silent, "alice", [])
    assert found.partitions == ()
    assert [said.partition(":")[0] for said in found.unknown] == ["lsid", "bhosts -w -X", "lshosts -w", "bqueues -l"]


def queue(text, user="alice"):
    return queue_of("q", text, [], {}, user)


def test_who_may_use_a_queue_and_when():
    assert queue("STATUS\n Open:Inact_Adm\n").closed == "it starts no jobs (Open:Inact_Adm)"
    assert queue("STATUS\n Open:Inact_Win\nUSERS: all\n").note == "it runs jobs only in its own hours"
    assert queue("SCHEDULING POLICIES:  ONLY_INTERACTIVE\n").closed == "it takes interactive jobs only"
    assert queue("USERS: bob carol\n").closed == "only certain users may use it"
    assert queue("USERS: bob alice\n").closed == ""


def test_only_a_maximum_is_a_limit():
    assert queue("DEFAULT LIMITS:\n RUNLIMIT\n 60.0 min of hostA\n").walltime is None
    both = "DEFAULT LIMITS:\n RUNLIMIT\n 60.0 min of hostA\n\nMAXIMUM LIMITS:\n CPULIMIT    RUNLIMIT\n 20.0 min of a    90.5 min of a\n"
    assert queue(both).walltime == 5430
    assert queue(" RUNLIMIT\n 1440.0 min of hostA\n").walltime == 86400


def test_the_slots_of_a_queues_jobs():
    """TASKLIMIT since 9.1.3; with a least and a usual number before the most, where there are such."""
    (small,) = (each for each in read_lsf(run, "alice", []).partitions if each.name == "small")
    assert (small.cores, small.walltime) == (48, 86400)
    assert queue("MAXIMUM LIMITS:\n TASKLIMIT\n     1      8     96\n").cores == 96
    assert queue(" RUNLIMIT\n 60.0 min of h\n\n PROCLIMIT\n 4\n").cores == 4
    assert queue("DEFAULT LIMITS:\n TASKLIMIT\n 8\n").cores is None


def hosts_of_queue(text):
    nodes = [
        NodeKind(example="a1", cores=4, features=("ib", "old")), NodeKind(example="a2", cores=4, features=("ib",)),
        NodeKind(example="g1", cores=8, features=("ib", "gpuhost"), accelerators=(("A100", 4),)), NodeKind(example="x1", cores=2),
    ]  # fmt: skip
    groups = {"gpus": ["g1"], "thin": ["a1", "a2"]}
    found = queue_of("q", text, nodes, groups, "alice")
    return sorted({node.example for node in nodes for kind in found.kinds if node.cores == kind.cores}), found.nodes


@pytest.mark.parametrize(
    ("text", "kinds", "count"),
    [
        ("HOSTS: all ~gpus/", ["a1", "a2", "x1"], 3), ("HOSTS: thin/+2 ~a1 g1", ["a1", "a2", "g1"], 2), ("HOSTS: all ~all", ["a1", "a2", "g1", "x1"], 4),
        ("HOSTS: all\nRES_REQ:  select[gpuhost] span[hosts=1]", ["g1"], 1), ("RES_REQ: select[ib && !old && mem>1000]", ["a1", "a2", "g1"], 2),
        ("RES_REQ: select[(ngpus>0)]", ["g1"], 1), ("RES_REQ: select[ib || gpuhost]", ["a1", "a2", "g1", "x1"], 4), ("RES_REQ: rusage[mem=4]", ["a1", "a2", "g1", "x1"], 4),
        ("RES_REQ: select[!(ib && old)]", ["a1", "a2", "g1", "x1"], 4), ("RES_REQ: select[unheardof]", ["a1", "a2", "g1", "x1"], 4),
    ],
)  # fmt: skip
def test_the_hosts_of_a_queue(text, kinds, count):
    assert hosts_of_queue(text) == (kinds, count)


def test_a_queue_for_all_but_some():
    assert queue("USERS: all ~alice\n").closed == "the user may not use it"
    assert queue("USERS: all ~bob\n").closed == ""


TEXT = st.lists(
    st.sampled_from(["HOST_NAME", " STATUS", " MAX", " ncpus", " gpu_model", "\n", "QUEUE: q", "HOSTS: ", "all", "g/", "RUNLIMIT", " 5 min"])
    | st.text(max_size=8),
    max_size=24,
).map("".join)  # fmt: skip


@given(TEXT, TEXT, TEXT)
@example("HOST_NAMES STATUS\nhosta ok", "HOST_NAMES MAX\nhosta 4", "")
def test_whatever_is_printed_is_read(first, second, third):
    nodes = read_hosts(first, second, third)
    assert all(node.cores for node in nodes)
    groups = read_groups(second)
    for name, text in read_queues(third).items():
        assert queue_of(name, text, nodes, groups, "alice").name == name


def test_a_power_is_no_x86():
    """As Summit's hosts are told."""
    known = "HOST_NAME type model cpuf ncpus maxmem maxswp server RESOURCES\na1 LINUXPPC64LE POWER9 250.0 44 606.9G - Yes (CN gpu)\n"
    (node,) = read_hosts("HOST_NAME STATUS JL/U MAX NJOBS RUN SSUSP USUSP RSV\na1 ok - 168 0 0 0 0 0\n", known, "")
    assert (node.machine, node.cores) == ("ppc64le", 168)
