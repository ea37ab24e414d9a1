"""What a Slurm cluster has, by what a real one printed, and by the manual pages where none was at hand."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import yaml_files
from hypothesis import given
from hypothesis import strategies as st
from other_clusters import NODES, PARTITIONS, slurm_node, slurm_partition

from modak_ansible.schedulers.base import CommandResult
from modak_ansible.schedulers.slurm.cluster import (
    Associations,
    accelerators_of,
    node_of,
    partition_of,
    read_slurm,
    records,
)

RECORDED = yaml_files.read(Path(__file__).parents[1] / "recorded" / "cluster.yaml")
REFUSED = CommandResult(1, err="sacctmgr: error: You are not allowed")


def answer(case: str) -> CommandResult:
    found = RECORDED[case]
    return CommandResult(found["code"], found.get("out", ""), found.get("err", ""))


def run_of(**answers: CommandResult):
    """A run that answers by a command's last telling word."""

    def run(argv):
        words = [word for word in argv if word in ("config", "node", "partition", "qos", "associations", "user")]
        if "withsubaccounts" in argv:
            return answers.get("below", CommandResult(0))
        return answers.get(words[-1] if words else argv[0], CommandResult(127, err="not found", missing=True))

    return run


@pytest.fixture
def testbed():
    names = ("config", "nodes", "partitions", "qos", "associations", "user")
    keys = ("config", "node", "partition", "qos", "associations", "user")
    return run_of(**{key: answer(f"slurm-{name}") for key, name in zip(keys, names, strict=True)})


def test_the_testbed(testbed):
    cluster = read_slurm(testbed, "modak", ["modak"])
    assert (cluster.version, cluster.temporary, cluster.needs_account) == ("24.11.5", "/tmp", False)
    assert cluster.unknown == ()
    debug, short, preempt = cluster.partitions
    assert (debug.name, debug.default, debug.closed, debug.nodes, debug.walltime) == ("debug", True, "", 2, 86400)
    assert (short.default, short.walltime, preempt.name) == (False, 600, "preempt")
    assert not debug.own_cores  # it has ConstrainCores=no
    (kind,) = debug.kinds
    assert (kind.count, kind.cores, kind.memory, kind.layout) == (2, 1, 4000 * 2**20, (1, 1, 1))
    assert (kind.machine, kind.accelerators, kind.unusable) == ("x86_64", (), 0)


def other(**changes: CommandResult):
    found = {
        "node": CommandResult(0, NODES),
        "partition": CommandResult(0, PARTITIONS),
        "user": REFUSED,
        "qos": REFUSED,
    }
    config = CommandResult(0, "SLURM_VERSION = 23.02.7\nAccountingStorageEnforce = associations,limits,qos\n")
    return run_of(**{**found, "config": config, "associations": REFUSED, **changes})


def partitions(**changes: CommandResult):
    return {partition.name: partition for partition in read_slurm(other(**changes), "alice", ["users"]).partitions}


@pytest.mark.parametrize(
    ("constrains", "plugin", "sharing", "own"),
    [
        ("yes", "task/affinity,task/cgroup", "NO", True),
        ("yes", "task/cgroup", "YES:4", True),  # who does not ask for it shares with nobody
        ("yes", "task/cgroup", "FORCE:4", False),
        ("no", "task/cgroup", "NO", False),
        ("no", "task/affinity", "EXCLUSIVE", True),
        ("yes", "task/affinity", "NO", False),
    ],
)
def test_whether_a_jobs_cores_are_its_own(constrains, plugin, sharing, own):
    recorded = answer("slurm-config").out
    assert "TaskPlugin              = task/cgroup\n" in recorded
    assert "ConstrainCores          = no\n" in recorded
    config = recorded.replace("= task/cgroup\n", f"= {plugin}\n").replace(
        "Cores          = no", f"Cores = {constrains}"
    )
    listed = answer("slurm-partitions").out.replace("OverSubscribe=NO", f"OverSubscribe={sharing}")
    found = partitions(config=CommandResult(0, config), partition=CommandResult(0, listed))
    assert [partition.own_cores for partition in found.values()] == [own] * 3


def test_several_kinds_of_node_in_a_partition():
    gpu = partitions()["gpu"]
    assert [(kind.count, kind.cores, kind.accelerators) for kind in gpu.kinds] == [
        (3, 96, ()), (1, 64, (("a100", 4),)), (1, 96, (("v100", 2), ("a100_3g.20gb", 1))),
    ]  # fmt: skip
    assert (gpu.cores, gpu.note) == (32, "hidden")


def test_nodes_that_are_down_asleep_or_not_there_yet():
    (kind,) = partitions()["batch"].kinds
    assert (kind.count, kind.unusable) == (5, 1), "n004 is down, n005 only sleeps, n006 is not there"


def elastic(nodes):
    """A cluster whose nodes start for a job."""
    cases = {"config": "config", "node": f"nodes-{nodes}", "partition": "partitions"}
    found = read_slurm(run_of(**{key: answer(f"slurm-elastic-{case}") for key, case in cases.items()}), "alice", [])
    return {each.name: each for each in found.partitions}


def test_nodes_that_are_off_start_for_a_job():
    """Two are on their way and do not answer yet, and three are off: n6 alone has ever run."""
    found = elastic("starting")
    (kind,) = found["cloud"].kinds
    assert (kind.count, kind.cores, kind.unusable, kind.off) == (5, 8, 0, 3)
    assert (
        found["cloud"].note
        == "a node that is powered off starts for a job within 20 s, and is powered off after 30 s without one"
    )
    assert (found["fixed"].kinds[0].off, found["fixed"].note) == (0, "")


def test_nodes_that_did_not_come_are_down():
    (kind,) = elastic("failed")["cloud"].kinds
    assert (kind.count, kind.unusable, kind.off) == (5, 3, 2)


@pytest.mark.parametrize(
    ("state", "unusable", "off"),
    [
        ("IDLE+CLOUD+POWERED_DOWN", 0, 1), ("IDLE+CLOUD+POWERING_DOWN", 0, 1), ("IDLE+CLOUD+POWER_DOWN", 0, 1),
        ("IDLE+CLOUD+POWER", 0, 1), ("MIXED+CLOUD+POWERING_UP", 0, 0), ("IDLE*+CLOUD+POWERING_UP", 0, 0),
        ("ALLOCATED+CLOUD+NOT_RESPONDING+POWERING_UP", 0, 0), ("DOWN+CLOUD+NOT_RESPONDING+POWERING_UP", 1, 0),
        ("DOWN+CLOUD+POWERED_DOWN", 1, 0), ("IDLE+CLOUD+DRAIN+POWERED_DOWN", 1, 0), ("IDLE+CLOUD", 0, 0), ("IDLE*", 1, 0),
        ("ALLOCATED+CLOUD+NOT_RESPONDING", 1, 0), ("DOWN*+CLOUD", 1, 0),
    ],
)  # fmt: skip
def test_the_words_of_a_state(state, unusable, off):
    kind = node_of({"State": state})
    assert (kind.unusable, kind.off) == (unusable, off)


def test_a_partition_may_have_its_own_times():
    (node,) = records(slurm_node("n001", State="IDLE+CLOUD+POWERED_DOWN"))
    (values,) = records(slurm_partition("batch", ResumeTimeout="900", SuspendTime="INFINITE"))
    note = partition_of(
        values, [(node, node_of(node))], [], Associations(), {}, {"ResumeTimeout": "60 sec", "SuspendTime": "300 sec"}
    ).note
    assert note == "a node that is powered off starts for a job within 900 s"


def test_limits():
    batch, long = (partitions()[name] for name in ("batch", "long"))
    assert (batch.walltime, batch.most_nodes, batch.memory) == (172800, 4, 180000 * 2**20)
    assert (long.walltime, long.walltime_said, long.most_nodes) == (None, "UNLIMITED", None)


@pytest.mark.parametrize(
    ("own", "everywhere", "mebibytes"),
    [
        ({"MaxMemPerNode": None, "MaxMemPerCPU": "2000", "MaxCPUsPerNode": "64"}, "", 128000),
        ({"MaxMemPerNode": None, "MaxMemPerCPU": "2000", "MaxCPUsPerSocket": "24"}, "", 96000),
        ({"MaxMemPerNode": None, "MaxMemPerCPU": "1000"}, "MaxMemPerNode = 180000", 96000),
        ({}, "MaxMemPerNode = 180000", 180000), ({}, "MaxMemPerCPU = 1900", 182400), ({}, "MaxMemPerNode = UNLIMITED", None),
    ],
)  # fmt: skip
def test_the_most_memory_that_a_job_has_of_a_node(own, everywhere, mebibytes):
    """Slurm gives a job that asks for more by the core further cores, as long as there are any."""
    config = CommandResult(0, f"SLURM_VERSION = 23.02.7\n{everywhere}\n")
    found = partitions(config=config, partition=CommandResult(0, slurm_partition("batch", **own)))["batch"]
    assert found.memory == (None if mebibytes is None else mebibytes * 2**20)


@pytest.mark.parametrize(
    ("limits", "cores"),
    [
        ({"MaxCPUsPerSocket": "24"}, 48), ({"MaxCPUsPerSocket": "24", "MaxCPUsPerNode": "32"}, 32),
        ({"MaxCPUsPerSocket": "24", "MaxCPUsPerNode": "64"}, 48), ({"MaxCPUsPerSocket": "UNLIMITED"}, None),
    ],
)  # fmt: skip
def test_a_limit_for_each_socket_is_one_of_the_node(limits, cores):
    """With which sites keep cores of a node for the jobs that use its accelerators (Slurm 23.02)."""
    found = partitions(partition=CommandResult(0, slurm_partition("batch", **limits)))["batch"]
    assert found.kinds[0].layout[0] == 2
    assert found.cores == cores


def test_a_partition_for_large_jobs_says_so():
    """Such as that of a site where all smaller ones have another."""
    listed = CommandResult(
        0, "\n".join([slurm_partition("large", MinNodes="2"), slurm_partition("small", MinNodes="1")])
    )
    found = partitions(partition=listed)
    assert (found["large"].note, found["small"].note) == ("its jobs have at least 2 nodes", "")


def test_a_quality_of_service_limits_the_wall_time():
    gpu = partitions(qos=CommandResult(0, "normal|\nshort|02:00:00\n"))["gpu"]
    assert gpu.walltime == 7200
    assert "its quality of service short" in gpu.note


@pytest.mark.parametrize(
    ("tres", "nodes", "note"),
    [
        ("node=2|", 2, "its quality of service big gives a job at most node=2"),
        ("cpu=64,gres/gpu=8|node=3", 3, "its quality of service big gives a job at most cpu=64,gres/gpu=8,node=3"),
        ("node=64|", 4, "its quality of service big gives a job at most node=64"), ("|", 4, ""),
        ("cpu=64,mem=1T|cpu=128,mem=900G|node=2,cpu=1K", 2, "its quality of service big gives a job at most cpu=64,mem=900G,node=2"),
    ],
)  # fmt: skip
def test_a_quality_of_service_limits_the_nodes_of_a_job(tres, nodes, note):
    """Of a job, or of all that a user has at once, which is a job's limit, too: such a one waits for ever."""
    found = partitions(
        partition=CommandResult(0, slurm_partition("gpu", QoS="big", MaxNodes="4")),
        qos=CommandResult(0, f"normal|||\nbig||{tres}\n"),
    )["gpu"]
    assert (found.most_nodes, found.note) == (nodes, note)


@pytest.mark.parametrize(
    ("own", "everywhere", "note", "usual"),
    [
        ({"DefMemPerCPU": "3900"}, "DefMemPerNode = UNLIMITED", "a job that requests no memory gets 3900 MB for each of its cores", (None, 3900)),
        ({"DefMemPerNode": "1024"}, "DefMemPerCPU = 4000", "a job that requests no memory gets 1024 MB of each node", (1024, None)),
        ({"DefMemPerNode": "UNLIMITED"}, "DefMemPerCPU = 4000", "a job that requests no memory gets 4000 MB for each of its cores", (None, 4000)),
        ({"DefMemPerNode": "UNLIMITED", "JobDefaults": "DefCpuPerGPU=16,DefMemPerGPU=60000"}, "DefMemPerCPU = 4000",
         "a job that requests no memory gets 60000 MB for each of its GPUs, or 4000 MB for each of its cores", (None, None)),
        ({"DefMemPerNode": "UNLIMITED"}, "JobDefaults = DefMemPerGPU=60000", "a job that requests no memory gets 60000 MB for each of its GPUs", (None, None)),
        ({"DefMemPerNode": "UNLIMITED"}, "DefMemPerNode = UNLIMITED", "", (None, None)), ({"DefMemPerCPU": "0"}, "", "", (None, None)),
    ],
)  # fmt: skip
def test_what_a_job_has_of_memory_that_asks_for_none(own, everywhere, note, usual):
    """Most sites give it a little for each core, and end what takes more."""
    config = CommandResult(0, f"SLURM_VERSION = 23.02.7\n{everywhere}\n")
    found = partitions(config=config, partition=CommandResult(0, slurm_partition("fat", **own)))["fat"]
    assert found.note == note
    assert (found.usual_memory, found.memory_per_core) == tuple(count and count * 2**20 for count in usual)


def test_a_job_of_whole_nodes_has_the_memory_of_all_their_cores():
    shown = slurm_partition("fat", OverSubscribe="EXCLUSIVE", DefMemPerCPU="1000", DefMemPerNode=None)
    found = partitions(partition=CommandResult(0, shown))["fat"]
    assert (found.usual_memory, found.memory_per_core) == (96 * 1000 * 2**20, None)
    assert "its jobs get whole nodes, and are charged for all of them" in found.note


@pytest.mark.parametrize(
    ("changes", "own", "note"),
    [
        ({}, "t3,t4|t3", "jobs that name no quality of service have at most 0-20:00:00, by t3"), ({}, "t4|", ""), ({}, "t3,t4|", ""),
        ({"MaxTime": "10:00:00"}, "t3|t3", ""), ({"MaxTime": "4-00:00:00"}, "t3|", "jobs that name no quality of service have at most 0-20:00:00, by t3"),
        ({"QoS": "long", "MaxTime": "4-00:00:00"}, "t3|t3", "its quality of service long limits the wall time"),
    ],
)  # fmt: skip
def test_the_limit_of_a_users_own_quality_of_service_is_told(changes, own, note):
    found = partitions(
        partition=CommandResult(0, slurm_partition("fat", **changes)),
        associations=CommandResult(0, f"p1|{own}|\n"),
        qos=CommandResult(0, "t3|20:00:00\nt4|\nlong|3-00:00:00\n"),
    )["fat"]
    assert found.note == note


@pytest.mark.parametrize(
    ("rows", "qos", "changes", "note"),
    [
        (["p1|normal|||2-00:00:00"], "normal|", {}, "the user's jobs have at most 2-00:00:00, by their associations"),
        (["p1|normal|||1-00:00:00", "p2|normal|||2-00:00:00"], "", {}, "the user's jobs have at most 2-00:00:00, by their associations"),
        (["p1|normal|||1-00:00:00", "p2|normal|||"], "", {}, ""),
        (["p1|normal|||2-00:00:00"], "", {"MaxTime": "1-00:00:00"}, ""),
        (["p1|long|||2-00:00:00"], "long|7-00:00:00", {}, "jobs that name no quality of service have at most 7-00:00:00, by long"),
        (["p1|a,b|||2-00:00:00"], "a|7-00:00:00\nb|", {}, ""),
        (["p1|normal|||2-00:00:00"], "wide|7-00:00:00", {"QoS": "wide"}, "its quality of service wide limits the wall time"),
    ],
)  # fmt: skip
def test_the_limit_of_a_users_associations_is_told(rows, qos, changes, note):
    """Slurm takes the first that there is of the partition's quality of service, the job's, and the association."""
    found = partitions(
        partition=CommandResult(0, slurm_partition("fat", **changes)),
        associations=CommandResult(0, "".join(f"{row}\n" for row in rows)),
        qos=CommandResult(0, f"{qos}\n"),
    )["fat"]
    assert found.note == note


def test_partitions_that_are_closed():
    known = CommandResult(0, "science\nteaching\n")
    found = partitions(associations=known, user=CommandResult(0, "science\n"))
    assert {name: each.closed for name, each in found.items() if each.closed} == {
        "long": "only the groups physics,chemistry may use it",
        "old": "its state is DOWN",
        "admin": "only root may submit to it",
        "paid": "only the accounts money may use it",
    }
    assert partitions()["paid"].closed == "", "nobody tells the user's accounts"


def test_accounts():
    known = {"associations": CommandResult(0, "science\nscience\n"), "user": CommandResult(0, "science\n")}
    cluster = read_slurm(other(**known), "alice", [])
    assert (cluster.accounts, cluster.default_account, cluster.needs_account) == (("science",), "science", True)
    assert read_slurm(other(), "alice", []).accounts is None


def test_an_account_below_one_that_a_partition_is_for():
    """Since Slurm 23.02 the lists of accounts of a partition mean those below them, too."""
    asked = []
    listed = "\n".join(
        [slurm_partition("paid", AllowAccounts="money"), slurm_partition("not", DenyAccounts="money"), slurm_partition("all")]
    )  # fmt: skip

    def closed(version, below):
        answers = other(
            partition=CommandResult(0, listed),
            config=CommandResult(0, f"ClusterName = hpc1\nSLURM_VERSION = {version}\n"),
            associations=CommandResult(0, "money-lab|normal\n"),
            user=CommandResult(0, "money-lab\n"),
            below=CommandResult(0, below),
        )

        def run(argv):
            asked.append(argv)
            return answers(argv)

        asked.clear()
        return [partition.closed for partition in read_slurm(run, "alice", []).partitions]

    assert closed("24.05.4", "money-lab\n") == ["", "the accounts money,money-lab may not use it", ""]
    assert sum("withsubaccounts" in argv for argv in asked) == 1, "of each list it is asked once"
    assert {"user=alice", "account=money", "cluster=hpc1"} <= set(
        next(each for each in asked if "account=money" in each)
    )
    assert closed("23.02.0", "") == ["only the accounts money may use it", "", ""]
    assert closed("22.05.11", "money-lab\n") == ["only the accounts money may use it", "", ""]
    assert not any("withsubaccounts" in argv for argv in asked)


def test_where_each_partition_has_its_owner_the_accounts_below_are_asked_for_once():
    """Some sites have hundreds of such partitions, and sacctmgr takes its time."""
    names = [f"lab{number}" for number in range(20)]
    listed = "\n".join(
        slurm_partition(f"of-{name}", AllowAccounts=f"{name},mine" if name == "lab7" else name) for name in names
    )

    def seen(below):
        asked = []
        answers = other(
            partition=CommandResult(0, listed),
            config=CommandResult(0, "SLURM_VERSION = 24.05.4\n"),
            associations=CommandResult(0, "mine|normal||\n"),
        )

        def run(argv):
            if "withsubaccounts" not in argv:
                return answers(argv)
            asked.append(argv)
            wanted = next(word for word in argv if word.startswith("account=")).partition("=")[2].split(",")
            return CommandResult(0, "".join(f"{name}\n" for over, name in below if over in wanted))

        found = read_slurm(run, "alice", []).partitions
        return [partition.name for partition in found if not partition.closed], len(asked)

    assert seen([]) == (["of-lab7"], 1)
    assert seen([("lab3", "mine")]) == (["of-lab3", "of-lab7"], 20)


def test_accounts_that_a_user_has_in_some_partitions_only():
    listed = CommandResult(0, "\n".join(map(slurm_partition, ("batch", "gpu", "long"))))

    def closed(rows, enforced="associations"):
        config = CommandResult(0, f"AccountingStorageEnforce = {enforced}\n")
        found = partitions(partition=listed, config=config, associations=CommandResult(0, rows))
        return [name for name, each in found.items() if each.closed == "the user's accounts may not use it"]

    assert closed("p1|normal||batch\np2|normal||gpu\n") == ["long"]
    assert closed("p1|normal||batch\np2|normal||\n") == [], "an account without a partition is for all of them"
    assert closed("p1|normal||batch\n", "none") == [], "nobody asks for an account there"


@pytest.mark.parametrize(
    ("allowed", "own", "note"),
    [
        ("short,long", "normal,short,long|normal", "its jobs must name a quality of service: short or long"),
        ("short,long", "normal,short|short", ""), ("long", "normal|normal", ""), ("ALL", "normal,short|normal", ""),
        ("long", "long|", ""), ("short", "normal,short|", ""),
    ],
)  # fmt: skip
def test_a_partition_that_does_not_take_the_users_own_quality_of_service(allowed, own, note):
    """Of several without a default nobody says which one is taken; a closed partition is told as that."""
    listed = CommandResult(0, slurm_partition("fat", AllowQos=allowed))
    found = partitions(partition=listed, associations=CommandResult(0, f"p1|{own}|\n"))["fat"]
    assert found.note == note


@pytest.mark.parametrize(
    ("kept", "cores"),
    [("CoreSpecCount=2 ThreadsPerCore=2", 60), ("CoreSpecCount=2 ThreadsPerCore=1", 62), ("CoreSpecCount=2 CPUEfctv=60", 60),
     ("CoreSpecCount=0 ThreadsPerCore=2", 64), ("CoreSpecCount=(null)", 64),
     ("CoreSpecCount=2 Sockets=2 CoresPerSocket=16 ThreadsPerCore=2", 60), ("CoreSpecCount=2 Sockets=2 CoresPerSocket=32 ThreadsPerCore=2", 62)],
)  # fmt: skip
def test_cores_that_slurm_keeps_for_itself_are_no_jobs(kept, cores):
    """Before 22.05 it does not say what is left of them."""
    assert node_of(dict(word.split("=") for word in f"CPUTot=64 {kept}".split())).cores == cores


def test_nodes_that_are_not_shown():
    """PrivateData=nodes; the sums of a partition say what its nodes have if they are alike."""
    cluster = read_slurm(other(node=CommandResult(1, err="Access/permission denied")), "alice", [])
    assert cluster.unknown == ("scontrol --all --oneliner show node: Access/permission denied",)
    found = {partition.name: partition for partition in cluster.partitions}
    (kind,) = found["summed"].kinds
    assert (kind.count, kind.cores, kind.memory) == (4, 32, 128 * 2**30)
    assert found["batch"].nodes == 129


def test_nodes_that_do_not_name_their_partitions():
    nodes = records("\n".join(slurm_node(name, Partitions=None) for name in ("n001", "n129", "n130")))
    (values,) = records(slurm_partition("batch"))
    found = [(node, node_of(node)) for node in nodes]
    assert partition_of(values, found, [], Associations(), {}, {}).nodes == 2


def test_a_silent_scheduler():
    cluster = read_slurm(lambda argv: CommandResult(124, err="did not answer", timed_out=True), "alice", [])
    assert cluster.partitions == ()
    assert len(cluster.unknown) == 3


@pytest.mark.parametrize(
    ("text", "found"),
    [("(null)", ()), ("", ()), ("gpu:4", (("", 4),)), ("gpu", (("", 1),)), ("gpu:a100:4(S:0-1)", (("a100", 4),)),
     ("gpu:a100:4(S:0,2),craynetwork:4", (("a100", 4),)), ("gpu:tesla", (("tesla", 1),)), ("mps:400,gpu:2", (("", 2),)),
     ("gpu:a100:2(S:0),gpu:a100:2(S:1)", (("a100", 4),)), ("shard:a:8", ()), ("gpu:nvidia_h100:8(IDX:0-7)", (("nvidia_h100", 8),)),
     ("gpu:no_consume:4", (("", 4),)), ("gpu:a100:no_consume:2", (("a100", 2),)), ("gpu:1K", (("", 1024),)), ("gpu:a:0", ())],
)  # fmt: skip
def test_accelerators(text, found):
    assert accelerators_of(text) == found


@given(st.text(alphabet="gpu:a1(S0-)[],x \n", max_size=40))
def test_no_gres_breaks_it(text):
    assert all(count > 0 for _, count in accelerators_of(text))


@given(
    st.dictionaries(
        st.from_regex(r"[A-Z][A-Za-z]{2,9}", fullmatch=True),
        st.from_regex(r"\S{0,9}( \S{1,5}){0,2}", fullmatch=True),
        min_size=1,
    )
)
def test_every_key_of_a_line_is_read(values):
    values = {key: value for key, value in values.items() if "=" not in value}
    (found,) = records(" ".join(f"{key}={value}" for key, value in values.items())) or ({},)
    assert set(found) == set(values)
    assert found == {key: value.strip() for key, value in values.items()}


@given(st.dictionaries(st.sampled_from(["Sockets", "CPUTot", "RealMemory", "State", "Gres", "Partitions", "Nodes", "MaxTime",
    "PartitionName", "AllowGroups", "MaxNodes", "TRES", "TotalCPUs", "TotalNodes", "QoS", "NodeName"]), st.text(max_size=12)))  # fmt: skip
def test_unknown_words_never_break_it(values):
    node_of(values)
    partition_of(values, [(values, node_of(values))], [], Associations(), {}, {})


def test_a_partition_that_no_job_can_enter_is_closed():
    text = PARTITIONS.splitlines()[0]
    for more, words in (
        ("ReqResv=YES", "it takes only jobs of a reservation"),
        ("TotalNodes=0", "it has no nodes"),
        ("AllocNodes=else[1-2]", "its jobs can be submitted only from else[1-2]"),
        (f"AllocNodes=else1,{os.uname().nodename.partition('.')[0]}", ""),
    ):
        key = more.partition("=")[0]
        line = " ".join([*(word for word in text.split() if not word.startswith(f"{key}=")), more])
        (found,) = partitions(partition=CommandResult(0, line)).values()
        assert found.closed == words


@pytest.mark.parametrize(
    ("gpus", "found"),
    [
        (",gres/gpu=1024", (("", 8),)), (",gres/gpu=1024,gres/gpu:h100=1024,gres/vis=128", (("h100", 8),)), (",gres/gpu=0", ()), ("", ()),
        (",gres/gpu=260,gres/gpu:a=4,gres/gpu:b=256", (("a", 1), ("b", 2))),
    ],
)  # fmt: skip
def test_nodes_that_are_not_shown_have_what_jobs_may_have_of_them(gpus, found):
    """As where four cores of each are the system's: TotalCPUs counts them, and the TRES do not."""
    shown = slurm_partition("gpu", TotalNodes="128", TotalCPUs="14336", TRES=f"cpu=13312,mem=237500G,node=128{gpus}")
    (kind,) = partitions(node=CommandResult(0, ""), partition=CommandResult(0, shown))["gpu"].kinds
    assert (kind.count, kind.cores, kind.accelerators) == (128, 104, found)


@pytest.mark.parametrize(("kept", "memory"), [("MemSpecLimit=16384", 495616), ("MemSpecLimit=0", 512000), ("", 512000),
                                              ("MemSpecLimit=(null)", 512000)])  # fmt: skip
def test_memory_that_slurm_keeps_for_itself_is_no_jobs(kept, memory):
    assert node_of(dict(word.split("=") for word in f"RealMemory=512000 {kept}".split())).memory == memory * 2**20


def test_memory_that_nobody_told_slurm_is_not_known():
    """RealMemory is 1 where slurm.conf does not have it, as on many a small cluster."""
    assert node_of({"RealMemory": "1"}).memory is None
    assert node_of({"RealMemory": "1024"}).memory == 2**30


def test_qualities_of_service_and_accounts_are_those_of_this_cluster():
    asked = []
    text = PARTITIONS.splitlines()[0]
    listed = "\n".join(
        f"{text.replace('PartitionName=', f'{rule} PartitionName={name}-')}"
        for name, rule in (
            ("open", ""),
            ("a", "AllowQos=admin"),
            ("b", "AllowQos=normal,admin"),
            ("c", "DenyQos=normal,long"),
        )
    )
    answers = other(
        partition=CommandResult(0, listed),
        config=CommandResult(0, "ClusterName = hpc1\n"),
        associations=CommandResult(0, "p1|normal,long\np2|normal\n"),
        user=CommandResult(0, "p1\n"),
    )

    def run(argv):
        asked.append(argv)
        return answers(argv)

    cluster = read_slurm(run, "alice", ["users"])
    assert [partition.closed for partition in cluster.partitions] == [
        "", "only the qualities of service admin may use it", "", "the qualities of service normal,long may not use it",
    ]  # fmt: skip
    assert (cluster.accounts, cluster.default_account) == (("p1", "p2"), "p1")
    assert any("cluster=hpc1" in argv for argv in asked if "associations" in argv)


def test_a_node_is_read_once_in_however_many_partitions(monkeypatch):
    read = []
    monkeypatch.setattr(
        "modak_ansible.schedulers.slurm.cluster.node_of", lambda values: read.append(1) or node_of(values)
    )
    text = PARTITIONS.splitlines()[0]
    many = "\n".join(text.replace("PartitionName=", f"PartitionName=p{number}-") for number in range(9))
    assert len(partitions(partition=CommandResult(0, many))) == 9
    assert len(read) <= len(NODES.splitlines())
