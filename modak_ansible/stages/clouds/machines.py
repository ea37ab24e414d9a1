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
from modak_ansible.stages.clouds.base import Found, Provider, Wanted
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


def machines_of(stage: Stage) -> list[Machine]:
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
    return [Machine(stage, cloud, provider, host_name(target["address"], each + 1)) for each in range(count)]


class Machine:
    """One of them."""

    def __init__(self, stage: Stage, cloud: Cloud, provider: Provider, name: str) -> None:
        self.stage, self.cloud, self.provider, self.name = stage, cloud, provider, name
        self.origin = read_origin(stage.store.plan_file)
        self.terms = Terms(**(stage.plan["cost"] or {})["terms"])
        self.store = MachineStore(self.origin["state"], self.name)
        self.owner = owner_of(self.origin["state"])
        self.tag = f"{self.owner}/{self.name}"

    def found(self) -> Found | None:
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
            self.provider.admit(self._wanted())
        return is_new

    def come(self) -> Found:
        """The machine, which was asked for, when it runs and can be entered by its address.

        Raises:
            ModakError: it does not come up.
        """
        found = self._with_address()
        # what somebody who was killed had asked for may have come, too: the first one is kept
        for other in self.provider.find(self.tag)[1:]:
            self.stage.say(f"ending {other.id}, a second machine that is not needed")
            self.provider.remove([other])
        self._note(found)
        return found

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

    def _is_useless(self, found: Found) -> bool:
        """Whether it cannot run again, or would end itself at once, for its budget is spent."""
        minutes = minutes_of(self.terms)
        is_spent = minutes is not None and time.time() - found.since > minutes * 60
        return found.is_broken or (found.is_off and is_spent)

    def _intend(self) -> Intent:
        """What is to be asked for, kept before it is."""
        target, key = self.stage.plan["target"], new_host_key()
        identity_file = self.stage.blueprint_folder.resolve() / expanded(target["identity_file"] or "")
        login_key = "" if self.cloud.key else login_key_of(identity_file)
        told = user_data(self.cloud, self.terms, target["username"] or "", key, login_key)
        wanted = self._wanted(key.public, told)
        intent = Intent(token=str(uuid.uuid4()), host_key=key.public, parameters=self.provider.prepare(wanted))
        self.store.plan(intent)
        return intent

    def _wanted(self, host_key: str = "", told: str = "") -> Wanted:
        return Wanted(
            cloud=self.cloud,
            name=self.name,
            tag=self.tag,
            ssh_from=self.terms.ssh_from,
            port=self.stage.plan["target"]["port"] or _SSH,
            most_per_hour=self.terms.price_per_hour,
            host_key=host_key,
            user_data=told,
        )

    def _with_address(self) -> Found:
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

    def _note(self, found: Found) -> None:
        self.store.keep(
            MachineNote(
                provider=self.cloud.provider,
                region=self.cloud.region,
                id=found.id,
                address=found.address,
                host_key=self._host_key(found),
                flavor=found.flavor,
                since=found.since,
                price_per_hour=self.terms.price_per_hour,
                currency=self.terms.currency,
            )
        )

    def _host_key(self, found: Found) -> str:
        note, intent = self.store.note, self.store.intent
        if found.host_key or intent is None:
            return found.host_key or (note["host_key"] if note and note["id"] == found.id else "")
        return intent["host_key"]


def have_machines(machines: Sequence[Machine], stages: Sequence[Stage]) -> Outcome:
    """The machines are there and let us in; all that is to be deployed to them counts as their use from now on."""
    first = machines[0]
    if first.stage.check:
        there = [found for found in (each.found() for each in machines) if found]
        if len(there) == len(machines):
            return Outcome(False, _words(first, there), {"there": True})
        what = "a machine" if len(machines) == 1 else f"{len(machines) - len(there)} of {len(machines)} hosts"
        words = f"would make {what} at {first.provider.title}"
        return Outcome(True, words, {"there": first.store.note is not None})
    for stage in stages:
        stage.record.update(stage="target")
    with first.store.lock():
        if machines[1:] and first.is_lost:
            _end(machines[1:])  # their home folder was there
        # all are asked for before one is waited for
        new = [each for each in machines if each.ask()]
        there = [each.come() for each in machines]
    for each in machines:
        each.enter()
    return Outcome(bool(new), _words(first, there), {"there": True})


def remove_machines(machines: Sequence[Machine], stages: Sequence[Stage]) -> Outcome:
    """The machines end with the last deployment on them; as long as another one is there, they stay.

    Args:
        stages: of those that leave them.
    """
    first, leaving = machines[0], {stage.folder.name for stage in stages}
    others = [name for name in first.store.deployments if name not in leaving]
    if others:
        found = first.found()
        kept = f"the machine stays for {some_of(others, 1)}"
        return Outcome(False, kept if found else "its machine is gone", {"there": found is not None})
    if first.stage.check:
        there = [found.id for found in (each.found() for each in machines) if found]
        words = f"would end {', '.join(there)}" if there else "no machine is there"
        return Outcome(bool(there), words, {"there": False})
    with first.store.lock():
        gone = _end(machines)
    for stage in stages:
        if stage.record.read() and not stage.record.read().get("undeployed"):
            stage.record.update(undeployed=time.time())
    names = ", ".join(each.id for each in gone)
    words = f"{names} ended, {_cost(first, gone)}" if gone else "no machine is there"
    return Outcome(bool(gone), words, {"there": False})


def _end(machines: Sequence[Machine]) -> list[Found]:
    """Ends all machines of their tags; gives those that there were."""
    provider = machines[0].provider
    living = [found for each in machines for found in provider.find(each.tag)]
    if living:
        provider.remove(living)
    for each in machines:
        each.forget()
    return living


def look_at_machines(machine: Machine, *, sweep: bool, only: Sequence[str]) -> Outcome:
    """All machines of the project at one provider, and whether this one is there; those that nobody uses may end.

    Args:
        sweep: whether they end.
        only: the ids of those that may; all without any.
    """
    garbage, kept, removed = [], [], []
    for found in machine.provider.find(f"{machine.owner}/*"):
        store = MachineStore(machine.origin["state"], found.name)
        row = {"kind": "machine", "name": _words(machine, [found]), "path": found.id, "size": 0}
        row["idle"] = round(max(0.0, time.time() - found.since), 1)
        with store.lock():
            uses = store.deployments
            if uses:
                kept.append({**row, "keep": f"{row['name']}, used by {', '.join(uses)}"})
            elif sweep and not machine.stage.check and (not only or found.id in only):
                machine.provider.remove([found])
                store.forget()
                store.forget_intent()
                removed.append(row)
            else:
                garbage.append(row)
    own = machine.found()
    words = _words(machine, [own]) if own else "no machine is there"
    data = {"there": own is not None, "garbage": garbage, "kept": kept, "removed": removed}
    return Outcome(bool(removed), words, data)


def _cost(machine: Machine, found: Sequence[Found]) -> str:
    """What some have cost, in words, since they were started; nothing of money without a price."""
    return cost_so_far([each.since for each in found], machine.terms.price_per_hour, machine.terms.currency)


def _words(machine: Machine, found: Sequence[Found]) -> str:
    names = [
        f"{each.id} ({each.flavor}) at {each.address or each.state}{', and shut down' if each.is_off else ''}"
        for each in found
    ]
    return f"{'; '.join(names)}, {_cost(machine, found)}{costs_until(machine.cloud.provider)}"
