"""What a survey says of a target, and what it leaves open."""

from __future__ import annotations

import dataclasses

import pytest
from surveyed import BATCH, CLUSTER, CPUINFO, GPU, NODE, bare, surveyed

from modak_ansible.discovery.description import Value, describe, is_disk, kind_words, vendor_of
from modak_ansible.discovery.limits import largest_from, partition_from
from modak_ansible.schedulers.cluster import NodeKind


def of(node=None, cluster=CLUSTER, **changes):
    return describe(bare(), surveyed(cluster, node=node, **changes))


ALIKE = dataclasses.replace(CLUSTER, partitions=(BATCH,))


def test_the_default_partition_comes_first():
    cluster = dataclasses.replace(CLUSTER, partitions=(GPU, BATCH))
    assert [partition.name for partition, _ in of(cluster=cluster).partitions] == ["batch", "gpu"]


@pytest.mark.parametrize(("scheduler", "title"), [("slurm", "Slurm"), ("pbspro", "PBS Professional"), ("lsf", "LSF")])
def test_a_scheduler_has_its_own_name(scheduler, title):
    found = of(cluster=dataclasses.replace(CLUSTER, scheduler=scheduler))
    assert found.title == f"login1, Rocky Linux 9.3, {title} 23.02.7 cluster demo"


def test_a_job_may_count_on_what_every_node_has():
    mixed, largest = partition_from(GPU), largest_from(GPU)
    assert (mixed.nodes, mixed.cores, mixed.memory, mixed.accelerators) == (64, 40, 191000 * 2**20, 4)
    assert (largest.cores, largest.memory) == (64, 500000 * 2**20)
    assert (partition_from(BATCH).nodes, partition_from(BATCH).walltime) == (32, 86400), "at most 32 nodes a job"


def test_several_kinds_of_node_are_told():
    _, words = of().partitions[1]
    assert words == (
        "60 nodes: 40 cores = 2 x 20 x 1, 200 GB; 4 nodes: 64 cores, 524 GB, 4 GPUs a100; "
        "cores and memory are those that every one has; wall time UNLIMITED"
    )


def test_slots_that_are_no_processors():
    assert kind_words(NodeKind(cores=24, processors=2)) == "1 node: 24 cores on 2 processors, memory not known"


def test_a_scheduler_that_tells_nodes_of_another_family_says_what_images_are_for():
    arm = NodeKind(cores=72, machine="aarch64")
    assert kind_words(arm) == "1 node: 72 cores, memory not known, aarch64"
    found = of(cluster=dataclasses.replace(CLUSTER, partitions=(dataclasses.replace(BATCH, kinds=(arm,)),)))
    assert found.value("architecture") == "aarch64"
    assert "the front end is" in found.values["architecture"].source
    mixed = (arm, NodeKind(cores=64, machine="x86_64"))
    found = of(cluster=dataclasses.replace(CLUSTER, partitions=(dataclasses.replace(BATCH, kinds=mixed),)))
    assert found.value("architecture") is None


def test_nodes_that_are_off_are_told():
    words = kind_words(NodeKind(count=5, cores=8, off=3))
    assert words == "5 nodes: 8 cores, memory not known, 3 of them off until a job needs them"


def test_what_is_closed_or_has_a_name_that_nobody_can_use_is_left_out():
    closed = dataclasses.replace(BATCH, closed="its state is DOWN")
    odd = dataclasses.replace(BATCH, name="a b")
    found = of(cluster=dataclasses.replace(CLUSTER, partitions=(closed, GPU, odd)))
    assert [partition.name for partition, _ in found.partitions] == ["gpu"]
    assert found.closed[0] == "batch: its state is DOWN"
    assert found.closed[1].startswith("a b: ")


def test_what_only_a_node_knows_is_not_guessed():
    found = of(cluster=ALIKE)
    assert (found.value("architecture"), found.value("scratch")) == (None, None)
    assert "no node was asked" in found.values["architecture"].source
    assert "the front end is" in found.values["architecture"].source
    assert [text.split(":")[0] for text in found.unknown] == ["architecture", "scratch"]


def test_what_a_node_says():
    found = of(NODE, ALIKE)
    assert found.value("architecture") == "skylake_avx512"
    assert found.value("processor") == CPUINFO["model name"]
    assert found.value("scratch") == "$TMPDIR"
    assert found.values["scratch"].source == "/local/123 on n001: xfs, 100 GB free"
    assert found.unknown == ()


def test_one_node_does_not_speak_for_other_kinds():
    found = of(NODE)
    assert found.value("architecture") is None
    assert "2 kinds of node" in found.values["architecture"].source


def test_a_folder_for_everybody_is_the_last_choice():
    def place(name, path):
        return {**NODE["places"][0], "name": name, "path": path}

    found = of({**NODE, "places": [place("$TMPDIR", "/tmp"), place("/scratch", "/scratch")]}, ALIKE)
    assert found.value("scratch") == "/scratch"
    found = of({**NODE, "places": [place("$TMPDIR", "/tmp"), place("$PBS_JOBFS", "/jobfs/12")]}, ALIKE)
    assert found.value("scratch") == "$PBS_JOBFS"
    found = of({**NODE, "places": [place("$TMPDIR", "/tmp"), place("/tmp", "/tmp")]}, ALIKE)
    assert found.value("scratch") == "$TMPDIR"


@pytest.mark.parametrize(
    "changes", [{"network": True}, {"network": None}, {"writable": False}, {"type": "tmpfs"}, {"free_bytes": 10**9}, {"free_bytes": None}]
)  # fmt: skip
def test_what_is_no_disk_of_a_node(changes):
    assert is_disk(NODE["places"][0])
    assert not is_disk({**NODE["places"][0], **changes})


@pytest.mark.parametrize(
    ("accounts", "default", "value"),
    [
        (("a", "b"), "a", None),
        (("a", "b"), "", "a"),
        ((), "", None),
        (None, "", None),
        (("; rm",), "", None),
        (("abc@v100",), "", "abc@v100"),
    ],
)
def test_an_account_is_written_where_the_scheduler_has_no_default(accounts, default, value):
    assert of(cluster=dataclasses.replace(ALIKE, accounts=accounts, default_account=default)).value("account") == value


def test_accelerators():
    found = of()
    assert (found.value("accelerators"), found.value("accelerator"), found.value("vendor")) == (4, "a100", "nvidia")
    seen = of({**NODE, "gpus": ["NVIDIA H200, 143771 MiB"]})
    assert (seen.value("accelerator"), seen.value("accelerator_memory")) == ("NVIDIA H200", 143771 * 2**20)
    assert "accelerators" not in of(cluster=ALIKE).values


@pytest.mark.parametrize(
    ("makers", "name", "vendor"),
    [(["amd"], "", "amd"), (["nvidia"], "", "nvidia"), (["nvidia", "amd"], "", None), ([], "", None), (["nvidia"], "mi210", "amd"), (["nvidia"], "a100,mi210", None)],
)  # fmt: skip
def test_a_node_says_who_made_accelerators_that_it_shows_to_no_job_without_them(makers, name, vendor):
    """A type is in few clusters' Gres, and a job that asks for none of them sees no more than that there is a driver."""
    kind = NodeKind(cores=64, accelerators=tuple((each, 8) for each in name.split(",")))
    cluster = dataclasses.replace(CLUSTER, partitions=(dataclasses.replace(GPU, kinds=(kind,)),))
    assert of({**NODE, "makers": makers}, cluster).value("vendor") == vendor


@pytest.mark.parametrize(
    ("text", "vendor"),
    [("a100", "nvidia"), ("nvidia_h100_80gb", "nvidia"), ("v100", "nvidia"), ("rtx6000", "nvidia"), ("mi250x", "amd"), ("pvc", "intel"),
     ("", None), ("gpu", None), ("fast", None), ("a100 mi250", None),
     ("a100_80gb", "nvidia"), ("h100_pcie", "nvidia"), ("v100s", "nvidia"), ("gpu_a100_mig", "nvidia"), ("k8s", None), ("b1x", None),
     ("a5000", "nvidia"), ("v100l", "nvidia"), ("k20m", "nvidia"), ("a100sxm4", "nvidia"), ("h100nvl", "nvidia"), ("gb200", "nvidia"),
     ("2080ti", "nvidia"), ("3090", "nvidia"), ("volta", "nvidia"), ("1g.10gb", "nvidia"), ("m40", "nvidia"),
     ("amd_instinct_mi210", "amd"), ("gfx90a", "amd"), ("intel_data_center_gpu_max_1550", "intel"),
     ("4090d", "nvidia"), ("6000ada", "nvidia"), ("a6000ada", "nvidia"), ("ada", "nvidia"), ("ada_6000", "nvidia"), ("lovelace", "nvidia"), ("gv100", "nvidia"),
     ("w7900", "amd"), ("rx7900xtx", "amd"), ("canada", None), ("a64fx", None), ("6000", None), ("m5", None), ("max4", None)],
)  # fmt: skip
def test_who_made_it_is_said_only_where_the_name_says_it(text, vendor):
    assert vendor_of(text) == vendor


def test_a_plain_host():
    found = describe(bare("host"), surveyed(cluster=None, containers__runtime=None))
    assert (found.scheduler, found.partitions, found.value("container_runtime")) == ("none", (), "none")
    assert (found.value("cores"), found.value("memory")) == (8, 64 * 2**30)
    assert found.value("architecture") == "skylake_avx512"
    assert found.unknown == ()
    assert "accelerators" not in found.values


def test_accelerators_of_a_plain_host_are_its_own():
    facts = surveyed(cluster=None, gpus=["NVIDIA H100 80GB HBM3, 81559", "NVIDIA H100 80GB HBM3, 81559"])
    found = describe(bare("host"), facts)
    assert (found.value("accelerators"), found.value("vendor")) == (2, "nvidia")
    assert found.value("accelerator") == "NVIDIA H100 80GB HBM3"
    assert found.value("accelerator_memory") == 81559 * 2**20


def test_peaks_are_kept():
    found = describe(bare(), surveyed(), {"peak_gflops": Value(123.4, "measured")})
    assert found.value("peak_gflops") == 123.4
