"""A machine is made once, whoever is killed on the way, and ends with its last use: by a provider that forgets nothing.

It shows what it was asked for only some questions later, as EC2 may.
"""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from remembering_provider import Killed, deploy, undeploy

from modak_ansible.errors import ModakError, TargetUnreachable
from modak_ansible.planning.service import plan_blueprint
from modak_ansible.reading.blueprint.reader import Inputs
from modak_ansible.stages.clouds import machines
from modak_ansible.store.record import DeploymentRecord


def test_it_is_made_once_and_known_by_its_own_key(cloud):
    provider, stage, store = cloud
    outcome = deploy(stage)
    assert outcome.changed
    assert "i-0 (large) at 192.0.2.7, since " in outcome.message
    assert "EUR at 0.34 an hour" in outcome.message
    assert store.known_hosts.read_text() == f"{store.name} ssh-ed25519 KEY0\n"
    text = (stage().folder / "ssh_config").read_text()
    assert f"HostName 192.0.2.7\n    HostKeyAlias {store.name}\n    UserKnownHostsFile " in text
    assert "StrictHostKeyChecking yes" in text
    assert store.intent is None, "the machine's private key is not kept"
    again = deploy(stage)
    assert (again.changed, len(provider.made)) == (False, 1)


@pytest.mark.parametrize("lag", [0, 3])
@pytest.mark.parametrize("step", range(0, 14))
def test_killed_at_each_step_there_is_one_machine_and_then_none(cloud, step, lag):
    provider, stage, store = cloud
    provider.lag, provider.kill_at = lag, step
    with suppress(Killed):
        deploy(stage)
    provider.kill_at = -1
    deploy(stage)
    assert len(provider.living) == 1
    assert store.known_hosts.read_text().split()[2] == provider.living[0]["key"].split()[1]
    provider.kill_at = provider.step + step
    with suppress(Killed):
        undeploy(stage)
    provider.kill_at = -1
    undeploy(stage)
    assert provider.living == []
    assert store.note is None


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    steps=st.lists(
        st.tuples(st.sampled_from(["deploy", "undeploy", "timer", "lost"]), st.integers(-1, 12)), max_size=6
    ),
    lag=st.integers(0, 2),
)
def test_whatever_happens_in_whatever_order(cloud, steps, lag):
    """Killed, ended by its own timer, or with nothing known here any more: never two, and none once it is undeployed."""
    provider, stage, store = cloud
    provider.made.clear()
    provider.lag = lag
    store.forget()
    store.forget_intent()
    for what, kill in steps:
        provider.kill_at = -1 if kill < 0 else provider.step + kill
        if what == "timer":
            for each in provider.made:
                each["gone"] = True
        elif what == "lost":
            provider.asked += lag  # what was made is seen by then
            store.forget()
            store.forget_intent()
        else:
            with suppress(Killed):
                (deploy if what == "deploy" else undeploy)(stage)
        assert len(provider.living) <= 1
    provider.kill_at = -1
    provider.asked += lag
    undeploy(stage)
    assert provider.living == []


def test_what_was_refused_is_asked_for_anew_and_what_is_in_doubt_is_not(cloud):
    provider, stage, store = cloud
    provider.refusal = ModakError("aws refuses: the price is too low")
    with pytest.raises(ModakError, match="too low"):
        deploy(stage)
    assert store.intent is None, "another price is another request"
    provider.refusal = TargetUnreachable("aws does not answer")
    with pytest.raises(TargetUnreachable):
        deploy(stage)
    token = store.intent["token"]
    provider.refusal = None
    deploy(stage)
    assert [each["token"] for each in provider.made] == [token]


def test_of_two_that_there_are_the_first_stays(cloud):
    """As when a request of somebody who was killed arrives late."""
    provider, stage, _ = cloud
    deploy(stage)
    provider.made.append({**provider.made[0], "id": "i-9", "since": 9.0, "token": "another"})
    deploy(stage)
    assert [each["id"] for each in provider.living] == ["i-0"]


def test_it_stays_for_another_deployment_and_goes_with_the_last(cloud, clouded):
    provider, stage, store = cloud
    deploy(stage)
    other = plan_blueprint(clouded.replace("batch-size: 128", "batch-size: 64").service, Inputs())
    DeploymentRecord(other.save()).update(stage="target")
    assert len(store.deployments) == 2
    outcome = undeploy(stage)
    assert (outcome.changed, outcome.data) == (False, {"there": True})
    assert "the machine stays for example-" in outcome.message
    DeploymentRecord(stage().folder).update(undeployed=1.0)
    DeploymentRecord(other.folder).update(undeployed=1.0)
    looked = machines.look_at_machines(machines.machines_of(stage())[0], sweep=False, only=[])
    assert [each["path"] for each in looked.data["garbage"]] == ["i-0"]
    kept = machines.look_at_machines(machines.machines_of(stage())[0], sweep=True, only=["i-1"])
    assert (kept.data["removed"], len(provider.living)) == ([], 1)
    swept = machines.look_at_machines(machines.machines_of(stage())[0], sweep=True, only=["i-0"])
    assert [each["path"] for each in swept.data["removed"]] == ["i-0"]
    assert provider.living == []


def test_one_that_is_used_is_never_swept(cloud):
    provider, stage, _ = cloud
    deploy(stage)
    swept = machines.look_at_machines(machines.machines_of(stage())[0], sweep=True, only=[])
    assert [each["path"] for each in swept.data["kept"]] == ["i-0"]
    assert len(provider.living) == 1


def test_in_check_mode_nothing_is_made_and_nothing_ends(cloud):
    provider, stage, _ = cloud
    outcome = machines.have_machines(machines.machines_of(stage(check=True)), [stage(check=True)])
    assert outcome.message == "would make a machine at a cloud"
    assert (outcome.data, provider.made) == ({"there": False}, [])
    deploy(stage)
    assert (
        machines.remove_machines(machines.machines_of(stage(check=True)), [stage(check=True)]).message
        == "would end i-0"
    )
    assert len(provider.living) == 1
