"""A provider of machines that forgets nothing, before which a controller is killed wherever a test wants it."""

from __future__ import annotations

from dataclasses import dataclass, field

from modak_ansible.errors import ModakError
from modak_ansible.stages.clouds import machines
from modak_ansible.stages.clouds.base import Instance


class Killed(BaseException):
    """The controller is gone."""


@dataclass
class Provider:
    """One in memory, before which a controller is killed at a step, or behind it."""

    title = "a cloud"
    made: list[dict] = field(default_factory=list)
    kill_at: int = -1  # the step, two for each question: before it is asked, and before its answer is heard
    lag: int = 0  # questions before a machine is seen
    step: int = 0
    asked: int = 0
    refusal: Exception | None = None
    most: int | None = None  # machines that it makes, in words of a quota

    def _kill(self):
        self.step += 1
        if self.step - 1 == self.kill_at:
            raise Killed

    def _question(self, answer):
        self._kill()
        self.asked += 1
        given = answer()
        self._kill()
        return given

    def find(self, tag):
        def answer():
            visible = [machine for machine in self.living if machine["seen"] <= self.asked]
            return [
                Instance(
                    machine["id"],
                    machine["tag"],
                    machine["key"],
                    "192.0.2.7",
                    "large",
                    machine["since"],
                    "running",
                    runs=True,
                )
                for machine in visible
                if machine["tag"] == tag or (tag.endswith("*") and machine["tag"].startswith(tag[:-1]))
            ]

        return self._question(answer)

    @property
    def living(self):
        return [machine for machine in self.made if not machine["gone"]]

    def prepare(self, wanted):
        parameters = {"tag": wanted.tag, "key": wanted.host_key, "user_data": wanted.user_data}
        return self._question(lambda: parameters)

    def create(self, parameters, token):
        def answer():
            if self.refusal:
                raise self.refusal
            if len(self.made) == self.most:
                raise ModakError("a cloud refuses: the quota is reached")
            earlier = next((machine for machine in self.made if machine["token"] == token), None)
            if earlier:
                assert earlier["user_data"] == parameters["user_data"], "another request with the same token"
            else:
                number = len(self.made)
                fresh = {"id": f"i-{number}", "since": float(number), "seen": self.asked + self.lag, "gone": False}
                earlier = {**parameters, **fresh, "token": token}
                self.made.append(earlier)
            return None if earlier["gone"] else earlier

        return self._question(answer)

    def admit(self, wanted):
        self._question(lambda: None)

    def settle(self, found):
        self._question(lambda: None)

    def remove(self, gone):
        def answer():
            for machine in self.made:
                machine["gone"] |= machine["id"] in [instance.id for instance in gone]

        self._question(answer)

    def clear(self, tag):
        self._question(lambda: None)


def deploy(stage):
    return machines.have_machines(machines.machines_of(stage()), [stage()])


def undeploy(stage):
    return machines.remove_machines(machines.machines_of(stage()), [stage()])
