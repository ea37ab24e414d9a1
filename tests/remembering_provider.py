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
            seen = [each for each in self.living if each["seen"] <= self.asked]
            return [
                Instance(
                    each["id"], each["tag"], each["key"], "192.0.2.7", "large", each["since"], "running", runs=True
                )
                for each in seen
                if each["tag"] == tag or (tag.endswith("*") and each["tag"].startswith(tag[:-1]))
            ]

        return self._question(answer)

    @property
    def living(self):
        return [each for each in self.made if not each["gone"]]

    def prepare(self, wanted):
        parameters = {"tag": wanted.tag, "key": wanted.host_key, "user_data": wanted.user_data}
        return self._question(lambda: parameters)

    def create(self, parameters, token):
        def answer():
            if self.refusal:
                raise self.refusal
            if len(self.made) == self.most:
                raise ModakError("a cloud refuses: the quota is reached")
            known = next((each for each in self.made if each["token"] == token), None)
            if known:
                assert known["user_data"] == parameters["user_data"], "another request with the same token"
            else:
                number = len(self.made)
                fresh = {"id": f"i-{number}", "since": float(number), "seen": self.asked + self.lag, "gone": False}
                known = {**parameters, **fresh, "token": token}
                self.made.append(known)
            return None if known["gone"] else known

        return self._question(answer)

    def admit(self, wanted):
        self._question(lambda: None)

    def settle(self, found):
        self._question(lambda: None)

    def remove(self, gone):
        def answer():
            for each in self.made:
                each["gone"] |= each["id"] in [found.id for found in gone]

        self._question(answer)

    def clear(self, tag):
        self._question(lambda: None)


def deploy(stage):
    return machines.have_machines(machines.machines_of(stage()), [stage()])


def undeploy(stage):
    return machines.remove_machines(machines.machines_of(stage()), [stage()])
