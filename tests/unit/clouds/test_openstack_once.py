"""A machine of OpenStack's is made once, whoever is killed and whatever answer is lost, and leaves nothing behind."""

from __future__ import annotations

import itertools
from contextlib import suppress
from datetime import UTC, datetime

import pytest
import requests
from openstack_cloud import NO_HOST, Refused
from planned_once import planned_once

from modak_ansible.deployment.status import StatusEntry, row_of
from modak_ansible.errors import ModakError, TargetUnreachable
from modak_ansible.stages.base import Stage
from modak_ansible.stages.clouds import machines
from modak_ansible.stages.clouds.user_data import KeyPair
from modak_ansible.store.deployments import known_deployments
from modak_ansible.store.machines import MachineStore
from modak_ansible.store.record import DeploymentRecord
from modak_ansible.transport.ssh import Connection

pytestmark = pytest.mark.component  # which talks to a server of its own


class Killed(BaseException):
    """The controller is gone."""


class Project:
    """A blueprint whose target is a machine of the cloud; a controller is killed before a write, or behind it."""

    def __init__(self, blueprint) -> None:
        planned = planned_once(blueprint.service)
        self.folder, self.path, self.said = planned.save(), blueprint.path, []
        self.plan = planned.plan.model_dump(mode="json")
        self.store = MachineStore(planned.state, planned.plan.target.address)
        self.step, self.kill_at = 0, -1

    def stage(self):
        return Stage(self.plan, self.folder, self.path, Connection(""), call=None, say=self.said.append)

    def machine(self):
        return machines.machines_of(self.stage())[0]

    def deploy(self):
        return machines.have_machines([self.machine()], [self.stage()])

    def undeploy(self):
        return machines.remove_machines([self.machine()], [self.stage()])

    def may_be_killed(self):
        self.step += 1
        if self.step - 1 == self.kill_at:
            raise Killed


@pytest.fixture
def project(openstack, clouded, monkeypatch):
    clouded.replace("provider: aws\n        region: eu-central-1", "provider: openstack")
    clouded.replace(
        "flavor: c7i.2xlarge\n        image: 136693071363/debian-12-amd64-*",
        "flavor: m1.large\n        image: debian-12",
    )
    made, keys, request = Project(clouded), itertools.count(), requests.Session.request

    def asked(self, method, url, **more):
        writes = method != "GET" and not url.endswith("/tokens")
        if writes:
            made.may_be_killed()
        answer = request(self, method, url, **more)
        if writes:
            made.may_be_killed()
        return answer

    monkeypatch.setattr(requests.Session, "request", asked)
    monkeypatch.setattr(machines, "new_host_key", lambda: KeyPair("secret", f"ssh-ed25519 KEY{next(keys)}"))
    monkeypatch.setattr(machines, "_LOOK", 0.001)
    monkeypatch.setattr(machines, "_BOOTS_WITHIN", 5.0)
    monkeypatch.setattr(Connection, "check", lambda self: None)
    monkeypatch.setattr(machines.subprocess, "run", lambda *args, **more: None)
    return made


def the_one(openstack, project):
    """The machine, which has its port and its address, and is known by its own key."""
    (server,), (port,), (floating,) = (
        openstack.servers.values(),
        openstack.ports.values(),
        openstack.floatingips.values(),
    )
    assert (server["status"], port["device_id"], floating["port_id"]) == ("ACTIVE", server["id"], port["id"])
    key = server["asked"]["metadata"]["modak-host-key"]
    assert project.store.known_hosts.read_text() == f"{project.store.name} {key}\n"
    assert project.store.note["id"] == server["id"]
    assert project.store.intent is None, "the machine's private key is not kept"
    return server


def asked_for(openstack, call):
    return sum(f"{method} /{path.split('/')[-1]}" == call for method, path, _ in openstack.asked)


def test_it_is_made_once_and_says_that_it_costs_on(openstack, project):
    outcome = project.deploy()
    assert outcome.changed
    assert "(m1.large) at 129.69.0." in outcome.message
    assert outcome.message.endswith(", which costs, on or off, until modak undeploy or gc")
    the_one(openstack, project)
    (known,) = known_deployments(project.folder.parent.parent)
    row = row_of(StatusEntry(known))
    assert "EUR at 0.34 an hour" in row["machine"]
    assert row["machine"].endswith(", which costs, on or off, until modak undeploy or gc")
    assert not project.deploy().changed
    assert (len(openstack.servers), asked_for(openstack, "POST /servers")) == (1, 1)


# A deployment writes a group, a rule, a port, a server and an address; its end removes an address, a server, a port and a group.
@pytest.mark.parametrize("step", range(10))
def test_killed_at_each_step_there_is_one_machine_and_then_none(openstack, project, step):
    project.kill_at = step
    with pytest.raises(Killed):
        project.deploy()
    project.deploy()
    the_one(openstack, project)
    project.kill_at = project.step + step
    with suppress(Killed):
        project.undeploy()
    project.kill_at = -1
    project.undeploy()
    assert (openstack.left, project.store.note) == ([], None)


def test_an_answer_that_is_lost_is_looked_for_and_not_asked_for_again(openstack, project):
    openstack.loses = "POST /servers"
    project.deploy()
    the_one(openstack, project)
    assert asked_for(openstack, "POST /servers") == 1


@pytest.mark.parametrize("when", ["before", "on the way", "on the way and slow", "behind", "undeployed"])
def test_a_request_that_arrives_late_makes_no_second_machine(openstack, project, monkeypatch, when):
    """The first was sent, and nobody knows what became of it; it arrives while the second is handled, or behind that."""
    openstack.late = True
    with pytest.raises(TargetUnreachable, match="does not answer"):
        project.deploy()
    openstack.late, said = False, []
    assert project.store.intent, "the same is asked once more"
    if when == "before":
        said += openstack.arrive()
    if when.startswith("on the way"):
        make = openstack._make

        def both(body):
            openstack.slow = 1 if when.endswith("slow") else 0
            make(openstack.held.pop())
            openstack.slow = 0
            return make(body)

        monkeypatch.setattr(openstack, "_make", both)
    if when == "undeployed":
        project.undeploy()
        assert "could not be found" in openstack.arrive()[0]
        assert openstack.left == []
        return
    project.deploy()
    said += openstack.arrive()
    the_one(openstack, project)
    assert len(said) == (when == "behind")
    assert all("is still in use" in each for each in said)
    assert len(openstack.asked) > 10
    project.undeploy()
    assert openstack.left == []


def test_of_two_with_the_tag_the_first_stays(openstack, project):
    project.deploy()
    first = the_one(openstack, project)
    port = openstack.add("ports", **{**next(iter(openstack.ports.values())), "device_id": ""})
    openstack._make({"server": {**first["asked"], "networks": [{"port": port}]}})
    assert len(openstack.servers) == 2
    assert not project.deploy().changed
    assert list(openstack.servers) == [first["id"]]
    assert next(each for each in openstack.floatingips.values())["port_id"] != port
    project.undeploy()
    assert openstack.left == []


def test_of_two_both_are_gone_when_it_is_undeployed(openstack, project):
    project.deploy()
    openstack._make({"server": {**the_one(openstack, project)["asked"], "networks": [{"port": openstack.add("ports", **{**next(iter(openstack.ports.values())), "device_id": ""})}]}})  # fmt: skip
    project.undeploy()
    assert openstack.left == []


def test_where_no_host_has_room_its_words_are_told_and_it_may_be_tried_again(openstack, project):
    openstack.fault = NO_HOST
    with pytest.raises(ModakError, match="could not make the machine: No valid host was found") as refused:
        project.deploy()
    assert refused.value.hint == "another flavor or zone, or later"
    assert (openstack.left, project.store.intent) == ([], None)
    openstack.fault = ""
    project.deploy()
    the_one(openstack, project)


def test_one_that_broke_for_somebody_who_was_killed_is_made_anew(openstack, project):
    openstack.fault, project.kill_at = NO_HOST, 7  # behind the request for it
    with pytest.raises(Killed):
        project.deploy()
    openstack._go_on()
    assert [each["status"] for each in openstack.servers.values()] == ["ERROR"]
    openstack.fault = ""
    project.deploy()
    the_one(openstack, project)
    assert any("which is ERROR for good" in each for each in project.said)


def test_a_quota_for_addresses_leaves_one_machine_that_goes_on_or_ends(openstack, project):
    openstack.refuses["POST /floatingips"] = Refused(
        409, "NeutronError", "Quota exceeded for resources: ['floatingip']."
    )
    with pytest.raises(ModakError, match="Quota exceeded") as refused:
        project.deploy()
    assert "a higher quota" in refused.value.hint
    project.deploy()
    the_one(openstack, project)


def test_one_that_is_being_removed_is_waited_for_and_made_anew(openstack, project):
    project.deploy()
    first = the_one(openstack, project)
    openstack.slow, project.kill_at = 3, project.step + 3  # when the machine was asked to end
    with pytest.raises(Killed):
        project.undeploy()
    assert [each["task_state"] for each in openstack.servers.values()] == ["deleting"]
    project.deploy()
    assert the_one(openstack, project)["id"] != first["id"]


def test_of_one_that_broke_nothing_is_removed_that_another_needs(openstack, project):
    """The port of a machine that is being built is in use only when it is."""
    openstack.late = True
    with pytest.raises(TargetUnreachable):
        project.deploy()
    openstack.slow, openstack.held = 4, openstack.held * 2
    assert openstack.arrive() == []
    first = next(iter(openstack.servers.values()))
    first |= {"status": "ERROR", "fault": NO_HOST}
    openstack.slow = 0
    project.deploy()
    assert the_one(openstack, project)["id"] != first["id"]
    assert asked_for(openstack, "POST /servers") == 1


def test_a_floating_address_that_nova_does_not_show_yet_is_not_asked_for_again(openstack, project):
    openstack.slow = 2
    project.deploy()
    the_one(openstack, project)
    assert asked_for(openstack, "POST /floatingips") == 1


def test_what_somebody_removed_by_hand_is_made_anew_or_leaves_nothing(openstack, project):
    for end in (project.deploy, project.undeploy):
        project.deploy()
        the_one(openstack, project)["task_state"] = "deleting"
        openstack._go_on()
        assert (len(openstack.servers), len(openstack.floatingips)) == (0, 1)
        end()
    assert openstack.left == []


def test_one_that_nova_does_not_list_is_not_made_again(openstack, project):
    """As when its cell is down: the port is in use, and stays."""
    project.deploy()
    known = list(openstack.left)
    openstack.hidden = True
    with pytest.raises(ModakError, match="is still in use"):
        project.deploy()
    assert openstack.left == known
    openstack.hidden = False
    project.deploy()
    the_one(openstack, project)


def test_who_may_enter_changes_with_the_next_deployment(openstack, project):
    project.deploy()
    project.plan["cost"]["terms"]["ssh_from"] = ["203.0.113.7/32"]
    project.deploy()
    the_one(openstack, project)
    assert [each["remote_ip_prefix"] for each in openstack.security_group_rules.values()] == ["203.0.113.7/32"]


# --- shut down by itself


def test_one_that_shut_itself_down_is_shown_used_again_and_ended(openstack, project):
    project.deploy()
    server = the_one(openstack, project)
    server["status"], server["created"] = "SHUTOFF", f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"  # within its budget
    looked = machines.look_at_machines(project.machine(), sweep=False, only=[])
    assert ", and shut down, since " in looked.message
    assert "which costs, on or off, until modak undeploy or gc" in looked.message
    project.deploy()
    assert the_one(openstack, project)["id"] == server["id"]
    server["status"] = "SHUTOFF"
    DeploymentRecord(project.folder).update(undeployed=1.0)
    swept = machines.look_at_machines(project.machine(), sweep=True, only=[])
    assert [each["path"] for each in swept.data["removed"]] == [server["id"]]
    assert openstack.left == []


def test_one_that_shut_itself_down_for_its_budget_is_made_anew(openstack, project, monkeypatch):
    """Started again it would shut itself down at once."""
    project.deploy()
    first = the_one(openstack, project)
    first["status"], first["created"] = "SHUTOFF", "2020-01-01T00:00:00Z"
    project.deploy()
    assert the_one(openstack, project)["id"] != first["id"]


def test_one_that_shut_itself_down_is_ended_when_it_is_undeployed(openstack, project):
    project.deploy()
    the_one(openstack, project)["status"] = "SHUTOFF"
    assert project.undeploy().changed
    assert openstack.left == []
    assert not project.undeploy().changed
