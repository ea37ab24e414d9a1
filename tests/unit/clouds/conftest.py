"""A blueprint whose target is a machine of a cloud."""

from __future__ import annotations

import importlib
import itertools
import os
from functools import cache

import amazon_files
import pytest
from example_blueprint import BlueprintFolder
from moto import mock_aws
from openstack import fields
from openstack.resource import Resource
from openstack_cloud import OpenStackCloud
from os_service_types import ServiceTypes
from planned_once import planned_once
from remembering_provider import Provider

from modak_ansible.stages.base import Stage
from modak_ansible.stages.clouds import base, machines
from modak_ansible.stages.clouds.user_data import KeyPair
from modak_ansible.store.machines import MachineStore
from modak_ansible.target.core.plan import Plan
from modak_ansible.transport.ssh import Connection

CLOUD = """\
    cluster:
      type: modak.nodes.CloudHost
      properties:
        provider: aws
        region: eu-central-1
        flavor: c7i.2xlarge
        image: 136693071363/debian-12-amd64-*
        username: admin
        identity_file: id
        ssh_from: [ 198.51.100.0/24 ]
        price_per_hour: 0.34
        currency: EUR
        budget: 5.0
      capabilities:
        processor: { properties: { cores: 8, memory: 16 GB, architecture: skylake_avx512 } }
"""


@pytest.fixture
def clouded(tmp_path):
    made = BlueprintFolder(tmp_path / "clouded")
    text = made.service.read_text()
    begin, end = text.index("    cluster:\n"), text.index("    digits:\n")
    made.service.write_text(text[:begin] + CLOUD + "\n" + text[end:])
    (made.path / "id").write_text("a private key\n")
    (made.path / "id.pub").write_text("ssh-ed25519 AAAAlogin alice\n")
    return made


@pytest.fixture
def planned():
    return lambda blueprint: planned_once(blueprint.service)


service_types = ServiceTypes.all_types_by_service_type.fget


@cache
def types_of(known):
    """The services of OpenStack, of which its client makes a deep copy whenever it looks one up."""
    return service_types(known)


_attributes = Resource._attributes_iterator.__func__


@cache
def attributes(kind, components=(fields.Body, fields.Header)):
    """The attributes of a kind of resource, for which its client looks through the whole class whenever it makes one."""
    return tuple(_attributes(kind, components))


@pytest.fixture
def amazon(monkeypatch):
    """moto's cloud within this process, without the thousand newest images of each region, which it makes two times."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "nobody")
    importlib.import_module("moto.ec2.models.amis")  # which reads the other images as it is imported
    monkeypatch.setenv("MOTO_AMIS_PATH", "those that moto has read")
    amazon_files.share(monkeypatch)
    with mock_aws():
        yield


@pytest.fixture
def openstack(monkeypatch, tmp_path):
    """What stands for a cloud, to which the environment leads; it was asked, and answered, as its schemas say."""
    cloud = OpenStackCloud()
    monkeypatch.setattr(ServiceTypes, "all_types_by_service_type", property(types_of))
    monkeypatch.setattr(Resource, "_attributes_iterator", classmethod(attributes))
    for name in [name for name in os.environ if name.startswith("OS_")]:
        monkeypatch.delenv(name)
    login = {"USERNAME": "alice", "PASSWORD": cloud.password, "PROJECT_NAME": "training", "REGION_NAME": "RegionOne"}
    login |= {"AUTH_URL": f"{cloud.address}/identity/v3"}
    login |= {"USER_DOMAIN_NAME": "Default", "PROJECT_DOMAIN_NAME": "Default"}
    for name, value in login.items():
        monkeypatch.setenv(f"OS_{name}", value)
    monkeypatch.setenv("OS_CLIENT_CONFIG_FILE", str(tmp_path / "none.yaml"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(base, "LOOK", 0.001)
    yield cloud
    cloud.close()
    assert cloud.wrong == []


@pytest.fixture
def cloud(clouded, monkeypatch):
    """A project; gives what begins a controller at its machine, and the provider."""
    provider, keys = Provider(), itertools.count()
    monkeypatch.setattr(machines, "the_provider", lambda cloud: provider)
    monkeypatch.setattr(machines, "new_host_key", lambda: KeyPair("secret", f"ssh-ed25519 KEY{next(keys)}"))
    monkeypatch.setattr(machines.time, "sleep", lambda seconds: None)
    monkeypatch.setattr(Connection, "check", lambda self: None)
    monkeypatch.setattr(machines.subprocess, "run", lambda *args, **more: None)
    planned = planned_once(clouded.service)
    folder = planned.save()
    state = planned.state

    def stage(**changes):
        plan: Plan = planned.plan.model_dump(mode="json")
        return Stage(plan, folder, clouded.path, Connection(""), call=None, say=lambda text: None, **changes)

    yield provider, stage, MachineStore(state, planned.plan.target.address)
