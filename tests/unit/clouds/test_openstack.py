"""OpenStack's own client against what stands for a cloud: what is asked for, found again, refused, and ended."""

from __future__ import annotations

import base64

import pytest
import yaml
from openstack_cloud import NEW, OLD, Refused

from modak_ansible.errors import ModakError, TargetUnreachable
from modak_ansible.model.target import Cloud, Shape, System
from modak_ansible.stages.clouds import base
from modak_ansible.stages.clouds.base import MachineRequest, NoCredentials
from modak_ansible.stages.clouds.openstack import OpenStack
from modak_ansible.store.logins import VARIABLES

pytestmark = pytest.mark.component  # which talks to a server of its own

TAG = "0123456789abcdef/cloud-01234567"
DEBIAN = System(distribution="Debian", version="12")


@pytest.fixture
def provider():
    """A provider for a target with some words more."""
    return lambda **more: OpenStack(wanted(**more).cloud)


def wanted(ssh_from=("198.51.100.0/24",), **more):
    cloud = Cloud(**{"provider": "openstack", "flavor": "m1.large", "system": DEBIAN, **more})
    name = TAG.partition("/")[2]
    return MachineRequest(cloud, name, TAG, ssh_from, 22, 0.34, "ssh-ed25519 AAAAhost", "#cloud-config\nthis: that\n")


def made(provider, **more):
    """A machine that runs and has its address."""
    asked = provider(**more)
    asked.create(asked.prepare(wanted(**more)), "a token")
    asked.settle(asked.find(TAG)[0])
    (found,) = asked.find(TAG)
    return asked, found


@pytest.mark.parametrize("microversion", [OLD, NEW])
def test_it_is_found_by_its_tag_with_all_that_nobody_need_have_noted(openstack, provider, microversion):
    openstack.microversion = microversion
    assert provider().find(TAG) == []
    asked, found = made(provider, key="alice", zone="nova")
    assert (found.tag, found.host_key, found.runs, found.name) == (TAG, "ssh-ed25519 AAAAhost", True, "cloud-01234567")
    assert found.address.startswith("129.69.0.")
    large = openstack.named("flavors", "m1.large")
    assert found.flavor == ("m1.large" if microversion == NEW else large["id"])
    assert asked.find("0123456789abcdef/*") == [found]
    assert asked.find("fedcba9876543210/*") == []
    (server,) = openstack.servers.values()
    assert base64.b64decode(server["asked"]["user_data"]) == b"#cloud-config\nthis: that\n"
    assert (server["asked"]["key_name"], server["asked"]["availability_zone"]) == ("alice", "nova")
    assert "block_device_mapping_v2" not in server["asked"]


def test_it_ends_with_all_that_was_made_for_it_and_may_be_ended_again(openstack, provider):
    asked, found = made(provider)
    for _ in range(2):
        asked.remove([found])
        assert (asked.find(TAG), openstack.left) == ([], [])


def test_what_others_have_stays(openstack, provider):
    """An address, a port and a group of somebody else's, with a name that is nearly the same."""
    asked, found = made(provider)
    group = openstack.add("security_groups", name=f"modak {TAG}0")
    openstack.add("ports", name=f"modak {TAG}0", device_id="", security_groups=[group], network_id="")
    openstack.add("floatingips", description="mine", port_id=None)
    asked.remove([found])
    assert len(openstack.left) == 3


def test_only_who_is_named_may_enter_as_it_stands_today(openstack, provider):
    made(provider)
    provider().admit(wanted(ssh_from=("203.0.113.7/32", "2001:db8::/32")))
    rules = [
        (each["remote_ip_prefix"], each["ethertype"], each["protocol"], each["port_range_min"], each["port_range_max"])
        for each in openstack.security_group_rules.values()
    ]
    assert sorted(rules) == [("2001:db8::/32", "IPv6", "tcp", 22, 22), ("203.0.113.7/32", "IPv4", "tcp", 22, 22)]
    (port,) = openstack.ports.values()
    assert port["security_groups"] == list(openstack.security_groups)


# --- size, system, disk


def test_the_flavor_is_the_smallest_that_has_what_is_asked_for(openstack, provider):
    asked = wanted(flavor="", shape=Shape(cpus=4, memory=4 * 10**9))
    assert provider().prepare(asked)["flavor_id"] == openstack.named("flavors", "c1.small")["id"]
    roomy = provider().prepare(wanted(flavor="", shape=Shape(cpus=4, disk=80 * 1024**3)))
    assert roomy["flavor_id"] == openstack.named("flavors", "m1.large")["id"], "whose disk is large enough"
    assert "block_device_mapping" not in roomy
    with pytest.raises(ModakError, match="no machine with what the capability host") as refused:
        provider().prepare(wanted(flavor="", shape=Shape(cpus=64)))
    assert refused.value.hint == "the largest is m1.xlarge with 8 cores"


def test_a_disk_that_no_flavor_has_is_a_volume_that_goes_with_the_machine(openstack, provider):
    shape = {"flavor": "", "shape": Shape(cpus=4, disk=500 * 10**9)}
    made(provider, **shape)
    (server,) = openstack.servers.values()
    (volume,) = server["asked"]["block_device_mapping_v2"]
    assert (volume["volume_size"], volume["delete_on_termination"], volume["source_type"]) == (466, True, "image")
    assert server["asked"]["imageRef"] == ""


def test_of_images_with_one_name_or_system_the_newest_is_taken(openstack, provider):
    newest = next(each["id"] for each in openstack.images.values() if each["created_at"].startswith("2026"))
    for more in ({}, {"image": "debian-12"}, {"image": "debian-*"}, {"image": newest}):
        assert provider().prepare(wanted(**more))["image_id"] == newest
    openstack.images[newest]["architecture"] = "aarch64"
    assert provider().prepare(wanted())["image_id"] != newest


@pytest.mark.parametrize(
    ("more", "said", "hint"),
    [
        ({"flavor": "m1.lrage"}, "no flavor m1.lrage", "did you mean m1.large?"),
        ({"image": "debain-12"}, "no image debain-12", "did you mean debian-12?"),
        ({"image": "00000000-0000-0000-0000-000000000000"}, "openstack refuses: .*00000000-0000", "nothing is made twice"),
        ({"system": System(distribution="ubuntu", version="22.04")}, "no image of ubuntu 22.04 by its properties", "did you mean ubuntu-24.04?"),
        ({"network": "privat"}, "no network privat", "did you mean private?"),
        ({"floating_ip": "pubic"}, "no floating_ip pubic", "did you mean public?"),
    ],
)  # fmt: skip
def test_what_is_not_there_is_said_with_what_is_near(openstack, provider, more, said, hint):
    with pytest.raises(ModakError, match=said) as refused:
        provider(**more).prepare(wanted(**more))
    assert hint in refused.value.hint
    assert openstack.servers == {}


# --- networks and addresses


def test_without_a_public_address_of_its_own_it_gets_a_floating_one_and_else_none(openstack, provider):
    _, found = made(provider, network="public")
    assert found.address.startswith("129.69.0.")
    assert openstack.floatingips == {}


def test_it_may_be_entered_by_its_own_address(openstack, provider):
    _, found = made(provider, floating_ip="none")
    assert found.address.startswith("10.0.0.")
    assert openstack.floatingips == {}


def test_what_network_is_meant_must_be_clear_before_anything_costs(openstack, provider):
    public = openstack.named("networks", "public")
    del openstack.networks[public["id"]]
    with pytest.raises(ModakError, match="no networks that floating_ip may name") as refused:
        provider().prepare(wanted())
    assert refused.value.hint.startswith("floating_ip: none")
    openstack.networks[public["id"]] = public
    openstack.add("networks", **{**public, "name": "other"})
    with pytest.raises(ModakError, match="2 networks that floating_ip may name") as refused:
        provider().prepare(wanted())
    assert refused.value.hint == "floating_ip: one of public, other"
    assert made(provider, floating_ip="other")[1].address
    openstack.add("networks", **{**openstack.named("networks", "private"), "name": "second"})
    openstack.ports.clear()
    with pytest.raises(ModakError, match="2 networks that network may name"):
        provider().prepare(wanted())


# --- refusals


@pytest.mark.parametrize(
    ("call", "refusal", "said", "hint"),
    [
        ("POST /servers", (403, "forbidden", "Quota exceeded for cores: Requested 4, but already used 18 of 20 cores"),
         r"refuses: Quota exceeded for cores.* \(403\)", "a higher quota"),
        ("POST /servers", (413, "overLimit", "Quota exceeded for instances: Requested 1"), r"\(413\)", "a higher quota"),
        ("POST /servers", (400, "badRequest", "Invalid key_name provided."), "Invalid key_name", "key: a key pair"),
        ("POST /servers", (403, "forbidden", "Only volume-backed servers are allowed for flavors with zero disk."),
         "zero disk", "disk_size: 20 GB"),
        ("POST /servers", (400, "badRequest", "The requested availability zone is not available"), "not available", "zone: "),
        ("POST /ports", (409, "NeutronError", "Quota exceeded for resources: ['port']."), r"\(409\)", "a higher quota"),
        ("POST /servers", (403, "forbidden", "Policy doesn't allow os_compute_api:servers:create to be performed."),
         "Policy doesn't allow", "nothing is made twice"),
    ],
)  # fmt: skip
def test_its_refusals_are_told_with_what_to_do_and_leave_nothing_behind(openstack, provider, call, refusal, said, hint):
    asked = provider()
    openstack.refuses[call] = Refused(*refusal)
    with pytest.raises(ModakError, match=said) as refused:
        asked.create(asked.prepare(wanted()), "a token")
    assert not isinstance(refused.value, TargetUnreachable)
    assert hint in refused.value.hint
    if call == "POST /servers":
        assert openstack.left == []
    asked.clear(TAG)
    assert openstack.left == []


@pytest.mark.parametrize("call", ["POST /servers", "GET /servers/detail", "POST /ports"])
def test_what_is_out_of_order_or_does_not_answer_may_have_been_done(openstack, provider, call):
    asked = provider()
    openstack.refuses[call] = Refused(503, "computeFault", "The server is currently unavailable.")
    with pytest.raises(TargetUnreachable, match=r"openstack is unavailable: The server is currently unavailable"):
        asked.find(TAG)
        asked.create(asked.prepare(wanted()), "a token")
    parameters = asked.prepare(wanted())
    openstack.close()
    with pytest.raises(TargetUnreachable, match="openstack does not answer") as refused:
        asked.create(parameters, "a token")
    assert refused.value.hint == "deploy again: nothing is made twice"


# --- credentials


def test_without_any_login_it_says_how_to_give_one(openstack, provider, monkeypatch):
    monkeypatch.delenv("OS_AUTH_URL")
    with pytest.raises(NoCredentials, match="auth_url") as refused:
        provider()
    assert "OS_AUTH_URL" in refused.value.hint


@pytest.mark.parametrize("wrong", ["OS_PASSWORD", "region", "cloud", "OS_AUTH_URL"])
def test_a_login_that_is_not_taken_is_said_without_its_secret(openstack, provider, monkeypatch, wrong):
    if wrong.startswith("OS_"):
        monkeypatch.setenv(wrong, "http://127.0.0.1:1/v3" if wrong == "OS_AUTH_URL" else "sesame")
    expected = {
        "OS_PASSWORD": (NoCredentials, "requires authentication", "openrc"),
        "region": (ModakError, "nowhere", "region: "),
        "cloud": (NoCredentials, "nowhere", "clouds.yaml"),
        "OS_AUTH_URL": (TargetUnreachable, "does not answer", "nothing is made twice"),
    }
    kind, said, hint = expected[wrong]
    with pytest.raises(kind, match=said) as refused:
        provider(**({} if wrong.startswith("OS_") else {wrong: "nowhere"})).find(TAG)
    assert hint in refused.value.hint
    assert not {"sesame", openstack.password} & set(str(refused.value).split())


def test_an_application_credential_in_clouds_yaml_is_enough(openstack, provider, monkeypatch, tmp_path):
    auth = {"auth_url": f"{openstack.address}/identity/v3", "application_credential_id": "ab12"}
    auth["application_credential_secret"] = openstack.password
    known = {"auth_type": "v3applicationcredential", "auth": auth, "region_name": "RegionTwo"}
    (tmp_path / "clouds.yaml").write_text(yaml.safe_dump({"clouds": {"home": known, "other": known}}))
    for name in (
        "AUTH_URL",
        "USERNAME",
        "PASSWORD",
        "PROJECT_NAME",
        "USER_DOMAIN_NAME",
        "PROJECT_DOMAIN_NAME",
        "REGION_NAME",
    ):
        monkeypatch.delenv(f"OS_{name}")
    monkeypatch.setenv("OS_CLIENT_CONFIG_FILE", str(tmp_path / "clouds.yaml"))
    assert provider(cloud="home").find(TAG) == []
    monkeypatch.setenv("OS_CLOUD", "other")
    assert provider().find(TAG) == []
    identity = next(body["auth"]["identity"] for method, path, body in openstack.asked if path.endswith("/tokens"))
    assert identity["methods"] == ["application_credential"]


def test_every_secret_that_its_client_takes_from_the_environment_is_handed_on_by_no_disk():
    """ansible-runner writes down the environment that it is given."""
    from keystoneauth1.loading import get_available_plugin_loaders

    options = [option for each in get_available_plugin_loaders().values() for option in each.get_options()]
    secrets = {f"OS_{option.dest.upper()}" for option in options if option.secret}
    assert "OS_PASSWORD" in secrets
    assert secrets <= set(VARIABLES)


def test_without_its_client_it_says_what_to_install(monkeypatch):
    def nothing(name):
        raise ImportError(name)

    monkeypatch.setattr(base, "import_module", nothing)
    with pytest.raises(ModakError, match="openstack, which asks openstack for machines, is not installed") as refused:
        OpenStack(Cloud(provider="openstack"))
    assert refused.value.hint.startswith("pip install 'modak-ansible[cloud]'")
