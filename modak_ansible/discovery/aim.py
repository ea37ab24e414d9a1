"""Which target a user means: that of a blueprint, a host as ssh knows it, this machine, or the project's testbed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import cast

from modak_ansible.errors import ModakError, UsageError, nearest
from modak_ansible.model.request import Request
from modak_ansible.model.target import Scheduler, Target
from modak_ansible.planning.service import plan_trainings, request_of
from modak_ansible.reading.blueprint.forms import text_rules as rules
from modak_ansible.reading.blueprint.forms.mistakes import Mistakes
from modak_ansible.reading.blueprint.inputs import Inputs
from modak_ansible.reading.blueprint.reader import read_targets
from modak_ansible.reading.blueprint.target_words import TargetDefaults
from modak_ansible.store.project import (
    blueprint_state,
    check_name,
    find_blueprint,
    known_testbed,
    node_names,
    shipped_blueprints,
    state_folder,
)
from modak_ansible.store.targets import FILE_ENDINGS, own_targets
from modak_ansible.store.testbeds import TESTBED
from modak_ansible.target.core.files import expanded
from modak_ansible.target.core.plan import Plan
from modak_ansible.transport.ssh import Connection, connect

LOCAL = "local"


@dataclass(frozen=True)
class Aim:
    """A target, and what is known of it before it is looked at."""

    target: Target  # where; of a bare host only how it is entered
    request: Request | None  # what a blueprint's training asks of it; None for a bare host
    folder: Path  # where a relative identity file is looked for
    testbed: Path  # the testbed that may be meant
    is_described: bool  # whether a blueprint or a target file says what it is
    state: Path  # of the project that it is looked at from
    plan: Plan | None = None  # of the training; None for a bare host, and where it cannot be planned

    @contextmanager
    def entered(self) -> Iterator[Connection]:
        """The way to the target, as long as it is needed."""
        with TemporaryDirectory(prefix="modak-survey-") as folder:
            yield connect(self.target, self.testbed, self.folder, Path(folder), self.state)


def aim_at(text: str | None, inputs: Inputs, training: str | None = None) -> Aim:
    """The target that a user means.

    Args:
        text: a blueprint or a request, the name of a target in the blueprint of this folder or of a target file of the
            user's, ``local``, or a host as ssh is given it; None for the testbed.
        inputs: of the blueprint, and a target file that goes before its target.

    Raises:
        InvalidBlueprint: with every mistake and its place.
        UsageError: it is none of these.
    """
    if text is not None:
        check_name(text)
    if text and ((is_blueprint := _is_blueprint(text)) or _names_node_here(text)):
        path = find_blueprint(text if is_blueprint else ".")
        request = request_of(path, inputs, training, None if is_blueprint else text)
        state = blueprint_state(path)
        return Aim(
            request.target, request, path.resolve().parent, known_testbed(state), is_described=True, state=state,
            plan=_plan(path, inputs, request),
        )  # fmt: skip
    if inputs.file or inputs.values or training:
        raise UsageError("only a blueprint has inputs and trainings", hint="name a blueprint, which -i needs")
    here = Path.cwd()
    file = own_targets().get(text) if text else inputs.targets
    if text and inputs.targets:
        raise UsageError(f"{rules.quote(text)} is a target by itself", hint="leave out one of it and --on")
    target = target_of_file(file) if file else _host(text or TESTBED)
    state = state_folder(here)
    return Aim(target, None, here, known_testbed(state), is_described=file is not None, state=state)


def _plan(path: Path, inputs: Inputs, request: Request) -> Plan | None:
    """What would be submitted; why it cannot be planned, modak plan says."""
    try:
        trainings = plan_trainings(path, inputs, request.training)
    except ModakError:
        return None
    return cast(Plan, trainings[0].plan.model_dump(mode="json")) if trainings else None


def likely_blueprint(text: str) -> str:
    """The shipped blueprint that a name may be a slip of; empty where none is near."""
    return nearest(text, shipped_blueprints()) if "-" in text else ""


def _is_blueprint(text: str) -> bool:
    path = expanded(text)
    is_file = path.is_file() or (path / "service.yaml").is_file()
    return is_file or "/" in text or text.endswith(FILE_ENDINGS) or text in shipped_blueprints()


def _names_node_here(text: str) -> bool:
    """Whether the blueprint of this folder, which may have mistakes, has a node of that name."""
    return text in (node_names(Path("service.yaml")) or ())


def targets_of_file(path: Path) -> list[Target]:
    """The targets of a target file.

    Raises:
        InvalidBlueprint: with every mistake and its place.
    """
    mistakes = Mistakes()
    targets = read_targets(path, Inputs(), mistakes, TargetDefaults(path.stem))
    mistakes.raise_if_any()
    return list(targets.values())


def target_of_file(path: Path) -> Target:
    """The target of a target file.

    Raises:
        InvalidBlueprint: with every mistake and its place.
        UsageError: it describes several.
    """
    targets = targets_of_file(path)
    if len(targets) != 1:
        names = ", ".join(target.name for target in targets)
        raise UsageError(f"{path} describes several targets: {names}", hint="give a blueprint with it")
    return targets[0]


def _host(text: str) -> Target:
    if text == LOCAL:
        return Target(name=LOCAL, scheduler=Scheduler.NONE, local=True)
    user, at, address = text.rpartition("@")
    problem = rules.address_problem(address) or (rules.user_problem(user) if at else "")
    if problem:
        raise UsageError(
            f"{rules.quote(text)} is not a target: {problem}", hint="give a blueprint, or a host as to ssh"
        )
    return Target(name=address, scheduler=Scheduler.NONE, address=address, username=user or None)
