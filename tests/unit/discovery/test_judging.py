"""What is fine, what is missing, and how to mend it."""

from __future__ import annotations

import dataclasses
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from surveyed import BATCH, CLUSTER, FOLDER, GPU, NODE, bare, surveyed

from modak_ansible.discovery.aim import aim_at
from modak_ansible.discovery.judging import findings_of
from modak_ansible.discovery.surveying import Entrance
from modak_ansible.planning.service import plan_all
from modak_ansible.reading.blueprint.inputs import Inputs
from modak_ansible.store.forecasts import BEFORE, noted
from modak_ansible.store.record import DeploymentRecord


def found(aim, survey):
    return {finding.about: finding for finding in findings_of(aim, survey)}


def states(aim, survey):
    return {finding.state.value for finding in findings_of(aim, survey)}


@pytest.fixture
def described(blueprint):
    """The example's cluster: batch and long, of 8 cores and 16 GB, Slurm."""
    blueprint.replace("username: alice\n", "username: alice\n        image_base: docker\n")

    def aim(*changes):
        for old, new in changes:
            blueprint.replace(old, new)
        return aim_at(str(blueprint.path), Inputs())

    return aim


def test_podman_makes_base_images_by_a_tool_of_its_own(described):
    aim = described(("image_base: docker", "container_runtime: podman\n        image_base: debootstrap"))
    base = found(aim, surveyed(containers__missing=["mmdebstrap"]))["base image"]
    assert (base.state.value, base.seen) == ("missing", "mmdebstrap is not on the target")
    assert found(aim, surveyed(apt_mirror="http://deb.example"))["base image"].state.value == "ok"


def test_a_good_cluster():
    assert states(bare(), surveyed(containers__missing=[], apt_mirror="http://deb.example")) == {"ok"}


def test_what_is_missing_says_how_to_mend_it():
    survey = surveyed(
        cluster=None, rsync=False, containers__runtime=None, scheduler="slurm", missing=["sbatch"],
        folders__workspace={**FOLDER, "free_bytes": 10**8}, folders__build={**FOLDER, "path": "/tmp", "type": "xfs", "noexec": True},
    )  # fmt: skip
    known = found(bare(), survey)
    missing = {name: each.seen for name, each in known.items() if each.state == "missing"}
    assert missing == {
        "rsync": "not on the target: files cannot be copied there",
        "scheduler": "Slurm is not on login1: sbatch not found",
        "containers": "neither apptainer nor singularity is in PATH on login1",
        "workspace": "/home/alice/modak (nfs4, 100 MB free): building an image needs 5.0 GB",
        "build folder": "/tmp (xfs, 1.0 TB free) is mounted noexec",
    }
    assert all(each.todo for each in known.values() if each.state != "ok")


@pytest.mark.parametrize(
    ("pythons", "state", "seen"),
    [
        ((), "missing", "pytorch needs Python 3.11 or 3.12 or 3.13 or 3.14 without a container, and there is none"),
        ((("/usr/bin/python3", "3.9.18"),), "missing", None),
        ((("/usr/bin/python3", "3.9.18"), ("/opt/bin/python3.12", "3.12.1")), "ok", None),
    ],
)
def test_without_containers_a_framework_needs_a_python_that_is_locked(described, pythons, state, seen):
    aim = described(("image_base: docker\n", "image_base: docker\n        container_runtime: none\n"))
    finding = found(aim, surveyed(entrance=Entrance(pythons=(*pythons,))))["environment"]
    assert finding.state == state
    assert seen in (None, finding.seen)
    assert finding.todo or state == "ok"


def test_with_containers_no_environment_is_looked_at(described):
    assert "environment" not in found(described(), surveyed())
    assert "environment" not in found(bare(), surveyed())


def test_no_python_that_is_new_enough():
    entrance = Entrance(0.3, 0.0, (("/usr/bin/python3", "3.6.8"),))
    survey = dataclasses.replace(surveyed(entrance=entrance), facts=None)
    python = found(bare(), survey)["python"]
    assert (python.state, python.seen) == ("missing", "3.6.8 (/usr/bin/python3); 3.8 or later is needed")


@pytest.mark.parametrize(
    ("ahead", "state", "words"),
    [(0.2, "ok", "within 1 s"), (-4000.0, "warning", "1 h 6 min behind"), (120.0, "warning", "2 min ahead of")],
)  # fmt: skip
def test_the_clock(ahead, state, words):
    clock = found(bare(), surveyed(entrance=Entrance(0.3, ahead, (("/p", "3.9.1"),))))["clock"]
    assert clock.state == state
    assert words in clock.seen


def test_a_slow_login():
    assert found(bare(), surveyed(entrance=Entrance(9.0, 0.0, (("/p", "3.9.1"),))))["ssh"].state == "warning"


@pytest.mark.parametrize(
    ("changes", "about", "state"),
    [
        ({"containers__namespaces": "/proc/sys/user/max_user_namespaces is 0"}, "namespaces", "missing"),
        ({"containers__range": "alice has no range in /etc/subuid", "containers__range_hint": "usermod"}, "fakeroot", "missing"),
        ({"containers__missing": ["mksquashfs"]}, "build tools", "warning"),
        ({"folders__workspace": {**FOLDER, "problem": "Disk quota exceeded"}}, "workspace", "missing"),
        ({"folders__workspace": {**FOLDER, "free_inodes": 12}}, "inodes", "warning"),
        ({"folders__workspace": {**FOLDER, "inodes": None, "free_inodes": None}}, "inodes", "ok"),
        ({"folders__build": FOLDER}, "build folder", "warning"),
        ({"folders__build": {**FOLDER, "type": "tmpfs", "network": False, "free_bytes": 10**9}}, "build folder", "missing"),
        ({"folders__build": {**FOLDER, "network": False, "writable": False}}, "build folder", "missing"),
        ({"shell__problem": "bash did not answer within 40 s"}, "login shell", "warning"),
        ({"shell__modules": ""}, "modules", "ok"),
        ({"containers__runtime": None, "shell__offers": ["apptainer/1.3"]}, "containers", "missing"),
    ],
)  # fmt: skip
def test_one_thing_that_is_not_as_it_should_be(changes, about, state):
    assert found(bare(), surveyed(**changes))[about].state == state


def test_setuid_does_without_namespaces_but_for_builds(described):
    survey = surveyed(containers__namespaces="off", containers__suid=True)
    assert found(described(), survey)["namespaces"].state == "missing"


def test_a_key_to_sign_with(described):
    aim = described(("scratch: {", "site: { properties: { signing_key: ~/key } }\n        scratch: {"))
    assert found(aim, surveyed())["signing key"].state == "ok"
    survey = surveyed(containers__signing="the key ~/key is not on the target", containers__signing_hint="openssl")
    assert found(aim, survey)["signing key"].state == "missing"


def test_a_module_with_the_runtime_is_named():
    survey = surveyed(containers__runtime=None, shell__offers=["apptainer/1.3"])
    assert found(bare(), survey)["containers"].todo.startswith("module load apptainer/1.3")


@pytest.mark.parametrize(
    ("used", "files", "state"), [(10**9, 5, "ok"), (99 * 10**9, 5, "warning"), (100 * 10**9, 5, "missing"), (10**9, 1000, "missing")]
)  # fmt: skip
def test_quotas(used, files, state):
    limit = {"place": "/home", "used": used, "limit": 100 * 10**9, "files": files, "most_files": 1000}
    assert found(bare(), surveyed(quotas={"asked": "quota", "limits": [limit]}))["quota"].state == state


def test_a_host_without_scheduler_and_container():
    known = found(bare(), surveyed(cluster=None, containers__runtime=None))
    assert known["scheduler"].seen == "none: jobs run directly, as on a modak.nodes.Host"
    assert known["containers"].state == "warning"


def test_a_scheduler_that_nobody_submits_to():
    """Grid Engine's commands have the names of Torque's."""
    plain = found(bare(), surveyed(cluster=None, others=["Grid Engine"]))["scheduler"]
    assert (plain.state, plain.seen) == ("warning", "Grid Engine is on login1, which modak does not submit to")
    torque = found(bare(), surveyed(cluster=None, scheduler="torque", another="Grid Engine"))["scheduler"]
    assert torque.state == "missing"
    beside = found(bare(), surveyed(cluster=None, scheduler="torque", others=["HTCondor"]))["scheduler"]
    assert beside.state == "ok", "its commands have names of their own"
    assert found(bare(), surveyed(others=["HTCondor"]))["scheduler"].state == "ok", "there is Slurm beside it"


def test_torque_where_pbs_professional_is():
    """Whose commands have the names of Torque's, too."""
    known = found(bare(), surveyed(cluster=None, scheduler="torque", another="PBS Professional"))["scheduler"]
    seen = "qsub on login1 belongs to PBS Professional, but the target is described as having Torque"
    assert (known.state, known.seen) == ("missing", seen)


def test_a_qstat_that_does_not_say_whose_it_is_is_no_other_schedulers():
    """As a site's own, or one whose server is slow: what is submitted to is not refused for it."""
    silent = surveyed(cluster=None, scheduler="pbspro", schedulers=["torque"], others=["Grid Engine"])
    assert found(bare(), silent)["scheduler"].state == "ok"


def test_a_silent_scheduler():
    cluster = dataclasses.replace(CLUSTER, partitions=(), unknown=("scontrol show node: timed out",))
    assert found(bare(), surveyed(cluster))["scheduler"].state == "missing"


@pytest.mark.parametrize(
    ("accounts", "needs", "state"), [((), True, "missing"), (("a",), True, "ok"), (None, True, None), ((), False, None)]
)
def test_accounts(accounts, needs, state):
    cluster = dataclasses.replace(CLUSTER, accounts=accounts, needs_account=needs)
    account = found(bare(), surveyed(cluster)).get("account")
    assert (account.state if account else None) == state


def test_an_account_that_is_not_the_users(described):
    aim = described(("scratch: {", "site: { properties: { account: biology } }\n        scratch: {"))
    account = found(aim, surveyed())["account"]
    assert (account.state, account.seen) == ("missing", "biology is not one of the user's accounts: physics, chemistry")


# --- what is said of partitions, and what they are


def test_a_description_that_fits(described):
    aim = described(("name: long", "name: gpu"), ("7-00:00:00", "0-12:00:00"))
    known = found(aim, surveyed())
    assert "partition" in known
    assert known["limits"].seen == "what training asks for (1 node, 00:30:00) fits batch"
    assert {each.state for name, each in known.items() if name in ("partition", "limits")} == {"ok"}


def test_what_is_to_be_known_of_the_jobs_partition_is_told(described):
    noted = [dataclasses.replace(each, note=f"{each.name} is odd") for each in CLUSTER.partitions]
    survey = surveyed(dataclasses.replace(CLUSTER, partitions=tuple(noted)))
    told = [
        each.seen
        for each in findings_of(described(("name: long", "name: gpu"), ("7-00:00:00", "0-12:00:00")), survey)
        if each.about == "partition"
    ]
    assert told == ["batch fits; batch is odd", "gpu fits"]


def test_a_partition_that_is_not_there(described):
    aim = described(("name: batch", "name: bach"))
    known = [finding for finding in findings_of(aim, surveyed()) if finding.about == "partition"]
    assert [(each.state.value, each.todo) for each in known] == [
        ("warning", "valid: batch, gpu"), ("missing", "did you mean batch?"),
    ]  # fmt: skip


def test_more_is_said_than_is_there(described):
    aim = described(("nodes: 4, cores: 8, memory: 16 GB", "nodes: 99, cores: 80, memory: 900 GB"))
    first = next(finding for finding in findings_of(aim, surveyed()) if finding.about == "partition")
    assert first.state == "warning"
    assert first.seen == (
        "batch is described with 99 nodes, and it has 32; 80 cores a node, and it has 40; "
        "900 GB memory a node, and it has 200 GB"
    )


def test_cores_that_are_said_to_be_the_jobs_own_and_are_not_known_to_be(described):
    aim = described(("name: batch, nodes", "name: batch, own_cores: true, nodes"))
    first = next(finding for finding in findings_of(aim, surveyed()) if finding.about == "partition")
    assert (first.state, first.seen) == (
        "warning", "own_cores: true is said of batch, and the scheduler does not tell that it confines jobs to theirs",
    )  # fmt: skip


def test_what_slurm_has_against_the_job_is_missing_and_all_else_is_looked_at():
    findings = list(findings_of(bare(), surveyed(objection="Invalid qos specification")))
    assert [(each.state.value, each.seen) for each in findings if each.about == "scheduler"] == [
        ("missing", "Slurm: Invalid qos specification"), ("ok", "Slurm 23.02.7 (demo)"),
    ]  # fmt: skip
    assert any(each.about == "account" for each in findings)


def test_when_a_training_would_begin(described, monkeypatch):
    aim, expected = described(), {"said": 1000.0, "starts": 1600.0}
    assert "start" not in found(aim, surveyed())
    start = found(aim, surveyed(forecast=expected))["start"]
    assert start.state == "ok"
    assert re.fullmatch(r"training would begin at [-\d :]+, in 10 min", start.seen)
    (planned,) = plan_all(aim.folder / "service.yaml", Inputs())
    job = {"job_id": "7", "started": 2200.0}
    DeploymentRecord(planned.save()).update(job=job, forecasts=noted({}, job, BEFORE, expected, aim.plan))
    start = found(aim, surveyed(forecast=expected))["start"]
    assert start.seen.endswith(", in 10 min (the last forecast on cluster: 10 min later)")


def test_a_training_that_cannot_be_planned_is_looked_at(described):
    assert described(("framework: pytorch", 'framework: pytorch\n        version: "0.1"')).plan is None


def test_a_training_that_does_not_fit(described):
    aim = described(("nodes: 4, cores: 8", "nodes: 99, cores: 80"), ("cores_per_process: 4", "cores_per_process: 64"))
    limits = found(aim, surveyed())["limits"]
    assert (limits.state, limits.todo) == ("missing", "ask for at most 40")
    assert limits.seen == "training: 64 cores a node are asked for, and the partition batch has 40"


def test_the_largest_kind_of_node_counts_for_a_preference(described):
    aim = described(
        ("name: batch, nodes: 4, cores: 8", "name: gpu, nodes: 4, cores: 64"),
        ("cores_per_process: 4", "cores_per_process: 64"),
    )
    assert found(aim, surveyed())["limits"].state == "ok"


@pytest.mark.parametrize(
    ("option", "name"),
    [("queue: gpu", "gpu"), ("partition: gpu", "gpu"), ('partition: "batch,gpu"', "batch and gpu")],
)
def test_the_options_of_the_job_say_where_it_goes(described, option, name):
    aim = described(
        ("name: long", "name: gpu"), ("7-00:00:00", "0-12:00:00"),
        ('walltime: "00:30:00"', f'walltime: "00:30:00"\n        job_options: {{ {option} }}'),
    )  # fmt: skip
    assert found(aim, surveyed())["limits"].seen == f"what training asks for (1 node, 00:30:00) fits {name}"


def test_a_job_of_several_partitions_fits_all_of_them(described):
    aim = described(
        ("name: long", "name: gpu"), ("7-00:00:00", "0-12:00:00"),
        ('walltime: "00:30:00"', 'walltime: "00:30:00"\n        job_options: { partition: "gpu,batch,fat" }'),
    )  # fmt: skip
    cluster = dataclasses.replace(CLUSTER, partitions=(dataclasses.replace(BATCH, walltime=600), GPU))
    seen = [each.seen for each in findings_of(aim, surveyed(cluster)) if each.state == "missing"]
    assert "there is no fat, where the job would go" in seen


def test_a_queue_of_another_server_is_not_looked_for_here(described):
    option = ('walltime: "00:30:00"', 'walltime: "00:30:00"\n        job_options: { queue: "long@east" }')
    states = [
        each.state for each in findings_of(described(option), surveyed()) if each.about in ("partition", "limits")
    ]
    assert states == ["ok"], "of batch, which is described"


def test_a_partition_that_is_closed(described):
    cluster = dataclasses.replace(CLUSTER, partitions=(dataclasses.replace(BATCH, closed="its state is DOWN"), GPU))
    partition = next(finding for finding in findings_of(described(), surveyed(cluster)) if finding.about == "partition")
    assert (partition.state, partition.seen) == ("missing", "batch is closed: its state is DOWN")


def test_nodes_that_are_all_down(described):
    kind = dataclasses.replace(BATCH.kinds[0], unusable=60)
    cluster = dataclasses.replace(CLUSTER, partitions=(dataclasses.replace(BATCH, kinds=(kind,)), GPU))
    partition = next(finding for finding in findings_of(described(), surveyed(cluster)) if finding.about == "partition")
    assert (partition.state, partition.todo) == ("warning", "jobs will wait")


# --- a node's own view


def test_a_node_that_is_as_it_should_be(described):
    aim = described(("path: /scratch", "path: $TMPDIR"))
    known = found(aim, surveyed(node=NODE))
    assert {name: each.state.value for name, each in known.items() if name.startswith("node")} == {
        "node": "ok", "node's home": "ok", "node's containers": "ok", "node's scratch": "ok",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "about", "state"),
    [
        ({"same_home": False}, "node's home", "missing"),
        ({"runtimes": []}, "node's containers", "missing"),
        ({"namespaces": False}, "node's namespaces", "missing"),
        ({"places": []}, "node's scratch", "warning"),
        ({"machine": "aarch64"}, "node's processor", "missing"),
        ({"problem": "the job 7 did not finish within 60 s"}, "node", "warning"),
        ({"problem": "Slurm did not take the job: no"}, "node", "missing"),
    ],
)  # fmt: skip
def test_a_node_that_is_not(described, changes, about, state):
    assert found(described(), surveyed(node={**NODE, **changes}))[about].state == state


def test_a_setuid_starter_needs_no_namespaces_on_nodes(described):
    survey = surveyed(node={**NODE, "namespaces": False}, containers__suid=True)
    assert "node's namespaces" not in found(described(), survey)


@given(
    st.lists(st.sampled_from(["rsync", "containers__runtime", "apt_mirror"]), unique=True),
    st.integers(0, 10**13),
    st.booleans(),
)
def test_every_finding_that_is_not_well_says_what_to_do(gone, free, noexec):
    changes = dict.fromkeys(gone)
    changes["folders__workspace"] = {**FOLDER, "free_bytes": free, "noexec": noexec}
    for finding in findings_of(bare(), surveyed(**changes)):
        assert finding.seen
        assert bool(finding.todo) == (finding.state != "ok")


HOST = {
    "host": "box2", "place": "alice@10.0.0.2:22", "problem": "", "ahead": 0.2, "machine": "x86_64", "rsync": True,
    "runtime": True, "python": "3.11.2", "shared": False, "writable": True, "free_bytes": 10**11,
}  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "state", "seen", "todo"),
    [
        ({}, "ok", "alice@10.0.0.2:22 is entered from login1; 100 GB free", ""),
        ({"shared": True, "free_bytes": 1}, "ok", "shares the workspace", ""),
        (
            {"problem": "ssh: Permission denied (publickey)."},
            "missing",
            "cannot be entered from login1",
            "authorized_keys",
        ),
        (
            {"problem": "ssh: Host key verification failed."},
            "missing",
            "cannot be entered",
            "compare the key: ssh box2",
        ),
        ({"problem": "ssh: Could not resolve hostname box2"}, "missing", "cannot be entered", "a Host entry"),
        ({"problem": "ssh: connect to host: Connection refused"}, "missing", "refused", "BatchMode=yes box2 true"),
        ({"rsync": False}, "missing", "rsync is not there", "have rsync installed"),
        ({"runtime": False}, "missing", "/usr/bin/apptainer is not there, which login1 has", "at the same path"),
        ({"machine": "aarch64"}, "missing", "aarch64, and login1 is x86_64", "one kind"),
        ({"writable": False}, "missing", "/home/alice/modak cannot be written there", "another workspace"),
        ({"free_bytes": 10**9}, "warning", "1.0 GB are free", "make room"),
        ({"ahead": -300.0}, "warning", "its clock is 5 min behind login1's", "NTP"),
        ({"python": "3.6.8"}, "warning", "python3 is 3.6.8", "3.8 or later"),
        ({"python": ""}, "warning", "python3 is not there", "3.8 or later"),
    ],
)
def test_each_further_host_is_named_with_its_fault_and_the_cure(changes, state, seen, todo):
    known = found(bare(), surveyed(hosts=[{**HOST, "host": "box3"}, {**HOST, **changes}]))
    assert known["host box3"].state.value == "ok"
    finding = known["host box2"]
    assert finding.state.value == state
    assert seen in finding.seen
    assert todo in finding.todo
    assert finding.todo or state == "ok"


def test_without_containers_no_runtime_is_missed_on_a_host(described):
    aim = described(("image_base: docker\n", "image_base: docker\n        container_runtime: none\n"))
    assert found(aim, surveyed(hosts=[{**HOST, "runtime": False}]))["host box2"].state.value == "ok"
