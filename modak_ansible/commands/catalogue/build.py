"""Builds catalogue entries on a target, one after another."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from rich.console import Console
from rich.text import Text

from modak_ansible.catalogue import Catalogue, Entry, load_catalogue
from modak_ansible.catalogue.processor import why_refused
from modak_ansible.commands.deploy.progress import StageDisplay
from modak_ansible.errors import TARGET_UNREACHABLE, ModakError, UsageError
from modak_ansible.model.application import Optimisation
from modak_ansible.model.plan import Plan
from modak_ansible.model.quantities import format_seconds, format_size
from modak_ansible.model.request import GivenImage, Request
from modak_ansible.planning.plan import make_plan
from modak_ansible.planning.service import Planned, request_of
from modak_ansible.reading.blueprint.reader import Inputs
from modak_ansible.store.deployment import BUILDS, DeploymentStore
from modak_ansible.store.lists.refusals import forget_refusals, known_refusals
from modak_ansible.store.project import blueprint_state, known_testbed
from modak_ansible.target.images.image import ImageFacts

if TYPE_CHECKING:
    from modak_ansible.deployment.playbook import TaskResult

_STYLES = {"built": "green", "there": "dim", "refused": "yellow", "failed": "red", "not tried": "dim"}


@dataclass(frozen=True)
class Result:
    entry: str
    # whether its image was built and serves, was there already, was refused by its probe, or could not be built; not
    # tried where the target was lost, or somebody interrupted, before its end
    outcome: Literal["built", "there", "refused", "failed", "not tried"]
    reason: str = ""  # why it was refused or failed
    seconds: float = 0.0  # wall-clock, with the way to the target
    size: int | None = None  # of the image in bytes, where it is known
    image: str = ""  # its path on the target

    def as_json(self) -> dict[str, object]:
        return asdict(self)


class Builder:
    """Builds entries on the target of a blueprint's first training.

    Args:
        blueprint: the service template.
        inputs: values for its inputs.
        console: shows how it gets on.
        again: whether what was refused before is tried once more.
        packages: whether those of the training go on top.
    """

    def __init__(
        self, blueprint: Path, inputs: Inputs, console: Console, *, again: bool, packages: bool = False
    ) -> None:
        self._blueprint = blueprint
        self._request = request_of(blueprint, inputs)
        self._state = blueprint_state(blueprint)
        self._console = console
        self._again = again
        self._packages = packages
        self.results: list[Result] = []

    def build(self, entries: Sequence[Entry]) -> None:
        """Builds what is not there; what becomes of each is in ``results``, whatever ends this.

        Raises:
            KeyboardInterrupt: the user had enough.
        """
        try:
            for entry in entries:
                self._console.print(f"{entry.name} on {self._request.target.name}", markup=False)
                began = time.monotonic()
                result, code = self._result(entry, began)
                self.results.append(result)
                if code == TARGET_UNREACHABLE:
                    break
        finally:
            self.results += [Result(entry.name, "not tried") for entry in entries[len(self.results) :]]

    def _result(self, entry: Entry, began: float) -> tuple[Result, int]:
        """What becomes of an entry, and the exit code of an error that it may have ended with."""
        reason = "" if self._again else self._why_refused(entry)
        if reason:
            return Result(entry.name, "refused", reason), 0
        try:
            image, changed = self._make(entry)
        except ModakError as error:
            seconds = round(time.monotonic() - began, 1)
            refused = self._why_refused(entry)
            outcome: Literal["refused", "failed"] = "refused" if refused else "failed"
            return Result(entry.name, outcome, refused or str(error), seconds), error.exit_code
        seconds = round(time.monotonic() - began, 1)
        state: Literal["built", "there"] = "built" if changed else "there"
        return Result(entry.name, state, "", seconds, image.get("size"), image.get("path", "")), 0

    def _make(self, entry: Entry) -> tuple[ImageFacts, bool]:
        catalogue = load_catalogue()
        if self._again:  # whatever the catalogue says of its probe
            catalogue = _without_refusals(catalogue, entry)
        plan = make_plan(request_for(entry, self._request, packages=self._packages), catalogue)
        if self._again:
            forget_refusals(self._state, entry.name, plan.target.address)
        result = run_image_role(plan, self._blueprint, self._console, image_again=self._again)
        return result.get("image") or ImageFacts(), bool(result.get("changed"))

    def _why_refused(self, entry: Entry) -> str:
        return why_refused(entry, self._request.target, known_refusals(self._state))


def run_image_role(plan: Plan, blueprint: Path, console: Console, **variables: object) -> TaskResult:
    """What the image role does for a plan that is no deployment's, and answers.

    Raises:
        ModakError: it cannot be done.
    """
    from modak_ansible.deployment.playbook import run_playbook
    from modak_ansible.deployment.run import plans_of

    state = blueprint_state(blueprint)
    folder = Planned(plan, blueprint, state, known_testbed(state)).save(state / BUILDS)
    with StageDisplay(console) as display:
        variables = {**plans_of([DeploymentStore(folder)]), **variables}
        return run_playbook("image", variables, display).results["modak_image"]


def request_for(entry: Entry, like: Request, *, packages: bool = False) -> Request:
    """A request for an entry's image on the target of another request; nothing is to be trained.

    Args:
        packages: whether those that the other request's training asks for are a layer on top.

    Raises:
        UsageError: it asks for none.
    """
    request = request_for_image(entry.name, entry.framework, None, like)
    if packages:
        requirements = like.application.requirements
        if not requirements:
            message = f"{like.training} of {like.blueprint} asks for no packages of its own"
            raise UsageError(message, hint="name a blueprint with requirements_txt by --blueprint")
        request = request.model_copy(
            update={"application": request.application.model_copy(update={"requirements": requirements})}
        )
    resources = request.resources.model_copy(update={"accelerators": 1 if entry.accelerator else 0})
    return request.model_copy(update={"optimisation": Optimisation(entry=entry.name), "resources": resources})


def request_for_image(name: str, framework: str, image: GivenImage | None, like: Request) -> Request:
    """A request for an image on the target of another request; nothing is to be trained."""
    cleared = {"version": "", "requirements": (), "arguments": (), "environment": (), "workload": None}
    application = like.application.model_copy(update={"framework": framework, **cleared})
    one_process = {"nodes": 1, "processes_per_node": 1, "accelerators": 0}
    update = {
        "blueprint": f"catalogue-{name}",
        "application": application,
        "resources": like.resources.model_copy(update=one_process),
        "optimisation": Optimisation(),
        "dataset": None,
        "image": image,
    }
    return like.model_copy(update=update)


def _without_refusals(catalogue: Catalogue, entry: Entry) -> Catalogue:
    entries = (
        other.model_copy(update={"refusals": {}}) if other.name == entry.name else other for other in catalogue.entries
    )
    return catalogue.model_copy(update={"entries": tuple(entries)})


def print_summary(console: Console, results: Sequence[Result]) -> None:
    """A line for every entry, and what to do about those that are not there."""
    if not results:
        return
    console.print()
    width = max(len(result.entry) for result in results)
    for result in results:
        line = Text(f"  {result.entry:<{width}}  ")
        line.append(f"{result.outcome:<9}", style=_STYLES[result.outcome])
        line.append(f"  {format_size(result.size) if result.size else '':>8}  {format_seconds(result.seconds):>8}")
        reason = result.reason.replace("\n", " ")
        line.append(f"  {reason}" if reason else "")
        console.print(Text(line.plain.rstrip(), spans=line.spans), soft_wrap=True)
    if any(result.outcome == "refused" for result in results):
        message = "\nRefused: built, but its probe fails on the target's processor. --again retries it."
        console.print(message, soft_wrap=True)
    if any(result.outcome == "not tried" for result in results):
        console.print("\nA build that has begun on the target continues there; the same command joins it.")
