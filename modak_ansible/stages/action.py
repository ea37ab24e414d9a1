"""What the action plugins share: a stage out of a task, and one clear message out of any failure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

from ansible import constants
from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

from modak_ansible.errors import ModakError
from modak_ansible.stages.base import Answer, Outcome, Stage, module_error, stages_of, timed_stage, words_of_disk
from modak_ansible.stages.jobs.direct import RemoteFunction
from modak_ansible.stages.packing import packed_module
from modak_ansible.store.project import COLLECTION
from modak_ansible.target.core.plan import Plan
from modak_ansible.transport.lifeline import end_with_parent
from modak_ansible.transport.retry import patiently
from modak_ansible.transport.ssh import Connection

PROGRESS = "modak"
# Stages whose progress is noted in the deployment's stage log; what a job writes is in its own log.
_NOTED = ("dataset", "image", "results")
# What is asked again and again, or comes before that: no files come or go next.
_AGAIN = ("submit", "wait", "watch")


class StageAction(ActionBase):  # type: ignore[misc]
    """An action that runs one stage of the deployment whose plan it is given as ``plan_file``.

    With ``plan_files`` it does so for all of them, which are on one target: once for those that want the same.
    """

    stage_name: ClassVar[str]
    is_noted = True  # False for what concerns the target, and no deployment
    # what answers as a module and action of it would, which Ansible sends and starts anew for each question
    looks: ClassVar[Mapping[tuple[str, str], Callable[[Any], Any]]] = {}
    _remote: RemoteFunction | None = None
    _discovered_interpreter_key: str | None = None  # Ansible's own

    def perform(self, stage: Stage) -> Outcome:
        """Does the work for one deployment; each action has either this or ``perform_all``, or both."""
        return self.perform_all([stage])

    def perform_all(self, stages: list[Stage]) -> Outcome:
        """Does the work for several deployments of one target."""
        by_subject: dict[str, list[Stage]] = {}
        for stage in stages:
            by_subject.setdefault(self.subject(stage.plan), []).append(stage)
        outcomes = [self._once(group) for group in by_subject.values()]
        words = dict.fromkeys(outcome.message for outcome in outcomes)
        data = outcomes[0].data if len(outcomes) == 1 else {}
        return Outcome(any(outcome.changed for outcome in outcomes), "; ".join(words), data)

    def subject(self, plan: Plan) -> str:  # noqa: ARG002 - all want the same of some stages
        """What of a plan the work is about: where it is the same for several plans, the work is done once."""
        return ""

    def _once(self, stages: list[Stage]) -> Outcome:
        """Does the work for the first of some deployments that want the same, and has all of them note it."""
        first = stages[0]
        for stage in stages[1:] if self.is_noted and not first.check else ():
            stage.record.begin(self.stage_name)
        try:
            with timed_stage(first, self.stage_name) as finish:
                outcome = self._outcome(stages)
                finish(outcome)
        finally:
            for stage in stages[1:] if not first.check else ():
                stage.record.take_over(self.stage_name, first.record.read())
        return outcome

    def _outcome(self, stages: list[Stage]) -> Outcome:
        """Does the work for the first of some deployments, unless all have completed and so need it no more."""
        completed = self._task.args.get("completed") or ()
        if any(stage.folder.name not in completed for stage in stages):
            return self.perform(stages[0])
        note = stages[0].record.read().get("stages", {}).get(self.stage_name, {})
        return Outcome(False, note.get("message") or "not looked at: the job has completed")

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> Answer:
        end_with_parent()  # a worker of Ansible's has a session of its own
        self._supports_check_mode = True
        result: Answer = super().run(tmp, task_vars)
        try:
            stages = self._stages(task_vars or {})
            several = len(stages) > 1
            with timed_stage(stages[0], self.stage_name, keep=self.is_noted and not several) as finish:
                result.update(finish(self.perform_all(stages) if several else self._outcome(stages)))
        except ModakError as error:
            result.update(failed=True, msg=str(error), exit_code=error.exit_code)
        except OSError as error:
            result.update(failed=True, msg=words_of_disk(error))
        finally:
            self._keep(None)
        if self._discovered_interpreter_key:  # else each task looks for it anew
            facts = {self._discovered_interpreter_key: self._discovered_interpreter}
            result["ansible_facts"] = {**facts, **result.get("ansible_facts", {})}
        return result

    def _stages(self, task_vars: dict[str, Any]) -> list[Stage]:
        """The deployments, on one target: they share a connection."""
        files = self._task.args.get("plan_files") or [self._task.args.get("plan_file") or ""]

        def caller(connection: Connection) -> Callable[..., Answer]:
            self._as_planned(connection)
            return self._caller(connection, task_vars)

        return stages_of(
            [Path(plan_file) for plan_file in files],
            caller,
            self._say,
            noted_as=self.stage_name if self.stage_name in _NOTED else "",
            check=bool(self._task.check_mode),
        )

    def _say(self, text: str) -> None:
        # of callbacks that print JSON, as opera's and ansible.posix.json, it must be all of the output
        Display().display(f"{PROGRESS} {self.stage_name} | {text}", stderr="json" in constants.DEFAULT_STDOUT_CALLBACK)

    def _as_planned(self, connection: Connection) -> None:
        """Has Ansible enter the target as all else here does, and as its ordinary user.

        What ansible.cfg, variables and options say of users, keys and becoming root is for a project's other hosts.

        Raises:
            ModakError: it would by a way of another kind.
        """
        planned_transport = "local" if connection.is_local else "ssh"
        if self._connection.transport != planned_transport:
            message = f"ansible_connection is {self._connection.transport}, and the plan's is {planned_transport}"
            raise ModakError(message, hint="leave ansible_connection out: the plan says how to connect to its target")
        self._connection.set_become_plugin(None)
        if not connection.is_local:
            ssh_options = shlex.join(connection.ssh_command()[1:])
            self._connection._options.update(  # set_option takes no None
                host=connection.address, port=None, remote_user=None, password=None, private_key_file=None,
                ssh_args="", ssh_common_args=ssh_options, ssh_extra_args="", host_key_checking=True,
            )  # fmt: skip

    def _caller(self, connection: Connection, task_vars: dict[str, Any]) -> Callable[..., Answer]:
        entered = False

        def call(name: str, **arguments: Any) -> Answer:
            nonlocal entered
            if not entered:
                connection.check()  # patience is for a target that answered before
                entered = True
            is_kept = not self._task.check_mode  # of which only modules know
            remote = self._keep(self.looks.get((name, arguments.get("action", ""))) if is_kept else None, connection)
            if remote:
                answer = self._patiently(lambda: remote.attempt(arguments, AnsibleConnectionFailure), connection)
                if arguments.get("action") not in _AGAIN:  # files come or go next, by a session of their own
                    self._keep(None)
                return answer
            module = f"{COLLECTION}.{name}"
            with packed_module(name):
                answer = self._patiently(
                    lambda: self._execute_module(module, module_args=arguments, task_vars=task_vars), connection
                )
            if answer.get("failed"):
                raise module_error(name, answer)
            return answer

        return call

    def _keep(
        self, function: Callable[[Any], Any] | None, connection: Connection | None = None
    ) -> RemoteFunction | None:
        """Keeps one function ready on the target, or none: not every target has more than one session at a time."""
        if self._remote and self._remote.function is not function:
            self._remote.close()
            self._remote = None
        if function and connection and not self._remote:
            self._remote = RemoteFunction(connection, function)
        return self._remote

    def _patiently(self, attempt: Callable[[], Answer], connection: Connection) -> Answer:
        def try_it() -> Answer:
            try:
                return attempt()
            except AnsibleConnectionFailure as error:
                _raise_if_home_is_closed(error)
                if refused := connection.refused(str(error)):
                    raise refused from error
                raise

        def mend() -> None:
            if not connection.login:  # which somebody would have to make again
                self._connection.reset()

        return patiently(try_it, AnsibleConnectionFailure, self._say, mend=mend)


def _raise_if_home_is_closed(error: AnsibleConnectionFailure) -> None:
    """Ansible says that the connection failed, too, where it cannot write on the target."""
    if "Failed to create temporary directory" in str(error):
        folder = re.search(r"mkdir -p \"` echo (\S+) `\"", str(error))
        raise ModakError(
            f"{folder.group(1) if folder else 'the home folder'} cannot be made on the target",
            hint="the home folder there must exist and have room: look at its permissions and the quota",
        ) from error
