"""What a Torque cluster has, by what a real server and Slurm's wrappers printed, and by the manual pages."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import pytest
import yaml_files
from hypothesis import given
from hypothesis import strategies as st
from other_clusters import TORQUE_NODES, TORQUE_QUEUES, TORQUE_SERVER

from modak_ansible.discovery.limits import partition_from
from modak_ansible.schedulers.base import CommandResult
from modak_ansible.schedulers.pbs.cluster import (
    attribute_blocks,
    printed_queues,
    read_nodes,
    read_pbspro,
    read_torque,
)
from modak_ansible.schedulers.pbs.forecast import seconds_of

RECORDED = yaml_files.read(Path(__file__).parents[1] / "recorded" / "cluster.yaml")
REFUSED = CommandResult(2, err="Unknown option")


def answer(case: str) -> CommandResult:
    found = RECORDED[case]
    return CommandResult(found["code"], found.get("out", ""), found.get("err", ""))


def run_of(**answers: CommandResult):
    """A run that answers by command and first option: qstat_Q, qstat_B, pbsnodes_x, pbsnodes, qmgr_c."""
    return lambda argv: answers.get("_".join(word.strip("-") for word in argv[:2]), REFUSED)


def test_a_real_server():
    run = run_of(
        qstat_B=answer("torque-server"), qstat_Q=answer("torque-queues"), pbsnodes_x=answer("torque-nodes-xml")
    )
    cluster = read_torque(run, "alice", ["alice"])
    assert (cluster.version, cluster.name, cluster.unknown) == ("6.1.3", "frontend", ())
    small, closed, batch = cluster.partitions
    assert (small.name, small.walltime, small.most_nodes, small.default) == ("small", 600, 1, False)
    assert closed.closed == "it takes no jobs (enabled = False)"
    assert (batch.default, batch.walltime, batch.walltime_said, batch.nodes) == (True, None, "", 2)
    with_gpus, without = sorted(batch.kinds, key=lambda kind: -kind.accelerator_count)
    assert (with_gpus.cores, with_gpus.processors, with_gpus.accelerators) == (24, 2, (("", 4),))
    assert (without.memory, without.machine) == (24684092 * 1024, "x86_64")


@pytest.mark.parametrize("case", ["torque-nodes", "torque-nodes-xml", "torque-nodes-busy", "torque-nodes-xml-busy"])
def test_nodes_in_text_and_in_xml(case):
    first, second = read_nodes(RECORDED[case]["out"])
    assert (first.example, first.cores, first.processors, first.accelerators) == ("node1", 24, 2, (("", 4),))
    assert (second.example, second.accelerators, second.unusable) == ("node2", (), 0)


def test_a_node_that_is_down():
    assert [node.unusable for node in read_nodes(RECORDED["torque-nodes-down"]["out"])] == [0, 1]


def test_slurms_wrappers():
    run = run_of(
        qstat_B=answer("wrapper-server"), qstat_Q=answer("wrapper-queues"), pbsnodes=answer("wrapper-nodes"),
        pbsnodes_x=answer("wrapper-nodes-xml"),
    )  # fmt: skip
    cluster = read_torque(run, "modak", ["modak"])
    assert [partition.name for partition in cluster.partitions] == ["debug", "short", "preempt"]
    (kind,) = cluster.partitions[0].kinds
    assert (kind.count, kind.cores, kind.memory, kind.machine) == (2, 1, 4000 * 2**20, "x86_64")
    assert cluster.unknown == ("qstat -B -f: no output of a known form",)


def test_where_qstat_tells_no_queues_qmgr_does():
    cluster = read_torque(run_of(qmgr_c=answer("torque-printed"), pbsnodes=answer("torque-nodes")), "alice", [])
    assert [(partition.name, partition.walltime, partition.default) for partition in cluster.partitions] == [
        ("small", 600, False), ("closed", None, False), ("batch", None, True),
    ]  # fmt: skip
    assert len(cluster.unknown) == 2


@pytest.fixture
def others():
    run = run_of(
        qstat_B=CommandResult(0, TORQUE_SERVER), qstat_Q=CommandResult(0, TORQUE_QUEUES),
        pbsnodes=CommandResult(0, TORQUE_NODES),
    )  # fmt: skip
    return lambda *groups: {partition.name: partition for partition in read_torque(run, "alice", groups).partitions}


def test_queues_of_certain_nodes(others):
    thin = others()["thin"]
    assert (thin.nodes, thin.walltime, thin.most_nodes, thin.note) == (2, 7 * 86400, 2, "its nodes have thin")
    assert sum(kind.unusable for kind in thin.kinds) == 1
    (fat,) = others()["fat"].kinds
    assert (fat.cores, fat.memory, fat.accelerators) == (40, 1056760 * 1024, (("Tesla K80", 2),))


def test_a_queue_that_small_jobs_are_not_for():
    """As those for jobs with accelerators are."""
    texts = {"gpu": "ngpus = 1", "wide": "nodect = 4", "any": "ncpus = 1", "none": "walltime = 00:00:00"}
    queues = "".join(
        f"Queue: {name}\n    queue_type = Execution\n    resources_min.{least}\n    enabled = True\n    started = True\n\n"
        for name, least in texts.items()
    )
    found = read_pbspro(run_of(qstat_Q=CommandResult(0, queues)), "alice", [])
    assert {each.name: each.note for each in found.partitions} == {
        "gpu": "its jobs must request at least ngpus=1", "wide": "its jobs must request at least nodect=4", "any": "", "none": "",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("queue", "server", "note", "usual"),
    [
        (["resources_default.mem = 500mb"], "", "a job that requests no memory gets 500mb", None),
        (["default_chunk.mem = 4gb", "resources_default.mem = 500mb"], "", "a job that requests no memory gets 4gb of each node", 4),
        ([], "    default_chunk.mem = 8gb\n", "a job that requests no memory gets 8gb of each node", 8),
        ([], "    resources_default.mem = 2gb\n", "a job that requests no memory gets 2gb", None),
        (["resources_default.mem = 0kb"], "    default_chunk.ncpus = 1\n", "", None),
    ],
)  # fmt: skip
def test_what_a_job_has_of_memory_that_asks_for_none(queue, server, note, usual):
    """Some sites give it so little that no training begins."""
    answers = {
        "qstat_Q": CommandResult(0, pbs_queue("work", *queue)),
        "qstat_B": CommandResult(0, f"Server: s\n{server}"),
    }
    (found,) = read_pbspro(run_of(**answers), "alice", []).partitions
    assert found.note == note
    assert found.usual_memory == (usual and usual * 2**30)


def test_a_queue_limits_the_accelerators_of_its_jobs():
    """As where a job has one of a node's eight, or none: that what the nodes have is no more than what a job gets."""
    queues = "".join(
        f"Queue: {name}\n    queue_type = Execution\n{limit}    enabled = True\n    started = True\n\n"
        for name, limit in (
            ("one", "    resources_max.ngpus = 1\n"), ("none", "    resources_max.ngpus = 0\n"), ("all", ""),
        )
    )  # fmt: skip
    nodes = "h1\n     state = free\n     resources_available.ncpus = 96\n     resources_available.ngpus = 8\n"
    run = run_of(qstat_Q=CommandResult(0, queues), pbsnodes=CommandResult(0, nodes))
    found = read_pbspro(run, "alice", []).partitions
    assert [(each.name, each.accelerators) for each in found] == [("one", 1), ("none", 0), ("all", None)]
    assert [partition_from(each).accelerators for each in found] == [1, 0, 8]
    assert [partition_from(dataclasses.replace(each, kinds=())).accelerators for each in found] == [None] * 3


def test_a_queue_for_certain_groups(others):
    assert others()["fat"].closed == "only certain groups may use it"
    assert others("physics")["fat"].closed == ""


def test_a_routing_queue(others):
    route = others()["route"]
    assert (route.default, route.kinds, route.walltime) == (True, (), None)
    assert route.note == "a routing queue: jobs go on to thin,fat"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("3600", 3600), ("10:00", 600), ("36:00:00", 129600), ("7:00:00:00", 604800), ("", None), ("x", None), ("1:2:3:4:5", None)],
)  # fmt: skip
def test_times(text, seconds):
    assert seconds_of(text) == seconds


def test_long_values_are_joined():
    found = attribute_blocks(RECORDED["torque-queues"]["out"], "Queue")
    assert found["batch"]["state_count"].endswith("Complete:1")


_SNIPPETS = st.sampled_from(
    ["Queue: ", "Server: ", "\n    ", "\n\t", " = ", "np", "status", "gpus", "<Data>", "<Node>", "</Node>", "\n\n", "create queue q",
     "\nset queue q ", "resources_max.walltime", "1:00", ",", "physmem=", "\x00"]
)  # fmt: skip


@given(st.lists(_SNIPPETS | st.text(max_size=6), max_size=12).map("".join))
def test_unknown_words_never_break_it(text):
    read_nodes(text)
    printed_queues(text)
    cluster = read_torque(lambda argv: CommandResult(0, text), "alice", [])
    assert all(partition.name for partition in cluster.partitions)


# In the form of the manual pages pbsnodes and qstat of OpenPBS 20.
PBS_NODES = """\
node1
     Mom = node1.cluster.example
     Port = 15002
     pbs_version = 20.0.1
     ntype = PBS
     state = free
     pcpus = 16
     resources_available.arch = linux
     resources_available.host = node1
     resources_available.mem = 65974564kb
     resources_available.ncpus = 16
     resources_available.ngpus = 4
     resources_available.vnode = node1
     resv_enable = True

node2
     Mom = node2.cluster.example
     ntype = PBS
     state = down,offline
     pcpus = 16
     resources_available.mem = 65974564kb
     resources_available.ncpus = 16

"""
PBS_QUEUES = """\
Queue: workq
    queue_type = Execution
    total_jobs = 0
    state_count = Transit:0 Queued:0 Held:0 Waiting:0 Running:0 Exiting:0 Begun:0
    resources_max.nodect = 4
    resources_max.walltime = 01:00:00
    enabled = True
    started = True

"""
PBS_SERVER = """\
Server: pbs
    server_state = Active
    server_host = pbs.cluster.example
    default_queue = workq
    pbs_version = 20.0.1

"""


def test_pbs_professional_is_read_by_the_words_that_it_has_of_its_own():
    answers = {"-B": PBS_SERVER, "-Q": PBS_QUEUES, "-a": PBS_NODES}

    def run(argv):
        text = answers.get(argv[1]) if len(argv) > 1 else None
        return CommandResult(0, text) if text else REFUSED

    cluster = read_pbspro(run, "alice", [])
    assert (cluster.scheduler, cluster.version, cluster.unknown) == ("pbspro", "20.0.1", ())
    (queue,) = cluster.partitions
    assert (queue.name, queue.default, queue.walltime, queue.most_nodes) == ("workq", True, 3600, 4)
    assert [(kind.cores, kind.processors, kind.memory, kind.accelerator_count) for kind in queue.kinds] == [
        (16, 16, 65974564 * 1024, 4),
        (16, 16, 65974564 * 1024, 0),
    ]
    assert sum(kind.unusable for kind in queue.kinds) == 1


def pbspro(queues: str, nodes: str):
    answers = {"-B": PBS_SERVER, "-Q": queues, "-a": nodes}

    def run(argv):
        text = answers.get(argv[1]) if len(argv) > 1 else None
        return CommandResult(0, text) if text else REFUSED

    return {queue.name: queue for queue in read_pbspro(run, "alice", []).partitions}


def pbs_node(name: str, *, cpus: int = 16, gpus: int = 0, state: str = "free", host: str = "", **others: str) -> str:
    lines = [f"state = {state}", f"resources_available.host = {host or name}", f"resources_available.ncpus = {cpus}"]
    lines += [f"resources_available.mem = {cpus}gb", f"resources_available.ngpus = {gpus}"]
    lines += [f"{key.replace('__', '.')} = {value}" for key, value in others.items()]
    return "".join([f"{name}\n", *(f"     {line}\n" for line in lines), "\n"])


def pbs_queue(name: str, *lines: str) -> str:
    told = ["queue_type = Execution", *lines, "enabled = True", "started = True"]
    return "".join([f"Queue: {name}\n", *(f"    {line}\n" for line in told), "\n"])


def test_nodes_of_a_queue_of_pbs_professional_by_what_its_jobs_are_given():
    """A resource of its own with the names of queues, as the administrators' guide has it, in whatever case."""
    nodes = (
        pbs_node("n1", resources_available__Qlist="work,long")
        + pbs_node("n2", resources_available__Qlist="work", resources_available__bigmem="True")
        + pbs_node("g1", gpus=4, resources_available__Qlist="gpu")
    )
    found = pbspro(
        pbs_queue("work", "default_chunk.Qlist = work", "default_chunk.ncpus = 1")
        + pbs_queue("gpu", "default_chunk.qlist = gpu", "default_chunk.ngpus = 1", "default_chunk.mem = 4gb")
        + pbs_queue("big", "default_chunk.bigmem = True")
        + pbs_queue("thin", "default_chunk.bigmem = False")
        + pbs_queue("any", "default_chunk.colour = red"),
        nodes,
    )
    assert {name: queue.nodes for name, queue in found.items()} == {"work": 2, "gpu": 1, "big": 1, "thin": 2, "any": 3}
    assert [kind.accelerator_count for kind in found["gpu"].kinds] == [4]
    assert found["gpu"].note == "its nodes have qlist=gpu; a job that requests no memory gets 4gb of each node"
    assert found["any"].note == ""


def test_nodes_that_are_kept_for_a_queue():
    found = pbspro(
        pbs_queue("work") + pbs_queue("gpu"), pbs_node("n1") + pbs_node("n2") + pbs_node("g1", gpus=4, queue="gpu")
    )
    assert {name: queue.nodes for name, queue in found.items()} == {"work": 2, "gpu": 1}
    assert [kind.accelerator_count for kind in found["work"].kinds] == [0]
    assert found["gpu"].note == "its nodes have queue=gpu"


def test_nodes_that_are_kept_for_a_scheduler_of_their_own():
    """As OpenPBS has partitions since 19: a queue of none has the nodes of none."""
    found = pbspro(
        pbs_queue("work") + pbs_queue("fast", "partition = P1") + pbs_queue("bare", "partition = P2"),
        pbs_node("n1") + pbs_node("n2", partition="P1") + pbs_node("n3", partition="P1"),
    )
    assert {name: queue.nodes for name, queue in found.items()} == {"work": 1, "fast": 2, "bare": 1}


def test_a_host_that_pbs_professional_tells_in_parts_is_one_node():
    """Of each socket a vnode, and with cpusets one of the host's own, which has nothing to hand out."""
    parts = pbs_node("fat", cpus=0, host="fat") + "".join(
        pbs_node(f"fat[{number}]", cpus=8, gpus=2, host="fat", pcpus="8") for number in range(4)
    )
    down = "".join(
        pbs_node(f"old[{number}]", cpus=8, gpus=2, host="old", pcpus="8", state="down") for number in range(4)
    )
    (kind,) = pbspro(pbs_queue("work"), parts + down)["work"].kinds
    assert (kind.count, kind.unusable, kind.example, kind.cores, kind.processors) == (2, 1, "fat", 32, 32)
    assert (kind.memory, kind.accelerators) == (32 * 2**30, (("", 8),))


def test_parts_of_a_host_may_be_for_different_queues():
    """And its own vnode, without anything to hand out, is in none of them."""
    nodes = pbs_node("fat", cpus=0) + pbs_node("thin", resources_available__Qlist="work")
    for number, queue in enumerate(("work", "work", "gpu")):
        nodes += pbs_node(f"fat[{number}]", cpus=8, host="fat", resources_available__Qlist=queue)
    found = pbspro(
        pbs_queue("work", "default_chunk.Qlist = work") + pbs_queue("gpu", "default_chunk.Qlist = gpu"), nodes
    )
    assert {name: [kind.cores for kind in queue.kinds] for name, queue in found.items()} == {"work": [16], "gpu": [8]}
    assert {name: queue.nodes for name, queue in found.items()} == {"work": 2, "gpu": 1}


@pytest.mark.parametrize(
    ("limits", "nodes", "cores"),
    [
        (["resources_max.nodes = 4"], 4, None), (["resources_max.nodes = 2:ppn=8"], 2, 8),
        (["resources_max.nodect = 3", "resources_max.nodes = 8"], 3, None), (["resources_max.nodes = 1:ppn=2+n2"], None, 2),
        (["resources_max.nodes = 1", "resources_max.ncpus = 12"], 1, 12),
        (["resources_max.nodect = 2", "resources_max.ncpus = 12"], 2, 12), (["resources_max.ncpus = 4"], None, 4),
        (["resources_max.procct = 8", "resources_max.ncpus = 16"], None, 8),
    ],
)  # fmt: skip
def test_the_most_nodes_of_a_queues_jobs(limits, nodes, cores):
    queue = pbspro(pbs_queue("work", *limits), pbs_node("n1"))["work"]
    assert (queue.most_nodes, queue.cores) == (nodes, cores)


@pytest.mark.parametrize("key", ["gputype", "gpu_type", "gpu_model", "GPU_Name", "accelerator_model"])
def test_the_model_of_accelerators_is_a_resource_that_a_site_made_for_it(key):
    named = {f"resources_available__{key}": "A100"}
    parts = "".join(pbs_node(f"fat[{number}]", gpus=2, host="fat", **named) for number in range(2))
    (kind,) = pbspro(pbs_queue("work"), parts + pbs_node("n2", cpus=32, gpus=4, **named))["work"].kinds
    assert (kind.count, kind.accelerators) == (2, (("A100", 4),))


def test_the_model_of_a_torque_nodes_accelerators():
    status = (
        "gpu[1]=gpu_id=0000:83:00.0;gpu_product_name=Tesla K40m;gpu_mode=Default,gpu[0]=gpu_product_name=Tesla K40m;"
    )
    (node,) = read_nodes(f"n1\n     state = free\n     np = 24\n     gpus = 2\n     gpu_status = {status}\n")
    assert node.accelerators == (("Tesla K40m", 2),)


@pytest.mark.parametrize(
    ("listed", "user", "is_in"),
    [
        ("alice", "alice", True), ("bob", "alice", False), ("alice@login1", "alice", True), ("+alice@*,-eve@*", "alice", True),
        ("+alice@*,-eve@*", "eve", False), ("-eve,+", "alice", True), ("-eve,+", "eve", False), ("+alice,-", "bob", False), ("", "alice", False),
    ],
)  # fmt: skip
def test_signs_of_an_access_list(listed, user, is_in):
    queues = TORQUE_QUEUES.replace(
        "acl_groups = ", f"acl_user_enable = True\n    acl_users = {listed}\n    acl_groups = "
    )
    assert queues != TORQUE_QUEUES
    run = run_of(qstat_B=CommandResult(0, TORQUE_SERVER), qstat_Q=CommandResult(0, queues))
    found = {partition.name: partition.closed for partition in read_torque(run, user, ["physics"]).partitions}
    assert found["fat"] == ("" if is_in else "only certain users may use it")


@pytest.mark.parametrize(
    ("lines", "gpus", "cores", "memory"),
    [
        (["max_run_res.ngpus = [u:PBS_GENERIC=2]"], 2, 96, 96), (["max_run_res.ngpus = [u:PBS_GENERIC=2],[u:alice=6]"], 6, 96, 96),
        (["max_run_res.ngpus = [o:PBS_ALL=4], [u:bob=1]", "resources_max.ngpus = 1"], 1, 96, 96), (["max_run_res.ngpus = [p:other=1]"], 8, 96, 96),
        (["max_run_res.ncpus = [g:lab=40]", "max_run_res.mem = [u:PBS_GENERIC=64gb]", "resources_max.mem = 80gb"], 8, 40, 64),
        (["max_run = [u:PBS_GENERIC=2]"], 8, 96, 96),
    ],
)  # fmt: skip
def test_what_a_user_may_have_at_once_is_a_jobs_limit(lines, gpus, cores, memory):
    """As the queues of public sites have it: a larger job waits for ever."""
    run = run_of(
        qstat_Q=CommandResult(0, pbs_queue("gpu", *lines)), pbsnodes=CommandResult(0, pbs_node("n1", cpus=96, gpus=8))
    )
    (queue,) = read_pbspro(run, "alice", ["lab"]).partitions
    found = partition_from(queue)
    assert (found.accelerators, found.cores, found.memory) == (gpus, cores, memory * 2**30)


@pytest.mark.parametrize(
    ("of_server", "of_queue", "cores"), [(64, 32, 32), (32, 64, 32), (32, None, 32), (None, 64, 64)]
)
def test_a_server_limits_what_a_user_may_have_at_once_too(of_server, of_queue, cores):
    server, queue = (
        f"max_run_res.ncpus = [u:PBS_GENERIC={count}]" if count else "max_run = [u:PBS_GENERIC=9]"
        for count in (of_server, of_queue)
    )
    run = run_of(
        qstat_B=CommandResult(0, f"Server: pbs\n    {server}\n"),
        qstat_Q=CommandResult(0, pbs_queue("batch", queue)),
        pbsnodes=CommandResult(0, pbs_node("n1", cpus=96)),
    )
    (found,) = read_pbspro(run, "alice", ["lab"]).partitions
    assert partition_from(found).cores == cores


def test_a_queue_limits_the_memory_of_its_jobs():
    queue = pbspro(pbs_queue("small", "resources_max.mem = 32gb"), pbs_node("n1", cpus=96))["small"]
    assert partition_from(queue).memory == 32 * 2**30


@pytest.mark.parametrize(
    ("listed", "is_in"),
    [
        ("login1", True), ("login1.site.org,login2.site.org", True), ("login2+login1.site.org", True), ("*.site.org", True), ("login[0-9]", True),
        ("10.1.0.0/255.255.0.0", True), ("login2", False), ("login11", False), ("n1+n2", False), ("-login1.site.org,+", False), ("*.other.org", False),
    ],
)  # fmt: skip
def test_a_queue_of_certain_front_ends(listed, is_in, monkeypatch):
    """As the guides of both have lists, of which one says h1+h2; without acl_host_enable it is none."""
    monkeypatch.setattr(os, "uname", lambda: os.uname_result(("Linux", "login1.site.org", "6", "1", "x86_64")))
    for is_enabled, closed in (
        ("True", "" if is_in else f"its jobs can be submitted only from {listed}"), ("False", ""),
    ):  # fmt: skip
        queue = pbs_queue("work", f"acl_host_enable = {is_enabled}", f"acl_hosts = {listed}")
        assert pbspro(queue, pbs_node("n1"))["work"].closed == closed


@pytest.mark.parametrize(
    ("lines", "groups", "closed", "note"),
    [
        ([], ["users", "physics"], "", "only the groups chem,physics may use it, and the user's first group is users"),
        (["acl_group_sloppy = True"], ["users", "physics"], "", ""),
        ([], ["physics", "users"], "", ""),
        ([], ["users"], "only certain groups may use it", "only the groups chem,physics may use it, and the user's first group is users"),
        (["acl_user_enable = True", "acl_users = alice"], ["users"], "only certain groups may use it", None),
        (["acl_user_enable = True", "acl_users = alice", "acl_logic_or = True"], ["users"], "", None),
        (["acl_user_enable = True", "acl_users = bob", "acl_logic_or = True"], ["physics"], "", None),
        (["acl_user_enable = True", "acl_users = bob", "acl_logic_or = True"], ["users"], "only certain users may use it", None),
    ],
)  # fmt: skip
def test_a_job_is_of_the_users_first_group(lines, groups, closed, note):
    queue = pbs_queue("work", "acl_group_enable = True", "acl_groups = chem,physics", *lines)
    run = run_of(qstat_Q=CommandResult(0, queue), pbsnodes=CommandResult(0, pbs_node("n1")))
    (found,) = read_torque(run, "alice", iter(groups)).partitions
    assert found.closed == closed
    assert note is None or found.note == note


@pytest.mark.parametrize(
    ("state", "unusable"),
    [("free", 0), ("job-exclusive", 0), ("resv-exclusive", 0), ("Stale", 1), ("maintenance", 1), ("unresolvable", 1),
     ("offline_by_mom", 1), ("provisioning", 1), ("down,offline", 1)],
)  # fmt: skip
def test_states_of_openpbs(state, unusable):
    (node,) = read_nodes(f"cn2\n     state = {state}\n     resources_available.ncpus = 4\n")
    assert node.unusable == unusable
