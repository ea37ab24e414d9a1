"""Amazon's client against moto's EC2, within this process: what is asked for, found again, and ended."""

from __future__ import annotations

import base64

import boto3
import pytest
from botocore.exceptions import ClientError, EndpointConnectionError, NoCredentialsError
from hypothesis import given
from hypothesis import strategies as st

from modak_ansible.errors import ModakError, TargetUnreachable
from modak_ansible.model.target import Cloud, Shape, System
from modak_ansible.stages.clouds.aws import Aws, _answer, image_name
from modak_ansible.stages.clouds.base import MachineRequest, smallest

pytestmark = pytest.mark.component  # which talks to a server of its own

UBUNTU = System(distribution="ubuntu", version="16.04")
TAG = "0123456789abcdef/cloud-01234567"


@pytest.fixture
def aws(amazon):
    return Aws(Cloud(provider="aws", region="eu-central-1"))


@pytest.fixture
def ec2(aws):
    return boto3.client("ec2", region_name="eu-central-1")


def wanted(tag=TAG, ssh_from=("198.51.100.0/24",), **more):
    cloud = Cloud(**{"provider": "aws", "flavor": "t3.micro", "system": UBUNTU, **more})
    return MachineRequest(
        cloud, tag.partition("/")[2], tag, ssh_from, 22, 0.34, "ssh-ed25519 AAAAhost", "#cloud-config\nthis: that\n"
    )


def made(aws, **more):
    return aws.create(aws.prepare(wanted(**more)), "a token")


def rules(ec2):
    (group,) = ec2.describe_security_groups(Filters=[{"Name": "tag:modak", "Values": [TAG]}])["SecurityGroups"]
    return [(each["FromPort"], each["ToPort"], [ip["CidrIp"] for ip in each["IpRanges"]], [ip["CidrIpv6"] for ip in each["Ipv6Ranges"]])
            for each in group["IpPermissions"]]  # fmt: skip


def test_it_is_found_by_its_tag_with_all_that_nobody_need_have_noted(aws, ec2):
    assert aws.find(TAG) == []
    machine = made(aws)
    (found,) = aws.find(TAG)
    assert (found.id, found.tag, found.host_key, found.runs) == (machine.id, TAG, "ssh-ed25519 AAAAhost", True)
    assert found.address
    assert found.name == "cloud-01234567"
    assert aws.find("0123456789abcdef/*") == [found]
    assert aws.find("fedcba9876543210/*") == []
    shown = ec2.describe_instance_attribute(InstanceId=found.id, Attribute="userData")["UserData"]["Value"]
    assert base64.b64decode(shown) == b"#cloud-config\nthis: that\n"
    ends = ec2.describe_instance_attribute(InstanceId=found.id, Attribute="instanceInitiatedShutdownBehavior")
    assert ends["InstanceInitiatedShutdownBehavior"]["Value"] == "terminate"


def test_it_ends_with_all_that_was_made_for_it(aws, ec2):
    aws.remove([made(aws)])
    assert aws.find(TAG) == []
    assert [each["GroupName"] for each in ec2.describe_security_groups()["SecurityGroups"]] == ["default"]
    assert ec2.describe_volumes()["Volumes"] == []


def test_what_was_made_for_one_that_was_refused_goes_too(aws, ec2):
    aws.prepare(wanted())
    aws.clear(TAG)
    assert [each["GroupName"] for each in ec2.describe_security_groups()["SecurityGroups"]] == ["default"]


def test_a_connection_that_breaks_leaves_at_most_a_group(aws, ec2, monkeypatch):
    aws.prepare(wanted())

    def broken(**_):
        raise EndpointConnectionError(endpoint_url="https://ec2.example.com")

    monkeypatch.setattr(aws._ec2, "delete_security_group", broken)
    monkeypatch.setattr("modak_ansible.stages.clouds.aws.LOOK", 0.5)
    aws.clear(TAG)
    assert len(ec2.describe_security_groups()["SecurityGroups"]) == 2


def test_only_who_is_named_may_enter_as_it_stands_today(aws, ec2):
    made(aws)
    assert rules(ec2) == [(22, 22, ["198.51.100.0/24"], [])]
    aws.admit(wanted(ssh_from=("203.0.113.7/32", "2001:db8::/32")))
    cidrs = [each for rule in rules(ec2) for part in rule[2:] for each in part]
    assert sorted(cidrs) == ["2001:db8::/32", "203.0.113.7/32"]


@pytest.mark.thorough  # moto knows 900 flavors, and takes long over each
def test_the_flavor_is_the_smallest_that_has_what_is_asked_for(aws):
    cloud = Cloud(provider="aws", shape=Shape(cpus=8, memory=16 * 10**9))
    kinds = aws._flavors(cloud)
    (taken,) = (each for each in kinds if each[0] == smallest(kinds, cloud, "aws"))
    assert taken[1] == 8
    assert taken[2] == min(memory for _, cpus, memory in kinds if cpus == 8 and memory >= 16 * 10**9)


def test_the_disk_is_as_large_as_it_is_asked_for(aws):
    disk = aws.prepare(wanted(shape=Shape(disk=50 * 10**9)))["BlockDeviceMappings"][0]
    assert disk["Ebs"] == {"VolumeSize": 47, "DeleteOnTermination": True}


def test_what_is_larger_than_any_is_refused():
    with pytest.raises(ModakError, match="no machine with what the capability host asks for") as refused:
        smallest([("small", 2, 2**32), ("large", 96, 2**38)], Cloud(provider="aws", shape=Shape(cpus=128)), "aws")
    assert refused.value.hint == "the largest is large with 96 cores"


@given(
    kinds=st.lists(st.tuples(st.text(min_size=1), st.integers(1, 512), st.integers(1, 2**42)), min_size=1),
    cpus=st.none() | st.integers(1, 512),
    memory=st.none() | st.integers(1, 2**42),
)
def test_no_smaller_one_would_do(kinds, cpus, memory):
    cloud = Cloud(provider="aws", shape=Shape(cpus=cpus, memory=memory))
    fitting = [(c, m) for _, c, m in kinds if c >= (cpus or 0) and m >= (memory or 0)]
    if not fitting:
        with pytest.raises(ModakError):
            smallest(kinds, cloud, "aws")
        return
    name = smallest(kinds, cloud, "aws")
    assert min(fitting) in [(c, m) for each, c, m in kinds if each == name]


def test_a_spot_machine_never_costs_more_than_its_price(aws):
    market = aws.prepare(wanted(spot=True))["InstanceMarketOptions"]
    assert market["SpotOptions"]["MaxPrice"] == "0.340000"
    assert market["SpotOptions"]["SpotInstanceType"] == "one-time"


def test_it_may_be_in_a_subnet_of_ones_own_and_have_a_key_pair(aws, ec2):
    subnet = ec2.describe_subnets()["Subnets"][0]["SubnetId"]
    ec2.create_key_pair(KeyName="alice")
    parameters = aws.prepare(wanted(subnet=subnet, key="alice"))
    assert parameters["NetworkInterfaces"][0]["SubnetId"] == subnet
    assert parameters["KeyName"] == "alice"
    assert "SecurityGroupIds" not in parameters
    assert aws.create(parameters, "a token").id


@pytest.mark.parametrize(
    ("cloud", "expected"),
    [
        ({"image": "136693071363/debian-12-amd64-*"}, ("136693071363", "debian-12-amd64-*")),
        ({"image": "self/mine"}, ("self", "mine")),
        ({"system": System(distribution="Debian", version="12")}, ("136693071363", "debian-12-amd64-*")),
        ({"system": System(distribution="debian", version="13", architecture="aarch64")}, ("136693071363", "debian-13-arm64-*")),
        ({"image": "debian-12-amd64-*"}, "could be anybody's"),
        ({"image": "somebody/mine"}, "could be anybody's"),
        ({"system": System(distribution="plan9", version="4")}, "no publisher of plan9 at aws is known"),
    ],
)  # fmt: skip
def test_an_image_by_name_has_its_owner(cloud, expected):
    asked = Cloud(provider="aws", **cloud)
    if isinstance(expected, tuple):
        assert image_name(asked) == expected
    else:
        with pytest.raises(ModakError, match=expected):
            image_name(asked)


def test_an_image_that_is_not_there_is_said(aws):
    with pytest.raises(ModakError, match=r"no image 099720109477/nothing in this region"):
        aws.prepare(wanted(image="099720109477/nothing"))


def refusal(code, status=400):
    known = {"Error": {"Code": code, "Message": "You may not."}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return ClientError(known, "RunInstances")


@pytest.mark.parametrize(
    ("raised", "kind", "said", "hint"),
    [
        (NoCredentialsError(), ModakError, "aws: Unable to locate credentials", "aws configure"),
        (refusal("InsufficientInstanceCapacity"), ModakError, r"aws refuses: You may not. \(Insuff", "another flavor"),
        (refusal("UnauthorizedOperation"), ModakError, "aws refuses", "ec2:RunInstances"),
        (refusal("Whatever"), ModakError, "aws refuses", "nothing is made twice"),
        (refusal("InternalError", 500), TargetUnreachable, "aws is unavailable", "nothing is made twice"),
        (
            EndpointConnectionError(endpoint_url="http://x"),
            TargetUnreachable,
            "aws does not answer",
            "nothing is made twice",
        ),
    ],
)
def test_its_refusals_are_told_with_what_to_do(raised, kind, said, hint):
    def ask():
        raise raised

    with pytest.raises(kind, match=said) as refused:
        _answer(ask)
    assert hint in refused.value.hint
