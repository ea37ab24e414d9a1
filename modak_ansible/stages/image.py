"""The image: there already, or built or pulled on the target while its progress is shown."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from typing import Any

from modak_ansible.catalogue import Entry, load_catalogue
from modak_ansible.catalogue.entry import is_version
from modak_ansible.errors import ModakError, harmless
from modak_ansible.model.measured.refusal import Refusal
from modak_ansible.model.measured.seen_image import LOOK, SeenImage
from modak_ansible.model.plan import digest_of
from modak_ansible.model.quantities import format_seconds, format_size
from modak_ansible.stages.base import LOOK_SECONDS, Outcome, Stage, until_ended
from modak_ansible.store.lists.refusals import note_refusal
from modak_ansible.store.lists.seen_images import forget_image, note_image
from modak_ansible.store.project import read_origin
from modak_ansible.target.core.background import Status
from modak_ansible.target.core.files import without_controls
from modak_ansible.target.core.plan import Plan
from modak_ansible.target.core.site import package_sources
from modak_ansible.target.images.build import MIRROR
from modak_ansible.target.images.image import ImageFacts
from modak_ansible.target.images.logins import Secrets
from modak_ansible.target.images.probe import Refusal as ProbeRefusal
from modak_ansible.target.images.probe import refusal_error
from modak_ansible.transport.secrets import read_secrets

_LOOK_AGAIN = "deploy again: it is inspected again, and planned with"
# What was noted of a build counts in the next plan, by whichever door that comes.
_ANOTHER = "the same command again uses another build, where one fits"


def look_into_image(stage: Stage) -> Outcome:
    """Has an image of the user's own on the target, and the project know what it holds.

    Raises:
        ModakError: it cannot be had.
    """
    outcome = ensure_image(stage)
    if stage.check:
        return outcome
    image = stage.plan["image"]
    stage.say(f"inspecting {image['entry']}")
    contents = stage.call("modak_image", **_arguments(stage), action="inside")["inside"]
    origin = {"source": image["layers"][0]["source"], "address": stage.plan["target"]["address"]}
    origin["oci"] = ((outcome.data.get("image") or {}).get("oci") or "") if outcome.data else ""
    frameworks = {
        name: framework for name, framework in (contents.get("frameworks") or {}).items() if is_version(framework)
    }
    seen_image = SeenImage(**{**contents, **origin, "python": image["python"], "frameworks": frameworks, "look": LOOK})
    note_image(read_origin(stage.store.plan_file)["state"], seen_image)
    versions = ", ".join(f"{name} {version}" for name, version in frameworks.items())
    oci = f"; its tag is {seen_image.oci}" if seen_image.oci else ""
    return Outcome(
        outcome.changed,
        f"{image['entry']}: {seen_image.problem or versions}{oci}",
        {"image": outcome.data.get("image")},
    )


def ensure_image(stage: Stage, *, again: bool = False, found_only: bool = False) -> Outcome:
    """Makes sure that the plan's image is on the target.

    Args:
        again: whether an image that its probe refused before is made and tried once more.
        found_only: whether what the site's image_sources have not got is not made, either.

    Raises:
        ModakError: it cannot be built or pulled, with the end of the log; or it was, and its probe refuses it, which
            the project then remembers.
    """
    image = stage.plan["image"]
    if not image["layers"]:
        pulled = f"{image['entry']}: nodes pull {image['path']}"
        return Outcome(False, pulled if image["path"] else "none: the program runs with what is installed on the nodes")
    arguments = _arguments(stage)
    answer = stage.call("modak_image", **arguments, action="look")
    if not answer["missing"]:
        _note(stage, answer["image"])
        return Outcome(False, _message(stage.plan, answer["image"]), {"image": answer["image"]})
    if answer["refusal"] and not again:
        raise _refused(stage, answer["refusal"])
    names = ", ".join(answer["missing"])
    if stage.check:
        sources = ", ".join(arguments["site"].get("image_sources") or ())
        return Outcome(True, f"would look for {names} in {sources}, or make it" if sources else f"would make {names}")
    for path in answer.get("altered", ()):
        stage.say(f"{path} is no longer the image that was made: it is made again")
    began = time.monotonic()
    # apt, pip and secrets are asked for only where something is to be built
    apt = any(
        MIRROR in layer["definition"] for layer in stage.plan["image"]["layers"] if layer["name"] in answer["missing"]
    )
    site = {**arguments["site"], "otherwise": package_sources(apt=apt)}
    start = {"again": again, "found_only": found_only, "secrets": _secrets(stage, site.get("image_sources") or ())}
    answer = stage.call("modak_image", **{**arguments, "site": site}, action="start", **start)
    stage.say(
        f"making {names} on the target"
        if answer["started"]
        else f"joining the build of {names} that is already running"
    )
    answer = until_ended(stage.say, partial(stage.call, "modak_image", **arguments), news="line")
    for line in answer["status"].get("told", ()):
        stage.say(line)
    if answer["missing"] and answer["refusal"]:
        raise _refused(stage, answer["refusal"])
    if answer["status"]["state"] != "done" or answer["missing"]:
        if lacks := answer["status"].get("lacks", ""):
            _note_lack(stage, lacks)
        raise _failure(answer["status"])
    _note(stage, answer["image"])
    how = "found" if answer["image"].get("found") else "made"
    message = f"{_message(stage.plan, answer['image'])}, {how} in {format_seconds(time.monotonic() - began)}"
    return Outcome(True, message, {"image": answer["image"]})


def push_image(stage: Stage, place: str, tags: Sequence[str]) -> Outcome:
    """Puts the plan's image, which is on the target, where others find it.

    Args:
        place: ``oras://`` or ``docker://HOST/REPOSITORY``, or a folder on the target.
        tags: what it is called for people in a registry.

    Raises:
        ModakError: it is not there, or cannot be pushed.
    """
    if stage.check:
        return Outcome(True, f"would push {stage.plan['image']['entry']} to {place}")
    began = time.monotonic()
    arguments = {**_arguments(stage), "place": place}
    start = {"action": "push", "tags": list(tags), "secrets": _secrets(stage, [place])}
    answer = stage.call("modak_image", **arguments, **start)
    answer = until_ended(stage.say, partial(stage.call, "modak_image", **arguments), news="line")
    if answer["status"]["state"] != "done":
        raise _failure(answer["status"])
    names = answer["status"].get("told", [])
    message = f"{_message(stage.plan, answer['image'])}, pushed in {format_seconds(time.monotonic() - began)}"
    return Outcome(True, message, {"image": answer["image"], "names": names})


def sign_image(stage: Stage, key: str) -> Outcome:
    """Signs the plan's image with a private key on the target.

    Raises:
        ModakError: it is not there, or cannot be signed.
    """
    answer = stage.call("modak_image", **_arguments(stage), action="sign", key=key)
    how = "signed with" if answer["changed"] else "has the signature of"
    return Outcome(answer["changed"], f"{stage.plan['image']['entry']}: {how} {key}", {"image": answer["image"]})


def verify_image(stage: Stage, key: str) -> Outcome:
    """Tells whether the plan's image has the signature of a public key on the target.

    Raises:
        ModakError: it has not, is not there, or is another one.
    """
    answer = stage.call("modak_image", **_arguments(stage), action="verify", key=key)
    return Outcome(False, f"{stage.plan['image']['entry']}: signed with {key}", {"image": answer["image"]})


def _secrets(stage: Stage, places: Sequence[str]) -> Secrets:
    return read_secrets().for_target(stage.plan["image"]["layers"], places)


def _arguments(stage: Stage) -> dict[str, Any]:
    """What every call of the image's module says of it."""
    plan = stage.plan
    return {
        "workspace": plan["target"]["workspace"],
        "image": plan["image"],
        "site": plan["target"]["site"],
        "deployment": stage.deployment,
    }


def _note(stage: Stage, facts: ImageFacts) -> None:
    """Has the record know the image that is there.

    Raises:
        ModakError: it is a given one, and another than it was when it was looked into.
    """
    planned_digest, digest = stage.plan["image"].get("seen"), facts.get("given")
    if planned_digest and digest and planned_digest != digest:
        image, address = stage.plan["image"], stage.plan["target"]["address"]
        if not stage.check:
            state = read_origin(stage.store.plan_file)["state"]
            forget_image(state, image["layers"][0]["source"], image["python"], address)
        message = f"{image['layers'][0]['source']} is not the image that was inspected"
        raise ModakError(f"{message}: its SHA-256 is {digest[:12]}, not {planned_digest[:12]}", hint=_LOOK_AGAIN)
    if not stage.check:
        stage.record.update(image=facts)


def _refused(stage: Stage, refusal: ProbeRefusal) -> ModakError:
    """The error for a refusal; the project remembers it where the catalogue's own build is to blame."""
    plan = stage.plan
    entry = load_catalogue().find(plan["image"]["entry"])
    with_packages = plan["image"]["container_runtime"] == "none" and plan["application"]["requirements"]
    if entry is None or refusal["name"] != entry.name or with_packages:
        return refusal_error(refusal)
    if not stage.check:
        reason, date = refusal["refused"], refusal["probed"]
        _remember(stage, entry, processor=refusal["processor"], reason=reason, date=date)
    error = refusal_error(refusal)
    return ModakError(
        error.message, hint=f"{_ANOTHER}; to try this one again: modak catalogue build {entry.name} --again"
    )


def _note_lack(stage: Stage, package: str) -> None:
    """Has the project remember that nobody there has what belongs to the build, so that plans take another one."""
    from modak_ansible.catalogue.companions import constraints_of  # noqa: PLC0415 - packaging is slow to import, and this is rare

    plan = stage.plan
    entry = load_catalogue().find(plan["image"]["entry"])
    missed = (
        next((constraint for constraint in constraints_of(entry) if constraint.startswith(f"{package}==")), "")
        if entry
        else ""
    )
    if entry and missed:
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        _remember(
            stage, entry, processor="", reason="", date=now, lacks=missed,
            requirements=tuple(plan["application"]["requirements"]), site=digest_of(plan["target"]["site"]),
        )  # fmt: skip


def _remember(stage: Stage, entry: Entry, **about: Any) -> None:
    """Has the project know that a build does not serve on a target, so that plans take another one."""
    plan = stage.plan
    refusal = Refusal(
        entry=entry.name,
        entry_digest=entry.digest,
        architecture=plan["target"]["processor"]["architecture"],
        address=plan["target"]["address"],
        container=plan["image"]["container_runtime"] != "none",
        **about,
    )
    note_refusal(read_origin(stage.store.plan_file)["state"], refusal)


def _message(plan: Plan, facts: ImageFacts) -> str:
    size = facts.get("size")
    detail = f", {format_size(size)}" if size else ""
    if oci := facts.get("oci", ""):
        detail += f", its tag is {oci}"
    elif problem := facts.get("oci_problem", ""):
        detail += f"; the digest of its tag is not known: of the registry, {problem}"
    return f"{plan['image']['entry']} ({plan['image']['digest'][:12]}){detail}"


def _failure(status: Status) -> ModakError:
    if status["state"] == "failed":
        return ModakError(f"{status['step']}: {status['message']}", hint=status.get("hint", ""))
    return ModakError(
        f"{status.get('step', 'the build')} was cut short",
        hint="deploy again: it starts over, and nothing half-made is used",
    )


def show_build_log(
    stage: Stage, *, follow: bool = False, last: int | None = None, within: float | None = None
) -> Outcome:
    """Shows what the build of the image has written on the target.

    Args:
        follow: whether what it writes up to its end is shown, too.
        within: in how many seconds the log must have been written to, or what is there is left out.

    Raises:
        ModakError: there is no such log.
    """
    plan, offset, has_shown = stage.plan, 0, False
    pending: list[str] = []
    if not plan["image"]["layers"]:
        raise ModakError(
            "no image is built for this deployment", hint="the nodes pull it, or have what it needs installed"
        )
    arguments = _arguments(stage)
    while True:
        wait = LOOK_SECONDS if follow and has_shown else 0
        answer = stage.call("modak_image", **arguments, action="log", offset=offset, seconds=wait)
        if answer["age"] is None:
            raise ModakError(
                "the target has no log of a build of this image", hint="it was not built there, or gc removed its log"
            )
        lines = [harmless(line) for line in without_controls(answer["output"]).splitlines() if line.strip()]
        is_at_end = answer["offset"] == offset
        offset = answer["offset"]
        pending += lines
        if has_shown or is_at_end:
            is_old = not has_shown and within is not None and answer["age"] > within
            for line in pending if has_shown or last is None else pending[max(0, len(pending) - last) :]:
                if not is_old:
                    stage.say(line)
            pending, has_shown = [], True
        if is_at_end and (answer["status"]["state"] != "running" or not follow):
            return Outcome(False, f"{plan['image']['entry']}: {answer['status']['state']}")
