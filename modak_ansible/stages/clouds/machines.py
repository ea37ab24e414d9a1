"""The machines of a target, as their provider has them: found before they are made, made once, ended with their use.

The provider's tags are the truth. What this machine notes spares questions, and says how the other one is entered.
"""

from __future__ import annotations

import subprocess
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module

from modak_ansible.errors import ModakError, TargetUnreachable
from modak_ansible.model.quantities import some_of
from modak_ansible.model.target import Cloud, Terms, costs_until
from modak_ansible.stages.base import Outcome, Stage
from modak_ansible.stages.clouds.base import Instance, MachineRequest, Provider
from modak_ansible.stages.clouds.user_data import login_key_of, minutes_of, new_host_key, user_data
from modak_ansible.store.logins import take_logins
from modak_ansible.store.machines import Intent, MachineNote, MachineStore, cost_so_far, host_name, owner_of
from modak_ansible.store.project import read_origin
from modak_ansible.target.core.files import expanded
from modak_ansible.transport.ssh import Connection, Way, connect

_SSH = 22
_BOOTS_WITHIN = 600.0  # seconds, until it has an address and lets us in
_LOOK = 3.0
# An image without cloud-init has nothing to wait for.
_SETTLED = "! command -v cloud-init > /dev/null || cloud-init status --wait > /dev/null 2>&1 || true"


def the_provider(cloud: Cloud) -> Provider:
    """The one that a target asks for, whose module has its name.

    Raises:
        ModakError: its client is not installed, or knows no credentials.
    """
    module = import_module(f"modak_ansible.stages.clouds.{cloud.provider}")  # slow to import
    provider: Provider = module.PROVIDER(cloud)
    return provider


def machines_of(stage: Stage) -> list[CloudMachine]:
    """The machines of a target: one, or the hosts of a cluster, of which the first is the one that is entered.

    Args:
        stage: of one of the deployments on it.

    Raises:
        ModakError: its provider cannot be asked.
    """
    take_logins()
    target = stage.plan["target"]
    cloud = Cloud(**(target["cloud"] or {}))
    provider = the_provider(cloud)
    count = Way.of(target).machines
    return [CloudMachine(stage, cloud, provider, host_name(target["address"], number + 1)) for number in range(count)]


class CloudMachine:
    """One of them."""

    def __init__(self, stage: Stage, cloud: Cloud, provider: Provider, name: str) -> None:
        self.stage, self.cloud, self.provider, self.name = stage, cloud, provider, name
        self.origin = read_origin(stage.store.plan_file)
        self.terms = Terms(**(stage.plan["cost"] or {})["terms"])
        self.store = MachineStore(self.origin["state"], self.name)
        self.owner = owner_of(self.origin["state"])
        self.tag = f"{self.owner}/{self.name}"

    def look_up(self) -> Instance | None:
        """The machine that there is, which is noted; None, and no note, where there is none."""
        living = self.provider.find(self.tag)
        if not living:
            self.store.forget()
            return None
        if living[0].address and self._host_key(living[0]):
            self._note(living[0])
        return living[0]

    def ask(self) -> bool:
        """Asks for it where it is not there; whether it was not.

        Raises:
            ModakError: the provider refuses.
        """
        for useless in filter(self._is_useless, self.provider.find(self.tag)):
            self.stage.say(f"ending {useless.id}, which is {useless.state} for good")
            self.provider.remove([useless])
            self.store.forget_intent()
        is_new = not self.provider.find(self.tag)
        if is_new:
            self.store.forget()
            self._create()
        else:
            self.provider.admit(self._request())
        return is_new

    def wait_for_address(self) -> Instance:
        """The machine, which was asked for, when it runs and can be entered by its address.

        Raises:
            ModakError: it does not come up.
        """
        instance = self._with_address()
        # what somebody who was killed had asked for may have come, too: the first one is kept
        for other in self.provider.find(self.tag)[1:]:
            self.stage.say(f"ending {other.id}, a second machine that is not needed")
            self.provider.remove([other])
        self._note(instance)
        return instance

    @property
    def is_lost(self) -> bool:
        """Whether it was there, or never asked for, and is not there now."""
        return self.store.intent is None and all(map(self._is_useless, self.provider.find(self.tag)))

    def way(self) -> Connection:
        """How it is entered, as far as that is known now."""
        stage, way = self.stage, Way.of(self.stage.plan["target"])
        first = connect(way, self.origin["testbed"], stage.blueprint_folder, stage.folder, self.origin["state"])
        return replace(first, address=self.name, absent=self.store.note is None)

    def enter(self) -> None:
        """Waits until it lets us in, with the host key that it was given, and has settled.

        Raises:
            TargetUnreachable: it does not.
        """
        connection, deadline = self.way(), time.monotonic() + _BOOTS_WITHIN
        while True:
            try:
                connection.check()
                break
            except TargetUnreachable as error:
                if time.monotonic() > deadline:
                    raise
                self.stage.say(f"waiting for it: {error.message}")
                time.sleep(_LOOK)
        command = [*connection.ssh_command(), connection.address, _SETTLED]
        left = max(30.0, deadline - time.monotonic())
        try:
            subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=left, check=False)
        except subprocess.TimeoutExpired:
            hint = "cloud-init status --long says there what it waits for; deploy again when it is done"
            raise ModakError(f"{self.name} does not finish its first start", hint=hint) from None

    def forget(self) -> None:
        """It has been removed, and whatever is left that was made for it goes."""
        if not self.provider.find(self.tag):
            self.provider.clear(self.tag)
        self.store.forget()
        self.store.forget_intent()

    # --- made once

    def _create(self) -> None:
        intent = self.store.intent or self._intend()
        self.stage.say(f"asking {self.provider.title} for {self.name if self.cloud.machines else 'a machine'}")
        with self._refusable():
            if self.provider.create(intent["parameters"], intent["token"]) is None:
                # that one was made, and has gone since: this is another
                self.store.forget_intent()
                intent = self._intend()
                self.provider.create(intent["parameters"], intent["token"])

    @contextmanager
    def _refusable(self) -> Iterator[None]:
        """What is refused may be asked for in another way."""
        try:
            yield
        except TargetUnreachable:
            raise  # it may have been made: the same is asked once more
        except ModakError:
            self.store.forget_intent()
            raise

    def _is_useless(self, instance: Instance) -> bool:
        """Whether it cannot run again, or would end itself at once, for its budget is spent."""
        minutes = minutes_of(self.terms)
        is_spent = minutes is not None and time.time() - instance.since > minutes * 60
        return instance.is_broken or (instance.is_off and is_spent)

    def _intend(self) -> Intent:
        """What is to be asked for, kept before it is."""
        target, key = self.stage.plan["target"], new_host_key()
        identity_file = self.stage.blueprint_folder.resolve() / expanded(target["identity_file"] or "")
        login_key = "" if self.cloud.key else login_key_of(identity_file)
        boot_data = user_data(self.cloud, self.terms, target["username"] or "", key, login_key)
        request = self._request(key.public, boot_data)
        intent = Intent(token=str(uuid.uuid4()), host_key=key.public, parameters=self.provider.prepare(request))
        self.store.plan(intent)
        return intent

    def _request(self, host_key: str = "", boot_data: str = "") -> MachineRequest:
        return MachineRequest(
            cloud=self.cloud,
            name=self.name,
            tag=self.tag,
            ssh_from=self.terms.ssh_from,
            port=self.stage.plan["target"]["port"] or _SSH,
            most_per_hour=self.terms.price_per_hour,
            host_key=host_key,
            user_data=boot_data,
        )

    def _with_address(self) -> Instance:
        deadline = time.monotonic() + _BOOTS_WITHIN
        while True:
            living = self.provider.find(self.tag)
            if living and living[0].address and living[0].runs:
                return living[0]
            if living:
                with self._refusable():
                    self.provider.settle(living[0])
            if time.monotonic() > deadline:
                state = living[0].state if living else "gone again"
                hint = f"look at it in the console of {self.provider.title}; modak undeploy ends it"
                raise ModakError(f"the machine {self.name} has no address: it is {state}", hint=hint)
            time.sleep(_LOOK)

    def _note(self, instance: Instance) -> None:
        self.store.keep(
            MachineNote(
                provider=self.cloud.provider,
                region=self.cloud.region,
                id=instance.id,
                address=instance.address,
                host_key=self._host_key(instance),
                flavor=instance.flavor,
                since=instance.since,
                price_per_hour=self.terms.price_per_hour,
                currency=self.terms.currency,
            )
        )

    def _host_key(self, instance: Instance) -> str:
        note, intent = self.store.note, self.store.intent
        if instance.host_key or intent is None:
            return instance.host_key or (note["host_key"] if note and note["id"] == instance.id else "")
        return intent["host_key"]


def have_machines(machines: Sequence[CloudMachine], stages: Sequence[Stage]) -> Outcome:
    """The machines are there and let us in; all that is to be deployed to them counts as their use from now on."""
    first = machines[0]
    if first.stage.check:
        instances = [instance for instance in (machine.look_up() for machine in machines) if instance]
        if len(instances) == len(machines):
            return Outcome(False, _words(first, instances), {"there": True})
        new_machines = (
            "a machine" if len(machines) == 1 else f"{len(machines) - len(instances)} of {len(machines)} hosts"
        )
        words = f"would make {new_machines} at {first.provider.title}"
        return Outcome(True, words, {"there": first.store.note is not None})
    for stage in stages:
        stage.record.update(stage="target")
    with first.store.lock():
        if machines[1:] and first.is_lost:
            _end(machines[1:])  # their home folder was there
        # all are asked for before one is waited for
        new = [machine for machine in machines if machine.ask()]
        instances = [machine.wait_for_address() for machine in machines]
    for machine in machines:
        machine.enter()
    return Outcome(bool(new), _words(first, instances), {"there": True})


def remove_machines(machines: Sequence[CloudMachine], stages: Sequence[Stage]) -> Outcome:
    """The machines end with the last deployment on them; as long as another one is there, they stay.

    Args:
        stages: of those that leave them.
    """
    first, leaving = machines[0], {stage.folder.name for stage in stages}
    other_deployments = [name for name in first.store.deployments if name not in leaving]
    if other_deployments:
        instance = first.look_up()
        message = f"the machine stays for {some_of(other_deployments, 1)}"
        return Outcome(False, message if instance else "its machine is gone", {"there": instance is not None})
    if first.stage.check:
        ids = [instance.id for instance in (machine.look_up() for machine in machines) if instance]
        words = f"would end {', '.join(ids)}" if ids else "no machine is there"
        return Outcome(bool(ids), words, {"there": False})
    with first.store.lock():
        ended = _end(machines)
    for stage in stages:
        if stage.record.read() and not stage.record.read().get("undeployed"):
            stage.record.update(undeployed=time.time())
    names = ", ".join(instance.id for instance in ended)
    words = f"{names} ended, {_cost(first, ended)}" if ended else "no machine is there"
    return Outcome(bool(ended), words, {"there": False})


def _end(machines: Sequence[CloudMachine]) -> list[Instance]:
    """Ends all machines of their tags; gives those that there were."""
    provider = machines[0].provider
    living = [instance for machine in machines for instance in provider.find(machine.tag)]
    if living:
        provider.remove(living)
    for machine in machines:
        machine.forget()
    return living


def look_at_machines(machine: CloudMachine, *, sweep: bool, only: Sequence[str]) -> Outcome:
    """All machines of the project at one provider, and whether this one is there; those that nobody uses may end.

    Args:
        sweep: whether they end.
        only: the ids of those that may; all without any.
    """
    garbage, kept, removed = [], [], []
    for instance in machine.provider.find(f"{machine.owner}/*"):
        store = MachineStore(machine.origin["state"], instance.name)
        row = {"kind": "machine", "name": _words(machine, [instance]), "path": instance.id, "size": 0}
        row["idle"] = round(max(0.0, time.time() - instance.since), 1)
        with store.lock():
            uses = store.deployments
            if uses:
                kept.append({**row, "keep": f"{row['name']}, used by {', '.join(uses)}"})
            elif sweep and not machine.stage.check and (not only or instance.id in only):
                machine.provider.remove([instance])
                store.forget()
                store.forget_intent()
                removed.append(row)
            else:
                garbage.append(row)
    own_instance = machine.look_up()
    words = _words(machine, [own_instance]) if own_instance else "no machine is there"
    data = {"there": own_instance is not None, "garbage": garbage, "kept": kept, "removed": removed}
    return Outcome(bool(removed), words, data)


def _cost(machine: CloudMachine, instances: Sequence[Instance]) -> str:
    """What some have cost, in words, since they were started; nothing of money without a price."""
    return cost_so_far([instance.since for instance in instances], machine.terms.price_per_hour, machine.terms.currency)


def _words(machine: CloudMachine, instances: Sequence[Instance]) -> str:
    names = [
        f"{instance.id} ({instance.flavor}) at {instance.address or instance.state}"
        f"{', and shut down' if instance.is_off else ''}"
        for instance in instances
    ]
    return f"{'; '.join(names)}, {_cost(machine, instances)}{costs_until(machine.cloud.provider)}"
