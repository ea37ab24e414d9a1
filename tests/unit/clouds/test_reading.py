"""The node type of a machine of a cloud: what it takes, what it refuses, and what of it makes another machine."""

from __future__ import annotations

import re
import shutil

import pytest
from example_blueprint import ROOT, BlueprintFolder

from modak_ansible.commands.plan.facts import target_of
from modak_ansible.errors import InvalidBlueprint
from modak_ansible.planning.service import plan_blueprint
from modak_ansible.reading.blueprint.inputs import Inputs


def test_it_is_the_machine_that_the_node_asks_for(clouded, planned):
    target = planned(clouded).plan.target
    assert (target.cloud.provider, target.cloud.flavor, target.scheduler.value) == ("aws", "c7i.2xlarge", "none")
    assert re.fullmatch(r"cluster-[0-9a-f]{8}", target.address)
    assert target.terms is None, "which stand beside its costs"
    assert planned(clouded).plan.cost.terms.ssh_from == ("198.51.100.0/24",)


def test_its_size_and_its_system_are_those_of_toscas_capabilities(clouded, planned):
    clouded.replace("        flavor: c7i.2xlarge\n        image: 136693071363/debian-12-amd64-*\n", "")
    clouded.replace(
        "        processor: { properties: { cores: 8, memory: 16 GB, architecture: skylake_avx512 } }\n",
        "        host: { properties: { num_cpus: 4, mem_size: 8 GB, disk_size: 50 GB } }\n"
        '        os: { properties: { distribution: debian, version: "12" } }\n',
    )
    target = planned(clouded).plan.target
    assert target.cloud.shape.model_dump() == {"cpus": 4, "memory": 8 * 10**9, "disk": 50 * 10**9}
    assert (target.cloud.system.distribution, target.cloud.system.version) == ("debian", "12")
    assert (target.processor.cores, target.processor.memory) == (4, 8 * 10**9), "the plan has them, too"


OPENSTACK = (
    "provider: openstack\n        cloud: home\n        network: private\n        floating_ip: none\n        zone: nova"
)


def test_a_machine_of_openstack_takes_its_own_words_and_says_that_it_costs_on(clouded, planned):
    plain = planned(clouded).plan
    assert not {"cloud", "network", "floating_ip", "zone"} & set(plain.target.cloud.model_dump()), "whose digest stays"
    assert target_of(plain) == f"cluster (a machine of aws, c7i.2xlarge, {plain.target.processor.architecture})"
    clouded.replace("provider: aws", OPENSTACK).replace("136693071363/debian-12-amd64-*", "debian-12")
    plan = planned(clouded).plan
    known = plan.target.cloud
    assert (known.cloud, known.network, known.floating_ip, known.zone) == ("home", "private", "none", "nova")
    assert "a machine of openstack, c7i.2xlarge, which costs, on or off, until modak undeploy or gc" in target_of(plan)


@pytest.mark.parametrize(
    ("provider", "word", "said"),
    [("aws", "cloud: home", "aws takes no cloud, openstack does"), ("aws", "floating_ip: none", "aws takes no floating_ip"),
     ("openstack", "spot: true", "openstack takes no spot, aws does"), ("openstack", "subnet: a", "openstack takes no subnet")],
)  # fmt: skip
def test_a_word_of_another_provider_is_refused(clouded, planned, provider, word, said):
    clouded.replace("provider: aws", f"provider: {provider}\n        {word}")
    with pytest.raises(InvalidBlueprint, match=said):
        planned(clouded)


@pytest.mark.parametrize(
    ("old", "new"),
    [("0.34", "0.50"), ("budget: 5.0", "budget: 50.0"), ("EUR", "USD"), ("198.51.100.0/24", "203.0.113.7/32"),
     ("        budget: 5.0\n", "        budget: 5.0\n        idle_minutes: 60\n")],
)  # fmt: skip
def test_on_what_terms_it_is_had_changes_neither_plan_nor_machine(clouded, planned, old, new):
    before = planned(clouded).plan
    after = planned(clouded.replace(old, new)).plan
    assert (before.digest, before.target.address) == (after.digest, after.target.address)
    assert before.cost != after.cost


@pytest.mark.parametrize(
    ("old", "new"),
    [("c7i.2xlarge", "c7i.4xlarge"), ("eu-central-1", "eu-west-1"), ("username: admin", "username: debian"),
     ("        budget: 5.0\n", "        spot: true\n"), ("        budget: 5.0\n", "        packages: [ apptainer ]\n")],
)  # fmt: skip
def test_another_machine_has_another_name(clouded, planned, old, new):
    before = planned(clouded).plan
    assert before.target.address != planned(clouded.replace(old, new)).plan.target.address


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("        flavor: c7i.2xlarge\n", "", "nothing says how large the machine of cluster is to be"),
        ("        image: 136693071363/debian-12-amd64-*\n", "", "nothing says from what image cluster starts"),
        ("        username: admin\n", "", "no user for the login to cluster is named"),
        ("        identity_file: id\n", "", "no key for the login to cluster is named"),
        ("        ssh_from: [ 198.51.100.0/24 ]\n", "", "nothing says who may log in to cluster: nobody could"),
        ("[ 198.51.100.0/24 ]", "[]", "nothing says who may log in to cluster: nobody could"),
        ("198.51.100.0/24", "everybody", "everybody is not a range of addresses"),
        ("198.51.100.0/24", "198.51.100.1/24", "has host bits set"),
        ("provider: aws", "provider: gce", "gce"),
        ("        price_per_hour: 0.34\n", "", "a budget needs a price"),
        ("price_per_hour: 0.34", "price_per_hour: 0.0", "price_per_hour"),
        ("image: 136693071363/debian-12-amd64-*", 'image: "$(reboot)"', "is not an image's id or name"),
        ("flavor: c7i.2xlarge", 'flavor: "-x"', "cannot be a name"),
    ],
)
def test_what_cannot_be_is_refused_where_it_stands(clouded, planned, old, new, said):
    clouded.replace(old, new)
    with pytest.raises(InvalidBlueprint) as refused:
        planned(clouded)
    assert said in str(refused.value)
    assert re.match(r".*service\.yaml:\d+:\d+: ", str(refused.value))


def test_any_blueprint_goes_there_by_a_word(clouded, tmp_path):
    """A blueprint for a cluster, by a target file."""
    plain = BlueprintFolder(tmp_path / "plain")
    file = tmp_path / "ec2.yaml"
    file.write_text(
        "scheduler: cloud\nprovider: aws\nusername: admin\nkey: alice\nssh_from: [ 198.51.100.0/24 ]\n"
        'price_per_hour: 0.34\nhost: { num_cpus: 8, mem_size: 16 GB }\nos: { distribution: debian, version: "12" }\n'
    )
    plan = plan_blueprint(plain.service, Inputs(targets=file)).plan
    assert (plan.target.cloud.key, plan.target.cloud.shape.cpus, plan.target.partitions) == ("alice", 8, ())
    assert plan.target.address.startswith("cluster-")
    assert plan.cost.terms.price_per_hour == 0.34
    file.write_text(file.read_text().replace("key: alice\n", ""))
    with pytest.raises(InvalidBlueprint, match="no key for the login to cluster is named"):
        plan_blueprint(plain.service, Inputs(targets=file))


def test_over_budget_is_refused_at_the_budget(clouded, planned):
    """By the real model, for a training that it knows."""
    shutil.copytree(ROOT / "benchmarks" / "mnist_cnn", clouded.path / "mnist_cnn")
    clouded.replace("script: train/train.py", "script: mnist_cnn/pytorch.py")
    clouded.replace("architecture: skylake_avx512", "architecture: zen4, peak_gflops: 900.0, memory_bandwidth: 40.0")
    assert 0.0001 < planned(clouded).plan.cost.predicted.middle < 5.0
    clouded.replace("budget: 5.0", "budget: 0.0001")
    line = clouded.service.read_text().splitlines().index("        budget: 0.0001") + 1
    said = rf"service\.yaml:{line}:\d+: .*predicted to cost \S+ EUR \(.*\), over the budget of 0\.0001 EUR"
    with pytest.raises(InvalidBlueprint, match=said):
        planned(clouded)


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("ssh_from: [ 198.51.100.0/24 ]", "ssh_from: 198.51.100.0/24", "ssh_from must be a list"),
        ("username: admin", "username: 7", "username must be text"),
        ("flavor: c7i.2xlarge", "flavor: 2", "flavor must be text"),
        ("price_per_hour: 0.34", "price_per_hour: 0,34", "price_per_hour must be a number"),
    ],
)
def test_what_is_refused_is_not_missing_as_well(clouded, old, new, told):
    clouded.replace(old, new)
    with pytest.raises(InvalidBlueprint) as refused:
        plan_blueprint(clouded.service, Inputs())
    (mistake,) = refused.value.mistakes
    assert told in mistake.message


@pytest.mark.parametrize(
    ("old", "kind", "told"),
    [
        ("flavor: c7i.2xlarge", "string", "nothing says how large the machine of cluster is to be"),
        ("username: admin", "string", "no user for the login to cluster is named"),
        ("ssh_from: [ 198.51.100.0/24 ]", "list", "nothing says who may log in to cluster"),
        ("provider: aws", "string", "cluster needs the property provider"),
    ],
)
def test_what_an_input_leaves_out_is_missing(clouded, old, kind, told):
    clouded.replace(old, f"{old.partition(':')[0]}: {{ get_input: some }}")
    clouded.replace("  inputs:\n", f"  inputs:\n    some: {{ type: {kind}, required: false }}\n")
    with pytest.raises(InvalidBlueprint) as refused:
        plan_blueprint(clouded.service, Inputs())
    (mistake,) = refused.value.mistakes
    assert told in mistake.message
