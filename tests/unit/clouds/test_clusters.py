"""A cluster of machines is what it is asked to be: never more hosts, none left alone, whoever is killed on the way."""

from __future__ import annotations

from contextlib import suppress

import boto3
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from remembering_provider import Killed, deploy, undeploy

from modak_ansible.errors import InvalidBlueprint, ModakError
from modak_ansible.model.target import Cloud, Scheduler, System
from modak_ansible.planning.costs.money import cost_words
from modak_ansible.stages.clouds import machines
from modak_ansible.stages.clouds.aws import Aws
from modak_ansible.stages.clouds.base import MachineRequest
from modak_ansible.stages.clouds.openstack import OpenStack
from modak_ansible.stages.clouds.user_data import minutes_of
from modak_ansible.stages.plan import plan_deployment
from modak_ansible.store.machines import MachineStore

NAMES = ("", ".2", ".3")
TAG = "0123456789abcdef/cloud-01234567"


@pytest.fixture
def clouded(clouded):
    """Three hosts in place of one machine."""
    return clouded.replace("CloudHost", "CloudCluster").replace("flavor: c7i", "machines: 3\n        flavor: c7i")


def tags(provider, store):
    """The names of the hosts that there are, without the cluster's."""
    return sorted(each["tag"].partition("/")[2].removeprefix(store.name) for each in provider.living)


# --- the plan


def test_it_is_planned_as_any_slurm_cluster_of_so_many_nodes(clouded, planned):
    plan = planned(clouded).plan
    target = plan.target
    assert (target.scheduler, target.cloud.machines, target.machines) == (Scheduler.SLURM, 3, 3)
    (partition,) = target.partitions
    assert (partition.nodes, partition.cores, partition.default) == (3, 8, True)
    assert plan.job.script.startswith("#!/bin/bash\n#SBATCH ")
    clouded.replace("cores_per_process: 4", "nodes: 4")
    with pytest.raises(ModakError, match="3 nodes|has 3"):
        planned(clouded)


def test_another_number_of_hosts_is_another_cluster(clouded, planned):
    three = planned(clouded).plan
    four = planned(clouded.replace("machines: 3", "machines: 4")).plan
    assert three.target.address != four.target.address
    assert three.digest != four.digest


def test_the_price_is_that_of_all_hosts(clouded, planned):
    cost = planned(clouded).plan.cost
    assert cost.terms.hourly == pytest.approx(1.02)
    assert minutes_of(cost.terms) == int(5.0 / 1.02 * 60)
    words = cost_words(cost, 3600)
    assert "at 1.02 EUR an hour, of 3 hosts, their start" in words
    assert "the hosts shut themselves down when they have cost 5 EUR" in words


@pytest.mark.parametrize("machines", ["0", "-1", "many"])
def test_no_number_of_hosts_is_refused(clouded, planned, machines):
    clouded.replace("machines: 3", f"machines: {machines}")
    with pytest.raises(InvalidBlueprint, match="machines"):
        planned(clouded)


def test_partitions_of_its_own_are_refused(clouded, planned):
    clouded.replace("machines: 3", "machines: 3\n        partitions: [ { name: other } ]")
    with pytest.raises(InvalidBlueprint, match="the hosts of cluster are its one partition"):
        planned(clouded)


def test_a_playbook_hears_of_its_hosts(clouded):
    (target,) = plan_deployment({"blueprint": str(clouded.path)}, check=False)["targets"]
    address = target["connection"]["ansible_host"]
    assert [each["address"] for each in target["hosts"]] == [f"{address}{name}" for name in NAMES]
    assert [each["name"] for each in target["hosts"]] == [f"modak_target_host_{number}" for number in (1, 2, 3)]


# --- made once


def test_each_host_is_made_once_and_entered_by_its_own_key(cloud):
    provider, stage, store = cloud
    outcome = deploy(stage)
    assert outcome.changed
    assert tags(provider, store) == [*NAMES]
    assert "EUR at 1.02 an hour" in outcome.message
    text = (stage().folder / "ssh_config").read_text()
    for number, name in enumerate(NAMES):
        part = text[text.index(f"Host {store.name}{name}\n") :]
        assert part.index(f"HostKeyAlias {store.name}{name}\n") < part.find("\nHost ") % len(part)
        known = MachineStore(stage().folder.parent.parent, f"{store.name}{name}").known_hosts
        assert known.read_text() == f"{store.name}{name} ssh-ed25519 KEY{number}\n"
    again = deploy(stage)
    assert (again.changed, len(provider.made)) == (False, 3)


@pytest.mark.parametrize("lag", [0, 3])
@pytest.mark.parametrize("step", range(0, 44, 3))
def test_killed_at_each_step_there_are_so_many_and_then_none(cloud, step, lag):
    provider, stage, store = cloud
    provider.lag, provider.kill_at = lag, step
    with suppress(Killed):
        deploy(stage)
    assert len(provider.living) <= 3
    provider.kill_at = -1
    deploy(stage)
    assert tags(provider, store) == [*NAMES]
    assert len(provider.made) == 3
    provider.kill_at = provider.step + step
    with suppress(Killed):
        undeploy(stage)
    provider.kill_at = -1
    provider.asked += lag
    undeploy(stage)
    assert provider.living == []
    assert store.note is None


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    steps=st.lists(
        st.tuples(st.sampled_from(["deploy", "undeploy", "timer", "first", "last"]), st.integers(-1, 40)), max_size=6
    )
)
def test_whatever_happens_in_whatever_order(cloud, steps):
    """Killed, or hosts ended by their own timers: never two of one, all after a deployment, none once it is undeployed."""
    provider, stage, store = cloud
    provider.made.clear()
    for name in NAMES:
        host = MachineStore(stage().folder.parent.parent, f"{store.name}{name}")
        host.forget()
        host.forget_intent()
    for what, kill in steps:
        provider.kill_at = -1 if kill < 0 else provider.step + kill
        if what in ("timer", "first", "last"):
            ends = {"timer": [*NAMES], "first": [NAMES[0]], "last": [NAMES[-1]]}[what]
            for each in provider.made:
                each["gone"] |= each["tag"].partition("/")[2].removeprefix(store.name) in ends
        else:
            with suppress(Killed):
                (deploy if what == "deploy" else undeploy)(stage)
        there = tags(provider, store)
        assert len(there) == len({*there})
    provider.kill_at = -1
    deploy(stage)
    assert tags(provider, store) == [*NAMES]
    undeploy(stage)
    assert provider.living == []


def test_a_host_that_is_missing_is_made_up_for_and_the_others_stay(cloud):
    provider, stage, store = cloud
    deploy(stage)
    provider.made[1]["gone"] = True
    words = machines.have_machines(machines.machines_of(stage(check=True)), [stage(check=True)]).message
    assert words == "would make 1 of 3 hosts at a cloud"
    deploy(stage)
    assert tags(provider, store) == [*NAMES]
    assert [each["id"] for each in provider.living] == ["i-0", "i-2", "i-3"]


def test_without_its_first_host_whose_home_it_is_a_cluster_is_made_anew(cloud):
    provider, stage, store = cloud
    deploy(stage)
    provider.made[0]["gone"] = True
    deploy(stage)
    assert tags(provider, store) == [*NAMES]
    assert [each["id"] for each in provider.living] == ["i-3", "i-4", "i-5"]


def test_what_was_refused_in_the_middle_is_gone_on_with(cloud):
    provider, stage, store = cloud
    provider.most = 2
    with pytest.raises(ModakError, match="quota"):
        deploy(stage)
    assert tags(provider, store) == [*NAMES[:2]]
    provider.most = None
    deploy(stage)
    assert [each["id"] for each in provider.living] == ["i-0", "i-1", "i-2"]


def test_all_hosts_are_used_by_what_is_deployed_and_go_with_it(cloud):
    provider, stage, _ = cloud
    deploy(stage)
    swept = machines.look_at_machines(machines.machines_of(stage())[0], sweep=True, only=[])
    assert ([each["path"] for each in swept.data["kept"]], swept.data["removed"]) == (["i-0", "i-1", "i-2"], [])
    outcome = undeploy(stage)
    assert outcome.message.startswith("i-0, i-1, i-2 ended, since ")
    assert provider.living == []


# --- at the providers


def wanted(provider, tag=TAG, machines=3):
    cloud = Cloud(
        provider=provider, flavor="t3.micro", system=System(distribution="ubuntu", version="16.04"), machines=machines
    )
    if provider == "openstack":
        cloud = cloud.model_copy(update={"flavor": "m1.large", "system": System(distribution="Debian", version="12")})
    return MachineRequest(
        cloud, tag.partition("/")[2], tag, ("198.51.100.0/24",), 22, None, "ssh-ed25519 AAAAhost", "#cloud-config\n"
    )


def test_at_aws_the_hosts_reach_each_other_by_one_group_that_goes_with_the_last(amazon):
    ec2 = boto3.client("ec2", region_name="eu-central-1")
    aws = Aws(Cloud(provider="aws", region="eu-central-1", machines=3))
    made = [aws.create(aws.prepare(wanted("aws", f"{TAG}{name}")), f"token{name}") for name in NAMES]
    aws.admit(wanted("aws"))
    of_tag = [{"Name": "tag:modak", "Values": [f"{TAG}*"]}]
    (group,) = ec2.describe_security_groups(Filters=of_tag)["SecurityGroups"]
    own = [rule["UserIdGroupPairs"] for rule in group["IpPermissions"] if rule["IpProtocol"] == "-1"]
    assert [[pair["GroupId"] for pair in pairs] for pairs in own] == [[group["GroupId"]]]
    ranges = [each["CidrIp"] for rule in group["IpPermissions"] for each in rule["IpRanges"]]
    assert ranges == ["198.51.100.0/24"]
    aws.remove(made[:1])
    assert ec2.describe_security_groups(Filters=of_tag)["SecurityGroups"], "two hosts are still in it"
    aws.remove(made[1:])
    assert not ec2.describe_security_groups(Filters=of_tag)["SecurityGroups"]
    assert aws.find("0123456789abcdef/*") == []


def test_at_openstack_the_hosts_reach_each_other_by_one_group_that_goes_with_the_last(openstack):
    asked = OpenStack(wanted("openstack").cloud)
    for name in NAMES:
        asked.create(asked.prepare(wanted("openstack", f"{TAG}{name}")), "")
    asked.admit(wanted("openstack"))
    (group,) = openstack.security_groups.values()
    rules = list(openstack.security_group_rules.values())
    among = sorted(each["ethertype"] for each in rules if each.get("remote_group_id") == group["id"])
    assert among == ["IPv4", "IPv6"]
    assert [each["remote_ip_prefix"] for each in rules if each.get("remote_ip_prefix")] == ["198.51.100.0/24"]
    found = asked.find("0123456789abcdef/*")
    assert sorted(each.name for each in found) == [f"cloud-01234567{name}" for name in NAMES]
    asked.remove(found[:1])
    assert list(openstack.security_groups.values()) == [group]
    asked.remove(found[1:])
    assert openstack.left == []
