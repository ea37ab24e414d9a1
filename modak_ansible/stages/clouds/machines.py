"""The machine of a target, as its provider has it: found before it is made, made once, and removed with the last use.

The provider's tags are the truth. What this machine notes spares questions, and says how the other one is entered.
"""

from __future__ import annotations

import subprocess
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from modak_ansible.errors import ModakError, TargetUnreachable
from modak_ansible.model.target import Cloud, Terms, costs_until
from modak_ansible.stages.base import Outcome, Stage
from modak_ansible.stages.clouds.base import Found, Provider, Wanted
from modak_ansible.stages.clouds.user_data import login_key_of, minutes_of, new_host_key, user_data
from modak_ansible.store.logins import take_logins
from modak_ansible.store.machines import Intent, MachineNote, MachineStore, cost_so_far, owner_of
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


class Machine:
    """A target's machine.

    Args:
        stage: of one of the deployments on it.

    Raises:
        ModakError: its provider cannot be asked.
    """

    def __init__(self, stage: Stage) -> None:
        take_logins()
        self.stage, target = stage, stage.plan["target"]
        self.origin = read_origin(stage.store.plan_file)
        self.name = target["address"]
        self.cloud = Cloud(**target["cloud"])
        self.terms = Terms(**stage.plan["cost"]["terms"])
        self.store = MachineStore(self.origin["state"], self.name)
        self.provider: Provider = the_provider(self.cloud)
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

    def make(self) -> tuple[Found, bool]:
        """The machine, which is made where there is none, runs, and can be entered by its address; whether it is new.

        Raises:
            ModakError: the provider refuses, or it does not come up.
        """
        with self.store.lock():
            for useless in filter(self._is_useless, self.provider.find(self.tag)):
                self.stage.say(f"ending {useless.id}, which is {useless.state} for good")
                self.provider.remove(useless)
                self.store.forget_intent()
            is_new = not self.provider.find(self.tag)
            if is_new:
                self.store.forget()
                self._create()
            else:
                self.provider.admit(self._wanted())
            found = self._with_address()
            # what somebody who was killed had asked for may have come, too: the first one is kept
            for other in self.provider.find(self.tag)[1:]:
                self.stage.say(f"ending {other.id}, a second machine that nobody needs")
                self.provider.remove(other)
            self._note(found)
        return found, is_new

    def way(self) -> Connection:
        """How it is entered, as far as that is known now."""
        stage, way = self.stage, Way.of(self.stage.plan["target"])
        return connect(way, self.origin["testbed"], stage.blueprint_folder, stage.folder, self.origin["state"])

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
            raise ModakError(f"{self.name} does not come to the end of its first start", hint=hint) from None

    def end(self) -> list[Found]:
        """Ends all machines of the tag; gives those that there were."""
        with self.store.lock():
            living = self.provider.find(self.tag)
            for found in living:
                self.provider.remove(found)
            if not living:
                self.provider.clear(self.tag)
            self.store.forget()
            self.store.forget_intent()
        return living

    def cost(self, since: float) -> str:
        """What it has cost, in words, since it was started; nothing of money without a price."""
        return cost_so_far(since, self.terms.price_per_hour, self.terms.currency)

    # --- made once

    def _create(self) -> None:
        intent = self.store.intent or self._intend()
        self.stage.say(f"asking {self.provider.title} for a machine")
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
        login_key = "" if self.cloud.key else login_key_of(self._identity_file(target))
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

    def _identity_file(self, target: Any) -> Path:
        return self.stage.blueprint_folder.resolve() / expanded(target["identity_file"])

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


def have_machine(machine: Machine, stages: Sequence[Stage]) -> Outcome:
    """The machine is there and lets us in; all that is to be deployed to it counts as its use from now on."""
    if machine.stage.check:
        found = machine.found()
        if found is None:
            return Outcome(True, f"would make a machine at {machine.provider.title}", {"there": False})
        return Outcome(False, _words(machine, found), {"there": True})
    for stage in stages:
        stage.record.update(stage="target")
    found, is_new = machine.make()
    machine.enter()
    return Outcome(is_new, _words(machine, found), {"there": True})


def remove_machine(machine: Machine, stages: Sequence[Stage]) -> Outcome:
    """The machine ends with the last deployment on it; as long as another one is there, it stays.

    Args:
        stages: of those that leave it.
    """
    leaving = {stage.folder.name for stage in stages}
    others = [name for name in machine.store.deployments if name not in leaving]
    if others:
        found = machine.found()
        kept = f"the machine stays for {others[0]}" + (f" and {len(others) - 1} more" if len(others) > 1 else "")
        return Outcome(False, kept if found else "its machine is gone", {"there": found is not None})
    if stages[0].check:
        found = machine.found()
        return Outcome(found is not None, f"would end {found.id}" if found else "no machine is there", {"there": False})
    gone = machine.end()
    for stage in stages:
        if stage.record.read() and not stage.record.read().get("undeployed"):
            stage.record.update(undeployed=time.time())
    words = ", ".join(f"{each.id} ended, {machine.cost(each.since)}" for each in gone)
    return Outcome(bool(gone), words or "no machine is there", {"there": False})


def look_at_machines(machine: Machine, *, sweep: bool, only: Sequence[str]) -> Outcome:
    """All machines of the project at one provider, and whether this one is there; those that nobody uses may end.

    Args:
        sweep: whether they end.
        only: the ids of those that may; all without any.
    """
    garbage, kept, removed = [], [], []
    for found in machine.provider.find(f"{machine.owner}/*"):
        store = MachineStore(machine.origin["state"], found.name)
        row = {"kind": "machine", "name": _words(machine, found), "path": found.id, "size": 0}
        row["idle"] = round(max(0.0, time.time() - found.since), 1)
        with store.lock():
            uses = store.deployments
            if uses:
                kept.append({**row, "keep": f"{row['name']}, used by {', '.join(uses)}"})
            elif sweep and not machine.stage.check and (not only or found.id in only):
                machine.provider.remove(found)
                store.forget()
                store.forget_intent()
                removed.append(row)
            else:
                garbage.append(row)
    own = machine.found()
    words = _words(machine, own) if own else "no machine is there"
    data = {"there": own is not None, "garbage": garbage, "kept": kept, "removed": removed}
    return Outcome(bool(removed), words, data)


def _words(machine: Machine, found: Found) -> str:
    state = ", and shut down" if found.is_off else ""
    words = f"{found.id} ({found.flavor}) at {found.address or found.state}{state}, {machine.cost(found.since)}"
    return words + costs_until(machine.cloud.provider)
